"""Small frames of the records' evidence spans, for the timeline."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..errors import TraceError
from ..videos.root import VideoRoot

__all__ = ["FRAMES_PER_RECORD", "Thumbnails", "make_thumbnails"]

FRAMES_PER_RECORD = 12
"""At most so many frames of a record, spread evenly over its evidence span, first and last included."""

# Twice what the timeline draws, for dense screens.
_SIZE = (160, 90)


@dataclass
class Thumbnails:
    """Frames by record.

    Attributes
    ----------
    frames : dict
        For each record ``[time_s, data URI]`` in order of time; seconds of the original video.
    full : bool
        Whether there was no room for further records.
    failed : dict
        Why the frames of a record could not be read.
    """

    frames: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    full: bool = False
    failed: dict[str, str] = field(default_factory=dict)


def make_thumbnails(
    records: Iterable[Any],
    root: VideoRoot,
    *,
    limit_bytes: int,
    advance: Callable[[int], None] = lambda _records: None,
) -> Thumbnails:
    """Cut small frames out of the local videos of some records, until they fill `limit_bytes`.

    Parameters
    ----------
    records
        Full typed records, the most wanted first.
    root
        Only what it has as a local file is read.
    limit_bytes
        How much room they may take in the page.
    advance
        Told 1 for each record.
    """
    made = Thumbnails()
    used = 0
    for record in records:
        advance(1)
        if not _is_local(root, record.video_path):
            continue
        if used >= limit_bytes:
            made.full = True
            break
        try:
            frames = _frames(record, root)
        except TraceError as problem:
            made.failed[record.record_id] = str(problem)
            continue
        size = sum(len(uri) for _, uri in frames)
        if used + size > limit_bytes:
            made.full = True
            break
        used += size
        made.frames[record.record_id] = frames
    return made


def _is_local(root: VideoRoot, video_path: str) -> bool:
    try:
        place = root.place(video_path)
        return place.local and place.index is None and root.exists(video_path)
    except TraceError:
        return False


def _frames(record: Any, root: VideoRoot) -> list[tuple[float, str]]:
    from ..videos.clips import frames
    from ..windows import evidence_span

    times = evidence_span(record).sampling_times()
    last = len(times) - 1
    wanted = {round(step * last / max(FRAMES_PER_RECORD - 1, 1)) for step in range(FRAMES_PER_RECORD)}
    return [(frame.time_s, _data_uri(frame)) for number, frame in enumerate(frames(record, root)) if number in wanted]


def _data_uri(frame: Any) -> str:
    image = frame.to_image()
    image.thumbnail(_SIZE)
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "JPEG", quality=60, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
