"""The verb `attest`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..schema import CONFIGS, MANIFEST_FILE
from .common import EXIT_CHECK_FAILED, emit_json, json_option, storage_options_option


@click.command()
@click.argument("place", metavar="PLACE")
@click.option("--config", "configs", multiple=True, help="Only this config; may be given again.")
@click.option("--release", metavar="RELEASE", help="What to compare with, instead of the export's own snapshot.")
@storage_options_option
@json_option
@click.pass_context
def attest(
    ctx: click.Context,
    place: str,
    configs: tuple[str, ...],
    release: str | None,
    storage_options: dict[str, Any] | None,
    as_json: bool,
) -> None:
    """Prove that an export, or one Parquet file, says exactly what was released.

    PLACE is the folder of an export, a URL of one (hf://datasets/org/name@rev), or a Parquet file. Every row is
    written again as the release writes it and compared by SHA-256. An export is compared with its own snapshot, which
    proves consistency; only a hash that is pinned in trace-hf proves origin.

    Example: trace-hf attest exported/trace
    """
    if place.endswith(".parquet"):
        value, text, ok = _one(place, configs, release)
    else:
        from ..hub.proof import attest_export

        found = attest_export(place, release=release, configs=configs, storage_options=storage_options)
        value, text, ok = found.to_json(), str(found), found.ok
    if as_json:
        emit_json(value)
    else:
        click.echo(text)
    if not ok:
        ctx.exit(EXIT_CHECK_FAILED)


def _one(place: str, configs: tuple[str, ...], release: str | None) -> tuple[dict[str, Any], str, bool]:
    from ..attest import attest as attest_rows

    folder = Path(place).parent.name
    if len(configs) > 1 or (not configs and folder not in CONFIGS):
        raise click.UsageError(f"say which config it is: --config NAME, one of {', '.join(CONFIGS)}")
    snapshot = Path(place).parents[1] / "snapshot" if len(Path(place).parts) > 2 else Path("snapshot")
    if release is None and (snapshot / MANIFEST_FILE).is_file():
        release = str(snapshot)  # the file lies in an export
    found = attest_rows(place, configs[0] if configs else folder, release=release)
    value = {"ok": found.ok, "release_id": found.release_id, "pinned": found.pinned, "configs": [found.to_json()]}
    return value, str(found), found.ok
