"""Small real videos in which each frame shows its own time, so that code can tell which moment a frame is from.

A frame is a grid of 6 by 6 black or white squares, row by row, the highest bit first: 28 bits of time in units of
0.1 ms, counted from the stream's start, then 8 bits of CRC-8 over them. White is 1. The squares survive scaling
and lossy encoding.
"""

from __future__ import annotations

import os
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from .videos.extras import need

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["frame_times", "read_time_code", "time_coded_frame", "write_time_coded_video"]

GRID = 6
UNITS_PER_SECOND = 10_000
_TIME_BITS, _CHECK_BITS = 28, 8
_AUDIO_RATE = 16_000

# Steps of a variable rate in half frames: the pattern repeats, and its mean is one frame.
_VARIABLE_HALVES = (2, 1, 4, 2, 3, 1, 1)


def frame_times(duration_s: float, fps: float | Fraction = 10, *, variable_rate: bool = False) -> list[Fraction]:
    """Return the presentation times of the frames that `write_time_coded_video` writes.

    Parameters
    ----------
    duration_s : float
        Length of the video in seconds; a frame that starts before it is shown.
    fps : float or Fraction
        Frames per second; 29.97 means 30000/1001.
    variable_rate : bool
        Whether the frames stand at uneven distances, whose mean is that of the constant rate.

    Returns
    -------
    list of Fraction
        Seconds from the stream's start, exact.
    """
    rate = _rate(fps)
    end = Fraction(str(duration_s))
    times: list[Fraction] = []
    at = Fraction(0)
    while at < end:
        times.append(at)
        halves = _VARIABLE_HALVES[len(times) % len(_VARIABLE_HALVES)] if variable_rate else 2
        at += Fraction(halves, 2) / rate
    return times


def write_time_coded_video(
    path: str | os.PathLike[str],
    *,
    duration_s: float,
    fps: float | Fraction = 10,
    width: int = 96,
    height: int = 96,
    codec: Literal["mpeg4", "h264"] = "mpeg4",
    b_frames: int = 0,
    start_s: float = 0.0,
    variable_rate: bool = False,
    audio: bool = False,
    gop: int = 12,
    faststart: bool = False,
    title: str = "",
) -> list[Fraction]:
    """Write a small mp4 file in which each frame shows its own time.

    Parameters
    ----------
    path : path
        The file to write, atomically.
    duration_s : float
        Length in seconds.
    fps : float or Fraction
        Frames per second.
    width, height : int
        Size in pixels; even, at least 48.
    codec : {"mpeg4", "h264"}
        Video codec.
    b_frames : int
        The most B-frames in a row.
    start_s : float
        Presentation time of the first frame in the container, in seconds. What the frames show counts from there.
    variable_rate : bool
        Whether the frames stand at uneven distances.
    audio : bool
        Whether a tone runs along to the end.
    gop : int
        Frames from one key frame to the next, at most.
    faststart : bool
        Whether the header stands before the frames, as for the web.
    title : str
        Title in the file's metadata.

    Returns
    -------
    list of Fraction
        Presentation times of the frames, from the stream's start, in seconds.

    Raises
    ------
    TraceError
        If PyAV is not installed.
    ValueError
        If the size is odd or too small, or the video is longer than 7 hours.
    """
    if width % 2 or height % 2 or min(width, height) < GRID * 8:
        raise ValueError(f"a frame of {width} x {height} cannot hold the pattern: even sizes from {GRID * 8} on can")
    av = need("av", "video")
    times = frame_times(duration_s, fps, variable_rate=variable_rate)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.{uuid4().hex[:8]}.part")
    try:
        flags = {"movflags": "faststart"} if faststart else {}
        with av.open(str(aside), "w", format="mp4", options=flags) as container:
            if title:
                container.metadata["title"] = title
            stream = _video_stream(av, container, codec, _rate(fps), (width, height), b_frames, gop)
            sound = container.add_stream("aac", rate=_AUDIO_RATE, layout="mono") if audio else None
            _write_frames(av, container, stream, times, Fraction(str(start_s)))
            if sound is not None:
                _write_tone(av, container, sound, start_s, duration_s)
        aside.replace(target)
    finally:
        with suppress(FileNotFoundError):
            aside.unlink()
    return times


def time_coded_frame(time_s: float, width: int = 96, height: int = 96) -> NDArray[np.uint8]:
    """Return a frame that shows a time.

    Parameters
    ----------
    time_s : float
        Seconds, from 0 to about 7 hours.
    width, height : int
        Size in pixels.

    Returns
    -------
    ndarray of uint8, shape (height, width)
        Grey values.
    """
    np = need("numpy", "video")
    units = round(time_s * UNITS_PER_SECOND)
    if not 0 <= units < 1 << _TIME_BITS:
        raise ValueError(f"{time_s} s cannot be shown: the pattern holds 0 … {(1 << _TIME_BITS) // UNITS_PER_SECOND} s")
    word = units << _CHECK_BITS | _crc8(units)
    bits = [(word >> shift) & 1 for shift in range(GRID * GRID - 1, -1, -1)]
    squares = np.array(bits, dtype=np.uint8).reshape(GRID, GRID)
    rows, columns = _cells(np, height), _cells(np, width)
    # Studio range, which every encoder keeps.
    shown: NDArray[Any] = np.where(squares[np.ix_(rows, columns)], 235, 16).astype(np.uint8)
    return shown


def read_time_code(frame: Any) -> float:
    """Return the time that a frame shows.

    Parameters
    ----------
    frame : array, PIL image or av.VideoFrame
        Grey or RGB, shape (height, width) or (height, width, channels), of any size.

    Returns
    -------
    float
        Seconds from the stream's start, to 0.1 ms.

    Raises
    ------
    ValueError
        If the frame shows no whole pattern.
    """
    np = need("numpy", "video")
    if hasattr(frame, "to_ndarray"):
        frame = frame.to_ndarray(format="gray")
    pixels = np.asarray(frame, dtype=np.float32)
    if pixels.ndim == 3:
        pixels = pixels.mean(axis=2)
    height, width = pixels.shape
    word = 0
    for row in range(GRID):
        for column in range(GRID):
            # The middle of a square, away from the blurred edges.
            low_y, high_y = (3 * row + 1) * height // (3 * GRID), (3 * row + 2) * height // (3 * GRID)
            low_x, high_x = (3 * column + 1) * width // (3 * GRID), (3 * column + 2) * width // (3 * GRID)
            word = word << 1 | int(pixels[low_y : high_y + 1, low_x : high_x + 1].mean() > 127)
    units, check = word >> _CHECK_BITS, word & ((1 << _CHECK_BITS) - 1)
    if _crc8(units) != check:
        raise ValueError("the frame shows no time: its check bits do not fit")
    return units / UNITS_PER_SECOND


def _rate(fps: float | Fraction) -> Fraction:
    if isinstance(fps, Fraction):
        return fps
    ntsc = Fraction(round(fps) * 1000, 1001)
    return ntsc if abs(float(ntsc) - fps) < 0.005 and fps != round(fps) else Fraction(str(fps))


def _video_stream(
    av: Any, container: Any, codec: str, rate: Fraction, size: tuple[int, int], b_frames: int, gop: int
) -> Any:
    name = "libx264" if codec == "h264" else codec
    stream = container.add_stream(name, rate=rate)
    stream.width, stream.height = size
    stream.pix_fmt = "yuv420p"
    context = stream.codec_context
    context.gop_size = gop
    context.max_b_frames = b_frames
    context.time_base = stream.time_base = _time_base(rate)
    if name == "libx264":
        # x264 would turn a still picture into one long frame otherwise.
        context.options = {"preset": "veryfast", "crf": "20", "x264-params": f"bframes={b_frames}:scenecut=0"}
    else:
        context.options = {"q": "4"}
    return stream


def _time_base(rate: Fraction) -> Fraction:
    """A time base in which every frame, every half step and most offsets are exact; MPEG-4 has 16 bits for it."""
    return Fraction(1, rate.numerator * max(2, min(1000, 65_535 // rate.numerator // 2 * 2)))


def _cells(np: Any, length: int) -> Any:
    return np.minimum(np.arange(length) * GRID // length, GRID - 1)


def _crc8(value: int) -> int:
    crc = 0x5A  # not zero, so that a black frame is no valid pattern
    for shift in range(24, -8, -8):
        crc ^= (value >> shift) & 0xFF
        for _ in range(8):
            crc = ((crc << 1) ^ 0x07 if crc & 0x80 else crc << 1) & 0xFF
    return crc


def _write_frames(av: Any, container: Any, stream: Any, times: list[Fraction], start: Fraction) -> None:
    base = stream.codec_context.time_base
    for time in times:
        picture = time_coded_frame(float(time), stream.width, stream.height)
        frame = av.VideoFrame.from_ndarray(picture, format="gray").reformat(format="yuv420p")
        frame.pts = round((time + start) / base)
        frame.time_base = base
        container.mux(stream.encode(frame))
    container.mux(stream.encode(None))


def _write_tone(av: Any, container: Any, stream: Any, start_s: float, duration_s: float) -> None:
    np = need("numpy", "video")
    total = round(duration_s * _AUDIO_RATE)
    for first in range(0, total, 1024):
        count = min(1024, total - first)
        wave = np.sin(np.arange(first, first + count) * (2 * np.pi * 440 / _AUDIO_RATE)).astype(np.float32) * 0.2
        frame = av.AudioFrame.from_ndarray(wave.reshape(1, -1), format="fltp", layout="mono")
        frame.sample_rate = _AUDIO_RATE
        frame.pts = first + round(start_s * _AUDIO_RATE)
        frame.time_base = Fraction(1, _AUDIO_RATE)
        container.mux(stream.encode(frame))
    container.mux(stream.encode(None))
