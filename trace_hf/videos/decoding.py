"""Decoding forward only, and which source frame belongs to a time.

The rule of the protocol: at a constant rate the source frame of a time ``t`` is ``floor(t * fps + 0.5)``, held to
the last readable one; without one it is the frame whose presentation time is nearest to ``t``, the later of two.
Times count from the stream's start. That frame, which can lie half a frame after ``t``, is the last that may be
seen for ``t``: everything here reads forward and gives nothing beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from types import TracebackType
from typing import IO, Any

from ..errors import TraceError
from .extras import need

__all__ = ["Footage", "SourceFrame"]

_MP4 = {"mov", "mp4", "m4a", "3gp", "3g2", "mj2"}


@dataclass(frozen=True, eq=False)
class SourceFrame:
    """A decoded frame.

    Attributes
    ----------
    time : Fraction
        Presentation time in seconds from the stream's start, exact.
    index : int or None
        Its number from the stream's start; None without a constant rate.
    image : av.VideoFrame
    """

    time: Fraction
    index: int | None
    image: Any


class _Watched:
    """A file for PyAV, which would print a reading error and take it for the file's end."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.error: Exception | None = None

    def read(self, size: int) -> bytes:
        if self.error is None:
            try:
                return self._file.read(size)
            except Exception as error:  # noqa: BLE001 - raised again by `check`, on this side of PyAV
                self.error = error
        return b""

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def check(self) -> None:
        if self.error is not None:
            raise self.error


class Footage:
    """The video stream of an open file.

    Parameters
    ----------
    file : file
        Binary and seekable; only what decoding needs is read.
    name : str
        For messages.

    Attributes
    ----------
    rate : Fraction or None
        Frames per second, None without a constant rate.
    average_rate : Fraction or None
        Frames per second on average, as the file states.
    start : Fraction
        Presentation time of the first frame in the file, in seconds.
    duration : Fraction or None
        Length of the stream in seconds, as the file states.

    Raises
    ------
    TraceError
        If PyAV is not installed, or the file is no video. An error of reading the file is raised as it is.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._av = av = need("av", "video")
        self.name = name
        self._file = file
        self._watched = _Watched(file)
        try:
            self._container = av.open(self._watched, "r", metadata_errors="ignore")
        except (av.error.FFmpegError, ValueError) as error:
            self._watched.check()
            raise _no_video(name, str(error)) from error
        if not self._container.streams.video:
            self._container.close()
            raise _no_video(name, "it has no video stream")
        self.stream = self._container.streams.video[0]
        self.stream.thread_type = "AUTO"
        self._base = Fraction(self.stream.time_base)
        self.average_rate = Fraction(self.stream.average_rate) if self.stream.average_rate else None
        self.rate = self._constant_rate()
        first = self.stream.start_time
        self.start = Fraction(0) if first is None else first * self._base
        self.duration = self._duration()
        self.damaged = False

    def __enter__(self) -> Footage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the decoder and the file."""
        self._container.close()
        self._file.close()

    @property
    def container(self) -> Any:
        """The open PyAV container."""
        return self._container

    # --- which frame ---

    def pick(self, times: Iterable[float]) -> Iterator[tuple[float, SourceFrame]]:
        """Yield the source frame of each time.

        Parameters
        ----------
        times : iterable of float
            Rising; seconds from the stream's start.

        Raises
        ------
        TraceError
            If not one frame can be decoded.
        """
        wanted = iter(times)
        time = next(wanted, None)
        if time is None:
            return
        before: SourceFrame | None = None
        for frame in self._from(time):
            while time is not None:
                chosen = self._choose(time, before, frame)
                if chosen is None:
                    break
                yield time, chosen
                time = next(wanted, None)
            if time is None:
                return
            before = frame
        if before is None:
            raise _no_video(self.name, "no frame of it can be decoded")
        # The media ends before the time: the last readable frame stands for it.
        while time is not None:
            yield time, before
            time = next(wanted, None)

    def between(self, start: float, end: float) -> Iterator[SourceFrame]:
        """Yield all frames from the source frame of one time to that of another, both included.

        Parameters
        ----------
        start, end : float
            Seconds from the stream's start.
        """
        before: SourceFrame | None = None
        started = False
        for frame in self._from(start):
            if not started:
                chosen = self._choose(start, before, frame)
                if chosen is None:
                    before = frame
                    continue
                started = True
                if chosen is before:
                    yield chosen
            # Once the end's own frame is settled to be an earlier one, this frame must not be seen.
            last = self._choose(end, before, frame)
            if last is not None and last is not frame and before is not None:
                return
            yield frame
            if last is not None:
                return
            before = frame
        if not started:
            if before is None:
                raise _no_video(self.name, "no frame of it can be decoded")
            yield before

    def _choose(self, time: float, before: SourceFrame | None, frame: SourceFrame) -> SourceFrame | None:
        """The source frame of a time, given two neighbours; None if a later frame may be nearer."""
        if self.rate is not None and frame.index is not None:
            number = math.floor(time * float(self.rate) + 0.5)
            if frame.index < number:
                return None
            # A frame that is lost in the file is replaced by the one before, never by a later one.
            return frame if frame.index == number or before is None else before
        exact = Fraction(str(time))
        if frame.time < exact:
            return None
        if before is None:
            return frame
        return frame if frame.time - exact <= exact - before.time else before

    # --- decoding ---

    def _from(self, time: float) -> Iterator[SourceFrame]:
        """Decode forward from the last frame that is not after a time, or from the start."""
        target = max(0.0, time)
        back = 0.0
        while True:
            at = target - back
            frames = self.decode_at(at) if at > 0 else self.decode_at(None)
            first = next(frames, None)
            if first is not None and (at <= 0 or first.time <= Fraction(str(target))):
                yield first
                yield from frames
                return
            if at <= 0:
                return
            back = max(1.0, back * 4)

    def decode_at(self, time: float | None) -> Iterator[SourceFrame]:
        """Decode from the key frame before a time (None: the start) to the end of the readable media."""
        first = self.stream.start_time or 0
        offset = first if time is None else first + round(Fraction(str(time)) / self._base)
        try:
            # Below any timestamp, so that B-frames before the first key frame's time are no obstacle.
            self._container.seek(offset if time is not None else min(first, 0), stream=self.stream, backward=True)
        except self._av.error.FFmpegError:
            if time is None:
                with suppress(self._av.error.FFmpegError):
                    self._container.seek(first, stream=self.stream, backward=True)
            else:
                return
        for packet in self._packets():
            try:
                images = packet.decode()
            except self._av.error.FFmpegError:
                self.damaged = True
                continue
            for image in images:
                if image.is_corrupt or image.pts is None:
                    self.damaged = True
                    continue
                yield self._source_frame(image)

    def _packets(self) -> Iterator[Any]:
        packets = self._container.demux(self.stream)
        while True:
            try:
                packet = next(packets, None)
            except self._av.error.FFmpegError:
                self._watched.check()
                self.damaged = True
                return
            # A broken connection is not the end of the media.
            self._watched.check()
            if packet is None:
                return
            if packet.is_corrupt:
                # The file ends within this packet: nothing after it is whole.
                self.damaged = True
                with suppress(self._av.error.FFmpegError):
                    yield from self._flush()
                return
            yield packet

    def _flush(self) -> Iterator[Any]:
        empty = self._av.Packet()
        empty.stream = self.stream
        yield empty

    def _source_frame(self, image: Any) -> SourceFrame:
        time = image.pts * self._base - self.start
        return SourceFrame(time, None if self.rate is None else round(time * self.rate), image)

    # --- what the file says ---

    def entries(self) -> list[tuple[int, int, int, bool]]:
        """Return timestamp, position, size and whether it is a key frame of each frame, where the file has a table."""
        if not _MP4 & set(self._container.format.name.split(",")):
            return []
        table = getattr(self.stream, "index_entries", None) or []
        return [(e.timestamp, e.pos, e.size, e.is_keyframe) for e in table if not e.is_discard]

    def _constant_rate(self) -> Fraction | None:
        stamps = [entry[0] for entry in self.entries()]
        if not stamps:
            # Without a table (other containers, PyAV before it gave one) both rates agree just where all steps do.
            return self.average_rate if self.average_rate and self.average_rate == self.stream.base_rate else None
        if len(stamps) < 2:
            return None
        steps = sorted(b - a for a, b in pairwise(stamps))
        middle = steps[len(steps) // 2]
        rates = [self.average_rate, self.stream.base_rate, self.stream.guessed_rate]
        rates += [1 / (middle * self._base)] if middle > 0 else []
        for rate in rates:
            if rate and _is_constant(stamps, 1 / (Fraction(rate) * self._base)):
                return Fraction(rate)
        return None

    def _duration(self) -> Fraction | None:
        if self.stream.duration:
            return Fraction(self.stream.duration * self._base)
        if self._container.duration:
            return Fraction(self._container.duration, 1_000_000)
        return None


def _is_constant(stamps: list[int], step: Fraction) -> bool:
    """Whether timestamps lie on a grid, to the one unit that rounding may cost."""
    top, bottom, first = step.numerator, step.denominator, stamps[0]
    return all(abs((stamp - first) * bottom - number * top) <= bottom for number, stamp in enumerate(stamps))


def _no_video(name: str, what: str) -> TraceError:
    return TraceError(
        f"{name} cannot be decoded: {what}",
        why="It may be cut, a web page or pointer in place of the video, or of a kind that PyAV does not read.",
        do="`trace-hf videos probe` says more; fetch the video again.",
    )
