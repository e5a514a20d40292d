"""The verbs `videos index`, `videos fetch` and `videos clip`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import click

from ..errors import TraceError
from ..paths import check_relative
from ..release import Release
from ..videos.root import VideoRoot
from .common import EXIT_CHECK_FAILED, emit_json, emit_table, json_option, progress, release_argument
from .videos_common import json_object, root_options, subset_option, subset_records


@click.command()
@click.argument("archives", nargs=-1, required=True)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The index to write.")
@click.option(
    "--rule", "rules", multiple=True, metavar="RULE", help="'[ARCHIVE | ]MEMBER => PATH'; goes before others."
)
@click.option(
    "--rules",
    "rules_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of rules, one a line.",
)
@click.option("--no-built-in-rules", is_flag=True, help="Use only the rules that are given.")
@click.option("--options", callback=json_object, metavar="JSON", help="fsspec options for remote archives.")
@json_option
@click.pass_context
def index(
    ctx: click.Context,
    archives: tuple[str, ...],
    out: Path,
    rules: tuple[str, ...],
    rules_file: Path | None,
    no_built_in_rules: bool,
    options: dict[str, Any] | None,
    as_json: bool,
) -> None:
    """Index ARCHIVES (zips, tars, split tars, folders of them; local or remote) without unpacking them.

    The index is a video root.

    A rule's patterns know * (within a folder), **/ (any folders), {name}, {n:int} and {rest:path}; for example
    'Proactive Output_*.zip | sample_{n:int}/video.mp4 => videos/sample_{n}_proactive.mp4'.

    Example: trace-hf videos index /data/downloads --out videos.json
    """
    from ..videos.indexing import build_index
    from ..videos.rules import BUILT_IN_RULES, Rule, parse_rules

    chosen = [Rule.parse(rule) for rule in rules]
    chosen += parse_rules(rules_file.read_text(encoding="utf-8")) if rules_file else []
    chosen += () if no_built_in_rules else BUILT_IN_RULES
    made = build_index(archives, chosen, options, progress=lambda name: click.echo(f"read {name}", err=True))
    made.save(out)
    if as_json:
        section = made.to_json()["trace_archive_index"]
        listed = {name: section[name] for name in ("unmapped", "ambiguous", "skipped", "problems")}
        emit_json({"ok": not made.problems, "index": str(out), "videos": sorted(made.members), **listed})
    else:
        rows = [("unmapped", item["member"], item["archive"], "") for item in made.unmapped]
        rows += [("skipped", item["member"], item["archive"], item["reason"]) for item in made.skipped]
        for path, claims in made.ambiguous.items():
            rows += [("ambiguous", claim["member"], claim["archive"], f"claims {path}") for claim in claims]
        rows += [("problem", "", "", problem) for problem in made.problems]
        if rows:
            emit_table(["what", "member", "archive", "about"], rows)
        click.echo(f"wrote {out}: {len(made.members)} videos in {len(made.archives)} archives")
    if made.problems:
        ctx.exit(EXIT_CHECK_FAILED)


@click.command()
@release_argument
@subset_option
@root_options
@click.option("--to", "destination", type=click.Path(path_type=Path), required=True, help="The local root to fill.")
@click.option("--workers", type=click.IntRange(1), default=4, show_default=True, help="Videos at once.")
@click.option("--overwrite", is_flag=True, help="Replace a file whose size is not the source's.")
@click.option("--dry-run", is_flag=True, help="Say what would be copied.")
@json_option
@click.pass_context
def fetch(
    ctx: click.Context,
    release: str | None,
    storage_options: dict[str, Any] | None,
    subset: str,
    video_root: str | None,
    video_options: dict[str, Any] | None,
    destination: Path,
    workers: int,
    overwrite: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Copy the videos of a subset from any root, or out of archives, into a local root.

    It can be interrupted at any time: a second run does what is left, a third nothing.

    Example: trace-hf videos fetch sample --subset tiny --video-root videos.json --to /data/videos
    """
    from ..videos.fetch import plan_fetch

    records = subset_records(Release.open(release, storage_options), subset)
    root = VideoRoot.need(video_root, video_options)
    with progress("listing the video root", None):
        plan = plan_fetch(records, root, destination, overwrite=overwrite)
    if dry_run:
        if as_json:
            emit_json({"todo": [t.path for t in plan.todo], "bytes": plan.bytes, **plan.report.to_json()})
        else:
            emit_table(["video", "bytes"], [(t.path, t.stored) for t in plan.todo])
            click.echo(f"{len(plan.todo)} videos, {plan.bytes} bytes would be copied")
        return
    with _bytes_progress("fetching", plan.bytes) as advance:
        report = plan.run(workers, advance)
    if as_json:
        emit_json(report.to_json())
    else:
        rows = [("failed", item["path"], item["error"]) for item in report.failed]
        rows += [("missing", v.path, "; ".join(f"near: {c}" for c in v.candidates)) for v in report.missing]
        rows += [
            ("conflict", item["path"], f"{item['here']} bytes here, {item['source']} at the source; see --overwrite")
            for item in report.conflicts
        ]
        if rows:
            emit_table(["state", "video", "about"], rows)
        click.echo(
            f"{len(report.fetched)} videos fetched, {len(report.already) + len(report.kept)} were there, "
            f"{len(rows)} not fetched"
        )
    if not report.ok:
        ctx.exit(EXIT_CHECK_FAILED)


@click.command()
@release_argument
@subset_option
@root_options
@click.option("--record-id", "record_ids", multiple=True, metavar="ID", help="Only these records of the subset.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="The folder to write to.")
@click.option(
    "--frames", "kind", type=click.Choice(["png", "jpg"]), help="Write frames at 1 FPS instead of a clip, as images."
)
@click.option(
    "--tolerance", type=click.FloatRange(0, min_open=True), default=5.0, show_default=True, help="W, seconds."
)
@json_option
@click.pass_context
def clip(
    ctx: click.Context,
    release: str | None,
    storage_options: dict[str, Any] | None,
    subset: str,
    video_root: str | None,
    video_options: dict[str, Any] | None,
    record_ids: tuple[str, ...],
    out: Path,
    kind: Literal["png", "jpg"] | None,
    tolerance: float,
    as_json: bool,
) -> None:
    """Cut the evidence span of each record, as a clip or as frames, with nothing later in it.

    Example: trace-hf videos clip sample --subset tiny --video-root videos --out clips
    """
    from ..videos.clips import clip as cut
    from ..videos.clips import save_frames
    from ..videos.extras import need

    need("av", "video")
    if kind is not None:
        need("PIL.Image", "video")
    root = VideoRoot.need(video_root, video_options)
    records = _chosen(list(subset_records(Release.open(release, storage_options), subset)), record_ids, subset)
    done: list[dict[str, Any]] = []
    failed: list[dict[str, str]] = []
    with progress("cutting", len(records)) as advance:
        for record in records:
            try:
                # A colon is no character for a file name everywhere.
                name = record.record_id.replace(":", "_").replace("/", "_")
                target = out / check_relative(name, what="file name from a record_id", record_id=record.record_id)
                if kind is not None:
                    images = save_frames(record, target, root, kind=kind, tolerance_s=tolerance)
                    made: dict[str, Any] = {"folder": str(target), "frames": len(images)}
                else:
                    made = vars(cut(record, target.with_name(target.name + ".mp4"), root, tolerance_s=tolerance))
                done.append({"record_id": record.record_id, **made})
            except TraceError as error:
                failed.append({"record_id": record.record_id, "error": str(error)})
            advance(1)
    if as_json:
        emit_json({"ok": not failed, "done": done, "failed": failed})
    else:
        if failed:
            emit_table(["record", "error"], [(item["record_id"], item["error"]) for item in failed])
        click.echo(f"{len(done)} records cut into {out}, {len(failed)} failed")
    if failed:
        ctx.exit(EXIT_CHECK_FAILED)


def _chosen(records: list[Any], record_ids: tuple[str, ...], subset: str) -> list[Any]:
    if not record_ids:
        return records
    unknown = set(record_ids) - {record.record_id for record in records}
    if unknown:
        raise click.BadParameter(f"not in {subset}: {', '.join(sorted(unknown))}", param_hint="--record-id")
    return [record for record in records if record.record_id in record_ids]


@contextmanager
def _bytes_progress(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show bytes, speed and time left on standard error when it is a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _count: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda count: bar.advance(task, count)
