"""The tasks in a real lmms-eval, in an environment of its own that `scripts/torch_env.py` makes.

Each run is made once and kept in the folder that the test processes share, since several of them may work on this file.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from environments import torch_python
from filelock import FileLock

import trace_hf
from trace_hf import builder
from trace_hf.harness import open_population, polling_times, proactive_system, qa_prompt
from trace_hf.harness.lmms_eval import TASKS, include_path
from trace_hf.sample_video import write_time_coded_video
from trace_hf.schema import CONFIGS
from trace_hf.windows import effective_windows, evidence_span

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).resolve().parent.parent
HOME = Path(os.environ["TRACE_TEST_HOME"]) / "lmms"
RATES = (4, 3, 5)
ENTRY_POINT = "[lmms_eval.models]\nreaders = lmms_readers:MANIFESTS\n"


@dataclass
class Run:
    """What a run of lmms-eval left behind."""

    code: int
    output: str
    folder: Path

    def _one(self, pattern: str) -> Path | None:
        return next(iter(sorted((self.folder / "out").rglob(pattern))), None)

    @property
    def written(self) -> bool:
        """Whether there is a results file."""
        return self._one("*_results.json") is not None

    @property
    def results(self) -> dict[str, Any]:
        """The whole results file."""
        path = self._one("*_results.json")
        assert path is not None, self.output
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found

    def scores(self, task: str) -> dict[str, Any]:
        """The scores of a task by their names."""
        return {name.partition(",")[0]: value for name, value in self.results["results"][task].items()}

    def report(self, task: str) -> dict[str, Any]:
        (report,) = self.scores(task)["report"]
        return dict(report)

    def samples(self, task: str) -> list[dict[str, Any]]:
        path = self._one(f"*_samples_{task}.jsonl")
        assert path is not None, self.output
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    @property
    def requests(self) -> list[dict[str, Any]]:
        """Every request that the model got, of all ranks."""
        files = sorted(self.folder.glob("log.*"))
        return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


# --- what the runs need ---------------------------------------------------------------------------------------


def once(name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that is filled by the first process that asks for it."""
    HOME.mkdir(parents=True, exist_ok=True)
    folder = HOME / name
    with FileLock(f"{folder}.lock"):
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (folder / "done").touch()
    return folder


@pytest.fixture(scope="session")
def python() -> str:
    """Return the Python of the environment with lmms-eval."""
    return str(torch_python())


@cache
def world() -> Path:
    """Return a folder with a small release, a video for each of its records, and what the models are to say."""
    return once("world", make_world)


def make_world(folder: Path) -> None:
    release = trace_hf.write_sample(folder / "release", scale=0.01)
    ends: dict[str, float] = {}
    answers: dict[str, list[str]] = {}
    for record in open_population("qa", release).records.values():
        path = record["video_path"]
        ends[path] = max(ends.get(path, 0.0), evidence_span(record).end_s)
        answers[record["record_id"]] = [record["answer"]]
    for record in open_population("proactive", release).records.values():
        path, windows = record["video_path"], effective_windows(record)
        ends[path] = max(ends.get(path, 0.0), evidence_span(record, tolerance_s=10).end_s)
        answers[record["record_id"]] = [
            next((window.expected_answer for window in windows if time in window), "WAIT")
            for time in polling_times(record)
        ]
    for path, end in ends.items():
        # A little more than is needed, so that there are later frames that could be shown.
        write_time_coded_video(folder / "videos" / path, duration_s=end + 3, fps=rate(path), width=48, height=48)
    (folder / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
    plugin = folder / "plugin" / "lmms_readers-1.dist-info"
    plugin.mkdir(parents=True)
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: lmms-readers\nVersion: 1\n", encoding="utf-8")
    (plugin / "entry_points.txt").write_text(ENTRY_POINT, encoding="utf-8")
    shutil.copy(PROJECT / "tests/lmms_readers.py", plugin.parent)


def rate(path: str) -> int:
    """Return the frames per second of a video; they differ."""
    return RATES[sum(path.encode()) % len(RATES)]


def variables(folder: Path, **more: str) -> dict[str, str]:
    """Return the environment of a run."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRACE_", "PYTHON"))}
    return {
        **kept,
        "HF_HOME": str(HOME / "hf"),
        "HF_HUB_OFFLINE": "1",
        "TRACE_CACHE": str(HOME / "cache"),
        "TRACE_RELEASE": str(world() / "release"),
        "TRACE_VIDEO_ROOT": str(world() / "videos"),
        "TRACE_TEST_ANSWERS": str(world() / "answers.json"),
        "TRACE_TEST_LOG": str(folder / "log"),
        "PYTHONPATH": str(world() / "plugin"),
        **more,
    }


def run(
    python: str,
    name: str,
    model: str,
    tasks: str,
    *options: str,
    launch: tuple[str, ...] = (),
    include: str | None = None,
    **more: str,
) -> Run:
    """Run lmms-eval once, as a user does."""

    def make(folder: Path) -> None:
        command = [python, "-m", *launch, *(["-m"] if launch else []), "lmms_eval", "--model", model]
        command += ["--include_path", include or include_path(), "--tasks", tasks, "--log_samples"]
        command += ["--output_path", str(folder / "out"), *options]
        done = subprocess.run(
            command,
            cwd=folder,
            env=variables(folder, **more),
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        (folder / "output").write_text(done.stdout + done.stderr, encoding="utf-8")
        (folder / "code").write_text(str(done.returncode), encoding="utf-8")

    folder = once(name, make)
    return Run(int((folder / "code").read_text()), (folder / "output").read_text(encoding="utf-8"), folder)


ALL = ",".join(TASKS)


@pytest.fixture(scope="session")
def oracle(python: str) -> Run:
    """Return a run of the six tasks with the chat model, which says what is right whenever it is asked."""
    return run(python, "oracle", "trace_chat_reader", ALL, "--batch_size", "2")


@pytest.fixture(scope="session")
def dummy(python: str) -> Run:
    """Return a run of the six tasks with lmms-eval's own dummy, which says A."""
    return run(python, "dummy", "dummy", ALL, "--batch_size", "1")


def records(config: str) -> dict[str, dict[str, Any]]:
    return dict(open_population(config, world() / "release").records)


# --- evidence and prompts ---------------------------------------------------------------------------------------


def asked_at(record: dict[str, Any], number: int, step_s: float = 5.0) -> float:
    """Return the time of a request."""
    if record["task"] == "qa":
        assert number == 0
        return float(record["question_time_s"])
    return polling_times(record, step_s)[number]


def last_allowed(record: dict[str, Any], time: float) -> float:
    """Return the time of the last frame that may be seen for a time."""
    fps = rate(record["video_path"])
    return math.floor(time * fps + 0.5) / fps


def test_no_request_of_any_round_shows_a_frame_after_its_time(oracle: Run) -> None:
    assert oracle.code == 0, oracle.output
    full = {**records("qa"), **records("proactive")}
    for request in oracle.requests:
        record = full[request["doc"]["record_id"]]
        latest, allowed = max(request["times"]), last_allowed(record, asked_at(record, request["round"]))
        # The allowed frame is there, and nothing after it; a time code holds 0.1 ms.
        assert latest == pytest.approx(allowed, abs=1e-4), request
        first = last_allowed(record, evidence_span(record).start_s)
        assert min(request["times"]) == pytest.approx(first, abs=1e-4)


def test_every_record_is_asked_at_every_time(oracle: Run) -> None:
    wanted = set()
    for task, config in TASKS.items():
        for record_id, record in records(config).items():
            rounds = 1 if record["task"] == "qa" else len(polling_times(record))
            wanted |= {(task, record_id, number) for number in range(rounds)}
    given = [(request["task"], request["doc"]["record_id"], request["round"]) for request in oracle.requests]
    assert len(given) == len(set(given))
    assert set(given) == wanted
    assert max(number for _, _, number in given) > 5


def test_prompts_messages_and_names_hold_no_answer(oracle: Run) -> None:
    full = {**records("qa"), **records("proactive")}
    for request in oracle.requests:
        row, record = request["doc"], full[request["doc"]["record_id"]]
        assert tuple(row) == CONFIGS[TASKS[request["task"]]].inputs
        # Texts are made of model inputs and of words that are the same for all, to the letter.
        if record["task"] == "qa":
            assert request["texts"] == [qa_prompt(row)]
        else:
            assert request["texts"] == [proactive_system(), record["instruction"]]
        (name,) = request["names"]
        assert re.fullmatch(r"[0-9a-f]{64}\.mp4", Path(name).name)
        said = "\n".join(request["texts"])
        shown = "\n".join([proactive_system(), *row.get("options", ()), row.get("question") or row["instruction"]])
        for secret in secrets(record):
            assert secret not in said or secret in shown, (request["task"], row["record_id"])
            # A digit may stand in a name that is 64 hexadecimal digits of a hash.
            assert len(secret) < 3 or secret not in name


def secrets(record: dict[str, Any]) -> set[str]:
    """Return every text of a record that gives its answer away."""
    found = {window["expected_answer"] for window in record.get("windows", ())}
    for trigger in record["metadata"].get("trigger_annotations", ()):
        found |= {trigger["answer"], trigger.get("evidence_description", ""), *trigger.get("accepted_facts", ())}
    found |= {span["description"] for span in record["metadata"].get("evidence_spans", ())}
    if record["task"] == "qa":
        found |= {option for option in record["options"] if option.startswith(record["answer"])}
    return found - {""}


def test_logged_samples_carry_their_record_id_and_no_target(dummy: Run) -> None:
    for task, config in TASKS.items():
        full = records(config)
        lines = dummy.samples(task)
        assert [line["record_id"] for line in lines] == list(full)
        for line in lines:
            assert line["target"] == ""
            prompt = line.pop("input")
            rest = json.dumps(line, ensure_ascii=False)
            for secret in secrets(full[line["record_id"]]):
                # A digit may stand in a count.
                assert len(secret) < 3 or secret not in rest or secret in prompt


# --- scores -----------------------------------------------------------------------------------------------------


def test_the_oracle_has_1_on_qa_and_the_ceiling_on_polling(oracle: Run) -> None:
    for task in ("trace_qa", "trace_qa_tiny"):
        scores = oracle.scores(task)
        assert (scores["accuracy"], scores["recoverable_accuracy"], scores["invalid_rate"]) == (1.0, 1.0, 0.0)
    for task, config in TASKS.items():
        if not config.startswith("proactive"):
            continue
        for tolerance in (5, 10):
            windows = reached = 0
            for record in records(config).values():
                times = polling_times(record)
                for window in effective_windows(record, tolerance):
                    windows, reached = windows + 1, reached + any(window.start_s <= t < window.end_s for t in times)
            scores = oracle.scores(task)
            assert scores[f"polling_ceiling_w{tolerance}"] == reached / windows
            if tolerance == 5:  # it says nothing in what is a window at W = 10 only
                assert scores["polling_accuracy_w5"] == reached / windows
                assert scores["polling_outside_per_100_windows_w5"] == 0.0
                if reached:
                    assert scores["polling_accuracy_reachable_w5"] == 1.0
    assert oracle.scores("trace_proactive")["polling_ceiling_w5"] < 1.0


def test_the_dummy_has_exactly_the_share_of_a(dummy: Run) -> None:
    assert dummy.code == 0, dummy.output
    for task in ("trace_qa", "trace_qa_tiny"):
        answers = [record["answer"] for record in records(TASKS[task]).values()]
        assert dummy.scores(task)["accuracy"] == answers.count("A") / len(answers)
    # It never loops: A is its answer to the first request, which comes before any window.
    scores = dummy.scores("trace_proactive")
    assert scores["polling_accuracy_w5"] == 0.0
    full = records("proactive")
    assert scores["polling_outside_per_100_windows_w5"] == 100 * len(full) / sum(
        len(record["windows"]) for record in full.values()
    )


def test_results_say_what_they_were_made_on(oracle: Run) -> None:
    import hashlib

    digest = hashlib.sha256((world() / "release/manifest.json").read_bytes()).hexdigest()
    for task, config in TASKS.items():
        report = oracle.report(task)
        facts = report["run"]
        assert (facts["release_id"], facts["manifest_sha256"], facts["pinned"]) == ("sample-0-x0.01", digest, False)
        assert (facts["config"], facts["complete"]) == (config, True)
        assert report["records"] == facts["population_records"] == len(records(config))
        assert facts["parser"]
        assert facts["population"]
        assert "SYNTHETIC" in facts["mark"]
        scores = report["w5"] if config.startswith("proactive") else report
        assert scores["by"].keys() == {"task_type", "source", "validation_tier"}
        if config.startswith("proactive"):
            assert (facts["mode"], facts["tolerances_s"], facts["step_s"]) == ("polling", [5.0, 10.0], 5.0)
            assert {"reachable_windows", "ceiling", "accuracy_reachable"} <= report["w5"].keys()
            assert "no judge was configured" in report["answers_compared"]
            assert all("polling" in name for name in oracle.scores(task) if name.endswith(("_w5", "_w10")))
    # The table that lmms-eval prints stays readable.
    assert max(map(len, oracle.output.splitlines())) < 400


def test_two_ranks_give_the_numbers_of_one(python: str, oracle: Run) -> None:
    # gloo on the CPU; lmms-eval's own launcher is this one, too.
    launch = ("torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    both = run(
        python, "two_ranks", "trace_chat_reader", ALL, "--batch_size", "1", launch=launch, ACCELERATE_USE_CPU="true"
    )
    assert both.code == 0, both.output
    assert len(list(both.folder.glob("log.*"))) == 2
    assert all(file.stat().st_size for file in both.folder.glob("log.*"))
    for task in TASKS:
        assert both.results["results"][task] == oracle.results["results"][task]
        assert {line["record_id"] for line in both.samples(task)} == set(records(TASKS[task]))


# --- a user's own task file, and the other kind of model --------------------------------------------------------


@pytest.fixture(scope="session")
def own(python: str) -> Run:
    """Return a limited run of task files that take ours and change what may be changed."""
    folder = once("own_tasks", make_own_tasks)
    more = {} if not hasattr(builder, "source_of") else {"TRACE_RELEASE": "", "TRACE_VIDEO_ROOT": ""}
    return run(
        python,
        "own",
        "trace_simple_reader",
        "own_qa,own_proactive",
        "--batch_size",
        "1",
        "--limit",
        "3",
        include=str(folder),
        TRACE_TEST_ANSWERS=str(folder / "answers.json"),
        **more,
    )


def make_own_tasks(folder: Path) -> None:
    place = f"{{view: model_input, release: {world() / 'release'}, video_root: {world() / 'videos'}}}"
    for name, step in (("qa", ""), ("proactive", ", step_s: 2")):
        (folder / f"own_{name}.yaml").write_text(
            f"include: {include_path()}/trace_{name}.yaml\ntask: own_{name}\ndataset_kwargs: {place}\n"
            f"lmms_eval_specific_kwargs: {{default: {{visual: frames{step}}}}}\n",
            encoding="utf-8",
        )
    answers = {record_id: [record["answer"]] for record_id, record in records("qa").items()}
    answers |= {record_id: ["WAIT"] * 2000 for record_id in records("proactive")}
    (folder / "answers.json").write_text(json.dumps(answers), encoding="utf-8")


def test_frames_at_1_fps_and_another_step(own: Run) -> None:
    assert own.code == 0, own.output
    full = {**records("qa"), **records("proactive")}
    assert {request["task"] for request in own.requests} == {"own_qa", "own_proactive"}
    for request in own.requests:
        record = full[request["doc"]["record_id"]]
        time = asked_at(record, request["round"], 2.0)
        assert max(request["times"]) == pytest.approx(last_allowed(record, time), abs=1e-4)
        start = evidence_span(record).start_s
        assert len(request["times"]) == math.ceil(round(time - start, 6)) + 1
        assert not request["names"]


def test_a_limited_run_says_that_it_is_not_the_population(own: Run) -> None:
    report = own.report("own_qa")
    assert (report["records"], report["run"]["population_records"]) == (3, len(records("qa")))
    assert report["run"]["complete"] is False
    assert report["accuracy"] == 1.0
    assert report["run"]["visual"] == "frames"
    assert own.report("own_proactive")["run"]["step_s"] == 2


def test_rounds_that_come_as_a_tuple_are_told_apart(own: Run) -> None:
    # As one text "('WAIT', 'WAIT', …)" it would be one answer, not silence.
    scores = own.scores("own_proactive")
    assert scores["polling_miss_rate_w5"] == 1.0
    assert scores["polling_outside_per_100_windows_w5"] == 0.0
    (line, *_) = own.samples("own_proactive")
    times = polling_times(records("proactive")[line["record_id"]], 2.0)
    assert [response["time_s"] for response in line["report"]["responses"]] == times


# --- failures end the run before the model is asked anything ------------------------------------------------------


def ended(failed: Run) -> str:
    """Return the output of a run that must have ended before its first request."""
    assert failed.code == 1, failed.output
    assert not failed.written
    assert failed.requests == []
    return failed.output


def test_missing_videos_are_listed_before_the_first_request(python: str, tmp_path: Path) -> None:
    gone = sorted({record["video_path"] for record in records("qa").values()})
    (HOME / "no_videos").mkdir(exist_ok=True)
    text = ended(run(python, "missing", "trace_chat_reader", "trace_qa", TRACE_VIDEO_ROOT=str(HOME / "no_videos")))
    assert f"{len(gone)} videos of qa are not under" in text
    assert all(path in text for path in gone)


def test_the_real_sample_release_loads_and_ends_with_its_missing_videos(python: str, real: Path) -> None:
    (HOME / "no_videos").mkdir(exist_ok=True)
    place = {"TRACE_RELEASE": str(real / "sample_release"), "TRACE_VIDEO_ROOT": str(HOME / "no_videos")}
    text = ended(run(python, "real", "trace_chat_reader", "trace_qa_tiny,trace_proactive_tiny", **place))
    tiny = open_population("qa_tiny", real / "sample_release").records
    assert len(tiny) == 3
    assert "videos of qa_tiny are not under" in text or "videos of proactive_tiny are not under" in text
    checked = check(python, HOME, "trace_qa", "trace_proactive", **place)
    assert checked.returncode == 1
    for task in json.loads(checked.stdout)["tasks"]:
        config = TASKS[task["task"]]
        full = open_population(config, real / "sample_release").records
        assert task["records"] == len(full)
        count = len({record["video_path"] for record in full.values()})
        assert f"{count} videos of {config} are not under" in task["detail"]


def test_a_release_that_does_not_verify_ends_the_run(python: str) -> None:
    def damage(folder: Path) -> None:
        shutil.copytree(world() / "release", folder / "release")
        path = folder / "release/qa.jsonl"
        path.write_bytes(path.read_bytes().replace(b'"answer":"A"', b'"answer":"B"', 1))

    folder = once("damaged", damage)
    text = ended(run(python, "unverified", "trace_chat_reader", "trace_qa", TRACE_RELEASE=str(folder / "release")))
    assert "qa.jsonl" in text
    assert text.count("Error:") == 1  # not tried five times


def check(python: str, cwd: Path, *tasks: str, **more: str) -> subprocess.CompletedProcess[str]:
    code = "from trace_hf.cli.lmms import lmms_eval; lmms_eval()"
    options = [part for task in tasks for part in ("--task", task)]
    return subprocess.run(
        [python, "-c", code, "check", "--json", *options],
        cwd=cwd,
        env=variables(HOME, **more),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def test_check_loads_every_task_as_lmms_eval_does(python: str, tmp_path: Path) -> None:
    done = check(python, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["ok"] is True
    counts = {task["task"]: task["records"] for task in found["tasks"]}
    assert counts == {task: len(records(config)) for task, config in TASKS.items()}
