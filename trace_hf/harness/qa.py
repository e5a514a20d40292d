"""QA scores: exact choice accuracy over all records, failures included."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .parsing import recoverable_choice, strict_choice
from .ratios import Ratio, Row, by_stratum, strata, summarize

__all__ = ["QA_RATIOS", "qa_outcome", "score_qa"]

QA_RATIOS = {
    "accuracy": Ratio("correct", "records"),
    "recoverable_accuracy": Ratio("recoverable", "records"),
    "invalid_rate": Ratio("invalid", "records"),
}
"""The QA scores: the strict parser's accuracy, the recoverable one, and how often the strict parser finds no label."""


def qa_outcome(record: Mapping[str, Any], text: str | None) -> dict[str, Any]:
    """Return what one answer comes to.

    Parameters
    ----------
    record : mapping
        A full QA record.
    text : str or None
        What the model said, raw; None where it said nothing.

    Returns
    -------
    dict
        ``record_id``, and as 0 or 1 ``answered``, ``correct``, ``recoverable`` and ``invalid``. It does not hold the
        right answer.
    """
    options = record["options"]
    strict = strict_choice(text, options)
    return {
        "record_id": record["record_id"],
        "answered": int(bool(text and text.strip())),
        "correct": int(strict == record["answer"]),
        "recoverable": int(recoverable_choice(text, options) == record["answer"]),
        "invalid": int(strict is None),
    }


def score_qa(records: Iterable[Mapping[str, Any]], answers: Mapping[str, str | None]) -> dict[str, Any]:
    """Score answers.

    Parameters
    ----------
    records : iterable of mapping
        The full records of the population; each counts, answered or not.
    answers : mapping
        Record ID -> raw text. What is not there is a failure.

    Returns
    -------
    dict
        ``records``, ``answered``, each of `QA_RATIOS` with its ``…_interval``, and under ``by`` the same for each task
        type, source and validation tier.
    """
    rows = []
    for record in records:
        outcome = qa_outcome(record, answers.get(record["record_id"]))
        columns = {name: value for name, value in outcome.items() if name != "record_id"}
        rows.append(Row(record["video_path"], strata(record), {"records": 1, **columns}))
    return {**_score(rows), "by": by_stratum(rows, _score)}


def _score(rows: list[Row]) -> dict[str, Any]:
    answered = sum(int(row.columns["answered"]) for row in rows)
    return {"records": len(rows), "answered": answered, **summarize(rows, QA_RATIOS)}
