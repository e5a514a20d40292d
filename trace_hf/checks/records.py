"""Checks of what one record says. They run on every record, so that each does as little as it can."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from ..schema import ProactiveRecord, QARecord
from ..windows import POINT_TOLERANCE_S
from .table import mode_of, on_records

TOLERANCE_S = 0.0005
"""Half of the last digit that a release writes: a derived time that is off by more was not derived."""


# --- times ------------------------------------------------------------------------------------------------------------


@on_records(QARecord, ProactiveRecord)
def times_not_negative(record: QARecord | ProactiveRecord) -> str | None:
    """No time is negative (the schema already refuses those that are not finite)."""
    lowest = min(_qa_times(record) if mode_of(record) == "qa" else _proactive_times(record))
    return None if lowest >= 0 else f"has the time {lowest}"


def _qa_times(record: Any) -> list[float]:
    times = [record.question_time_s, record.evidence_anchor_s, record.metadata.source_memory_length_s]
    for span in record.metadata.evidence_spans or ():
        times += (span.start_s, span.end_s)
    return times


def _proactive_times(record: Any) -> list[float]:
    times = [record.instruction_time_s, record.deadline_s or 0.0, record.metadata.source_memory_length_s]
    for window in record.windows:
        times += (window.start_s, window.end_s)
    for trigger in record.metadata.trigger_annotations:
        if trigger.evidence_start_s is not UNSET and trigger.evidence_end_s is not UNSET:
            times += (trigger.evidence_start_s, trigger.evidence_end_s)
        if trigger.source_window_start_s is not UNSET and trigger.source_window_end_s is not UNSET:
            times += (trigger.source_window_start_s, trigger.source_window_end_s)
    return times


def _span(record: Any) -> float | None:
    """The memory length that a record's own times give, in seconds."""
    if mode_of(record) == "qa":
        start, end = record.evidence_anchor_s, record.question_time_s
    else:
        start, end = record.instruction_time_s, record.deadline_s
    return None if end is None else end - start


def _differs(found: float | None, due: float | None, name: str) -> str | None:
    if found is None or due is None or -TOLERANCE_S < found - due < TOLERANCE_S:
        return None
    return f"{name} is {found}, its times give {round(due, 3)}"


@on_records(QARecord, ProactiveRecord)
def memory_length(record: QARecord | ProactiveRecord) -> str | None:
    """`memory_length` is question time minus evidence anchor, or deadline minus instruction time."""
    return _differs(record.memory_length, _span(record), "memory_length")


@on_records(QARecord, ProactiveRecord)
def retention_gap(record: QARecord | ProactiveRecord) -> str | None:
    """`retention_gap_s` is the derived memory length."""
    return _differs(record.metadata.retention_gap_s, _span(record), "retention_gap_s")


@on_records(QARecord, ProactiveRecord)
def source_discrepancy(record: QARecord | ProactiveRecord) -> str | None:
    """`source_memory_length_discrepancy_s` is the source's memory length minus the derived one."""
    span, metadata = _span(record), record.metadata
    due = None if span is None else metadata.source_memory_length_s - span
    return _differs(metadata.source_memory_length_discrepancy_s, due, "source_memory_length_discrepancy_s")


@on_records(ProactiveRecord)
def monitoring_horizon(record: ProactiveRecord) -> str | None:
    """`monitoring_horizon_s` is deadline minus instruction time."""
    return _differs(record.metadata.monitoring_horizon_s, _span(record), "monitoring_horizon_s")


@on_records(ProactiveRecord)
def first_trigger_lead(record: ProactiveRecord) -> str | None:
    """`first_trigger_lead_s` is the first trigger minus the instruction time."""
    first = _first_trigger(record)
    due = None if first is None else first - record.instruction_time_s
    return _differs(record.metadata.first_trigger_lead_s, due, "first_trigger_lead_s")


def _first_trigger(record: ProactiveRecord) -> float | None:
    first = None
    for trigger in record.metadata.trigger_annotations:
        start = trigger.interval_start_s if trigger.point_trigger_s is None else trigger.point_trigger_s
        if first is None or (start is not None and start < first):
            first = start
    return first


def trigger_bounds(trigger: Any) -> tuple[float | None, float | None]:
    """Return a trigger's start, and its end if it is a state; None for what it lacks."""
    if trigger.point_trigger_s is not None:
        return trigger.point_trigger_s, None
    return trigger.interval_start_s, trigger.interval_end_s


# --- media boundary adjustments -----------------------------------------------------------------------------------

_STEP = re.compile(r"(?:^|\.)([a-z_]+)|\[(\d{1,6})\]")


def value_at(record: Any, field: str) -> float | None:
    """Return the time at a path such as ``windows[4].end_s``, or None if there is none."""
    place: Any = record
    end = 0
    for step in _STEP.finditer(field):
        if step.start() != end:
            return None
        end = step.end()
        if step[2] is None:
            place = getattr(place, step[1], None)
        else:
            place = place[int(step[2])] if isinstance(place, list) and int(step[2]) < len(place) else None
    return place if end == len(field) and isinstance(place, float) else None


@on_records(QARecord, ProactiveRecord)
def adjustment_fields(record: QARecord | ProactiveRecord) -> str | None:
    """Media boundary adjustments name fields that the record has."""
    for adjustment in record.metadata.media_boundary_adjustments or ():
        if value_at(record, adjustment.field) is None:
            return f"has no time at {adjustment.field[:100]!r}, which an adjustment names"
    return None


@on_records(QARecord, ProactiveRecord)
def adjustment_values(record: QARecord | ProactiveRecord) -> str | None:
    """An adjusted field has the adjustment's effective value, which is not later than the source's."""
    for adjustment in record.metadata.media_boundary_adjustments or ():
        found, due = value_at(record, adjustment.field), adjustment.effective_value_s
        if found is not None and found != due:
            return f"{adjustment.field} is {found}, its adjustment says {due}"
        if due > adjustment.source_value_s:
            return f"{adjustment.field} was moved forward, from {adjustment.source_value_s} to {due}"
    return None


# --- QA -------------------------------------------------------------------------------------------------------------


def _labels(record: QARecord) -> list[str]:
    return [option[0] for option in record.options if option[1:2] == "." and "A" <= option[0] <= "Z"]


@on_records(QARecord)
def options_labelled(record: QARecord) -> str | None:
    """There are two options or more, each with a label of its own (`A. …`)."""
    labels = _labels(record)
    if len(labels) != len(record.options):
        return "has an option without a label"
    if len(labels) < 2:
        return f"has {len(labels)} options"
    return None if len(set(labels)) == len(labels) else f"has labels {', '.join(labels)}"


@on_records(QARecord)
def answer_is_a_label(record: QARecord) -> str | None:
    """`answer` is the label of an option."""
    answer, labels = record.answer, _labels(record)
    return None if answer in labels else f"answer is {answer[:20]!r}, labels are {', '.join(labels)}"


@on_records(QARecord)
def evidence_not_after_question(record: QARecord) -> str | None:
    """Neither the evidence anchor nor a reviewed span reaches past the question."""
    question = record.question_time_s
    if record.evidence_anchor_s > question:
        return f"evidence anchor at {record.evidence_anchor_s}, question at {question}"
    for index, span in enumerate(record.metadata.evidence_spans or ()):
        if span.end_s > question:
            return f"evidence_spans[{index}] ends at {span.end_s}, question at {question}"
    return None


@on_records(QARecord)
def evidence_spans_by_tier(record: QARecord) -> str | None:
    """Evidence spans stand exactly on human-reviewed QA records."""
    reviewed = record.metadata.validation_tier == "human_reviewed"
    has = bool(record.metadata.evidence_spans)
    return (
        None
        if has is reviewed
        else f"{'has' if has else 'has no'} evidence spans and is {record.metadata.validation_tier}"
    )


# --- Proactive ------------------------------------------------------------------------------------------------------


@on_records(ProactiveRecord)
def instruction_before_trigger(record: ProactiveRecord) -> str | None:
    """The instruction is not later than the first trigger."""
    first = _first_trigger(record)
    late = first is not None and record.instruction_time_s > first
    return f"instruction at {record.instruction_time_s}, first trigger at {first}" if late else None


@on_records(ProactiveRecord)
def windows_positive(record: ProactiveRecord) -> str | None:
    """There is a window, and every one ends after its start."""
    if not record.windows:
        return "has no windows"
    for index, window in enumerate(record.windows):
        if not window.start_s < window.end_s:
            return f"windows[{index}] is [{window.start_s}, {window.end_s})"
    return None


@on_records(ProactiveRecord)
def windows_ordered(record: ProactiveRecord) -> str | None:
    """Windows stand in order of time."""
    previous = None
    for index, window in enumerate(record.windows):
        if previous is not None and window.start_s < previous:
            return f"windows[{index}] starts at {window.start_s}, the one before it at {previous}"
        previous = window.start_s
    return None


@on_records(ProactiveRecord)
def windows_do_not_overlap(record: ProactiveRecord) -> str | None:
    """No two windows overlap; touching is fine, since windows are half-open."""
    if len(record.windows) < 2:
        return None
    end, other = None, 0.0
    # By time, not by place: that windows stand in order is a rule of its own.
    for start, stop in sorted([(window.start_s, window.end_s) for window in record.windows]):
        if end is not None and start < end:
            return f"[{start}, {stop}) starts before [{other}, {end}) ends"
        end, other = stop, start
    return None


@on_records(ProactiveRecord)
def trigger_count(record: ProactiveRecord) -> str | None:
    """There is one trigger for each window."""
    windows, triggers = len(record.windows), len(record.metadata.trigger_annotations)
    return None if windows == triggers else f"{windows} windows, {triggers} triggers"


@on_records(ProactiveRecord)
def trigger_boundaries(record: ProactiveRecord) -> str | None:
    """A trigger's response window is the window at its place."""
    for index, (window, trigger) in enumerate(_pairs(record)):
        if window.start_s != trigger.response_window_start_s or window.end_s != trigger.response_window_end_s:
            found = f"[{trigger.response_window_start_s}, {trigger.response_window_end_s})"
            return f"trigger {index} has {found}, windows[{index}] is [{window.start_s}, {window.end_s})"
    return None


def _pairs(record: ProactiveRecord) -> Iterator[tuple[Any, Any]]:
    return zip(record.windows, record.metadata.trigger_annotations)  # noqa: B905 - the number is a rule of its own


@on_records(ProactiveRecord)
def trigger_answers(record: ProactiveRecord) -> str | None:
    """A trigger's answer is the expected answer of its window."""
    for index, (window, trigger) in enumerate(_pairs(record)):
        if window.expected_answer != trigger.answer:
            return f"windows[{index}] and its trigger have different answers"
    return None


@on_records(ProactiveRecord)
def trigger_times_by_type(record: ProactiveRecord) -> str | None:
    """A state has an interval and no point; any other trigger has a point and no interval."""
    for index, trigger in enumerate(record.metadata.trigger_annotations):
        is_state = trigger.trigger_type == "state_interval"
        has = trigger.point_trigger_s is None, trigger.interval_start_s is not None, trigger.interval_end_s is not None
        if has != (is_state, is_state, is_state):
            return f"trigger {index} is a {trigger.trigger_type[:40]} with the times of another type"
    return None


@on_records(ProactiveRecord)
def trigger_sources(record: ProactiveRecord) -> str | None:
    """Reviewed triggers carry evidence, others the source's window; a record does not mix them."""
    triggers = record.metadata.trigger_annotations
    for index, trigger in enumerate(triggers):
        reviewed = trigger.annotation_source == "human_reviewed"
        if reviewed and (trigger.source_window_start_s is not UNSET or trigger.source_window_end_s is not UNSET):
            return f"trigger {index} is human-reviewed and carries a source window"
        if not reviewed and (trigger.evidence_start_s is not UNSET or trigger.evidence_description is not UNSET):
            return f"trigger {index} is not human-reviewed and carries evidence"
        if trigger.annotation_source != triggers[0].annotation_source:
            return f"trigger {index} is {trigger.annotation_source[:40]}, the first one is not"
    return None


@on_records(ProactiveRecord)
def windows_follow_triggers(record: ProactiveRecord) -> str | None:
    """Windows follow from the triggers: 5 s or until the next one, a state's interval, cut by the adjustments."""
    if record.metadata.point_response_tolerance_s != POINT_TOLERANCE_S:
        return f"point_response_tolerance_s is {record.metadata.point_response_tolerance_s}, not {POINT_TOLERANCE_S}"
    moved = {item.field: item for item in record.metadata.media_boundary_adjustments or ()}
    start_after = None
    # Backwards, since a point trigger's window ends at the next trigger.
    for index in range(min(len(record.windows), len(record.metadata.trigger_annotations)) - 1, -1, -1):
        start, end = trigger_bounds(record.metadata.trigger_annotations[index])
        if start is None:
            return None  # a rule of its own
        if end is None:
            end = start + POINT_TOLERANCE_S
            if start_after is not None and start_after < end:
                end = start_after
        window = record.windows[index]
        if not (-TOLERANCE_S < window.start_s - start < TOLERANCE_S) or not (
            -TOLERANCE_S < window.end_s - end < TOLERANCE_S
        ):
            fault = _underived(window, index, start, end, moved)
            if fault is not None:
                return fault
        start_after = start
    return None


def _underived(window: Any, index: int, start: float, end: float, moved: dict[str, Any]) -> str | None:
    """Say which boundary of a window does not follow, once an adjustment of it is undone."""
    for name, found, due in (("start_s", window.start_s, start), ("end_s", window.end_s, end)):
        adjustment = moved.get(f"windows[{index}].{name}")
        source = found if adjustment is None else adjustment.source_value_s
        if not -TOLERANCE_S < source - due < TOLERANCE_S:
            return f"windows[{index}].{name} is {source}, its trigger gives {round(due, 3)}"
    return None
