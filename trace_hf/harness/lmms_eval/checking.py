"""Loading every task the way lmms-eval does, before a run; what fails here would fail there."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...errors import TraceError
from . import GROUP, TASKS, include_path

__all__ = ["TaskCheck", "check_tasks"]


@dataclass(frozen=True)
class TaskCheck:
    """What became of one task.

    Attributes
    ----------
    task : str
    ok : bool
    records : int
        How many records it runs.
    detail : str
        What is wrong, or what was seen.
    """

    task: str
    ok: bool
    records: int
    detail: str

    def to_json(self) -> dict[str, Any]:
        """Return it with stable keys."""
        return asdict(self)


def check_tasks(tasks: Sequence[str] = ()) -> list[TaskCheck]:
    """Load tasks with lmms-eval's own loader, for plain and for chat models, and go as far as the first request.

    The release is verified, every video is looked for, every prompt is built, and the first evidence is cut. No model
    is loaded or asked.

    Parameters
    ----------
    tasks : sequence of str
        Task names; all of `TASKS` if none.

    Raises
    ------
    TraceError
        If lmms-eval is not installed or finds no such task, or a task of its own has the name of one of ours.
    """
    unknown = [task for task in tasks if task not in TASKS]
    if unknown:
        raise TraceError(f"there is no task {', '.join(unknown)}", do=f"The tasks are {', '.join(TASKS)}.")
    # lmms-eval logs to standard output, where a report may be read by a program.
    with contextlib.redirect_stdout(sys.stderr):
        manager = _manager()
        return [_check(manager, task) for task in tasks or TASKS]


def _manager() -> Any:
    try:
        from lmms_eval.tasks import TaskManager
    except ImportError as error:
        raise TraceError(
            f"lmms-eval is not installed: {error}",
            why="It is needed for this only, so trace-hf does not bring it by itself.",
            do="Run: pip install 'trace-hf[lmms-eval]'",
        ) from error
    manager = TaskManager("ERROR", include_path=include_path())
    for name in (*TASKS, GROUP):
        place = manager.task_index.get(name, {}).get("yaml_path", "")
        if not str(place).startswith(include_path()):
            raise TraceError(
                f"lmms-eval knows {name} as {place or 'nothing'}",
                why="A task of lmms-eval's own wins silently over one of the same name.",
                do="Tell the authors of trace-hf which version of lmms-eval it is.",
            )
    return manager


def _check(manager: Any, name: str) -> TaskCheck:
    from lmms_eval.tasks import get_task_dict

    from . import driver

    driver.forget()  # each task may be run by itself
    try:
        for kind in ("simple", "chat"):
            evidence = _walk(get_task_dict([name], manager, kind)[name], kind)
    except (SystemExit, Exception) as error:  # noqa: BLE001 - whatever it is, it would end a run
        return TaskCheck(name, False, driver.records_of(TASKS[name]), _reason(error))
    return TaskCheck(name, True, driver.records_of(TASKS[name]), evidence)


def _walk(task: Any, kind: str) -> str:
    rows = task.eval_docs
    for row in rows:
        task.doc_to_text(row)
    first = rows[0]
    evidence = task.doc_to_messages(first) if kind == "chat" else task.doc_to_visual(first)
    scores = task.process_results(first, [""])
    missing = scores.keys() ^ task.aggregation().keys()
    if missing:
        raise TraceError(f"{', '.join(sorted(missing))} is scored but not put together, or the other way round")
    for name, put_together in task.aggregation().items():
        put_together([scores[name]])
    return f"first evidence: {_shown(evidence)}"


def _shown(evidence: list[Any]) -> str:
    content = [part for message in evidence for part in message["content"]] if isinstance(evidence[0], dict) else []
    visuals = [part["url"] for part in content if part["type"] != "text"] or evidence
    return str(visuals[0]) if isinstance(visuals[0], str) else f"{len(visuals)} frames"


def _reason(error: BaseException) -> str:
    problem: BaseException | None = error
    while problem is not None:
        if isinstance(problem, TraceError):
            return str(problem)
        problem = problem.__cause__ or problem.__context__
    if isinstance(error, IndexError):
        return "the config has no records, and lmms-eval cannot run an empty task"
    return f"{type(error).__name__}: {error}"
