"""Clips and frames of a record's evidence span, with nothing later than the protocol lets a model see."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from ..errors import TraceError
from ..windows import POINT_TOLERANCE_S, Span, evidence_span
from .cache import cache_folder
from .decoding import Footage, SourceFrame
from .encoding import encode, upright
from .extras import need
from .root import RootLike, VideoRoot

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Clip", "Frame", "clip", "frames", "save_frames"]

# Raised whenever the same request would give other bytes, so that older cached clips are not taken for new ones.
_CLIP_FORMAT = 1


@dataclass(frozen=True, eq=False)
class Frame:
    """One sampled frame.

    Attributes
    ----------
    time_s : float
        The sampling time that was asked for; seconds of the original video.
    source_time_s : float
        Presentation time of the frame; seconds of the original video. It can lie half a frame after ``time_s``, and
        lies before it where the media ends first.
    index : int or None
        Number of the frame in the original video, from 0; None without a constant rate.
    array : ndarray of uint8, shape (height, width, 3)
        RGB, upright.
    """

    time_s: float
    source_time_s: float
    index: int | None
    array: NDArray[np.uint8]

    def to_image(self) -> Any:
        """Return the frame as a PIL image."""
        return need("PIL.Image", "video").fromarray(self.array)


@dataclass(frozen=True)
class Clip:
    """A clip that was cut.

    Attributes
    ----------
    path : str
        The file.
    video_path : str
        The record's `video_path`.
    start_s, end_s : float
        The span, in seconds of the original video.
    first_frame_s, last_frame_s : float
        Presentation times of its first and last frame; seconds of the original video. The clip itself begins at 0.
    first_index, last_index : int or None
        Numbers of these frames in the original video; None without a constant rate.
    frames : int
        How many frames it has.
    """

    path: str
    video_path: str
    start_s: float
    end_s: float
    first_frame_s: float
    last_frame_s: float
    first_index: int | None
    last_index: int | None
    frames: int


def frames(
    record: Any,
    video_root: RootLike | None = None,
    storage_options: Mapping[str, Any] | None = None,
    *,
    span: Span | tuple[float, float] | None = None,
    tolerance_s: float = POINT_TOLERANCE_S,
) -> Iterator[Frame]:
    """Yield the frames of a record's evidence span at one frame per second, reading forward only.

    Times are the span's start, every second after it, and its end; the source frame of a time ``t`` is
    ``floor(t * fps + 0.5)``, without a constant rate the one whose presentation time is nearest (the later of two),
    held to the last readable one. A span that runs past the media's end is cut there.

    Parameters
    ----------
    record : mapping or typed record
        A full record.
    video_root : VideoRoot or what makes one
        Left out, the environment variable ``TRACE_VIDEO_ROOT``.
    storage_options : mapping, optional
        For a root that is not a VideoRoot yet.
    span : pair of float, optional
        Another span than the record's own; seconds of the original video.
    tolerance_s : float
        W of the evaluation windows, 5 or 10 seconds.

    Yields
    ------
    Frame

    Raises
    ------
    VideoNotFoundError
        If the video is not under the root.
    TraceError
        If it cannot be decoded, or PyAV is not installed.
    """
    root = VideoRoot.need(video_root, storage_options)
    path = _video_path(record)
    with _footage(root, path) as footage:
        cut = _span(record, span, tolerance_s, footage)
        for time, frame in footage.pick(cut.sampling_times()):
            yield Frame(time, _seconds(frame.time), frame.index, upright(frame.image))


def save_frames(
    record: Any,
    folder: str | os.PathLike[str],
    video_root: RootLike | None = None,
    storage_options: Mapping[str, Any] | None = None,
    *,
    kind: Literal["png", "jpg"] = "png",
    span: Span | tuple[float, float] | None = None,
    tolerance_s: float = POINT_TOLERANCE_S,
) -> list[Path]:
    """Write the frames of `frames` as image files, with their times in ``frames.json``.

    Parameters
    ----------
    record, video_root, storage_options, span, tolerance_s
        As for `frames`.
    folder : path
        A new folder; it appears when all frames are written. An older one of this function is replaced.
    kind : {"png", "jpg"}
        PNG keeps every pixel; JPEG has quality 95.

    Returns
    -------
    list of Path
        The image files, in order of time.

    Raises
    ------
    TraceError
        If the folder exists and was not made by this function; and as `frames`.
    """
    target = Path(folder)
    if target.exists() and not (target / "frames.json").is_file() and any(target.iterdir()):
        raise TraceError(f"{target} holds other files", do="Name a new folder for the frames.")
    aside = target.with_name(f".{target.name}.{uuid4().hex[:8]}.part")
    aside.mkdir(parents=True)
    try:
        listed = []
        for number, frame in enumerate(frames(record, video_root, storage_options, span=span, tolerance_s=tolerance_s)):
            name = f"{number:05d}.{kind}"
            options = {"quality": 95, "subsampling": 0} if kind == "jpg" else {"compress_level": 3}
            frame.to_image().save(aside / name, **options)
            listed.append(
                {"file": name, "time_s": frame.time_s, "source_time_s": frame.source_time_s, "index": frame.index}
            )
        value = {"video_path": _video_path(record), "frames": listed}
        (aside / "frames.json").write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(target, ignore_errors=True)
        aside.replace(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return [target / str(item["file"]) for item in listed]


def clip(
    record: Any,
    out: str | os.PathLike[str] | None = None,
    video_root: RootLike | None = None,
    storage_options: Mapping[str, Any] | None = None,
    *,
    span: Span | tuple[float, float] | None = None,
    tolerance_s: float = POINT_TOLERANCE_S,
    crf: int = 18,
) -> Clip:
    """Cut a record's evidence span into a video file of its own.

    It is encoded anew, so that it begins with the source frame of the span's start and ends with the source frame of
    its end, whatever key frames the original has: no later frame is in the file, and no sound.

    Parameters
    ----------
    record : mapping or typed record
        A full record.
    out : path, optional
        The mp4 file to write. Left out, the clip is kept in the cache under the video's identity (URL, size, etag or
        time), the span and the settings, and an earlier one is used again.
    video_root, storage_options, span, tolerance_s
        As for `frames`.
    crf : int
        Quality of H.264: 0 is lossless, 18 cannot be told from the original by eye.

    Returns
    -------
    Clip

    Raises
    ------
    VideoNotFoundError
        If the video is not under the root.
    TraceError
        If it cannot be decoded, or PyAV is not installed.
    """
    root = VideoRoot.need(video_root, storage_options)
    path = _video_path(record)
    if out is not None:
        return _cut(record, Path(out), root, path, span, tolerance_s, crf)
    key = _cache_key(record, root, path, span, tolerance_s, crf)
    target = cache_folder("clips") / f"{key}.mp4"
    facts = target.with_suffix(".json")
    if target.is_file() and facts.is_file():
        return Clip(**json.loads(facts.read_text(encoding="utf-8")))
    made = _cut(record, target, root, path, span, tolerance_s, crf)
    aside = facts.with_name(f".{facts.name}.{uuid4().hex[:8]}.part")
    aside.write_text(json.dumps(asdict(made)), encoding="utf-8")
    aside.replace(facts)
    return made


def _cut(
    record: Any,
    out: Path,
    root: VideoRoot,
    path: str,
    span: Span | tuple[float, float] | None,
    tolerance_s: float,
    crf: int,
) -> Clip:
    out.parent.mkdir(parents=True, exist_ok=True)
    aside = out.with_name(f".{uuid4().hex[:16]}.part")
    seen: list[SourceFrame] = []
    count = 0

    def watched(source: Iterator[SourceFrame]) -> Iterator[SourceFrame]:
        nonlocal count
        for frame in source:
            count += 1
            seen[1:] = [frame]
            if count == 1:
                seen[:] = [frame, frame]
            yield frame

    try:
        with _footage(root, path) as footage:
            cut = _span(record, span, tolerance_s, footage)
            encode(footage, watched(footage.between(*cut)), aside, crf=crf)
        aside.replace(out)
    finally:
        aside.unlink(missing_ok=True)
    first, last = seen
    return Clip(str(out), path, *cut, _seconds(first.time), _seconds(last.time), first.index, last.index, count)


def _cache_key(
    record: Any,
    root: VideoRoot,
    path: str,
    span: Span | tuple[float, float] | None,
    tolerance_s: float,
    crf: int,
) -> str:
    wanted = evidence_span(record, tolerance_s=tolerance_s) if span is None else Span(*span)
    identity = [_CLIP_FORMAT, root.url(path), *root.stat(path)[:2], *wanted, crf]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


@contextmanager
def _footage(root: VideoRoot, path: str) -> Iterator[Footage]:
    with root.open(path) as file, Footage(file, path) as footage:
        yield footage


def _span(record: Any, span: Span | tuple[float, float] | None, tolerance_s: float, footage: Footage) -> Span:
    whole = evidence_span(record, tolerance_s=tolerance_s) if span is None else Span(*span)
    if not 0 <= whole.start_s <= whole.end_s:
        raise ValueError(f"a span needs times in order from 0 on, not {whole.start_s!r} … {whole.end_s!r}")
    end = None if footage.duration is None else _seconds(footage.duration)
    if end is None:
        return whole
    if whole.start_s > end:
        raise TraceError(
            f"{footage.name} ends at {end} s, before the span {whole.start_s} … {whole.end_s} s begins",
            why="It is not the original video: often a chunk of it whose times begin at 0 again.",
            do="Run `trace-hf videos probe`, and fetch the original video.",
        )
    return Span(whole.start_s, min(whole.end_s, end))


def _video_path(record: Any) -> str:
    found = record.get("video_path") if isinstance(record, Mapping) else getattr(record, "video_path", None)
    if not isinstance(found, str):
        raise TraceError("the record has no video_path", do="Pass a QA or Proactive record.")
    return found


def _seconds(time: Fraction) -> float:
    return round(float(time), 6)
