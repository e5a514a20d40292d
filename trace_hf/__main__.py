"""`python -m trace_hf`: the command line."""

from .cli import main

main(prog_name="trace-hf")
