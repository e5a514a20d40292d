"""Ratios over records, with intervals that know that records share videos."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["RESAMPLES", "SEED", "Ratio", "Row", "by_stratum", "strata", "summarize"]

SEED = 20240229
"""The bootstrap's seed: the same answers always give the same intervals."""

RESAMPLES = 2000
"""How many times the videos are drawn again."""

_LEVEL = 0.95


class Ratio(NamedTuple):
    """A score that is one sum over records divided by another.

    Attributes
    ----------
    above, below : str
        The columns whose sums are divided.
    scale : float
        What the ratio is multiplied by; 100 for "per 100 windows".
    """

    above: str
    below: str
    scale: float = 1.0


class Row(NamedTuple):
    """One record's part in the sums.

    Attributes
    ----------
    cluster : str
        The video; records of one video are drawn together.
    strata : mapping
        The groups that the record belongs to: dimension -> value.
    columns : mapping
        Its numbers: column -> value.
    delays_s : sequence of float
        The delays of its answers, in seconds; they are listed, not summed.
    """

    cluster: str
    strata: Mapping[str, str]
    columns: Mapping[str, float]
    delays_s: Sequence[float] = ()


def strata(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the groups that a full record's score is given for."""
    metadata = record["metadata"]
    return {
        "task_type": str(record["task_type"]),
        "source": str(metadata["dataset"]),
        "validation_tier": str(metadata["validation_tier"]),
    }


def summarize(rows: Sequence[Row], ratios: Mapping[str, Ratio]) -> dict[str, Any]:
    """Return each ratio and, under ``<name>_interval``, its 95% interval.

    The interval is a percentile bootstrap over videos: videos are drawn with replacement, each with all of its
    records. It is None where fewer than two videos bear on the ratio, and so is a ratio whose divisor is 0.

    Parameters
    ----------
    rows : sequence of Row
        In any order; the result does not depend on it.
    ratios : mapping
        Name -> ratio.
    """
    names = sorted({name for ratio in ratios.values() for name in (ratio.above, ratio.below)})
    sums: dict[str, dict[str, list[float]]] = defaultdict(lambda: {name: [] for name in names})
    for row in rows:
        for name in names:
            sums[row.cluster][name].append(float(row.columns[name]))
    clusters = sorted(sums)
    # fsum rounds once, so that two ranks and one give the same digits.
    columns = {name: [math.fsum(sums[cluster][name]) for cluster in clusters] for name in names}
    drawn = list(_resampled(columns, len(clusters)))
    found: dict[str, Any] = {}
    for name, ratio in ratios.items():
        found[name] = _value(ratio, {key: math.fsum(values) for key, values in columns.items()})
        bearing = sum(value > 0 for value in columns[ratio.below])
        found[f"{name}_interval"] = _interval([_value(ratio, totals) for totals in drawn]) if bearing > 1 else None
    return found


def by_stratum(rows: Iterable[Row], score: Callable[[list[Row]], dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the score of every group: dimension -> value -> score."""
    groups: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        for dimension, value in row.strata.items():
            groups[dimension][value].append(row)
    return {
        dimension: {value: score(members) for value, members in sorted(values.items())}
        for dimension, values in groups.items()
    }


def _resampled(columns: Mapping[str, list[float]], count: int) -> Iterable[dict[str, float]]:
    # `random()` is the one method that gives the same numbers on every version of Python.
    draw = random.Random(SEED).random
    for _ in range(RESAMPLES if count > 1 else 0):
        picks = [int(draw() * count) for _ in range(count)]
        yield {name: sum(map(values.__getitem__, picks)) for name, values in columns.items()}


def _value(ratio: Ratio, totals: Mapping[str, float]) -> float | None:
    below = totals[ratio.below]
    return ratio.scale * totals[ratio.above] / below if below else None


def _interval(values: Iterable[float | None]) -> list[float] | None:
    ordered = sorted(value for value in values if value is not None)
    if not ordered:
        return None
    tail = (1 - _LEVEL) / 2
    return [_quantile(ordered, tail), _quantile(ordered, 1 - tail)]


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
