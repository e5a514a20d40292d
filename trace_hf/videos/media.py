"""What one video file really is: read from its header and its last frames, without a whole download."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import IO
from uuid import uuid4

from ..errors import TraceError, VideoNotFoundError
from ..paths import scrubbed
from .access import NoRangesError, Stat
from .decoding import Footage, SourceFrame
from .root import VideoRoot

__all__ = ["MediaFacts", "probe_media"]

# Raised when the same file would be judged otherwise, so that older cached results are not used.
_FORMAT = 1

_SAMPLE = 64 * 1024

# Decoding the last frames reads from the last key frame on. Beyond this the file's own table has to do.
_MOST_TAIL_BYTES = 32 * 1024 * 1024

# A compressed member of a remote archive cannot be read in part; up to this size it is moved all the same.
_MOST_PACKED_BYTES = 8 * 1024 * 1024

_BISECTIONS = 8

_BOXES = {b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"uuid", b"meta", b"styp", b"sidx", b"moof", b"mfra"}

_OTHER_KINDS = {
    b"<": "a web page",
    b"{": "JSON text",
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "a gzip file",
    b"version https://git-lfs": "a Git LFS pointer",
}


@dataclass(frozen=True)
class MediaFacts:
    """What a file is, whoever needs it.

    Attributes
    ----------
    state : {"ok", "truncated", "damaged", "unreadable", "missing", "no_ranges", "failed"}
        ``truncated``: the file ends before its own table says; ``damaged``: its last frames cannot be decoded;
        ``failed``: it could not be read for a reason that is not the file's.
    detail : str
        More about a state that is not ``ok``.
    size : int or None
        Bytes.
    codec, container : str
    width, height, rotation : int
        Pixels as stored, and degrees to turn.
    fps : float or None
        Frames per second, on average where the rate is not constant.
    constant_rate : bool
    frames : int or None
        Frames as the file states.
    start_s : float
        Presentation time of the first frame in the file.
    duration_s : float or None
        Length as the file states, in seconds from the first frame.
    end_s : float or None
        Where the readable media ends, in seconds from the first frame.
    fingerprint : str
        SHA-256 over size, first and last 64 KiB: equal for equal files.
    """

    state: str
    detail: str = ""
    size: int | None = None
    codec: str = ""
    container: str = ""
    width: int = 0
    height: int = 0
    rotation: int = 0
    fps: float | None = None
    constant_rate: bool = False
    frames: int | None = None
    start_s: float = 0.0
    duration_s: float | None = None
    end_s: float | None = None
    fingerprint: str = ""


def probe_media(root: VideoRoot, path: str, cache: Path | None = None) -> MediaFacts:
    """Return what a video of a root is; faults of the file are part of the answer, not exceptions.

    Parameters
    ----------
    root : VideoRoot
    path : str
        The record's `video_path`.
    cache : Path, optional
        Folder where answers are kept by URL, size and etag or modification time.
    """
    try:
        status = root.stat(path)
        kept = _kept(cache, root.url(path), status)
        if kept is not None and kept.is_file():
            with suppress(ValueError, TypeError):
                return MediaFacts(**json.loads(kept.read_text(encoding="utf-8")))
        if root.packed_far_away(path, _MOST_PACKED_BYTES):
            return MediaFacts("no_ranges", "it is compressed in a remote archive, so it must be fetched first")
        with root.open(path) as file:
            facts = _examine(file, path, status)
    except VideoNotFoundError as error:
        return MediaFacts("missing", error.what)
    except NoRangesError as error:
        return MediaFacts("no_ranges", f"{error.what}. {error.do}")
    except Exception as error:  # noqa: BLE001 - one file's failure must not end a run over hundreds
        text = error.what if isinstance(error, TraceError) else scrubbed(error)
        return MediaFacts("failed", text)
    if kept is not None:
        _keep(kept, facts)
    return facts


def _kept(cache: Path | None, url: str, status: Stat) -> Path | None:
    if cache is None or status.tag is None:
        return None
    key = hashlib.sha256(json.dumps([_FORMAT, url, status.size, status.tag]).encode()).hexdigest()
    return cache / key[:2] / f"{key}.json"


def _keep(target: Path, facts: MediaFacts) -> None:
    # A cache that cannot be written is only slower.
    with suppress(OSError):
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{uuid4().hex}.part")
        aside.write_text(json.dumps(asdict(facts)), encoding="utf-8")
        aside.replace(target)


def _examine(file: IO[bytes], path: str, status: Stat) -> MediaFacts:
    size = file.seek(0, 2) if status.size is None else status.size
    if not size:
        return MediaFacts("unreadable", "it is empty", 0)
    file.seek(0)
    head = file.read(_SAMPLE)
    file.seek(max(0, size - _SAMPLE))
    fingerprint = hashlib.sha256(str(size).encode() + head + file.read(_SAMPLE)).hexdigest()
    cut = _cut_box(file, size)
    file.seek(0)
    try:
        footage = Footage(file, path)
    except TraceError as error:
        if error.do and "pip install" in error.do:
            raise
        return MediaFacts(*_why_unreadable(head, cut, error), size=size, fingerprint=fingerprint)
    with footage:
        return _facts(footage, size, fingerprint, cut)


def _facts(footage: Footage, size: int, fingerprint: str, cut: str) -> MediaFacts:
    stream = footage.stream
    rate = footage.rate or footage.average_rate
    declared = None if footage.duration is None else float(footage.duration)
    end, rotation = _readable_end(footage, size)
    state, detail = "ok", ""
    if end is None:
        state, detail = "damaged", "not one frame can be decoded"
    elif declared is not None and end < declared - max(0.5, 2 / float(rate or 10)):
        state = "truncated" if cut or _beyond(footage, size) else "damaged"
        detail = f"it states {declared:.3f} s, but is readable to {end:.3f} s only"
    elif cut:
        state, detail = "truncated", cut
    context = stream.codec_context
    return MediaFacts(
        state=state,
        detail=detail,
        size=size,
        codec=context.name,
        container=footage.container.format.name,
        width=context.width,
        height=context.height,
        rotation=rotation,
        fps=None if rate is None else round(float(rate), 6),
        constant_rate=footage.rate is not None,
        frames=stream.frames or None,
        start_s=round(float(footage.start), 6),
        duration_s=None if declared is None else round(declared, 6),
        end_s=None if end is None else round(end, 6),
        fingerprint=fingerprint,
    )


def _readable_end(footage: Footage, size: int) -> tuple[float | None, int]:
    """Where the last frame that can be decoded ends, in seconds, and how it is turned."""
    rate = footage.rate or footage.average_rate or Fraction(10)
    duration = footage.duration
    tail = _tail_bytes(footage)
    if duration is not None and tail is not None and tail > _MOST_TAIL_BYTES and not _beyond(footage, size):
        first = next(footage.decode_at(None), None)
        return (None, 0) if first is None else (float(duration), _rotation(first.image))
    last = None
    # Frames that are beside the end are enough: what lies between was read by the same table.
    for frame in footage.decode_at(None if duration is None else max(0.0, float(duration - 1 / rate))):
        last = frame
    if last is None and duration is not None:
        last = _bisect(footage, float(duration))
    if last is None:
        return None, 0
    end = float(last.time + 1 / rate)
    # The last frame's own length counts where the file states it.
    close = duration is not None and abs(float(duration) - end) <= 2 / float(rate)
    return (float(duration) if close and duration is not None else end), _rotation(last.image)


def _bisect(footage: Footage, duration: float) -> SourceFrame | None:
    """The last frame near the end of what can be decoded, found by halving."""
    low, high, best = 0.0, duration, next(footage.decode_at(None), None)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        last = None
        for frame in footage.decode_at(middle):
            last = frame
            if frame.time >= middle:
                break
        if last is not None and last.time >= middle - (high - low) / 4:
            low, best = middle, last
        else:
            high = middle
    for frame in footage.decode_at(low):
        best = frame
    return best


def _rotation(image: object) -> int:
    return round(getattr(image, "rotation", 0) or 0) % 360


def _tail_bytes(footage: Footage) -> int | None:
    total = 0
    for _, _, size, key in reversed(footage.entries()):
        total += size
        if key:
            return total
    return None


def _beyond(footage: Footage, size: int) -> bool:
    return any(position + length > size for _, position, length, _ in footage.entries())


def _cut_box(file: IO[bytes], size: int) -> str:
    """Whether a top-level box of an mp4 reaches beyond the file's end: the mark of a cut download."""
    position = 0
    for _ in range(64):
        if position + 8 > size:
            return ""
        file.seek(position)
        header = file.read(16)
        length, kind = int.from_bytes(header[:4], "big"), header[4:8]
        if kind not in _BOXES:
            return ""
        if length == 1:
            length = int.from_bytes(header[8:16], "big")
        if length < 8:  # 0 means: to the end, wherever that is
            return ""
        if position + length > size:
            return f"its part {kind.decode('latin-1')!r} needs {position + length} bytes, the file has {size}"
        position += length
    return ""


def _why_unreadable(head: bytes, cut: str, error: TraceError) -> tuple[str, str]:
    if cut:
        return "truncated", f"{cut}; its table of frames, which stood at the end, is lost"
    other = next((name for magic, name in _OTHER_KINDS.items() if head.lstrip().startswith(magic)), "")
    return "unreadable", f"it is {other}" if other else error.what
