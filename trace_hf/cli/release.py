"""The verbs `info`, `verify` and `sample`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..integrity import VerificationReport
from ..release import Release
from .common import EXIT_CHECK_FAILED, emit_json, emit_table, json_option, progress, release_argument

if TYPE_CHECKING:
    from ..repair import RepairReport

_PINNED = {
    True: "a known release: files, roles and counts were compared with pinned values",
    False: "not a known release: it was compared with its own manifest, which proves consistency, not origin",
}


@click.command()
@release_argument
@json_option
def info(release: str | None, storage_options: dict[str, Any] | None, as_json: bool) -> None:
    """Say what RELEASE is: its ID, status, counts and limitations. Nothing is hashed.

    Example: trace-hf info sample
    """
    opened = Release.open(release, storage_options, unknown="keep")
    manifest = opened.manifest
    facts = {
        "release_id": manifest.release_id,
        "status": manifest.status,
        "schema_version": manifest.schema_version,
        "pinned": opened.pinned,
        "manifest_sha256": opened.manifest_sha256,
        "qa": manifest.counts.qa,
        "proactive": manifest.counts.proactive,
        "files": len(manifest.files),
        "limitations": manifest.limitations,
    }
    if as_json:
        emit_json(facts)
        return
    limitations = [("limitation", text) for text in manifest.limitations]
    emit_table(["what", "value"], [*((k, v) for k, v in facts.items() if k != "limitations"), *limitations])


@click.command()
@release_argument
@click.option("--repair", "out", metavar="OUT", help="Also write the files that hashes prove into the new folder OUT.")
@json_option
@click.pass_context
def verify(
    ctx: click.Context, release: str | None, storage_options: dict[str, Any] | None, out: str | None, as_json: bool
) -> None:
    """Check every file of RELEASE by its hash.

    With --repair, files that were damaged in a known way (CRLF line ends, a byte-order mark, gzip, reformatted,
    re-sorted, ...) are written as they were released, each proven by its hash; the exit code is 0 if all could be.

    Example: trace-hf verify /data/trace/v1.1.0
    """
    opened = Release.open(release, storage_options, unknown="keep", for_report=True)
    total = sum((opened.root / name).stat().st_size for name in opened.manifest.files if (opened.root / name).is_file())
    with progress("verifying", total) as advance:
        report = opened.verify(advance)
    repaired = _repair(opened, out) if out else None
    if as_json:
        emit_json(report.to_json() | ({"repair": repaired.to_json()} if repaired else {}))
    else:
        _show(report)
        if repaired:
            _show_repair(repaired)
    if not (repaired or report).ok:
        ctx.exit(EXIT_CHECK_FAILED)


def _repair(release: Release, out: str) -> RepairReport:
    from ..repair import repair

    return repair(release, out)


def _show_repair(report: RepairReport) -> None:
    rows = [(f.outcome, f.name, f.why) for f in report.files]
    emit_table(["outcome", "file", "why"], rows, title=f"Repair of TRACE {report.release_id}")
    left = sum(f.outcome == "refused" for f in report.files)
    if report.path is None:
        click.echo("nothing was written: no hash proves a single file")
    elif left:
        click.echo(f"wrote {report.path}, which lacks {left} of {len(report.files)} files")
    else:
        click.echo(f"wrote {report.path}, a complete snapshot that verifies")


def _show(report: VerificationReport) -> None:
    rows = [(f.state, f.name, f.cause or "") for f in report.files]
    emit_table(["state", "file", "likely cause"], rows, title=f"TRACE {report.release_id}")
    for problem in report.problems:
        click.echo(f"pinned: {problem}")
    bad = [f for f in report.files if f.state in ("missing", "differs")]
    click.echo(f"{report.release_id} is {_PINNED[report.pinned]}.")
    facts = f", and {len(report.problems)} pinned facts do not hold" if report.problems else ""
    total = sum(f.state != "unlisted" for f in report.files)
    click.echo("verified" if report.ok else f"NOT verified: {len(bad)} of {total} files are missing or differ{facts}")


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--scale", type=click.FloatRange(min=0), default=1.0, show_default=True, help="1.0 has TRACE's counts.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed writes the same bytes.")
@click.option(
    "--videos",
    is_flag=True,
    help="Also write small videos for the tiny configs into PATH/video_root (needs trace-hf[video]).",
)
def sample(path: Path, scale: float, seed: int, videos: bool) -> None:
    """Write a synthetic release into the new folder PATH.

    Example: trace-hf sample my-release --scale 0.1
    """
    from ..sample import VIDEO_ROOT, write_sample

    write_sample(path, scale=scale, seed=seed, videos=videos)
    click.echo(f"wrote {path}; it is synthetic: no number made on it is a TRACE result")
    if videos:
        click.echo(f"its videos: --video-root {path / VIDEO_ROOT}")
