"""What of a release's videos a root has: one listing a folder, before a long run starts."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from ..errors import IntegrityError, TraceError, VideoNotFoundError
from ..paths import check_relative, join_url, shown
from .access import is_http, stat
from .candidates import Candidates
from .listing import Entry, Listings, Survey
from .places import Place
from .root import RootLike, VideoRoot

__all__ = ["Inventory", "MissingVideo", "VideoState", "check_videos", "videos_of"]

_POINTERS = (
    b"version https://git-lfs.github.com/spec/",
    b"version https://hawser.github.com/spec/",
    b"/annex/objects/",
)
_POINTER_BYTES = 1024


@dataclass(frozen=True)
class VideoState:
    """A video that is there, but not as it should be.

    Attributes
    ----------
    path : str
        The record's `video_path`.
    records : list of str
        The IDs of the records that need it.
    target : str or None
        Where a link that leads out of the root ends.
    """

    path: str
    records: list[str]
    target: str | None = None


@dataclass(frozen=True)
class MissingVideo:
    """A video that is not where its path says.

    Attributes
    ----------
    path : str
        The record's `video_path`.
    records : list of str
        The IDs of the records that need it.
    candidates : list of str
        The nearest files that are really there, the likeliest first; never chosen silently.
    ambiguous : bool
        Whether several files have its name, or several missing videos share it.
    reason : str
        What stands in its place, if anything does.
    """

    path: str
    records: list[str]
    candidates: list[str] = field(default_factory=list)
    ambiguous: bool = False
    reason: str = ""


@dataclass
class Inventory:
    """What a root has of the videos that records name.

    Attributes
    ----------
    root : str
        The root, without credentials.
    records : int
        How many records were asked for.
    present : list of str
        Videos that are there and hold bytes.
    missing : list of MissingVideo
    empty, pointers, outside : list of VideoState
        Files of 0 bytes; Git LFS or git-annex pointers instead of videos; links that lead out of the root.
    ambiguous : list of dict
        ``{"basename", "paths", "candidates"}`` of each name that cannot be told apart.
    unsized : list of str
        Present videos whose size the listing does not say, so that an empty one would not be noticed.
    sizes : dict
        Bytes of each present video whose size is known.
    tags : dict
        Etag or modification time of each present video, where the listing says.
    notes : list of str
        What the reader should know about how it was found out.
    follow_symlinks : bool
        Whether links out of the root are allowed; if not, they are faults.
    """

    root: str
    records: int = 0
    present: list[str] = field(default_factory=list)
    missing: list[MissingVideo] = field(default_factory=list)
    empty: list[VideoState] = field(default_factory=list)
    pointers: list[VideoState] = field(default_factory=list)
    outside: list[VideoState] = field(default_factory=list)
    ambiguous: list[dict[str, Any]] = field(default_factory=list)
    unsized: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    follow_symlinks: bool = True

    @property
    def ok(self) -> bool:
        """Whether every video is there and holds a video's bytes."""
        return not (self.missing or self.empty or self.pointers or (self.outside and not self.follow_symlinks))

    def to_json(self) -> dict[str, Any]:
        """Return the inventory with stable keys."""
        return {
            "ok": self.ok,
            "root": self.root,
            "records": self.records,
            "videos": len(self.present) + len(self.missing) + len(self.empty) + len(self.pointers),
            "present": self.present,
            "missing": [asdict(video) for video in self.missing],
            "empty": [{"path": video.path, "records": video.records} for video in self.empty],
            "pointers": [{"path": video.path, "records": video.records} for video in self.pointers],
            "outside": [asdict(video) for video in self.outside],
            "ambiguous": self.ambiguous,
            "unsized": len(self.unsized),
            "notes": self.notes,
        }


def videos_of(records_or_paths: Iterable[Any]) -> dict[str, list[str]]:
    """Return the record IDs of each video path, in the order of the paths' first mention.

    Parameters
    ----------
    records_or_paths : iterable
        Typed records, rows as dicts, or video paths; also what this function returned.

    Raises
    ------
    UnsafePathError
        If a path would leave its root.
    """
    if isinstance(records_or_paths, Mapping) and "video_path" in records_or_paths:
        records_or_paths = [records_or_paths]
    if isinstance(records_or_paths, Mapping):
        return {check_relative(path, what="video_path"): list(ids) for path, ids in records_or_paths.items()}
    found: dict[str, list[str]] = {}
    for item in records_or_paths:
        if isinstance(item, str):
            found.setdefault(check_relative(item, what="video_path"), [])
            continue
        get = item.get if isinstance(item, Mapping) else lambda name, item=item: getattr(item, name, None)
        path, record_id = get("video_path"), get("record_id")
        if path is None:
            raise TraceError(
                "the record has no video_path",
                record_id=record_id,
                why="Audit records (changes, exclusions) name no video.",
                do="Pass QA or Proactive records, or paths.",
            )
        found.setdefault(check_relative(path, what="video_path", record_id=record_id), []).append(str(record_id))
    return found


def check_videos(
    records_or_paths: Iterable[Any],
    root: RootLike | None = None,
    storage_options: Mapping[str, Any] | None = None,
    *,
    sizes: bool = False,
    search_folders: int = 64,
    workers: int = 8,
) -> Inventory:
    """Find out which videos a root has, with one listing a folder.

    Parameters
    ----------
    records_or_paths : iterable
        Typed records, rows as dicts, or video paths.
    root : VideoRoot or what makes one
        Left out, the environment variable ``TRACE_VIDEO_ROOT``.
    storage_options : mapping, optional
        For a root that is not a VideoRoot yet.
    sizes : bool
        Whether to ask for each size that a listing does not say (web servers): one more request a file.
    search_folders : int
        How many folders of a remote root are listed, at most, to find candidates when something is missing.
    workers : int
        Requests at once.

    Returns
    -------
    Inventory

    Raises
    ------
    VideoNotFoundError
        If there is no root, or nothing at all where it should be.
    UnsafePathError
        If a record's path would leave the root.
    TraceError
        If a folder cannot be listed for another reason than its absence.
    """
    where = VideoRoot.need(root, storage_options)
    return _Check(where, videos_of(records_or_paths), sizes, search_folders, workers).run()


class _Check:
    """One run of `check_videos`."""

    def __init__(
        self, root: VideoRoot, videos: dict[str, list[str]], sizes: bool, search_folders: int, workers: int
    ) -> None:
        self.root, self.videos, self.sizes, self.search_folders = root, videos, sizes, search_folders
        self.workers = workers
        self.listings = Listings(root, workers)
        self.report = Inventory(root.name, sum(map(len, videos.values())), follow_symlinks=root.follow_symlinks)
        self.gone: dict[str, str] = {}

    def run(self) -> Inventory:
        self._need_a_root()
        unlisted: list[str] = []
        found: dict[str, Entry] = {}
        placed = {path: place for path in self.videos if (place := self._place(path)) is not None}
        self.listings.load({self._folder(place, path) for path, place in placed.items() if place.index is None})
        for path, place in placed.items():
            if place.index is not None:
                self._look_up(place, path, found)
                continue
            entries = self.listings.get(*self._folder(place, path))
            if entries is None and not place.local and self._is_web(place):
                unlisted.append(path)
            else:
                self._judge(path, (entries or {}).get(self._name(place, path)), found)
        self._ask(unlisted, found)
        if self.sizes:
            self._ask([path for path, entry in found.items() if entry.size is None], found)
        self._sort(found)
        self._report_missing()
        return self.report

    def _need_a_root(self) -> None:
        gone = [place.url for place in self.root.places if place.local and not Path(place.url).exists()]
        if len(gone) == len(self.root.places):
            raise VideoNotFoundError(
                f"the video root {', '.join(gone)} is not there",
                why="The path may be mistyped, or its disk not mounted.",
                do="Check the path.",
            )
        self.report.notes += [f"{url} is not there" for url in gone]

    def _place(self, path: str) -> Place | None:
        try:
            return self.root.place(path)
        except VideoNotFoundError as error:
            self.gone[path] = error.what
            return None

    def _folder(self, place: Place, path: str) -> tuple[Place, str]:
        return place, (place.below(path) or "").rpartition("/")[0]

    def _name(self, place: Place, path: str) -> str:
        return (place.below(path) or "").rpartition("/")[2]

    def _is_web(self, place: Place) -> bool:
        return is_http(self.root.mount(place)[0])

    def _look_up(self, place: Place, path: str, found: dict[str, Entry]) -> None:
        assert place.index is not None
        member = place.index.members.get(path)
        if member is None:
            self.gone[path] = place.index.why_not(path)
            return
        try:
            # Asked once for each archive: it may have been moved or changed since.
            place.index.parts(member.archive)
        except TraceError as error:
            self.gone[path] = error.what
            return
        found[path] = Entry(PurePosixPath(path).name, size=member.size)

    def _judge(self, path: str, entry: Entry | None, found: dict[str, Entry]) -> None:
        if entry is None:
            self.gone[path] = ""
        elif entry.broken:
            self.gone[path] = "a link to nothing stands there"
        elif entry.folder:
            self.gone[path] = "a folder of that name stands there"
        else:
            found[path] = entry

    def _ask(self, paths: list[str], found: dict[str, Entry]) -> None:
        """One request a file, where no listing answers."""
        if not paths:
            return

        def ask(path: str) -> Entry | None:
            try:
                return Entry(PurePosixPath(path).name, False, *stat(*self.root.fs_for(path))[:2])
            except FileNotFoundError:
                return None

        with ThreadPoolExecutor(self.workers) as pool:
            for path, entry in zip(paths, pool.map(ask, paths), strict=True):
                self._judge(path, entry, found)
        if not self.sizes:
            self.report.notes.append(f"the server lists no folders, so {len(paths)} videos were asked for one by one")

    def _sort(self, found: dict[str, Entry]) -> None:
        small = [path for path, entry in found.items() if entry.size and entry.size <= _POINTER_BYTES]
        with ThreadPoolExecutor(self.workers) as pool:
            pointers = {path for path, yes in zip(small, pool.map(self._is_pointer, small), strict=True) if yes}
        report = self.report
        for path in self.videos:
            entry = found.get(path)
            if entry is None:
                continue
            target = self._outside(path)
            if target is not None:
                report.outside.append(VideoState(path, self.videos[path], target))
            if entry.size == 0:
                report.empty.append(VideoState(path, self.videos[path]))
            elif path in pointers:
                report.pointers.append(VideoState(path, self.videos[path]))
            else:
                report.present.append(path)
                if entry.size is None:
                    report.unsized.append(path)
                else:
                    report.sizes[path] = entry.size
                if entry.tag is not None:
                    report.tags[path] = entry.tag
        if report.unsized:
            report.notes.append(
                f"the server's listing says no sizes: an empty one of {len(report.unsized)} videos would not be noticed"
            )

    def _is_pointer(self, path: str) -> bool:
        if self._outside(path) is not None and not self.root.follow_symlinks:
            return False
        try:
            with self.root.open(path) as file:
                return file.read(_POINTER_BYTES).startswith(_POINTERS)
        except IntegrityError:
            # A damaged member of an archive is none; reading it in earnest will say so.
            return False

    def _outside(self, path: str) -> str | None:
        place = self.root.place(path)
        if not place.local:
            return None
        real, home = os.path.realpath(place.join(path)), os.path.realpath(place.url)
        inside = real == home or real.startswith(home.rstrip(os.sep) + os.sep)
        return None if inside else real

    def _report_missing(self) -> None:
        if not self.gone:
            return
        survey = Survey(self.listings, folders=self.search_folders)
        if not survey.complete:
            self.report.notes.append("the root has more folders than were searched for candidates")
        several = len(self.root.places) > 1
        names = [self._shown(place, file) if several else file for place, file in survey.files]
        candidates = Candidates(names)
        claims: dict[str, list[str]] = defaultdict(list)
        for path in self.gone:
            claims[PurePosixPath(path).name].append(path)
        for name, paths in claims.items():
            there = candidates.same_name(name)
            if there and len(there) + len(paths) > 2:
                self.report.ambiguous.append({"basename": name, "paths": sorted(paths), "candidates": there})
        unclear = {path for item in self.report.ambiguous for path in item["paths"]}
        unclear |= {path for place in self.root.places if place.index for path in place.index.ambiguous}
        self.report.missing = [
            MissingVideo(path, records, candidates.nearest(path), path in unclear, self.gone[path])
            for path, records in self.videos.items()
            if path in self.gone
        ]

    def _shown(self, place: Place, file: str) -> str:
        return file if place.index is not None else shown(join_url(place.url, file))
