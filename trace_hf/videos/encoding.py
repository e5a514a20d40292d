"""Encoding decoded frames anew, one by one, with their distances kept."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TraceError
from .extras import need

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .decoding import Footage, SourceFrame

__all__ = ["encode", "upright"]

_TIME_BASE = Fraction(1, 90_000)


def upright(image: Any) -> NDArray[np.uint8]:
    """Return a decoded frame as RGB of shape (height, width, 3), turned as the file says it is shown."""
    array = image.to_ndarray(format="rgb24")
    turns = round((getattr(image, "rotation", 0) or 0) / 90) % 4
    if turns:
        array = need("numpy", "video").ascontiguousarray(need("numpy", "video").rot90(array, turns))
    return array  # type: ignore[no-any-return]


def encode(footage: Footage, frames: Iterator[SourceFrame], out: Path, *, crf: int) -> None:
    """Write frames as H.264 in an mp4 file that begins at 0; every frame keeps its distance to the first.

    Raises
    ------
    TraceError
        If PyAV was built without H.264.
    """
    av = need("av", "video")
    if "libx264" not in av.codecs_available:
        raise TraceError(
            "this PyAV has no H.264 encoder", do="Install PyAV from its wheels: pip install 'trace-hf[video]'"
        )
    rate = footage.rate or footage.average_rate or Fraction(30)
    with av.open(str(out), "w", format="mp4") as container:
        stream: Any = None
        start = Fraction(0)
        for frame in frames:
            image = _turned(av, frame.image)
            if stream is None:
                start = frame.time
                stream = _stream(container, image, rate, crf)
            ready = image.reformat(stream.width, stream.height, "yuv420p")
            # Otherwise the encoder takes over the picture types of the source, B-frames included.
            ready.pict_type = 0
            ready.time_base = _TIME_BASE
            ready.pts = round((frame.time - start) / _TIME_BASE)
            container.mux(stream.encode(ready))
        if stream is not None:
            container.mux(stream.encode(None))


def _stream(container: Any, image: Any, rate: Fraction, crf: int) -> Any:
    stream = container.add_stream("libx264", rate=rate.limit_denominator(65_535))
    # 4:2:0 has one colour for two by two pixels.
    stream.width, stream.height = image.width // 2 * 2, image.height // 2 * 2
    stream.pix_fmt = "yuv420p"
    stream.codec_context.time_base = stream.time_base = _TIME_BASE
    stream.codec_context.max_b_frames = 0
    stream.codec_context.options = {"preset": "veryfast", "crf": str(crf)}
    return stream


def _turned(av: Any, image: Any) -> Any:
    if round((getattr(image, "rotation", 0) or 0) / 90) % 4 == 0:
        return image
    return av.VideoFrame.from_ndarray(upright(image), format="rgb24")
