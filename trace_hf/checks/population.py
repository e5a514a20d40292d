"""The small facts of a file that stay after its records were read."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field

MAX_NAMED = 5
"""A failure names so many records."""


class Faults:
    """Counts the faults of one check and keeps the first few."""

    __slots__ = ("count", "first")

    def __init__(self) -> None:
        self.count = 0
        self.first: list[tuple[str | None, str]] = []

    def add(self, record_id: str | None, text: str) -> None:
        """Count a fault."""
        self.count += 1
        if len(self.first) < MAX_NAMED:
            self.first.append((record_id, text))


@dataclass
class Population:
    """The facts of a QA or Proactive record file.

    Attributes
    ----------
    ids : list of str
        In the file's order.
    reviewed : set of str
        Of the human-reviewed ones.
    kinds : Counter
        Records by dataset, task type and validation tier.
    videos : list of str
        Path of each record's video.
    windows, short : array
        Windows of each record, and how many of them meet the partition's criterion. Proactive only.
    lines : dict
        Digest of each line -> its index. Proactive only.
    """

    ids: list[str] = field(default_factory=list)
    reviewed: set[str] = field(default_factory=set)
    kinds: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    videos: list[str] = field(default_factory=list)
    windows: array[int] = field(default_factory=lambda: array("L"))
    short: array[int] = field(default_factory=lambda: array("L"))
    lines: dict[bytes, int] = field(default_factory=dict)

    @property
    def by_dataset(self) -> Counter[str]:
        """Records by dataset."""
        return self._by(0)

    @property
    def by_task_type(self) -> Counter[str]:
        """Records by task type."""
        return self._by(1)

    @property
    def by_tier(self) -> Counter[str]:
        """Records by validation tier."""
        return self._by(2)

    def _by(self, place: int) -> Counter[str]:
        counts: Counter[str] = Counter()
        for kind, count in self.kinds.items():
            counts[kind[place]] += count
        return counts


@dataclass
class Part:
    """The facts of one side's record file.

    Attributes
    ----------
    rows : list
        Index of each row in the canonical file, None where that has no such row.
    strangers : list
        Record ID (None when it has none) and line of each row that the canonical file does not have.
    windows, short : int
        Windows of all rows, and how many of them meet the partition's criterion.
    """

    rows: list[int | None] = field(default_factory=list)
    strangers: list[tuple[str | None, int]] = field(default_factory=list)
    windows: int = 0
    short: int = 0


@dataclass
class Audit:
    """The facts of ``changes.jsonl`` or ``exclusions.jsonl``."""

    ids: list[str] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    edited: list[str] = field(default_factory=list)
    duplicates: int = 0
