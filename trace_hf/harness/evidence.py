"""What a model may see of a record at a moment, and when it is asked.

Every function takes a full record; the caller looks it up by ``record_id`` and gives the model only what comes out
of here. The frame of the asked time is the last one, see `trace_hf.videos.clips`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..videos.clips import clip, frames
from ..windows import EvaluationWindow, Span, effective_windows, evidence_span

if TYPE_CHECKING:
    from ..videos.root import RootLike

__all__ = ["STEP_S", "TOLERANCES_S", "clip_path", "images", "polling_times", "reachable", "request_span"]

TOLERANCES_S = (5.0, 10.0)
"""The values of W that scores are given for, in seconds."""

STEP_S = 5.0
"""How often a polling run asks by default, in seconds."""


def polling_times(record: Any, step_s: float = STEP_S) -> list[float]:
    """Return when a polling run asks: at the instruction and every step after it.

    The last time lies before the end of the last evaluation window, which does not belong to it. The widest W bounds
    the run for every W, so that one run can be scored at each.

    Parameters
    ----------
    record : mapping
        A full Proactive record.
    step_s : float
        Seconds from one time to the next.

    Returns
    -------
    list of float
        Rising seconds of the original video; the instruction's time is always there.

    Raises
    ------
    ValueError
        If the step is not a positive number.
    """
    if not (math.isfinite(step_s) and step_s > 0):
        raise ValueError(f"step_s must be a positive number of seconds, not {step_s!r}")
    first = float(record["instruction_time_s"])
    end = max((window.end_s for window in effective_windows(record, max(TOLERANCES_S))), default=first)
    times = [first]
    # Computed from the start each time: adding up steps would drift away from the window bounds.
    while (time := round(first + len(times) * step_s, 6)) < end:
        times.append(time)
    return times


def reachable(windows: list[EvaluationWindow], times: list[float]) -> list[bool]:
    """Return for each window whether one of the times lies in it; no polling run can answer in the others."""
    return [any(time in window for time in times) for window in windows]


def request_span(record: Any, time_s: float | None = None) -> Span:
    """Return the stretch of video that belongs to one request.

    Parameters
    ----------
    record : mapping
        A full record.
    time_s : float, optional
        For a Proactive record: the time of the request. QA is asked once, at its question time.

    Returns
    -------
    Span
        Both ends included; its end is the request's time, or the media's end where that comes first.
    """
    span = evidence_span(record)
    return span if time_s is None else Span(min(span.start_s, time_s), time_s)


def clip_path(record: Any, video_root: RootLike | None = None, time_s: float | None = None) -> str:
    """Return the path of a clip that ends with the frame of the request's time; cut once, then kept in the cache.

    Parameters
    ----------
    record : mapping
        A full record.
    video_root : VideoRoot or what makes one
        Left out, the environment variable ``TRACE_VIDEO_ROOT``.
    time_s : float, optional
        As for `request_span`.

    Raises
    ------
    VideoNotFoundError
        If the video is not under the root.
    TraceError
        If it cannot be decoded, or PyAV is not installed.
    """
    return clip(record, None, video_root, span=request_span(record, time_s)).path


def images(record: Any, video_root: RootLike | None = None, time_s: float | None = None) -> list[Any]:
    """Return the 1 FPS frames of a request as PIL images, the frame of its time last.

    Parameters
    ----------
    record, video_root, time_s
        As for `clip_path`.
    """
    return [frame.to_image() for frame in frames(record, video_root, span=request_span(record, time_s))]
