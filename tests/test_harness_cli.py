"""`trace-hf score` and `trace-hf lmms-eval`, called in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from trace_hf.cli.lmms import lmms_eval
from trace_hf.cli.score import score
from trace_hf.harness import open_population, polling_times
from trace_hf.harness.lmms_eval import TASKS, include_path
from trace_hf.windows import effective_windows


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(score, [str(argument) for argument in arguments])


def write(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def oracle(release: Path, config: str = "qa") -> list[dict[str, Any]]:
    records = open_population(config, release).records
    return [{"record_id": record_id, "text": record["answer"]} for record_id, record in records.items()]


def test_a_perfect_file_scores_1_and_says_what_it_is_about(small_sample: Path, tmp_path: Path) -> None:
    answers = oracle(small_sample)
    done = run("qa", write(tmp_path / "a.jsonl", answers), "--release", small_sample, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["accuracy"] == 1.0
    assert found["records"] == found["answered"] == len(answers)
    run_facts = found["run"]
    assert run_facts["release_id"] == "sample-0-x0.05"
    assert len(run_facts["manifest_sha256"]) == 64
    assert run_facts["pinned"] is False
    assert run_facts["config"] == "qa"
    assert "SYNTHETIC" in run_facts["mark"]
    assert run_facts["parser"]


def test_a_record_without_an_answer_counts(small_sample: Path, tmp_path: Path) -> None:
    answers = oracle(small_sample)
    done = run("qa", write(tmp_path / "a.jsonl", answers[:1]), "--release", small_sample, "--json")
    assert json.loads(done.stdout)["accuracy"] == 1 / len(answers)


def test_missing_answers_are_counted_in_the_table_and_told(small_sample: Path, tmp_path: Path) -> None:
    answers = oracle(small_sample)
    done = run("qa", write(tmp_path / "a.jsonl", answers[:1]), "--release", small_sample)
    whole, silent = len(answers), len(answers) - 1
    assert done.exit_code == 0
    assert f"answered\t1 of {whole}\n" in done.stdout
    assert "complete" not in done.stdout
    assert done.stderr == f"{silent} of {whole} records have no answer; each counts as wrong\n"
    assert run("qa", write(tmp_path / "b.jsonl", answers), "--release", small_sample).stderr == ""

    record_id, *others = open_population("proactive_standard", small_sample).records
    path = write(tmp_path / "c.jsonl", [{"record_id": record_id, "responses": []}])
    done = run("proactive", path, "--release", small_sample)
    whole = 1 + len(others)
    assert f"answered\t1 of {whole}\n" in done.stdout
    assert f"{len(others)} of {whole} records" in done.stderr
    assert done.stderr.endswith("no answer; each counts as silent\n")


@pytest.mark.parametrize("task", ["qa", "proactive"])
def test_a_file_without_answers_is_wrong_use(task: str, small_sample: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [])
    done = run(task, path, "--release", small_sample, "--json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{path}: holds no answers\n" in done.stderr
    assert "Do: " in done.stderr


def test_answers_to_other_records_only_are_wrong_use(small_sample: Path, tmp_path: Path) -> None:
    tiny = {line["record_id"] for line in oracle(small_sample, "qa_tiny")}
    others = [line for line in oracle(small_sample) if line["record_id"] not in tiny]
    done = run("qa", write(tmp_path / "a.jsonl", others), "--release", small_sample, "--config", "qa_tiny")
    assert done.exit_code == 2
    assert "holds no answers to the records of 'qa_tiny'" in done.stderr


def test_the_piped_rows_of_the_two_tolerances_can_be_told_apart(small_sample: Path, tmp_path: Path) -> None:
    records = open_population("proactive_standard", small_sample).records
    path = write(tmp_path / "a.jsonl", [{"record_id": record_id, "responses": []} for record_id in records])
    rows = [line.split("\t") for line in run("proactive", path, "--release", small_sample).stdout.splitlines()]
    assert {row[0] for row in rows if len(row) == 5} == {
        *("w5", "w5 task_type", "w5 source", "w5 validation_tier"),
        *("w10", "w10 task_type", "w10 source", "w10 validation_tier"),
    }


def test_answers_to_other_records_of_the_release_are_ignored_and_counted(small_sample: Path, tmp_path: Path) -> None:
    answers = oracle(small_sample)
    tiny = oracle(small_sample, "qa_tiny")
    path = write(tmp_path / "a.jsonl", answers)
    found = json.loads(run("qa", path, "--release", small_sample, "--config", "qa_tiny", "--json").stdout)
    assert found["records"] == len(tiny)
    assert found["run"]["answers_ignored"] == len(answers) - len(tiny)


def test_answers_of_another_release_are_refused(small_sample: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [{"record_id": "ovo_bench_qa:nowhere", "text": "A"}])
    done = run("qa", path, "--release", small_sample)
    assert done.exit_code == 1
    assert "ovo_bench_qa:nowhere" in done.output
    assert "another release" in done.output


def test_proactive_answers_are_scored_as_given_or_as_a_polling_run(small_sample: Path, tmp_path: Path) -> None:
    lines = []
    for record_id, record in open_population("proactive_standard", small_sample).records.items():
        windows = effective_windows(record)
        said = [{"time_s": w.start_s, "text": w.expected_answer} for w in windows]
        lines.append({"record_id": record_id, "responses": said})
    path = write(tmp_path / "a.jsonl", lines)
    found = json.loads(run("proactive", path, "--release", small_sample, "--json").stdout)
    assert found["run"]["mode"] == found["mode"] == "as_given"
    assert found["w5"]["accuracy"] == found["w10"]["accuracy"] == 1.0
    assert found["run"]["tolerances_s"] == [5.0, 10.0]

    for line, record in zip(lines, open_population("proactive_standard", small_sample).records.values(), strict=True):
        windows = effective_windows(record)
        line["responses"] = [
            {"time_s": time, "text": next((w.expected_answer for w in windows if time in w), "WAIT")}
            for time in polling_times(record)
        ]
    path = write(tmp_path / "b.jsonl", lines)
    done = run("proactive", path, "--release", small_sample, "--json", "--polling-step", "5")
    polled = json.loads(done.stdout)
    assert polled["mode"] == "polling"
    assert polled["run"]["step_s"] == 5.0
    assert polled["w5"]["accuracy"] == polled["w5"]["ceiling"] < 1.0
    shown = run("proactive", path, "--release", small_sample, "--polling-step", "5").output
    assert "polling" in shown
    assert "ceiling" in shown
    assert "exact match" in shown


def test_the_samples_files_of_lmms_eval_can_be_scored_again(small_sample: Path, tmp_path: Path) -> None:
    lines = [
        {"doc_id": n, "record_id": line["record_id"], "filtered_resps": [line["text"]], "accuracy": {"score": 1.0}}
        for n, line in enumerate(oracle(small_sample))
    ]
    path = write(tmp_path / "samples.jsonl", lines)
    assert json.loads(run("qa", path, "--release", small_sample, "--json").stdout)["accuracy"] == 1.0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"text": "A"}', "$.record_id"),
        ('{"record_id": "x"}', "$.text"),
        ('{"record_id": "x", "text": 1}', "$.text"),
        ('{"record_id": "x", "text": "A"}\n{"record_id": "x", "text": "B"}', "line 2"),
    ],
)
def test_a_bad_line_is_named(line: str, words: str, small_sample: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    done = run("qa", path, "--release", small_sample)
    assert done.exit_code == 1
    assert words in done.output
    assert "line" in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("response", "words"),
    [
        ("1", "$.responses[0]"),
        ('{"text": "A"}', "$.responses[0].time_s"),
        ('{"time_s": NaN, "text": "A"}', "$.responses[0].time_s"),
        ('{"time_s": true, "text": "A"}', "$.responses[0].time_s"),
        ('{"time_s": 1, "text": 2}', "$.responses[0].text"),
    ],
)
def test_a_bad_response_is_named(response: str, words: str, small_sample: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"record_id": "x", "responses": [{response}]}}\n', encoding="utf-8")
    done = run("proactive", path, "--release", small_sample)
    assert done.exit_code == 1
    assert words in done.output


def test_a_config_of_the_other_task_or_for_audit_is_refused(small_sample: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [])
    assert run("qa", path, "--release", small_sample, "--config", "proactive").exit_code == 2
    assert run("qa", path, "--release", small_sample, "--config", "changes").exit_code == 2


def test_a_release_that_does_not_verify_is_not_scored(small_sample: Path, tmp_path: Path) -> None:
    (small_sample / "qa.jsonl").write_bytes((small_sample / "qa.jsonl").read_bytes() + b"\n")
    done = run("qa", write(tmp_path / "a.jsonl", []), "--release", small_sample)
    assert done.exit_code == 1
    assert "qa.jsonl" in done.output


def test_lmms_eval_says_its_include_path_and_a_command() -> None:
    done = CliRunner().invoke(lmms_eval, ["--json"])
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["include_path"] == include_path()
    assert found["tasks"] == list(TASKS)
    folder = Path(include_path())
    assert {path.stem for path in folder.glob("*.yaml")} == {*TASKS, "trace"}
    shown = CliRunner().invoke(lmms_eval, []).output
    assert "--include_path" in shown
    assert "TRACE_RELEASE" in shown


def test_a_check_without_lmms_eval_says_how_to_get_it() -> None:
    pytest.importorskip("trace_hf")
    try:
        import lmms_eval as _installed  # noqa: F401
    except ImportError:
        done = CliRunner().invoke(lmms_eval, ["check"])
        assert done.exit_code == 1
        assert "pip install 'trace-hf[lmms-eval]'" in done.output
    else:
        pytest.skip("lmms-eval is installed here")
