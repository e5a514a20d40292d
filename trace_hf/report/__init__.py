"""A release that one can look at: one HTML file with its checks, populations, times, timelines and videos."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from .. import __version__
from ..release import Release
from ..schema import CONFIGS

if TYPE_CHECKING:
    from ..checks import ValidationReport
    from ..integrity import FileDigest, VerificationReport
    from ..videos.root import RootLike, VideoRoot
    from .gather import Gathered
    from .thumbnails import Thumbnails

__all__ = ["WrittenReport", "write_report"]

FRAMES_MB = 4.0
"""How much room frames may take by default, so that the whole report stays below 8 MB."""

Progress = Callable[[str, "float | None"], AbstractContextManager[Callable[[float], None]]]


@dataclass(frozen=True)
class WrittenReport:
    """A report that was written.

    Attributes
    ----------
    path : str
    size : int
        Bytes.
    release_id : str
    ok : bool
        Whether the release verifies, is valid, and nothing is wrong with the videos that were looked at.
    verified, valid : bool
    records : int
        Records in the timeline browser; 0 when the release does not verify, since then nothing of it is shown.
    frames : int
        Records with frames along their timeline.
    """

    path: str
    size: int
    release_id: str
    ok: bool
    verified: bool
    valid: bool
    records: int
    frames: int

    def to_json(self) -> dict[str, Any]:
        """Return the form of ``trace-hf report --json``."""
        return dict(vars(self))


def write_report(
    release: str | os.PathLike[str] | Release | None,
    out: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
    video_root: RootLike | None = None,
    video_options: Mapping[str, Any] | None = None,
    check: Mapping[str, Any] | None = None,
    probe: Mapping[str, Any] | None = None,
    frames_mb: float = FRAMES_MB,
    progress: Progress = lambda _what, _total: nullcontext(lambda _steps: None),
) -> WrittenReport:
    """Write the report of a release as one HTML file, which needs no network and no other file.

    The file holds the texts and answers of the release's records, so the release's data terms apply to it. Answers are
    not on the page until its switch is used, but they are in the file.

    Parameters
    ----------
    release, storage_options
        As `Release.open` takes them.
    out
        The file; an older one is replaced once the new one is complete.
    video_root
        As `VideoRoot` takes it; left out, ``TRACE_VIDEO_ROOT``. What it has of the videos is checked, and local videos
        give frames along the timeline: those of the tiny configs first.
    video_options
        fsspec options of the video root.
    check, probe
        What ``trace-hf videos check --json`` and ``trace-hf videos probe --json`` printed, if that was done before.
    frames_mb
        How much room frames may take, in megabytes; 0 for none.
    progress
        Makes a context manager of a description and a total, which gives a function that advances.

    Returns
    -------
    WrittenReport

    Raises
    ------
    ReleaseNotFoundError, ManifestError, UnsafePathError
        When there is no release to report on. One that does not verify is reported, but none of its records is shown.
    TraceError
        When Bokeh, or what frames need, is not installed.
    """
    from ..checks import validate
    from ..videos.extras import need
    from ..videos.root import VideoRoot
    from .page import render

    need("bokeh", "report")
    opened = Release.open(release, storage_options, unknown="keep")
    with progress("hashing and validating", _bytes(opened)) as advance:
        # Unknown fields are shown to fail the validation, and keep nobody from looking at the rest.
        validation = validate(release if isinstance(release, Release) else opened.root, advance=advance)
    verification = validation.verification
    found = _gather(opened, verification, progress) if verification.ok else None
    root = VideoRoot.coerce(video_root, video_options)
    if found is not None and root is not None and check is None:
        check = _check(opened, verification.digests, root)
    thumbnails = _thumbnails(opened, verification.digests, found, root, frames_mb, progress)
    facts, videos_ok = _facts(opened, validation, found, check, probe, thumbnails)
    data = render(facts).encode("utf-8", "replace")
    _write(Path(out), data)
    return WrittenReport(
        path=str(out),
        size=len(data),
        release_id=opened.release_id,
        ok=verification.ok and validation.ok and videos_ok,
        verified=verification.ok,
        valid=validation.ok,
        records=len(found.records) if found else 0,
        frames=len(thumbnails.frames),
    )


def _bytes(release: Release) -> int:
    files = (release.root / name for name in release.manifest.files)
    return sum(file.stat().st_size for file in files if file.is_file())


def _gather(release: Release, verification: VerificationReport, progress: Progress) -> Gathered:
    from .gather import gather

    counts = release.manifest.counts
    with progress("reading records", counts.qa + counts.proactive) as advance:
        return gather(release, verification.digests, advance)


def _check(release: Release, digests: Mapping[str, FileDigest], root: VideoRoot) -> dict[str, Any]:
    from ..videos.inventory import check_videos

    whole = (record for config in ("qa", "proactive") for record in release.records(config, digests=digests))
    return check_videos(whole, root).to_json()


def _thumbnails(
    release: Release,
    digests: Mapping[str, FileDigest],
    found: Gathered | None,
    root: VideoRoot | None,
    frames_mb: float,
    progress: Progress,
) -> Thumbnails:
    from .thumbnails import Thumbnails, make_thumbnails

    if found is None or root is None or frames_mb <= 0:
        return Thumbnails()
    with progress("cutting frames", len(found.records)) as advance:
        records = _tiny_first(release, digests)
        return make_thumbnails(records, root, limit_bytes=int(frames_mb * 1_000_000), advance=advance)


def _tiny_first(release: Release, digests: Mapping[str, FileDigest]) -> Iterator[Any]:
    seen = set()
    for name, spec in CONFIGS.items():
        if spec.ids_role:
            for record in release.records(name, digests=digests):
                seen.add(record.record_id)
                yield record
    for name in ("qa", "proactive"):
        yield from (r for r in release.records(name, digests=digests) if r.record_id not in seen)


def _facts(
    release: Release,
    validation: ValidationReport,
    found: Gathered | None,
    check: Mapping[str, Any] | None,
    probe: Mapping[str, Any] | None,
    thumbnails: Thumbnails,
) -> tuple[dict[str, Any], bool]:
    """Everything that the templates name, and whether nothing is wrong with the videos."""
    from ..hub.terms import built_in_terms
    from .charts import population_charts, time_charts, videos_chart
    from .timeline import timeline_figure
    from .videos import video_facts

    terms = built_in_terms()
    facts: dict[str, Any] = {
        "version": __version__,
        "manifest": release.manifest,
        "manifest_sha256": release.manifest_sha256,
        "verification": validation.verification,
        "validation": validation,
        "terms": terms,
        "found": found,
        "figures": {},
        "records": [],
    }
    if found is None:
        return facts, True
    rule = found.criterion or {"threshold_s": 1.0}
    sources: dict[str, int] = {}
    for whole in ("qa", "proactive"):
        for source, count in found.populations[whole].sources.items():
            sources[source] = sources.get(source, 0) + count
    populations, times = population_charts(found), time_charts(found, rule["threshold_s"])
    per_video, videos = videos_chart(found.videos), video_facts(found.videos, check, probe)
    for record in found.records:
        if record["id"] in thumbnails.frames:
            record["frames"] = thumbnails.frames[record["id"]]
    charts = [*populations, *times, per_video]
    figures = {chart.key: chart.figure for chart in charts if chart.figure is not None}
    facts |= {
        "sources": [(terms.of(name), count) for name, count in sorted(sources.items())],
        "population_charts": populations,
        "time_charts": times,
        "per_video": per_video,
        "videos": videos,
        "thumbnails": thumbnails,
        "figures": _figures({**figures, "timeline": timeline_figure()}),
        "records": found.records,
        "configs": [name for name, population in found.populations.items() if population.records],
    }
    return facts, videos.ok


def _figures(figures: Mapping[str, Any]) -> dict[str, Any]:
    from bokeh.embed import json_item

    return {key: json_item(plot) for key, plot in figures.items()}


def _write(out: Path, data: bytes) -> None:
    """Replace `out` in one step, so that nobody ever opens half a report."""
    out.parent.mkdir(parents=True, exist_ok=True)
    aside = out.with_name(f".{out.name}.{uuid4().hex[:8]}.part")
    try:
        aside.write_bytes(data)
        aside.replace(out)
    finally:
        aside.unlink(missing_ok=True)
