"""Loads in processes of their own that share one import, so that many of them start at once and cost little.

``python forked.py`` reads waves of jobs from standard input as JSON and answers with what became of each. The jobs of
a wave run at the same time; one of them may kill itself with signal 9 at a named moment.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Job = dict[str, Any]


def run(*waves: Sequence[Job]) -> list[list[Job]]:
    """Run waves of jobs, and return an answer for each.

    A job has ``config`` and ``release``, and may have ``cache``, ``options``, ``env``, ``kill`` (a key of `MOMENTS`)
    and ``largest`` (bytes that a file may have). Its answer has ``signal``, else ``error`` and ``text``, else
    ``attested`` and ``rows``.
    """
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(waves).encode(),
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
    )
    answers: list[list[Job]] = json.loads(done.stdout)
    return answers


def _main() -> None:
    import datasets.arrow_writer
    import datasets.builder
    import datasets.packaged_modules  # noqa: F401 - nothing is left to be imported by each process on its own

    import trace_hf.attest
    import trace_hf.builder
    import trace_hf.remote  # noqa: F401

    answers = [_wave(jobs) for jobs in json.load(sys.stdin)]
    json.dump(answers, sys.stdout)


def _wave(jobs: Sequence[Job]) -> list[Job]:
    go, start = os.pipe()
    running = []
    for job in jobs:
        said, answer = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(start)
            os.read(go, 1)  # ends when the parent closes its side, for all at the same time
            text = json.dumps(_answer(job)).encode()
            os.write(answer, text)
            os._exit(0)
        os.close(answer)
        running.append((pid, said))
    os.close(go)
    os.close(start)
    return [_collected(pid, said) for pid, said in running]


def _collected(pid: int, said: int) -> Job:
    with os.fdopen(said, "rb") as stream:
        text = stream.read()
    status = os.waitpid(pid, 0)[1]
    answer: Job = {"signal": os.WTERMSIG(status)} if os.WIFSIGNALED(status) else json.loads(text)
    return answer


def _answer(job: Job) -> Job:
    import trace_hf
    from trace_hf.errors import TraceError

    if "largest" in job:
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["largest"], job["largest"]))
    os.environ.update(job.get("env", {}))
    if "kill" in job:
        MOMENTS[job["kill"]]()
    warnings.simplefilter("ignore")
    try:
        rows = trace_hf.load(
            job["config"], release=job["release"], cache_dir=job.get("cache"), **job.get("options", {})
        )
        if "options" in job:
            rows = list(rows)
        attested = trace_hf.attest(rows, job["config"], release=job["release"])
    except TraceError as error:
        return {"error": type(error).__name__, "text": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever it is, a test says that it must not be
        return {"error": "OTHER", "text": repr(error)}
    return {"attested": attested.ok, "rows": len(rows)}


# --- moments ------------------------------------------------------------------------------------------------------


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill(place: str, name: str, *, after: bool, calls: int = 1) -> Callable[[], None]:
    """Die when a function has done its work for the nth time, or is about to do it."""

    def arm() -> None:
        owner: Any = sys.modules[place.split(":")[0]]
        for part in place.split(":")[1:]:
            owner = getattr(owner, part)
        original, count = getattr(owner, name), 0

        def function(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            if count == calls - 1 and not after:
                _die()
            result = original(*args, **kwargs)
            count += 1
            if count == calls:
                _die()
            return result

        setattr(owner, name, function)

    return arm


MOMENTS: dict[str, Callable[[], None]] = {
    "hashing": _kill("trace_hf.integrity", "digest_file", after=True, calls=3),
    "parsing": _kill("trace_hf.arrow", "_parse", after=True),
    "writing": _kill("datasets.arrow_writer:ArrowWriter", "write_table", after=True),
    "closing the file": _kill("datasets.arrow_writer:ArrowWriter", "finalize", after=True),
    "writing the info": _kill("datasets.builder:DatasetBuilder", "_save_info", after=True),
    "before the rename": _kill("shutil", "move", after=False),
    "after the rename": _kill("shutil", "move", after=True),
    "reading": _kill("trace_hf.builder:Trace", "_as_dataset", after=True),
    "fetching": _kill("trace_hf.remote", "digest_file", after=True, calls=3),
    "before a fetched release is put": _kill("trace_hf.release_cache:ReleaseCache", "_move", after=False),
    "after a fetched release was put": _kill("trace_hf.release_cache:ReleaseCache", "_move", after=True),
}


def zipped(folder: Path, archive: Path) -> str:
    """Pack a snapshot into an archive and return the URL of it inside."""
    import zipfile

    with zipfile.ZipFile(archive, "w") as writer:
        for path in folder.iterdir():
            writer.write(path, f"release/{path.name}")
    return f"zip://release::file://{archive}"


if __name__ == "__main__":
    _main()
