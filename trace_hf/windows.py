"""Evaluation windows, evidence spans and sampling times of a record.

All times are seconds of the original video. The rules are those of the TRACE protocol: a window is half-open,
point triggers are due for at most `tolerance_s` and never beyond the next trigger, states keep their interval,
and nothing reaches past the end of the readable media.

Whoever drives a run looks a span up by record; it never travels with the row that a model gets, because the end
of a span gives the last trigger away.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import UNSET

from .errors import SchemaError

__all__ = ["EvaluationWindow", "Span", "effective_windows", "evidence_span", "media_end", "sampling_times"]

QA_LEAD_S = 10.0
"""How long before its evidence anchor the span of a QA record starts, in seconds."""

PROACTIVE_LEAD_S = 5.0
"""How long before its instruction the span of a Proactive record starts, in seconds."""

POINT_TOLERANCE_S = 5.0
"""How long after a point trigger an answer is due by default, in seconds; 10 is the protocol's other value."""

# The release gives times with at most three decimals; rounding a sum far below that gives the float that the
# decimal sum has (17.29 + 5 is 22.29), so that equal times compare equal.
_DECIMALS = 6


class EvaluationWindow(NamedTuple):
    """A half-open interval in which an answer is due.

    Attributes
    ----------
    start_s, end_s : float
        Seconds of the original video; the end is exclusive. Equal only where the media ends before the trigger.
    expected_answer : str
        The answer that is due.
    """

    start_s: float
    end_s: float
    expected_answer: str

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return round(self.end_s - self.start_s, _DECIMALS)

    def __contains__(self, time_s: object) -> bool:
        return isinstance(time_s, (int, float)) and self.start_s <= time_s < self.end_s


class Span(NamedTuple):
    """A stretch of video, both ends included.

    Attributes
    ----------
    start_s, end_s : float
        Seconds of the original video.
    """

    start_s: float
    end_s: float

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return round(self.end_s - self.start_s, _DECIMALS)

    def sampling_times(self) -> list[float]:
        """Return the 1 FPS times of the span, see `sampling_times`."""
        return sampling_times(self.start_s, self.end_s)


def effective_windows(
    record: Any, tolerance_s: float = POINT_TOLERANCE_S, media_end_s: float | None = None
) -> list[EvaluationWindow]:
    """Return the evaluation windows of a Proactive record, one for each stored window, in order.

    A point trigger at ``t`` is due in ``[t, min(t + tolerance_s, next trigger))``, the last one in
    ``[t, t + tolerance_s)``; a state is due in its interval. No window ends after the media end that the record's
    own adjustments or ``media_end_s`` give, the earlier of the two.

    Parameters
    ----------
    record : mapping or ProactiveRecord
        A full Proactive record: a row as a dict, or the typed record.
    tolerance_s : float
        W of the protocol in seconds, 5 (the default) or 10.
    media_end_s : float, optional
        Where the readable media ends, for example from a probe; seconds.

    Returns
    -------
    list of EvaluationWindow

    Raises
    ------
    SchemaError
        If the record is no Proactive record, lacks the triggers (as rows of the ``model_input`` view do), or has
        not one trigger for each window.
    ValueError
        If ``tolerance_s`` is not a positive number.
    """
    if not (math.isfinite(tolerance_s) and tolerance_s > 0):
        raise ValueError(f"tolerance_s must be a positive number of seconds, not {tolerance_s!r}")
    _need_task(record, "proactive")
    triggers = _items(_need(_need(record, "metadata", record), "trigger_annotations", record))
    windows = _items(_need(record, "windows", record))
    if len(triggers) != len(windows):
        raise SchemaError(
            f"{len(windows)} windows, but {len(triggers)} triggers",
            record_id=_get(record, "record_id"),
            json_path="$.metadata.trigger_annotations",
            why="A record has one trigger for each window, in the same order.",
            do="Check the release with `trace-hf validate`.",
        )
    end = _earlier(media_end(record), media_end_s)
    bounds = [_bounds(trigger, record) for trigger in triggers]
    found = []
    for number, ((start, stop), window) in enumerate(zip(bounds, windows, strict=True)):
        if stop is None:
            stop = round(start + tolerance_s, _DECIMALS)
            if number + 1 < len(bounds):
                stop = min(stop, bounds[number + 1][0])
        stop = min(stop, end)
        found.append(EvaluationWindow(min(start, stop), stop, _need(window, "expected_answer", record)))
    return found


def evidence_span(record: Any, media_end_s: float | None = None, *, tolerance_s: float = POINT_TOLERANCE_S) -> Span:
    """Return the stretch of video that a model may see for a record.

    QA: from ``max(0, evidence_anchor_s - 10)`` through ``question_time_s``. Proactive: from
    ``max(0, instruction_time_s - 5)`` through the end of the last evaluation window. Either is cut at the media's
    end. ``deadline_s`` and ``memory_length`` bound nothing.

    Parameters
    ----------
    record : mapping or QARecord or ProactiveRecord
        A full record: a row as a dict, or the typed record.
    media_end_s : float, optional
        Where the readable media ends, for example from a probe; seconds. The record's own adjustments count too.
    tolerance_s : float
        W of the evaluation windows in seconds.

    Returns
    -------
    Span
        Both ends included.

    Raises
    ------
    SchemaError
        If the record is of no known task, or lacks what the rule needs.
    """
    end = _earlier(media_end(record), media_end_s)
    if _need_task(record, "qa", "proactive") == "qa":
        start = _need(record, "evidence_anchor_s", record) - QA_LEAD_S
        stop = _need(record, "question_time_s", record)
    else:
        instruction = _need(record, "instruction_time_s", record)
        start = instruction - PROACTIVE_LEAD_S
        windows = effective_windows(record, tolerance_s, media_end_s)
        stop = max((window.end_s for window in windows), default=instruction)
    stop = min(stop, end)
    return Span(min(max(0.0, round(start, _DECIMALS)), stop), stop)


def media_end(record: Any) -> float | None:
    """Return where the readable media ends by the record's own adjustments, in seconds, or None if it has none.

    A time that lay beyond the last readable frame was moved back to the media's end, so that each adjusted value
    is that end.
    """
    metadata = _get(record, "metadata")
    adjustments = _items(_get(metadata, "media_boundary_adjustments")) if metadata is not None else []
    return min((_need(adjustment, "effective_value_s", record) for adjustment in adjustments), default=None)


def sampling_times(start_s: float, end_s: float) -> list[float]:
    """Return the times of a span at one frame per second: its start, every second after it, and its end.

    Parameters
    ----------
    start_s, end_s : float
        The span, both ends included; seconds.

    Returns
    -------
    list of float
        Rising; the end stands there once, also when a step falls on it.

    Raises
    ------
    ValueError
        If the end lies before the start, or either is not finite.

    Examples
    --------
    >>> sampling_times(3.5, 6.0)
    [3.5, 4.5, 5.5, 6.0]
    """
    if not (math.isfinite(start_s) and math.isfinite(end_s) and start_s <= end_s):
        raise ValueError(f"a span needs finite times in order, not {start_s!r} … {end_s!r}")
    whole = math.floor(round(end_s - start_s, _DECIMALS))
    # Every time is computed from the start: adding up steps would drift away from the source frames.
    times = [round(float(start_s) + step, _DECIMALS) for step in range(whole + 1)]
    if times[-1] >= round(end_s, _DECIMALS):
        times[-1] = float(end_s)
    else:
        times.append(float(end_s))
    return times


def _bounds(trigger: Any, record: Any) -> tuple[float, float | None]:
    """Start of a trigger, and its end if it is a state."""
    point = _get(trigger, "point_trigger_s")
    if point is not None:
        return point, None
    return _need(trigger, "interval_start_s", record), _need(trigger, "interval_end_s", record)


def _earlier(*ends: float | None) -> float:
    return min((end for end in ends if end is not None), default=math.inf)


def _get(value: Any, name: str) -> Any:
    """A field of a mapping or a typed record; absent and null are both None."""
    found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return None if found is UNSET else found


def _need(value: Any, name: str, record: Any) -> Any:
    found = _get(value, name)
    if found is None:
        raise SchemaError(
            f"the field {name!r} is not there",
            record_id=_get(record, "record_id"),
            why="Spans and windows come from full records; rows of the `model_input` view leave these fields out.",
            do='Load the record with view="full" and look it up by its record_id.',
        )
    return found


def _need_task(record: Any, *tasks: str) -> str:
    task = _need(record, "task", record)
    if task not in tasks:
        raise SchemaError(
            f"task is {task!r}, not {' or '.join(map(repr, tasks))}",
            record_id=_get(record, "record_id"),
            json_path="$.task",
            why="Only Proactive records have windows; only QA and Proactive records have a span.",
            do="Pass a record of the right config.",
        )
    return str(task)


def _items(value: Any) -> list[Any]:
    """The items of a list of structs, which older `datasets` give as a struct of lists."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        names = list(value)
        return [dict(zip(names, row, strict=True)) for row in zip(*value.values(), strict=True)]
    return list(value) if isinstance(value, Iterable) else []
