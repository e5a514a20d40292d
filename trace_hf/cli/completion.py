"""The verb `completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes SHELL complete verbs, options and record IDs.

    bash: add eval "$(trace-hf completion bash)" to ~/.bashrc; zsh the same in ~/.zshrc; fish: write it to
    ~/.config/fish/completions/trace-hf.fish. Record IDs come from the release that TRACE_RELEASE names.

    Example: trace-hf completion bash
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(ctx.find_root().command, {}, "trace-hf", "_TRACE_HF_COMPLETE").source())
