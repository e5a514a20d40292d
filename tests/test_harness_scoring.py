"""Scores; every number is worked out by hand, most of them in `harness_records.pair`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from harness_records import pair, proactive_record, qa_record

from trace_hf.errors import TraceError
from trace_hf.harness import open_population, polling_times, proactive_outcome, score_proactive, score_qa
from trace_hf.harness.evidence import reachable
from trace_hf.harness.judge import Judge
from trace_hf.harness.ratios import Ratio, Row, summarize
from trace_hf.windows import effective_windows


def outcomes(records: list[dict[str, Any]], said: dict[str, list[tuple[float, str]]], **kw: Any) -> dict[str, Any]:
    """Return the outcome of each record that said something."""
    return {
        record["record_id"]: proactive_outcome(
            record, [{"time_s": time, "text": text} for time, text in said[record["record_id"]]], **kw
        )
        for record in records
        if record["record_id"] in said
    }


def score(records: list[dict[str, Any]], said: dict[str, list[tuple[float, str]]], **kw: Any) -> dict[str, Any]:
    return score_proactive(records, outcomes(records, said, **kw), **kw)


# --- QA -------------------------------------------------------------------------------------------------------


def seven() -> list[dict[str, Any]]:
    answers = ["A", "B", "A", "C", "A", "B", "C"]
    return [
        qa_record(
            number,
            answer,
            video=f"videos/{number % 3}.mp4",
            task_type="EPM" if number < 4 else "HLD",
            source="ovo_bench" if number < 2 else "streambench",
            tier="human_reviewed" if number % 2 else "machine_screened",
        )
        for number, answer in enumerate(answers)
    ]


def test_a_perfect_oracle_has_1() -> None:
    records = seven()
    found = score_qa(records, {record["record_id"]: record["answer"] for record in records})
    assert (found["accuracy"], found["recoverable_accuracy"], found["invalid_rate"]) == (1.0, 1.0, 0.0)
    assert found["accuracy_interval"] == [1.0, 1.0]


def test_always_a_has_the_share_of_a() -> None:
    records = seven()
    found = score_qa(records, {record["record_id"]: "A" for record in records})
    assert found["accuracy"] == 3 / 7
    by = {name: {key: part["accuracy"] for key, part in group.items()} for name, group in found["by"].items()}
    # EPM are A, B, A, C; HLD A, B, C. Of ovo_bench are A, B. Human-reviewed are the odd ones: B, C, B.
    assert by["task_type"] == {"EPM": 2 / 4, "HLD": 1 / 3}
    assert by["source"] == {"ovo_bench": 1 / 2, "streambench": 2 / 5}
    assert by["validation_tier"] == {"human_reviewed": 0.0, "machine_screened": 3 / 4}


def test_failures_stay_in_the_denominator() -> None:
    records = seven()
    said = {records[0]["record_id"]: "A", records[1]["record_id"]: "B. blue", records[2]["record_id"]: "no idea"}
    found = score_qa(records, said)
    assert (found["records"], found["answered"]) == (7, 3)
    assert found["accuracy"] == 1 / 7
    assert found["recoverable_accuracy"] == 2 / 7
    assert found["invalid_rate"] == 6 / 7


def test_the_interval_draws_whole_videos() -> None:
    # One video with three right answers, one with one wrong answer: a draw is all right, 3 of 4, or all wrong.
    records = [qa_record(n, "A", video="videos/1.mp4") for n in range(3)] + [qa_record(3, "B", video="videos/2.mp4")]
    found = score_qa(records, {record["record_id"]: "A" for record in records})
    assert found["accuracy"] == 0.75
    assert found["accuracy_interval"] == [0.0, 1.0]
    # Drawing records instead of videos would give three of four in about every second draw, and never a wide interval
    # for the records of one video: with one video there is nothing to draw.
    assert score_qa(records[:3], {})["accuracy_interval"] is None


def test_the_interval_is_the_same_in_every_run_and_order() -> None:
    rows = [Row(f"v{n % 5}", {}, {"right": n % 3 == 0, "all": 1}) for n in range(40)]
    ratios = {"share": Ratio("right", "all")}
    first, second = summarize(rows, ratios), summarize(rows[::-1], ratios)
    assert first == second
    low, high = first["share_interval"]
    assert low < first["share"] < high


# --- Proactive ------------------------------------------------------------------------------------------------


def test_polling_times_stop_before_the_end_of_the_last_window_at_the_widest_w() -> None:
    first, second = pair()
    assert polling_times(first) == [10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0]
    assert polling_times(second) == [0.0, 5.0, 10.0, 15.0]
    # The last window is [20, 30) at W = 10: 30 itself does not belong to it.
    assert polling_times(proactive_record(3, 0.0, [(20.0, "x")]), 10.0) == [0.0, 10.0, 20.0]
    assert polling_times(proactive_record(4, 0.1, [(0.2, "x")], media_end_s=0.4), 0.1) == [0.1, 0.2, 0.3]
    with pytest.raises(ValueError, match="step_s"):
        polling_times(first, 0)


def test_an_oracle_has_1_and_no_delay() -> None:
    records = pair()
    said = {
        record["record_id"]: [(w.start_s, f" {w.expected_answer.upper()} ") for w in effective_windows(record)]
        for record in records
    }
    found = score(records, said)
    for name in ("w5", "w10"):
        assert found[name]["windows"] == 6
        assert found[name]["accuracy"] == 1.0
        assert found[name]["miss_rate"] == 0.0
        assert found[name]["outside_per_100_windows"] == 0.0
        assert found[name]["redundant_per_100_windows"] == 0.0
        assert found[name]["median_delay_s"] == 0.0
    assert found["mode"] == "as_given"
    assert "ceiling" not in found["w5"]


def test_a_polled_oracle_has_exactly_the_ceiling() -> None:
    records = pair()
    said = {}
    for record in records:
        windows = effective_windows(record)
        answers = [next((w.expected_answer for w in windows if t in w), "WAIT") for t in polling_times(record)]
        said[record["record_id"]] = list(zip(polling_times(record), answers, strict=True))
    found = score(records, said, step_s=5.0)
    view = found["w5"]
    assert found["mode"] == "polling"
    assert (view["windows"], view["reachable_windows"]) == (6, 5)
    assert view["accuracy"] == view["ceiling"] == 5 / 6
    assert view["accuracy_reachable"] == 1.0
    assert view["miss_rate"] == 1 / 6
    # 15 - 12, 20 - 16, 30 - 30, 40 - 40 and 10 - 8.
    assert view["median_delay_s"] == 2.0
    # 45 and 50 answer the state again.
    assert view["redundant_per_100_windows"] == 100 * 2 / 6
    assert view["by"]["task_type"]["SSR"]["ceiling"] == 1 / 2


def test_a_silent_model_misses_everything() -> None:
    records = pair()
    said = {record["record_id"]: [(time, "WAIT") for time in polling_times(record)] for record in records}
    for found in (score(records, said, step_s=5.0), score(records, {}, step_s=5.0)):
        for name in ("w5", "w10"):
            assert found[name]["miss_rate"] == 1.0
            assert found[name]["accuracy"] == 0.0
            assert found[name]["outside_per_100_windows"] == 0.0
            assert found[name]["median_delay_s"] is None


def test_one_that_talks_all_the_time_is_outside_and_redundant_as_counted() -> None:
    records = pair()
    said = {record["record_id"]: [(time, "a kite!") for time in polling_times(record)] for record in records}
    found = score(records, said, step_s=5.0)
    # W = 5. Of 10, 15, … 50: 10, 25 and 35 are outside, 45 and 50 redundant. Of 0, 5, 10, 15: 0, 5 and 15 are outside.
    assert found["w5"]["outside_per_100_windows"] == 100.0
    assert found["w5"]["redundant_per_100_windows"] == 100 * 2 / 6
    assert found["w5"]["miss_rate"] == 1 / 6
    # W = 10. 25 now lies in [16, 26), 35 in [30, 40) and 15 in [8, 18), each behind another answer.
    assert found["w10"]["outside_per_100_windows"] == 50.0
    assert found["w10"]["redundant_per_100_windows"] == 100 * 5 / 6
    assert found["w10"]["accuracy"] == 0.0


def test_the_first_answer_in_a_window_counts_and_an_answer_at_its_end_does_not() -> None:
    record = proactive_record(1, 0.0, [(10.0, "red")])
    both = proactive_outcome(record, [{"time_s": 13.0, "text": "red"}, {"time_s": 11.0, "text": "blue"}])["w5"]
    assert (both["score"], both["redundant"], both["missed"]) == (0, 1, 0)
    late = proactive_outcome(record, [{"time_s": 15.0, "text": "red"}])
    assert (late["w5"]["score"], late["w5"]["outside"], late["w5"]["missed"]) == (0, 1, 1)
    assert (late["w10"]["score"], late["w10"]["outside"]) == (1, 0)


def test_an_outcome_tells_neither_windows_nor_answers() -> None:
    text = json.dumps(proactive_outcome(pair()[0], [{"time_s": 12.0, "text": "x"}], step_s=5.0))
    assert "Blue" not in text
    assert "both rise" not in text
    assert "52" not in text


def test_a_polling_run_reaches_66_of_the_91_real_windows(real: Path) -> None:
    population = open_population("proactive", real / "sample_release")
    windows = can = 0
    for record in population.records.values():
        reached = reachable(effective_windows(record), polling_times(record))
        windows, can = windows + len(reached), can + sum(reached)
    assert (windows, can) == (91, 66)


# --- the judge ------------------------------------------------------------------------------------------------


@contextmanager
def judge_server(reply: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append({"path": self.path, "key": self.headers["Authorization"], **body})
            answer = json.dumps({"choices": [{"message": {"content": reply}}]}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        thread.join()


def test_a_judge_is_asked_for_ssr_and_crr_and_the_exact_score_stands_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = pair()
    said = {
        first["record_id"]: [(12.0, "something red")],
        second["record_id"]: [(6.0, "ONE"), (8.0, "it is two")],
    }
    with judge_server("0.5") as (url, asked):
        monkeypatch.setenv("TRACE_VLM_JUDGE_BASE_URL", url)
        monkeypatch.setenv("TRACE_VLM_JUDGE_MODEL", "some-judge")
        monkeypatch.setenv("TRACE_VLM_JUDGE_API_KEY", "secret")
        found = score([first, second], said, judge=Judge.from_environment())
    # Exact: of six windows only "ONE". Judged: half of "it is two" more; the first record's REC is never judged.
    assert found["w5"]["accuracy"] == 1 / 6
    assert found["w5"]["judged_accuracy"] == 1.5 / 6
    assert found["w5"]["judge_failures"] == 0
    assert "some-judge" in found["answers_compared"]
    assert len(asked) == 1  # W = 10 asks the same question again
    assert asked[0]["path"] == "/v1/chat/completions"
    assert asked[0]["key"] == "Bearer secret"
    assert asked[0]["temperature"] == 0
    assert "it is two" in asked[0]["messages"][0]["content"]
    assert "secret" not in json.dumps(found) + repr(Judge.from_environment())


def test_a_judge_that_fails_gives_no_judged_score_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_hf.harness.judge.time.sleep", lambda _s: None)
    second = pair()[1]
    with judge_server("It looks good to me") as (url, asked):
        found = score([second], {second["record_id"]: [(8.0, "it is two")]}, judge=Judge(url, "some-judge"))
    assert len(asked) == 3 * 2
    assert found["w5"]["judge_failures"] == 1
    assert found["w5"]["judged_accuracy"] is None
    assert found["w5"]["accuracy"] == 0.0


def test_without_a_judge_the_result_says_that_matching_is_exact() -> None:
    assert "no judge was configured" in score(pair(), {})["answers_compared"]


@pytest.mark.parametrize(("name", "value"), [("BASE_URL", "http://localhost/v1"), ("MODEL", "some-judge")])
def test_half_a_judge_is_an_error(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"TRACE_VLM_JUDGE_{name}", value)
    with pytest.raises(TraceError, match="only one of"):
        Judge.from_environment()


def test_a_judge_url_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_VLM_JUDGE_BASE_URL", "file:///etc")
    monkeypatch.setenv("TRACE_VLM_JUDGE_MODEL", "some-judge")
    with pytest.raises(TraceError, match="no http or https URL"):
        Judge.from_environment()
