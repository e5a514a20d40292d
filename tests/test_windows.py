"""Evaluation windows, evidence spans and sampling times."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_hf.errors import SchemaError
from trace_hf.schema import ProactiveRecord, QARecord
from trace_hf.windows import EvaluationWindow, effective_windows, evidence_span, media_end, sampling_times


def trigger(point: float | None = None, start: float | None = None, end: float | None = None) -> dict[str, Any]:
    return {"point_trigger_s": point, "interval_start_s": start, "interval_end_s": end}


def proactive(*triggers: dict[str, Any], instruction: float = 12.0, ends: tuple[float, ...] = ()) -> dict[str, Any]:
    metadata: dict[str, Any] = {"trigger_annotations": list(triggers)}
    if ends:
        metadata["media_boundary_adjustments"] = [{"field": "deadline_s", "effective_value_s": end} for end in ends]
    return {
        "task": "proactive",
        "record_id": "p:1",
        "instruction_time_s": instruction,
        "deadline_s": 9999.0,
        "memory_length": 9999.0,
        "windows": [{"start_s": 0.0, "end_s": 0.0, "expected_answer": str(number)} for number in range(len(triggers))],
        "metadata": metadata,
    }


def bounds(windows: list[EvaluationWindow]) -> list[tuple[float, float]]:
    return [(window.start_s, window.end_s) for window in windows]


def test_a_point_window_ends_at_the_tolerance_or_the_next_trigger() -> None:
    record = proactive(trigger(15.0), trigger(18.0), trigger(40.0))
    assert bounds(effective_windows(record)) == [(15.0, 18.0), (18.0, 23.0), (40.0, 45.0)]
    assert bounds(effective_windows(record, 10)) == [(15.0, 18.0), (18.0, 28.0), (40.0, 50.0)]
    assert [window.expected_answer for window in effective_windows(record)] == ["0", "1", "2"]


def test_a_state_keeps_its_interval_and_bounds_the_point_before_it() -> None:
    record = proactive(trigger(15.0), trigger(start=17.5, end=60.0), trigger(70.0))
    assert bounds(effective_windows(record)) == [(15.0, 17.5), (17.5, 60.0), (70.0, 75.0)]
    assert bounds(effective_windows(record, 10.0))[1] == (17.5, 60.0)


def test_a_window_is_half_open() -> None:
    (window,) = effective_windows(proactive(trigger(15.0)))
    assert 15.0 in window
    assert 19.999 in window
    assert 20.0 not in window
    assert window.duration_s == 5.0


def test_sums_are_the_decimal_ones() -> None:
    assert bounds(effective_windows(proactive(trigger(0.1), trigger(16.14)))) == [(0.1, 5.1), (16.14, 21.14)]


def test_no_window_ends_after_the_media_whoever_says_where_it_ends() -> None:
    record = proactive(trigger(17.29), ends=(21.096, 21.2))
    assert media_end(record) == 21.096
    assert bounds(effective_windows(record)) == [(17.29, 21.096)]
    assert bounds(effective_windows(record, 10)) == [(17.29, 21.096)]
    assert bounds(effective_windows(record, 10, media_end_s=19.0)) == [(17.29, 19.0)]
    assert bounds(effective_windows(proactive(trigger(17.29)), 10, media_end_s=19.0)) == [(17.29, 19.0)]
    assert bounds(effective_windows(proactive(trigger(30.0)), media_end_s=19.0)) == [(19.0, 19.0)]


def test_the_span_of_a_proactive_record_reaches_to_its_last_window_only() -> None:
    assert evidence_span(proactive(trigger(15.0), trigger(40.0))) == (7.0, 45.0)
    assert evidence_span(proactive(trigger(15.0), instruction=3.0)) == (0.0, 20.0)
    assert evidence_span(proactive(trigger(15.0)), media_end_s=18.5) == (7.0, 18.5)
    assert evidence_span(proactive(trigger(15.0)), tolerance_s=10.0) == (7.0, 25.0)
    # A long state before a short point: the last window is the one that ends last.
    assert evidence_span(proactive(trigger(start=15.0, end=90.0), trigger(20.0))).end_s == 90.0


def test_the_span_of_a_qa_record_ends_with_its_question() -> None:
    record = {"task": "qa", "record_id": "q:1", "evidence_anchor_s": 387.73, "question_time_s": 396.0}
    assert evidence_span(record) == (377.73, 396.0)
    assert evidence_span({**record, "evidence_anchor_s": 4.0}) == (0.0, 396.0)
    assert evidence_span(record, media_end_s=390.0) == (377.73, 390.0)
    adjusted = {**record, "metadata": {"media_boundary_adjustments": [{"effective_value_s": 395.5}]}}
    assert evidence_span(adjusted) == (377.73, 395.5)


def test_times_end_with_the_span_itself() -> None:
    times = sampling_times(377.73, 396.0)
    assert times[:2] == [377.73, 378.73]
    assert times[-3:] == [394.73, 395.73, 396.0]
    assert sampling_times(3.0, 7.0) == [3.0, 4.0, 5.0, 6.0, 7.0]
    assert sampling_times(0.1, 2.1) == [0.1, 1.1, 2.1]
    assert sampling_times(5.0, 5.0) == [5.0]
    assert sampling_times(5.0, 5.4) == [5.0, 5.4]


@given(st.integers(0, 3_600_000), st.integers(0, 120_000))
def test_times_rise_by_a_second_and_never_pass_the_end(start_ms: int, length_ms: int) -> None:
    start, end = start_ms / 1000, (start_ms + length_ms) / 1000
    times = sampling_times(start, end)
    assert times[0] == start
    assert times[-1] == end
    assert len(times) == math.ceil(length_ms / 1000) + 1
    assert all(time == (start_ms + 1000 * step) / 1000 for step, time in enumerate(times[:-1]))
    assert all(a < b for a, b in pairwise(times))


@pytest.mark.parametrize("bad", [(2.0, 1.0), (math.nan, 1.0), (0.0, math.inf)])
def test_a_span_without_order_is_refused(bad: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="in order"):
        sampling_times(*bad)


@pytest.mark.parametrize("tolerance", [0.0, -5.0, math.nan, math.inf])
def test_a_tolerance_must_be_a_number_of_seconds(tolerance: float) -> None:
    with pytest.raises(ValueError, match="tolerance_s"):
        effective_windows(proactive(trigger(1.0)), tolerance)


def test_rows_without_triggers_say_where_the_full_ones_are() -> None:
    row = {"task": "proactive", "record_id": "p:1", "video_path": "v", "instruction": "i", "instruction_time_s": 1.0}
    with pytest.raises(SchemaError, match="full") as error:
        effective_windows(row)
    assert error.value.record_id == "p:1"
    with pytest.raises(SchemaError, match="not 'proactive'"):
        effective_windows({"task": "qa", "record_id": "q"})
    record = proactive(trigger(1.0), trigger(2.0))
    with pytest.raises(SchemaError, match="1 windows, but 2 triggers"):
        effective_windows({**record, "windows": record["windows"][:1]})


def test_lists_of_structs_as_structs_of_lists_mean_the_same() -> None:
    record = proactive(trigger(15.0), trigger(start=17.5, end=60.0), ends=(50.0,))
    turned = json.loads(json.dumps(record))
    turned["windows"] = {name: [w[name] for w in record["windows"]] for name in record["windows"][0]}
    metadata = turned["metadata"]
    for name in ("trigger_annotations", "media_boundary_adjustments"):
        items = metadata[name]
        metadata[name] = {key: [item[key] for item in items] for key in items[0]}
    assert effective_windows(turned) == effective_windows(record)
    assert evidence_span(turned) == evidence_span(record)


def _lines(folder: Path, name: str) -> list[bytes]:
    return (folder / "sample_release" / name).read_bytes().splitlines()


def test_the_stored_windows_of_real_rows_are_the_rule_at_five_seconds(real: Path) -> None:
    for line in _lines(real, "proactive.jsonl"):
        row = json.loads(line)
        assert bounds(effective_windows(row)) == [(w["start_s"], w["end_s"]) for w in row["windows"]], row["record_id"]


def test_record_1570_never_ends_after_its_media(real: Path) -> None:
    row = next(r for r in map(json.loads, _lines(real, "proactive.jsonl")) if r["record_id"].endswith(":1570"))
    for tolerance in (5.0, 10.0):
        assert effective_windows(row, tolerance)[-1][:2] == (17.29, 21.096)
        assert evidence_span(row, tolerance_s=tolerance) == (10.0, 21.096)


def test_typed_records_and_rows_give_the_same(real: Path) -> None:
    for line in _lines(real, "proactive.jsonl"):
        typed = msgspec.json.decode(line, type=ProactiveRecord)
        assert effective_windows(typed, 10) == effective_windows(json.loads(line), 10)
        assert evidence_span(typed) == evidence_span(json.loads(line))
    for line in _lines(real, "qa.jsonl"):
        assert evidence_span(msgspec.json.decode(line, type=QARecord)) == evidence_span(json.loads(line))
