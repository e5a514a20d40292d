"""The verb `export`."""

from __future__ import annotations

from typing import Any

import click

from ..release import Release
from .common import emit_json, emit_table, json_option, progress, storage_options_option


@click.command()
@click.argument("places", nargs=-1, required=True, metavar="[RELEASE] OUT")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it is an earlier export.")
@click.option(
    "--card-only", is_flag=True, help="Write the card, Croissant file and data terms of the export OUT again."
)
@click.option("--unknown", type=click.Choice(["error", "keep"]), default="error", help="Fields of a newer schema.")
@storage_options_option
@json_option
def export(
    places: tuple[str, ...],
    overwrite: bool,
    card_only: bool,
    unknown: Any,
    storage_options: dict[str, Any] | None,
    as_json: bool,
) -> None:
    """Write RELEASE as the folder OUT, which `load_dataset` of any version reads with no code.

    The folder has a card, one Parquet file a config, the release's own files, a Croissant file and the data terms.
    Only a release that verifies is exported. Without RELEASE, TRACE_RELEASE is used.

    Example: trace-hf export sample exported/trace
    """
    from ..hub.export import STEPS, refresh_card
    from ..hub.export import export as write_export

    if len(places) > 2 or (card_only and len(places) != 1):
        raise click.UsageError("--card-only takes the export OUT alone" if card_only else "give RELEASE and OUT")
    if card_only:
        made = refresh_card(places[0])
    else:
        release = Release.open(places[0] if len(places) == 2 else None, storage_options, unknown=unknown)
        with progress("exporting", STEPS) as advance:
            made = write_export(release, places[-1], overwrite=overwrite, advance=advance)
    if as_json:
        emit_json(made.to_json())
        return
    rows = [(table.config, table.rows, table.path, table.content_sha256) for table in made.tables.values()]
    emit_table(["config", "records", "file", "SHA-256 of the rows"], rows, title=f"TRACE {made.release_id}")
    if made.left_out:
        click.echo(f"left out, since they have no rows: {', '.join(made.left_out)}")
    click.echo(f"wrote {made.path}; prove it again at any time: trace-hf attest {made.path}")
