"""The verbs `videos check` and `videos probe`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ..release import Release
from ..videos.inventory import Inventory, check_videos
from ..videos.root import VideoRoot
from .common import EXIT_CHECK_FAILED, emit_json, emit_table, json_option, progress, release_argument
from .videos_common import root_options, subset_option, subset_records


@click.command()
@release_argument
@subset_option
@root_options
@click.option("--sizes", is_flag=True, help="Ask for each size that a web server's listing does not say.")
@click.option("--missing-only", is_flag=True, help="Show only what is missing, with its candidates.")
@click.option("--no-follow-symlinks", is_flag=True, help="A link that leads out of the root is a fault.")
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    release: str | None,
    storage_options: dict[str, Any] | None,
    subset: str,
    video_root: str | None,
    video_options: dict[str, Any] | None,
    sizes: bool,
    missing_only: bool,
    no_follow_symlinks: bool,
    as_json: bool,
) -> None:
    """Say which videos of RELEASE a root has, with one listing a folder.

    Example: trace-hf videos check /data/trace/v1.1.0 --video-root /data/videos --subset tiny
    """
    root = VideoRoot.need(video_root, video_options)
    root.follow_symlinks = not no_follow_symlinks
    opened = Release.open(release, storage_options)
    with progress("listing the video root", None):
        inventory = check_videos(subset_records(opened, subset), root, sizes=sizes)
    if as_json:
        shown = inventory.to_json()
        emit_json({"ok": shown["ok"], "missing": shown["missing"]} if missing_only else shown)
    else:
        _show_inventory(inventory, missing_only)
    if not inventory.ok:
        ctx.exit(EXIT_CHECK_FAILED)


def _show_inventory(inventory: Inventory, missing_only: bool) -> None:
    rows: list[tuple[object, ...]] = []
    for video in inventory.missing:
        about = [video.reason, "ambiguous" if video.ambiguous else "", *(f"near: {c}" for c in video.candidates)]
        rows.append(("missing", video.path, len(video.records), "; ".join(part for part in about if part)))
    if not missing_only:
        for state, found in (
            ("empty", inventory.empty),
            ("pointer", inventory.pointers),
            ("outside", inventory.outside),
        ):
            rows += [(state, v.path, len(v.records), f"leads to {v.target}" if v.target else "") for v in found]
    if rows:
        emit_table(["state", "video", "records", "about"], rows, title=f"Videos at {inventory.root}")
    if missing_only:
        return
    for note in inventory.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(
        f"{len(inventory.present)} videos present, {len(inventory.missing)} missing, {len(inventory.empty)} empty, "
        f"{len(inventory.pointers)} pointers, for {inventory.records} records"
    )


@click.command()
@release_argument
@subset_option
@root_options
@click.option("--engine", default="threads", show_default=True, help="threads, dask, or dask://host:port.")
@click.option("--workers", type=click.IntRange(1), default=4, show_default=True, help="Videos at once.")
@click.option("--no-cache", is_flag=True, help="Look into every video again, also into those that did not change.")
@click.option(
    "--against", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="The --json report of a good root."
)
@json_option
@click.pass_context
def probe(
    ctx: click.Context,
    release: str | None,
    storage_options: dict[str, Any] | None,
    subset: str,
    video_root: str | None,
    video_options: dict[str, Any] | None,
    engine: str,
    workers: int,
    no_cache: bool,
    against: Path | None,
    as_json: bool,
) -> None:
    """Say whether the videos of a root are whole, long enough, and probably the right ones.

    Only headers and last frames are read.

    Example: trace-hf videos probe sample --subset tiny --video-root videos
    """
    from ..videos.probe import probe_videos

    root = VideoRoot.need(video_root, video_options)
    reference = None if against is None else _read_json(against)
    records = list(subset_records(Release.open(release, storage_options), subset))
    with progress("probing", len({record.video_path for record in records})) as advance:
        report = probe_videos(
            records,
            root,
            engine=engine,
            workers=workers,
            cache=not no_cache,
            reference=reference,
            progress=advance,
        )
    if as_json:
        emit_json(report.to_json())
    else:
        rows = [
            (problem.kind, video.path, len(video.records), problem.detail)
            for video in report.videos
            for problem in video.problems
        ]
        if rows:
            emit_table(["problem", "video", "records", "about"], rows, title=f"Videos at {root.name}")
        late = sum(not record["ok"] for record in report.records)
        click.echo(f"{len(report.videos)} videos probed, {late} of {len(report.records)} records not covered")
    if not report.ok:
        ctx.exit(EXIT_CHECK_FAILED)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise click.BadParameter(f"{path} is not JSON: {error}", param_hint="--against") from None
    if not isinstance(value, dict):
        raise click.BadParameter(f"{path} is no report", param_hint="--against")
    return value
