"""`python -m trace_hf.cli`, for where the script is not on the path."""

from . import main

main(prog_name="trace-hf")
