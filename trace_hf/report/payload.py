"""What the timeline browser knows of a record: plain values, with the names that its script uses.

Answers stand apart from everything else (``answer``, ``answers``, ``facts``, ``about``), so that the script can leave
them out of the page until they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import UNSET

from ..schema import ProactiveRecord, QARecord, Trigger
from ..windows import effective_windows, evidence_span

__all__ = ["proactive_payload", "qa_payload", "trigger_start"]


def trigger_start(trigger: Trigger) -> float:
    """Return the moment of a point trigger, or the start of a state; seconds."""
    start = trigger.point_trigger_s if trigger.point_trigger_s is not None else trigger.interval_start_s
    return trigger.response_window_start_s if start is None else start


def qa_payload(record: QARecord, configs: Sequence[str]) -> dict[str, Any]:
    """Return what the browser shows of a QA record."""
    span = evidence_span(record)
    spans = record.metadata.evidence_spans
    return {
        **_common(record, configs),
        "text": record.question,
        "options": record.options,
        "answer": record.answer,
        "time": record.question_time_s,
        "anchor": record.evidence_anchor_s,
        "span": list(span),
        "evidence": [] if spans is UNSET else [{"at": [s.start_s, s.end_s], "about": s.description} for s in spans],
    }


def proactive_payload(record: ProactiveRecord, configs: Sequence[str], tolerances_s: Iterable[float]) -> dict[str, Any]:
    """Return what the browser shows of a Proactive record, with its evaluation windows for each tolerance."""
    effective = {}
    for tolerance in tolerances_s:
        windows = effective_windows(record, tolerance)
        effective[f"{tolerance:g}"] = {
            "windows": [[w.start_s, w.end_s] for w in windows],
            "span": list(evidence_span(record, tolerance_s=tolerance)),
        }
    return {
        **_common(record, configs),
        "text": record.instruction,
        "time": record.instruction_time_s,
        "deadline": record.deadline_s,
        "triggers": [_trigger(trigger) for trigger in record.metadata.trigger_annotations],
        "stored": [[w.start_s, w.end_s] for w in record.windows],
        "answers": [w.expected_answer for w in record.windows],
        "effective": effective,
    }


def _common(record: QARecord | ProactiveRecord, configs: Sequence[str]) -> dict[str, Any]:
    meta = record.metadata
    moved = meta.media_boundary_adjustments
    return {
        "id": record.record_id,
        "task": record.task,
        "type": record.task_type,
        "source": meta.dataset,
        "tier": meta.validation_tier,
        "risk": meta.machine_risk_level,
        "video": record.video_path,
        "configs": list(configs),
        "moved": [] if moved is UNSET else [[m.field, m.source_value_s, m.effective_value_s, m.reason] for m in moved],
    }


def _trigger(trigger: Trigger) -> dict[str, Any]:
    value: dict[str, Any] = {
        "type": trigger.trigger_type,
        "by": trigger.annotation_source,
        "policy": trigger.response_policy,
        "answer": trigger.answer,
    }
    if trigger.point_trigger_s is not None:
        value["at"] = trigger.point_trigger_s
    else:
        value["state"] = [trigger.interval_start_s, trigger.interval_end_s]
    if trigger.accepted_facts is not UNSET:
        value["facts"] = trigger.accepted_facts
    if trigger.evidence_start_s is not UNSET and trigger.evidence_end_s is not UNSET:
        value["evidence"] = [trigger.evidence_start_s, trigger.evidence_end_s]
    if trigger.evidence_description is not UNSET:
        value["about"] = trigger.evidence_description
    return value
