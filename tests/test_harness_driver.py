"""The functions that lmms-eval calls, called as it does but without it: what they hand out, and what they refuse."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trace_hf
from trace_hf.errors import TraceError
from trace_hf.harness import open_population, polling_times, proactive_system
from trace_hf.harness.lmms_eval import driver, utils
from trace_hf.schema import CONFIGS


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trace_hf.write_sample(tmp_path_factory.mktemp("driver") / "release", scale=0.01, videos=True)


@pytest.fixture(autouse=True)
def place(sample: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TRACE_RELEASE", str(sample))
    monkeypatch.setenv("TRACE_VIDEO_ROOT", str(sample / "video_root"))
    driver.forget()
    yield
    driver.forget()


def rows(config: str, **kw: Any) -> list[dict[str, Any]]:
    """Load a config as lmms-eval does, and return what it may hand on."""
    return list(utils.process_docs(trace_hf.load(config, **{"view": "model_input", **kw})))


def test_rows_are_exactly_the_model_inputs() -> None:
    for config in ("qa_tiny", "proactive_tiny"):
        (row,) = rows(config)
        assert tuple(row) == CONFIGS[config].inputs


@pytest.mark.parametrize("config", ["qa_tiny", "proactive_tiny"])
def test_full_rows_are_refused(config: str) -> None:
    with pytest.raises(SystemExit, match="view: model_input"):
        rows(config, view="full")


@pytest.mark.filterwarnings("ignore:rows of")
def test_unverified_rows_are_refused() -> None:
    with pytest.raises(SystemExit, match="not verified"):
        rows("qa_tiny", verify=False)


def test_rows_of_another_loader_are_refused(sample: Path) -> None:
    import datasets

    dataset = datasets.Dataset.from_list([{"record_id": "x"}])
    with pytest.raises(SystemExit, match="was not loaded by trace-hf"):
        utils.process_docs(dataset)


def test_two_releases_in_one_process_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows("qa_tiny")
    other = trace_hf.write_sample(tmp_path / "other", scale=0.01, seed=1)
    monkeypatch.setenv("TRACE_RELEASE", str(other))
    with pytest.raises(SystemExit, match="two releases in two processes"):
        rows("proactive_tiny")


def test_one_record_asked_in_two_ways_in_one_run_is_refused() -> None:
    (row,) = rows("proactive_tiny")
    utils.proactive_text(row, {"step_s": 5})
    utils.proactive_text(row, {"step_s": 5.0})
    with pytest.raises(SystemExit, match="one run"):
        utils.proactive_text(row, {"step_s": 2})
    (row,) = rows("proactive_tiny")  # loading again begins a new run
    utils.proactive_text(row, {"step_s": 2})


@pytest.mark.parametrize(
    "given",
    [{"step": 5}, {"visual": "video"}, {"silence": "maybe"}, {"step_s": 0}, {"step_s": "5"}, {"post_prompt": "x"}],
)
def test_a_setting_that_is_not_known_ends_the_run(given: dict[str, Any]) -> None:
    (row,) = rows("proactive_tiny")
    with pytest.raises(SystemExit, match="lmms_eval_specific_kwargs"):
        utils.proactive_text(row, given)


def test_the_sections_of_other_models_are_no_settings() -> None:
    assert (
        driver.Settings.of({"default": {"visual": "clip"}, "some_model": {"x": 1}, "visual": "frames"}).visual
        == "frames"
    )


def test_half_a_judge_ends_the_run_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utils, "_judges", {})
    monkeypatch.setenv("TRACE_VLM_JUDGE_MODEL", "some-judge")
    (row,) = rows("proactive_tiny")
    with pytest.raises(SystemExit, match="only one of"):
        utils.proactive_text(row)


def test_missing_videos_are_listed_with_their_records() -> None:
    full = open_population("qa").records
    present = open_population("qa_tiny").records
    there = {record["video_path"] for record in present.values()}
    gone = {record["video_path"]: record_id for record_id, record in full.items() if record["video_path"] not in there}
    row = next(row for row in rows("qa") if row["record_id"] in gone.values())
    with pytest.raises(SystemExit, match=f"{len(gone)} videos of qa are not under") as ended:
        utils.qa_text(row)
    assert all(path in str(ended.value) and record_id in str(ended.value) for path, record_id in gone.items())
    assert isinstance(ended.value.__cause__, TraceError)


def test_a_round_sees_no_more_than_its_own_time_and_then_it_is_over() -> None:
    from trace_hf.harness.lmms_eval.utils import proactive_messages, proactive_text, proactive_visual

    (row,) = rows("proactive_tiny")
    times = polling_times(open_population("proactive_tiny").records[row["record_id"]])
    assert proactive_text(row) == f"{proactive_system()}\n\n{row['instruction']}"
    first = proactive_messages(row)
    assert [message["role"] for message in first] == ["system", "user"]
    assert first[1]["content"][0]["url"] == proactive_visual(row)[0]
    said = ["WAIT"]
    for number in range(1, len(times)):
        visuals, _, over, outputs, _ = proactive_text(row, None, said, number, None)
        messages, over_too, outputs_too, _ = proactive_messages(row, None, said, number, None)
        assert (over, over_too) == (False, False)
        assert outputs is said
        assert outputs_too is said
        assert messages[1]["content"][0]["url"] == visuals[0]
        said.append("WAIT")
    assert proactive_text(row, None, said, len(times), None)[:3] == (None, None, True)
    assert proactive_messages(row, None, said, len(times), None)[:2] == (None, True)


def test_a_model_with_its_own_silence_gets_the_instruction_alone() -> None:
    (row,) = rows("proactive_tiny")
    assert utils.proactive_text(row, {"silence": "native"}) == row["instruction"]
    (message,) = utils.proactive_messages(row, {"silence": "native"})
    assert message["content"][-1] == {"type": "text", "text": row["instruction"]}


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (["A"], ["A"]),
        ([["A", "B"]], ["A", "B"]),
        (["('A', 'B')"], ["A", "B"]),
        ([None], [""]),
        ([[]], [""]),
        ([], [""]),
    ],
)
def test_rounds_are_read_however_they_come(results: list[Any], said: list[str]) -> None:
    assert utils._rounds(results) == said


def test_a_qa_answer_is_never_taken_for_rounds() -> None:
    assert utils._text([["('A', 'B')"]]) == utils._text(["('A', 'B')"]) == "('A', 'B')"
    assert utils._text([]) == utils._text([None]) == ""


def test_what_is_logged_holds_the_record_id_and_no_target() -> None:
    (row,) = rows("qa_tiny")
    record = open_population("qa_tiny").records[row["record_id"]]
    found = utils.qa_tiny_results(row, [record["answer"].lower()])
    assert found["record_id"] == row["record_id"]
    assert found["accuracy"]["score"] == 1.0
    assert "answer" not in json.dumps(found)
    (report,) = utils.report([found["report"]])
    assert report["accuracy"] == 1.0
    assert report["run"]["config"] == "qa_tiny"
    assert str(utils.report([found["report"]])).startswith("sample-0-x0.01, qa_tiny: SYNTHETIC")


def test_the_example_loop_runs(sample: Path) -> None:
    script = Path(__file__).resolve().parent.parent / "examples/own_loop.py"
    command = [sys.executable, str(script), str(sample), str(sample / "video_root")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    qa, proactive = json.loads(done.stdout)
    answers = [record["answer"] for record in open_population("qa_tiny").records.values()]
    assert qa["accuracy"] == answers.count("A") / len(answers)
    assert proactive["mode"] == "polling"
    assert proactive["w5"]["miss_rate"] == 1.0
    # As docs/integrators.md says.
    assert len(script.read_text(encoding="utf-8").splitlines()) == 40
