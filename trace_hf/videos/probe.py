"""Whether the videos are the right ones, whole, and long enough for what records need of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from ..errors import TraceError
from ..windows import evidence_span, media_end
from .cache import cache_folder
from .extras import need
from .inventory import videos_of
from .media import MediaFacts, probe_media
from .root import RootLike, VideoRoot

__all__ = ["ProbeReport", "Problem", "VideoProbe", "probe_videos"]

# How far two statements about the same end may lie apart, in seconds: containers round, and adjustments were made on
# frames.
_SAME_END_S = 1.0


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a video.

    Attributes
    ----------
    kind : str
        ``missing``, ``unreadable``, ``truncated``, ``damaged``, ``no_ranges``, ``failed``: the file itself;
        ``too_short``: records need more than it has; ``other_end``: the release says that the video ends elsewhere;
        ``differs``: it is not what the reference has; ``same_content``: it equals another video of another name.
    detail : str
        In words.
    warning : bool
        Whether it may be right all the same, as two names for one video may be.
    """

    kind: str
    detail: str
    warning: bool = False


@dataclass(frozen=True)
class VideoProbe:
    """One video.

    Attributes
    ----------
    path : str
        The record's `video_path`.
    records : list of str
        The IDs of the records that need it.
    needed_s : float or None
        The last time that any of them needs; seconds of the original video.
    media : MediaFacts
        What the file is.
    problems : list of Problem
    """

    path: str
    records: list[str]
    needed_s: float | None
    media: MediaFacts
    problems: list[Problem] = field(default_factory=list)


@dataclass
class ProbeReport:
    """What `probe_videos` found.

    Attributes
    ----------
    videos : list of VideoProbe
        In the order of the paths.
    records : list of dict
        ``{"record_id", "path", "needed_s", "end_s", "ok"}``: whether a record's last needed time lies inside the
        readable media.
    """

    videos: list[VideoProbe] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether no video has a problem that is more than a warning."""
        return all(problem.warning for video in self.videos for problem in video.problems)

    def to_json(self) -> dict[str, Any]:
        """Return the report with stable keys; it also serves as a reference for `probe_videos`."""
        return {"ok": self.ok, "videos": [asdict(video) for video in self.videos], "records": self.records}


def probe_videos(
    records_or_paths: Iterable[Any],
    root: RootLike | None = None,
    storage_options: Mapping[str, Any] | None = None,
    *,
    engine: str = "threads",
    workers: int = 4,
    cache: bool = True,
    reference: Mapping[str, Any] | None = None,
    progress: Callable[[int], None] = lambda _videos: None,
) -> ProbeReport:
    """Look into each video, reading only its header and its last frames.

    Parameters
    ----------
    records_or_paths : iterable
        Full records (typed, or rows as dicts), or video paths, whose length is then not judged.
    root : VideoRoot or what makes one
        Left out, the environment variable ``TRACE_VIDEO_ROOT``.
    storage_options : mapping, optional
        For a root that is not a VideoRoot yet. With dask they travel to the workers.
    engine : str
        ``threads``; ``dask`` for a cluster of this machine; ``dask://host:port`` for a running scheduler. All give
        the same report.
    workers : int
        Videos at once, or processes of a cluster of this machine.
    cache : bool
        Whether answers are kept, by URL, size and etag or modification time, and used again.
    reference : mapping, optional
        The JSON report of a root that is known to be right: duration, frames and picture size are compared.
    progress : callable
        Told 1 for each video that is done.

    Returns
    -------
    ProbeReport

    Raises
    ------
    VideoNotFoundError
        If there is no root.
    TraceError
        If PyAV or dask is not installed, or the engine is not known.
    """
    need("av", "video")
    where = VideoRoot.need(root, storage_options)
    items = list(records_or_paths)
    records = [item for item in items if not isinstance(item, str)]
    videos = videos_of(items)
    task = partial(probe_media, where, cache=cache_folder("probe") if cache else None)
    facts: dict[str, MediaFacts] = {}
    for path, found in _engine(engine)(task, list(videos), workers):
        facts[path] = found
        progress(1)
    return _judge(videos, records, facts, reference)


# --- engines ---

_Results = Iterator[tuple[str, MediaFacts]]
_Task = Callable[[str], MediaFacts]


def _engine(name: str) -> Callable[[_Task, Sequence[str], int], _Results]:
    if name == "threads":
        return _threads
    if name == "dask" or name.startswith("dask://"):
        return partial(_dask, name.removeprefix("dask").removeprefix("://"))
    raise TraceError(f"the engine {name!r} is not known", do="Use threads, dask, or dask://host:port.")


def _threads(task: _Task, paths: Sequence[str], workers: int) -> _Results:
    with ThreadPoolExecutor(max(1, workers)) as pool:
        yield from zip(paths, pool.map(task, paths), strict=True)


def _dask(address: str, task: _Task, paths: Sequence[str], workers: int) -> _Results:
    distributed = need("distributed", "dask")
    if address:
        try:
            client = distributed.Client(f"tcp://{address}")
        except OSError as error:
            raise TraceError(
                f"there is no dask scheduler at {address}: {error}",
                do="Start one with `dask scheduler`, or use --engine dask for a cluster of this machine.",
            ) from error
        with client:
            yield from _gather(distributed, client, task, paths)
        return
    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield from _gather(distributed, client, task, paths)


def _gather(distributed: Any, client: Any, task: _Task, paths: Sequence[str]) -> _Results:
    # Impure: a file may change, and dask must not answer from an earlier run.
    futures = client.map(task, paths, pure=False)
    names = {future.key: path for future, path in zip(futures, paths, strict=True)}
    for future, result in distributed.as_completed(futures, with_results=True):
        yield names[future.key], result


# --- judgement ---


def _judge(
    videos: Mapping[str, list[str]],
    records: Sequence[Any],
    facts: Mapping[str, MediaFacts],
    reference: Mapping[str, Any] | None,
) -> ProbeReport:
    report = ProbeReport()
    needs: dict[str, list[tuple[str, float]]] = defaultdict(list)
    ends: dict[str, float] = {}
    for record in records:
        path, record_id = _field(record, "video_path"), _field(record, "record_id")
        span = evidence_span(record)
        needs[path].append((record_id, span.end_s))
        adjusted = media_end(record)
        if adjusted is not None:
            ends[path] = adjusted
        media = facts[path]
        ok = media.end_s is not None and span.end_s <= media.end_s + _frame(media)
        report.records.append(
            {"record_id": record_id, "path": path, "needed_s": span.end_s, "end_s": media.end_s, "ok": ok}
        )
    same = _same_content(facts)
    known = {video["path"]: video["media"] for video in (reference or {}).get("videos", [])}
    for path, ids in videos.items():
        media = facts[path]
        problems = [
            *_of_the_file(media),
            *_of_the_length(media, needs[path], ends.get(path)),
            *_of_the_others(same.get(path)),
            *_of_the_reference(media, known.get(path)),
        ]
        last = max((time for _, time in needs[path]), default=None)
        report.videos.append(VideoProbe(path, ids, last, media, problems))
    return report


def _of_the_file(media: MediaFacts) -> Iterator[Problem]:
    if media.state != "ok":
        yield Problem(media.state, media.detail)


def _of_the_length(media: MediaFacts, needs: list[tuple[str, float]], adjusted: float | None) -> Iterator[Problem]:
    if media.end_s is None:
        return
    late = [(record_id, time) for record_id, time in needs if time > media.end_s + _frame(media)]
    if late:
        last = max(time for _, time in late)
        guess = (
            ""
            if media.state != "ok"
            else (
                ": it is whole by itself, so it is probably a chunk of the original whose times begin at 0 again, or "
                "another video"
            )
        )
        yield Problem("too_short", f"it ends at {media.end_s:.3f} s, but {len(late)} records need {last:.3f} s{guess}")
    elif adjusted is not None and media.state == "ok" and abs(media.end_s - adjusted) > _SAME_END_S:
        yield Problem(
            "other_end", f"it ends at {media.end_s:.3f} s; the release says that this video ends at {adjusted:.3f} s"
        )


def _of_the_reference(media: MediaFacts, known: Mapping[str, Any] | None) -> Iterator[Problem]:
    if known is None or media.state not in ("ok", "truncated", "damaged"):
        return
    for name in ("duration_s", "frames", "width", "height"):
        ours, theirs = getattr(media, name), known.get(name)
        if ours is None or theirs is None:
            continue
        if abs(ours - theirs) > (0.1 if name == "duration_s" else 0):
            yield Problem("differs", f"its {name} is {ours}, the reference's {theirs}: probably another video")
            return


def _of_the_others(same: list[str] | None) -> Iterator[Problem]:
    if same:
        yield Problem("same_content", f"it has the same bytes as {', '.join(same)}: one may have a wrong name", True)


def _same_content(facts: Mapping[str, MediaFacts]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for path, media in facts.items():
        if media.fingerprint:
            groups[media.fingerprint].append(path)
    return {
        path: [other for other in paths if other != path]
        for paths in groups.values()
        if len(paths) > 1
        for path in paths
    }


def _frame(media: MediaFacts) -> float:
    """One frame in seconds: a time that far beyond the end still has the last frame as its own."""
    return 1 / media.fps if media.fps else 0.1


def _field(record: Any, name: str) -> Any:
    return record.get(name) if isinstance(record, Mapping) else getattr(record, name, None)
