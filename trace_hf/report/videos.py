"""What a report says of the videos: coverage by folder, and results of `trace-hf videos check` and `probe`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

__all__ = ["Folder", "VideoFacts", "video_facts"]

MAX_LISTED = 100
"""At most so many faults are listed; the rest is counted."""


@dataclass
class Folder:
    """The videos of one folder.

    Attributes
    ----------
    name : str
    videos, records, present, faulty : int
        ``present`` and ``faulty`` count videos and need a check.
    """

    name: str
    videos: int = 0
    records: int = 0
    present: int = 0
    faulty: int = 0


@dataclass
class VideoFacts:
    """What is known of the videos.

    Attributes
    ----------
    folders : list of Folder
        In the order of their names.
    total : Folder
        All of them.
    checked : str or None
        The root that was checked.
    check_faults, probe_faults : list of tuple
        Video, records and fault; at most `MAX_LISTED` each.
    check_more, probe_more : int
        Further faults.
    probed : int or None
        How many videos a probe looked into.
    """

    folders: list[Folder] = field(default_factory=list)
    total: Folder = field(default_factory=lambda: Folder("all folders"))
    checked: str | None = None
    check_faults: list[tuple[str, int, str]] = field(default_factory=list)
    check_more: int = 0
    probed: int | None = None
    probe_faults: list[tuple[str, int, str]] = field(default_factory=list)
    probe_more: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong with the videos, as far as they were looked at."""
        return not (self.check_faults or self.probe_faults)


def video_facts(
    videos: Mapping[str, Sequence[str]],
    check: Mapping[str, Any] | None = None,
    probe: Mapping[str, Any] | None = None,
) -> VideoFacts:
    """Put together what is known of a release's videos.

    Parameters
    ----------
    videos
        The IDs of the records that need each video.
    check, probe
        What ``trace-hf videos check --json`` and ``trace-hf videos probe --json`` printed.
    """
    facts = VideoFacts()
    found = _check_faults(check) if check is not None else []
    faulty = {path for path, _, _ in found}
    present = set(check.get("present", ())) if check is not None else set()
    folders: dict[str, Folder] = {}
    for path, ids in sorted(videos.items()):
        name = str(PurePosixPath(path).parent)
        for folder in (folders.setdefault(name, Folder(name)), facts.total):
            folder.videos += 1
            folder.records += len(ids)
            folder.present += path in present
            folder.faulty += path in faulty
    facts.folders = sorted(folders.values(), key=lambda folder: folder.name)
    if check is not None:
        facts.checked = str(check.get("root", "the video root"))
        facts.check_faults, facts.check_more = found[:MAX_LISTED], max(0, len(found) - MAX_LISTED)
    if probe is not None:
        faults = [
            (str(video["path"]), len(video["records"]), f"{problem['kind']}: {problem['detail']}")
            for video in probe.get("videos", ())
            for problem in video.get("problems", ())
        ]
        facts.probed = len(probe.get("videos", ()))
        facts.probe_faults, facts.probe_more = faults[:MAX_LISTED], max(0, len(faults) - MAX_LISTED)
    return facts


def _check_faults(check: Mapping[str, Any]) -> list[tuple[str, int, str]]:
    faults = []
    for video in check.get("missing", ()):
        near = "; ".join(video.get("candidates", ()))
        about = "missing" + (f"; near: {near}" if near else "")
        faults.append((str(video["path"]), len(video["records"]), about))
    for state, about in (("empty", "empty (0 bytes)"), ("pointers", "a Git LFS or git-annex pointer, no video")):
        faults += [(str(video["path"]), len(video["records"]), about) for video in check.get(state, ())]
    return faults
