"""Full records with round numbers, so that a test's scores can be worked out by hand."""

from __future__ import annotations

from typing import Any


def qa_record(
    number: int,
    answer: str,
    options: tuple[str, ...] = ("A. red", "B. blue", "C. green"),
    *,
    video: str = "videos/one.mp4",
    task_type: str = "EPM",
    source: str = "ovo_bench",
    tier: str = "human_reviewed",
    question_time_s: float = 20.0,
) -> dict[str, Any]:
    """Return a full QA record as a plain dict."""
    return {
        "record_id": f"{source}_qa:{number}",
        "task": "qa",
        "task_type": task_type,
        "video_path": video,
        "question": "Which colour has the kite?",
        "options": list(options),
        "answer": answer,
        "question_time_s": question_time_s,
        "evidence_anchor_s": question_time_s - 5.0,
        "metadata": {"dataset": source, "validation_tier": tier},
    }


def proactive_record(
    number: int,
    instruction_time_s: float,
    triggers: list[tuple[float, str] | tuple[float, float, str]],
    *,
    video: str = "videos/one.mp4",
    task_type: str = "REC",
    source: str = "streambench",
    tier: str = "machine_screened",
    media_end_s: float | None = None,
) -> dict[str, Any]:
    """Return a full Proactive record as a plain dict: a trigger is (point, answer) or (start, end, answer)."""
    annotations = []
    for trigger in triggers:
        point = trigger[0] if len(trigger) == 2 else None
        start, end = (None, None) if len(trigger) == 2 else trigger[:2]
        annotations.append({"point_trigger_s": point, "interval_start_s": start, "interval_end_s": end})
    metadata: dict[str, Any] = {"dataset": source, "validation_tier": tier, "trigger_annotations": annotations}
    if media_end_s is not None:
        metadata["media_boundary_adjustments"] = [{"effective_value_s": media_end_s}]
    return {
        "record_id": f"{source}_proactive:{number}",
        "task": "proactive",
        "task_type": task_type,
        "video_path": video,
        "instruction": "Say which kite rises.",
        "instruction_time_s": instruction_time_s,
        "windows": [{"expected_answer": trigger[-1]} for trigger in triggers],
        "metadata": metadata,
    }


def pair() -> list[dict[str, Any]]:
    """Return two Proactive records with six windows.

    The first is asked at 10 s. Its triggers are 12, 16 and 30 s, and the state from 40 to 52 s, so that its windows are
    [12, 16), [16, 21), [30, 35), [40, 52) at W = 5 and [12, 16), [16, 26), [30, 40), [40, 52) at W = 10. Polled every
    5 s it is asked at 10, 15, … 50 s. The second is asked at 0 s. Its triggers are 6 and 8 s, its windows [6, 8) and
    [8, 13) or [8, 18); polled every 5 s it is asked at 0, 5, 10, 15 s, so that nobody reaches [6, 8).
    """
    first = proactive_record(1, 10.0, [(12.0, "Red"), (16.0, "Blue"), (30.0, "Red"), (40.0, 52.0, "both rise")])
    second = proactive_record(2, 0.0, [(6.0, "one"), (8.0, "two")], video="videos/two.mp4", task_type="SSR")
    return [first, second]
