"""The verb `report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ..errors import TraceError
from .common import EXIT_CHECK_FAILED, emit_json, json_option, parse_storage_options, progress, release_argument

_JSON_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@release_argument
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="The file to write; an older one is replaced.",
)
@click.option("--video-root", metavar="ROOT", help="Check the videos there; local ones give frames on the timelines.")
@click.option("--video-options", callback=parse_storage_options, metavar="JSON", help="fsspec options of that root.")
@click.option("--check", type=_JSON_FILE, help="What `trace-hf videos check --json` printed, instead of a new check.")
@click.option("--probe", type=_JSON_FILE, help="What `trace-hf videos probe --json` printed.")
@click.option(
    "--frames-mb",
    type=click.FloatRange(min=0),
    default=4.0,
    show_default=True,
    help="Room for frames in the file, in MB; 0 for none.",
)
@json_option
@click.pass_context
def report(
    ctx: click.Context,
    release: str | None,
    storage_options: dict[str, Any] | None,
    out: Path,
    video_root: str | None,
    video_options: dict[str, Any] | None,
    check: Path | None,
    probe: Path | None,
    frames_mb: float,
    as_json: bool,
) -> None:
    """Write RELEASE as one HTML file to look at: its checks, populations, times, timelines and videos.

    The file needs no network. It holds texts and answers of the records, so the release's data terms apply to it.
    Exit code 1: it was written, but the release does not verify, is not valid, or videos are missing.

    Example: trace-hf report sample -o report.html
    """
    from ..report import write_report

    made = write_report(
        release,
        out,
        storage_options=storage_options,
        video_root=video_root,
        video_options=video_options,
        check=_read(check),
        probe=_read(probe),
        frames_mb=frames_mb,
        progress=progress,
    )
    if as_json:
        emit_json(made.to_json())
    else:
        verified = "verified" if made.verified else "NOT verified"
        valid = "valid" if made.valid else "NOT valid"
        click.echo(f"{made.release_id}: {verified}, {valid}, {made.records} records, frames of {made.frames}")
        if made.verified and made.valid and not made.ok:
            click.echo("some videos are missing or faulty; the report names them")
        click.echo(f"wrote {made.path}, {made.size / 1e6:.1f} MB; keep it as private as the release")
    if not made.ok:
        ctx.exit(EXIT_CHECK_FAILED)


def _read(path: Path | None) -> Any:
    """What a video verb printed."""
    if path is None:
        return None
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        value = None
    if not isinstance(value, dict) or "ok" not in value:
        raise TraceError("is not what a `trace-hf videos` verb prints with --json", file=str(path), do="write it anew")
    return value
