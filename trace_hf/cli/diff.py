"""The verb `diff`."""

from __future__ import annotations

from typing import Any

import click

from .common import EXIT_CHECK_FAILED, emit_json, json_option, storage_options_option


@click.command()
@click.argument("a")
@click.argument("b")
@storage_options_option
@json_option
@click.pass_context
def diff(ctx: click.Context, a: str, b: str, storage_options: dict[str, Any] | None, as_json: bool) -> None:
    """Say what changed from A to B: records, fields, subsets and the manifest.

    A and B are releases or exports. Of an export, the Parquet files are compared; name its snapshot folder to mean the
    release inside. Exit code 0: nothing differs; 1: something does.

    Example: trace-hf diff v1.0.0 v1.1.0
    """
    from ..diff import diff as compare

    found = compare(a, b, storage_options=storage_options)
    if as_json:
        emit_json(found.to_json())
    else:
        for line in found.lines():
            click.echo(line)
        click.echo(f"{found.a} and {found.b} {'are equal' if found.equal else 'differ'}")
    if not found.equal:
        ctx.exit(EXIT_CHECK_FAILED)
