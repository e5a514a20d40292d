"""The table of checks, and how a function becomes a row of it.

A check is one small function that proves one rule of a release. Its docstring's first line is the rule; it is what
people read. A record check looks at one record and returns a fault or None. A release check looks at the facts that
one pass over the files gathered, and yields faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ..schema import ChangeRecord, ExclusionRecord, ProactiveRecord, QARecord

if TYPE_CHECKING:
    from .facts import Facts

Fault = tuple["str | None", str]
"""The record that breaks a rule (None when no single one does), and how."""

Kind = Literal["recomputed", "stated only", "not applicable"]
"""Whether a rule was shown from the data, rests on a statement that the data cannot show, or applies to nothing."""

RecordFunction = Callable[[Any], "str | None"]
ReleaseFunction = Callable[["Facts"], Iterable[Fault]]

FILE_OF: dict[type[Any], str] = {
    QARecord: "qa",
    ProactiveRecord: "proactive",
    ChangeRecord: "changes",
    ExclusionRecord: "exclusions",
}
"""Which file holds the records of a kind, as checks name it."""


def mode_of(record: Any) -> str:
    """Return the mode of a QA or Proactive record, by its kind; the file of an audit record."""
    return FILE_OF[type(record)]


_R = TypeVar("_R", bound=RecordFunction)
_F = TypeVar("_F", bound=ReleaseFunction)


@dataclass(frozen=True)
class Check:
    """One row of the table.

    Attributes
    ----------
    name : str
        The function's name.
    meaning : str
        The rule that it proves.
    needs : tuple of str
        The files that it cannot do without, as `Facts` names them.
    kind : {"recomputed", "stated only"}
    statement : str
        What of a sidecar it is about, as ``lineage.inherited`` of a derived release would name it:
        ``review_summary.json:saved_review_count``. Empty for rules about the data itself.
    records : tuple of type
        The record kinds of a record check.
    judge : callable or None
        The record check.
    run : callable or None
        The release check; None when the reading pass finds the faults itself.
    """

    name: str
    meaning: str
    needs: tuple[str, ...]
    kind: Kind = "recomputed"
    statement: str = ""
    records: tuple[type[Any], ...] = ()
    judge: RecordFunction | None = None
    run: ReleaseFunction | None = None


CHECKS: dict[str, Check] = {}
"""Every check by name, in the order in which they are reported."""


def on_records(*kinds: type[Any]) -> Callable[[_R], _R]:
    """Make a function a check of every record of some kinds."""

    def add(function: _R) -> _R:
        needs = tuple(FILE_OF[kind] for kind in kinds)
        _add(Check(function.__name__, _meaning(function), needs, records=kinds, judge=function))
        return function

    return add


def on_release(*needs: str, kind: Kind = "recomputed", statement: str = "") -> Callable[[_F], _F]:
    """Make a function a check of the release as a whole."""

    def add(function: _F) -> _F:
        _add(Check(function.__name__, _meaning(function), needs, kind, statement, run=function))
        return function

    return add


def while_reading(name: str, meaning: str, *needs: str) -> None:
    """Name a rule whose faults the reading pass finds."""
    _add(Check(name, meaning, needs))


def _add(check: Check) -> None:
    assert check.name not in CHECKS, f"two checks are called {check.name}"
    CHECKS[check.name] = check


def _meaning(function: Callable[..., Any]) -> str:
    return (function.__doc__ or "").strip().splitlines()[0].rstrip(".")


def compare(stated: Mapping[str, object], found: Mapping[str, object], place: str) -> Iterator[Fault]:
    """Yield a fault for each figure that a file states otherwise than the release has it."""
    for name in {**found, **stated}:
        if stated.get(name) != found.get(name):
            yield None, f"{place} states {stated.get(name)} for {name[:100]}, the release has {found.get(name)}"


def denied(checks: Mapping[str, bool], place: str) -> Iterator[Fault]:
    """Yield a fault for each check that a file states not to have passed."""
    for name, passed in checks.items():
        if not passed:
            yield None, f"{place} states that {name[:100]} did not pass"
