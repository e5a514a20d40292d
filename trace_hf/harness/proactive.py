"""Proactive scores: what was said in each evaluation window, and what was said elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from ..windows import EvaluationWindow, effective_windows
from .evidence import TOLERANCES_S, polling_times, reachable
from .judge import Judge, JudgeError
from .parsing import is_silent, normalize
from .ratios import Ratio, Row, by_stratum, strata, summarize

__all__ = ["PROACTIVE_RATIOS", "SEMANTIC_TASK_TYPES", "proactive_outcome", "score_proactive", "view_name"]

SEMANTIC_TASK_TYPES = frozenset({"SSR", "CRR"})
"""Task types whose answers may be phrased in several ways, so that a judge compares them where there is one."""

PROACTIVE_RATIOS = {
    "accuracy": Ratio("score", "windows"),
    "miss_rate": Ratio("missed", "windows"),
    "outside_per_100_windows": Ratio("outside", "windows", 100.0),
    "redundant_per_100_windows": Ratio("redundant", "windows", 100.0),
}
"""The Proactive scores at one W. Outside and redundant responses are counted, so that both can exceed 100."""

_POLLING_RATIOS = {
    "ceiling": Ratio("reachable", "windows"),
    "accuracy_reachable": Ratio("score_reachable", "reachable"),
}
_JUDGED_RATIOS = {"judged_accuracy": Ratio("judged", "windows")}
_JUDGED_POLLING_RATIOS = {"judged_accuracy_reachable": Ratio("judged_reachable", "reachable")}

Response = Mapping[str, Any]


def view_name(tolerance_s: float) -> str:
    """Return the key of the scores at one W, for example ``w5``."""
    return f"w{tolerance_s:g}"


def proactive_outcome(
    record: Mapping[str, Any],
    responses: Iterable[Response],
    *,
    step_s: float | None = None,
    judge: Judge | None = None,
) -> dict[str, Any]:
    """Return what the responses to one instruction come to.

    A response counts for the window that its time lies in. The first one in a window is that window's answer; later
    ones are redundant, whatever they say; those in no window are outside. Silence is no response.

    Parameters
    ----------
    record : mapping
        A full Proactive record.
    responses : iterable of mapping
        ``{"time_s", "text"}``: when the response began, in seconds of the original video, and the raw text.
    step_s : float, optional
        For a polling run: how often it asked, in seconds. Reachable windows are counted then.
    judge : Judge, optional
        Compares the answers of `SEMANTIC_TASK_TYPES`; everything else is an exact match.

    Returns
    -------
    dict
        ``record_id``, and for each W under ``w5`` and ``w10`` the sums that scores are made of. It holds neither
        windows nor expected answers.
    """
    said = [(float(response["time_s"]), str(response["text"])) for response in responses]
    given = sorted((item for item in said if not is_silent(item[1])), key=lambda item: item[0])
    times = None if step_s is None else polling_times(record, step_s)
    outcome: dict[str, Any] = {"record_id": record["record_id"]}
    for tolerance in TOLERANCES_S:
        windows = effective_windows(record, tolerance)
        outcome[view_name(tolerance)] = _view(record, windows, given, times, judge)
    return outcome


def _view(
    record: Mapping[str, Any],
    windows: list[EvaluationWindow],
    given: list[tuple[float, str]],
    times: list[float] | None,
    judge: Judge | None,
) -> dict[str, Any]:
    inside = [[item for item in given if item[0] in window] for window in windows]
    first = [items[0] if items else None for items in inside]
    scores = [
        int(item is not None and normalize(item[1]) == normalize(window.expected_answer))
        for item, window in zip(first, windows, strict=True)
    ]
    view: dict[str, Any] = {
        "windows": len(windows),
        "score": sum(scores),
        "missed": first.count(None),
        "outside": len(given) - sum(map(len, inside)),
        "redundant": sum(max(0, len(items) - 1) for items in inside),
        "delays_s": [round(i[0] - w.start_s, 6) for i, w in zip(first, windows, strict=True) if i is not None],
    }
    can = [True] * len(windows) if times is None else reachable(windows, times)
    if times is not None:
        view["reachable"] = sum(can)
        view["score_reachable"] = sum(score for score, yes in zip(scores, can, strict=True) if yes)
    if judge is not None:
        view.update(_judged(judge, record, windows, first, scores, can))
    return view


def _judged(
    judge: Judge,
    record: Mapping[str, Any],
    windows: list[EvaluationWindow],
    first: Sequence[tuple[float, str] | None],
    scores: list[int],
    can: list[bool],
) -> dict[str, Any]:
    values, failed = [float(score) for score in scores], 0
    if str(record["task_type"]).strip().upper() in SEMANTIC_TASK_TYPES:
        for number, (item, window) in enumerate(zip(first, windows, strict=True)):
            if item is None or scores[number]:
                continue
            try:
                values[number] = judge.score(record["instruction"], window.expected_answer, normalize(item[1]))
            except JudgeError:
                failed += 1
    return {
        "judged": math.fsum(values),
        "judged_reachable": math.fsum(value for value, yes in zip(values, can, strict=True) if yes),
        "judge_failures": failed,
    }


def score_proactive(
    records: Iterable[Mapping[str, Any]],
    outcomes: Mapping[str, Mapping[str, Any]],
    *,
    step_s: float | None = None,
    judge: Judge | None = None,
) -> dict[str, Any]:
    """Put the outcomes of records together.

    Parameters
    ----------
    records : iterable of mapping
        The full records of the population; each counts, answered or not.
    outcomes : mapping
        Record ID -> `proactive_outcome`, made with the same ``step_s`` and ``judge``. What is not there was silent.
    step_s, judge
        As for `proactive_outcome`.

    Returns
    -------
    dict
        ``records``, ``mode`` (``polling`` or ``as_given``), how answers were compared, and for each W under ``w5`` and
        ``w10`` each of `PROACTIVE_RATIOS` with its ``…_interval``, the median delay in seconds and, for a polling run,
        the reachable windows, their share (the ceiling) and the accuracy over them; under ``by`` the same for each
        task type, source and validation tier.
    """
    listed = list(records)
    whole = [
        outcomes.get(record["record_id"]) or proactive_outcome(record, (), step_s=step_s, judge=judge)
        for record in listed
    ]
    report: dict[str, Any] = {
        "records": len(listed),
        "mode": "as_given" if step_s is None else "polling",
        "answers_compared": _how(judge),
    }
    for name in map(view_name, TOLERANCES_S):
        rows = [_row(record, outcome[name]) for record, outcome in zip(listed, whole, strict=True)]
        report[name] = {**_score(rows), "by": by_stratum(rows, _score)}
    return report


def _row(record: Mapping[str, Any], view: Mapping[str, Any]) -> Row:
    columns = {name: value for name, value in view.items() if name != "delays_s"}
    return Row(record["video_path"], strata(record), columns, view["delays_s"])


def _score(rows: list[Row]) -> dict[str, Any]:
    columns = rows[0].columns if rows else {}
    ratios = dict(PROACTIVE_RATIOS)
    found: dict[str, Any] = {"windows": sum(int(row.columns["windows"]) for row in rows)}
    if "reachable" in columns:
        ratios.update(_POLLING_RATIOS)
        found["reachable_windows"] = sum(int(row.columns["reachable"]) for row in rows)
    if "judged" in columns:
        ratios.update(_JUDGED_RATIOS)
        if "reachable" in columns:
            ratios.update(_JUDGED_POLLING_RATIOS)
    found.update(summarize(rows, ratios))
    delays = [delay for row in rows for delay in row.delays_s]
    found["median_delay_s"] = median(delays) if delays else None
    if "judged" in columns:
        found["judge_failures"] = sum(int(row.columns["judge_failures"]) for row in rows)
        if found["judge_failures"]:
            # A number that is partly judged and partly not is neither; the exact one stands beside it.
            found.update({name: None for name in found if name.startswith("judged_")})
    return found


def _how(judge: Judge | None) -> str:
    types = " and ".join(sorted(SEMANTIC_TASK_TYPES))
    if judge is None:
        return f"accuracy: exact match for all task types; no judge was configured for {types}"
    return f"accuracy: exact match for all task types; judged_accuracy: {judge.description} for {types}, else exact"
