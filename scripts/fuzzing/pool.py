"""Processes that run cases, watched from outside: a crash, a hang or a gigabyte ends one and is a fault."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from select import select
from typing import IO

MEMORY = 2**30
"""A process that holds more than this, in bytes, is at fault."""

SECONDS = 60.0
"""One target that takes longer is at fault; the machine may be busy."""

CASES_PER_PROCESS = 150


@dataclass
class Outcome:
    """What a case came to.

    Attributes
    ----------
    case, config : str
    targets : list of str
        What was run.
    right, refused : int
        Good answers.
    fault : str or None
        What was wrong, with the target's name before it.
    trace : str
        Where it was raised.
    """

    case: str
    config: str
    targets: list[str]
    right: int = 0
    refused: int = 0
    fault: str | None = None
    trace: str = ""


# --- inside -------------------------------------------------------------------------------------------------------


def serve(release: str, scratch: str) -> None:
    """Run the cases that standard input names, one JSON object a line, and answer on standard output."""
    # A soft bound on one process; the parent watches what is really held.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 * MEMORY, 3 * MEMORY))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever prints must not be taken for an answer
    for line in sys.stdin:
        order = json.loads(line)
        outcome = run_case(Path(release), Path(scratch), order["case"], order["targets"], answers)
        answers.write(json.dumps(asdict(outcome)) + "\n")
        answers.flush()


def run_case(
    release: Path, scratch: Path, name: str, wanted: list[str] | None, progress: IO[str] | None = None
) -> Outcome:
    """Build a case and run targets on it, all of them or those that its name chooses."""
    from .cases import build, case_of, files_of
    from .judging import Fault, Scene
    from .targets import run

    case = case_of(name, files_of(release))
    random = Random(f"{name}/targets")
    config = _config_of(case, random)
    outcome = Outcome(name, config, wanted or _targets_of(name, random))
    folder = scratch / "snapshot"
    for place in (folder, scratch / "work"):
        shutil.rmtree(place, ignore_errors=True)
    (scratch / "work").mkdir(parents=True)
    build(case, release, folder)
    for target in outcome.targets:
        if progress:
            progress.write(json.dumps({"at": target, "case": name, "config": config}) + "\n")
            progress.flush()
        scene = Scene(folder, release, scratch / "work", Random(f"{name}/{target}"), config)
        try:
            result = run(target, scene)
        except (Fault, MemoryError) as problem:
            outcome.fault = f"{target}: {problem}"
            outcome.trace = "".join(traceback.format_exception(problem))
            break
        outcome.right += result == "right"
        outcome.refused += result == "refused"
    return outcome


def _config_of(case: object, random: Random) -> str:
    from trace_hf.schema import CONFIGS

    from .cases import Case

    assert isinstance(case, Case)
    near = {
        "qa.jsonl": ["qa", "qa_tiny"],
        "tiny_qa_ids.json": ["qa_tiny"],
        "proactive.jsonl": ["proactive", "proactive_tiny"],
        "tiny_proactive_ids.json": ["proactive_tiny"],
        "proactive_standard.jsonl": ["proactive_standard"],
        "proactive_high_frequency.jsonl": ["proactive_high_frequency"],
        "proactive_subsets.json": ["proactive_standard", "proactive_high_frequency"],
        "changes.jsonl": ["changes"],
        "exclusions.jsonl": ["exclusions"],
    }
    files = [step.file for step in case.steps] or ["manifest.json"]
    choice = near.get(random.choice(files), list(CONFIGS))
    return random.choice(choice if random.random() < 0.9 else list(CONFIGS))


def _targets_of(name: str, random: Random) -> list[str]:
    from .cases import MONSTERS
    from .targets import TARGETS

    if name in MONSTERS:
        return [target for target in TARGETS if target not in ("lines", "keep")]
    return random.sample(list(TARGETS), 5)


# --- outside ------------------------------------------------------------------------------------------------------


class Worker:
    """One process; `start` gives it a case, `poll` looks after it."""

    def __init__(self, release: Path) -> None:
        self.release = release
        self.scratch = Path(tempfile.mkdtemp(prefix="trace-hf-fuzz-"))
        self.case: str | None = None
        self.at = ""
        self.peak = 0
        self.done = 0
        self._since = 0.0
        self._said = b""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, case: str, targets: list[str] | None) -> None:
        """Begin a case."""
        if self._process is None or self.done >= CASES_PER_PROCESS:
            self._renew()
        assert self._process is not None
        assert self._process.stdin is not None
        self.case, self.at, self._since = case, "build", time.monotonic()
        self._process.stdin.write(json.dumps({"case": case, "targets": targets}).encode() + b"\n")
        self._process.stdin.flush()

    def poll(self) -> Outcome | None:
        """Return the outcome of a case that has ended, of itself or by force."""
        assert self._process is not None
        while line := self._answer():
            answer = json.loads(line)
            if "at" in answer:
                self.at, self._since = answer["at"], time.monotonic()
                continue
            self.done += 1
            self.case = None
            return Outcome(**answer)
        held = _held(self._process.pid)
        self.peak = max(self.peak, held)
        if self._process.poll() is not None:
            return self._ended(f"the process ended with {self._process.returncode}")
        if held > MEMORY:
            return self._ended(f"holds {held // 2**20} MiB")
        if time.monotonic() - self._since > SECONDS:
            return self._ended(f"took more than {SECONDS:.0f} s")
        return None

    def _answer(self) -> bytes | None:
        """Read what the process has said, a line at a time and without waiting."""
        assert self._process is not None
        assert self._process.stdout is not None
        while b"\n" not in self._said and select([self._process.stdout], [], [], 0)[0]:
            more = os.read(self._process.stdout.fileno(), 65536)
            if not more:
                break
            self._said += more
        line, end, rest = self._said.partition(b"\n")
        if not end:
            return None
        self._said = rest
        return line

    def _ended(self, why: str) -> Outcome:
        outcome = Outcome(self.case or "", "", [self.at], fault=f"{self.at}: {why}")
        self.stop()
        self.case = None
        return outcome

    def _renew(self) -> None:
        self.stop()
        environment = {
            **os.environ,
            "HF_HOME": str(self.scratch / "hf"),
            "HF_HUB_OFFLINE": "1",
            "TRACE_CACHE": str(self.scratch / "trace"),
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
        }
        code = "import sys; from fuzzing.pool import serve; serve(*sys.argv[1:])"
        self._said = b""
        self.done = 0
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, str(self.release), str(self.scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )

    def stop(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            self._process = None

    def close(self) -> None:
        """End the process and remove its folder."""
        self.stop()
        shutil.rmtree(self.scratch, ignore_errors=True)


def _held(pid: int) -> int:
    """Return the bytes of memory that a process holds, without pages of files that it has mapped."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def run_cases(
    names: Iterable[str], release: Path, *, workers: int, targets: list[str] | None = None
) -> Iterator[Outcome]:
    """Run cases in processes and yield their outcomes as they come."""
    waiting = iter(names)
    pool = [Worker(release) for _ in range(workers)]
    busy: set[int] = set()
    try:
        while True:
            for index, worker in enumerate(pool):
                if index in busy:
                    outcome = worker.poll()
                    if outcome is None:
                        continue
                    busy.discard(index)
                    yield outcome
                name = next(waiting, None)
                if name is not None:
                    worker.start(name, targets)
                    busy.add(index)
            if not busy:
                return
            time.sleep(0.01)
    finally:
        for worker in pool:
            worker.close()
