"""What a report says of a release's records: one pass over them, with everything recomputed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ..hub.numbers import ConfigNumbers
from ..integrity import FileDigest
from ..manifest import audit_file
from ..release import Release
from ..schema import CONFIGS, SUBSETS_FILE, ProactiveRecord, QARecord
from ..windows import effective_windows, evidence_span
from .payload import proactive_payload, qa_payload, trigger_start

__all__ = ["TOLERANCES_S", "Gathered", "LeftOut", "Times", "Unseen", "gather"]

TOLERANCES_S = (5.0, 10.0)
"""The two values of W that the protocol reports, in seconds."""

BROWSABLE = ("qa", "proactive")
"""The configs that hold every record; the others are subsets of them."""


@dataclass
class Unseen:
    """How many windows have no frame at 1 FPS.

    Attributes
    ----------
    windows, unseen : int
        All windows, and those that no sampling time of their record's evidence span lies in.
    """

    windows: int = 0
    unseen: int = 0

    @property
    def share(self) -> float:
        """Unseen windows as a part of all; 0 where there are none."""
        return self.unseen / self.windows if self.windows else 0.0


@dataclass
class Times:
    """The times of a release's records, each a list of seconds.

    Attributes
    ----------
    question_times, qa_spans, proactive_spans, leads, gaps : list of float
        QA question times; lengths of evidence spans; from an instruction to its first trigger; from a trigger's
        start to the next one's.
    lengths : dict
        Window lengths: ``stored``, ``W = 5`` and ``W = 10``.
    windows_per_record : list of int
    unseen : dict
        `Unseen` by population and kind of window.
    """

    question_times: list[float] = field(default_factory=list)
    qa_spans: list[float] = field(default_factory=list)
    proactive_spans: list[float] = field(default_factory=list)
    leads: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    lengths: dict[str, list[float]] = field(default_factory=lambda: {"stored": [], "W = 5": [], "W = 10": []})
    windows_per_record: list[int] = field(default_factory=list)
    unseen: dict[tuple[str, str], Unseen] = field(default_factory=dict)


@dataclass(frozen=True)
class LeftOut:
    """A record that the standard population leaves out.

    Attributes
    ----------
    record_id, task_type, source : str
    windows, short_windows : int
    shortest_s : float
        Its shortest window in seconds.
    """

    record_id: str
    task_type: str
    source: str
    windows: int
    short_windows: int
    shortest_s: float


@dataclass
class Gathered:
    """Everything that the report says of the records.

    Attributes
    ----------
    populations : dict
        `ConfigNumbers` by config, the audit configs left out.
    audit : dict
        Records of each audit config that the release has.
    times : Times
    left_out : list of LeftOut
    criterion : dict or None
        The rule of the split as the release states it.
    records : list of dict
        What the timeline browser knows of each record.
    videos : dict
        The IDs of the records that need each video.
    """

    populations: dict[str, ConfigNumbers] = field(default_factory=dict)
    audit: dict[str, int] = field(default_factory=dict)
    times: Times = field(default_factory=Times)
    left_out: list[LeftOut] = field(default_factory=list)
    criterion: dict[str, Any] | None = None
    records: list[dict[str, Any]] = field(default_factory=list)
    videos: dict[str, list[str]] = field(default_factory=dict)


def gather(
    release: Release, digests: Mapping[str, FileDigest], advance: Callable[[int], None] = lambda _rows: None
) -> Gathered:
    """Read every record of a verified release once.

    Parameters
    ----------
    release
        The release.
    digests
        What `Release.verify` found; nothing is read that differs from it.
    advance
        Told 1 for each record.
    """
    found = Gathered()
    members = _members(release, digests)
    criterion = release.subsets(digests).criterion if SUBSETS_FILE in release.manifest.files else None
    if criterion is not None:
        names = ("name", "scope", "window_duration", "threshold_s", "inclusive", "reason")
        found.criterion = {name: getattr(criterion, name) for name in names}
    tally = _Tally(found, members)
    for config in BROWSABLE:
        for record in release.records(config, digests=digests):
            tally.add(config, record)
            advance(1)
    tally.finish()
    for config, spec in CONFIGS.items():
        if not spec.inputs and audit_file(spec.source) in release.manifest.files:
            found.audit[config] = sum(1 for _ in release.records(config, digests=digests))
    return found


def _members(release: Release, digests: Mapping[str, FileDigest]) -> dict[str, set[str]]:
    """Which records the configs hold that are a part of another one."""
    members: dict[str, set[str]] = {}
    for name, spec in CONFIGS.items():
        if spec.ids_role:
            members[name] = set(release.ids(spec, digests) or ())
        elif spec.source in ("standard", "high_frequency") and SUBSETS_FILE in release.manifest.files:
            members[name] = {record.record_id for record in release.records(spec, digests=digests)}
    return members


class _Tally:
    """Adds records up."""

    def __init__(self, found: Gathered, members: Mapping[str, set[str]]) -> None:
        self.found = found
        self.members = members
        self.populations = {name: ConfigNumbers() for name in CONFIGS if name in members or name in BROWSABLE}
        self.paths: dict[str, set[str]] = {name: set() for name in self.populations}

    def add(self, whole: str, record: QARecord | ProactiveRecord) -> None:
        ids = record.record_id
        task = CONFIGS[whole].record
        configs = [whole, *(n for n, held in self.members.items() if CONFIGS[n].record is task and ids in held)]
        lengths = [round(w.end_s - w.start_s, 6) for w in record.windows] if isinstance(record, ProactiveRecord) else []
        short = sum(map(self._is_short, lengths))
        for name in configs:
            self._count(name, record, len(lengths), short)
        self.found.videos.setdefault(record.video_path, []).append(ids)
        if isinstance(record, QARecord):
            self._qa_times(record)
            self.found.records.append(qa_payload(record, configs))
        else:
            self._proactive_times(record, lengths, [n for n in configs if not CONFIGS[n].ids_role])
            self.found.records.append(proactive_payload(record, configs, TOLERANCES_S))
            if "proactive_standard" in self.members and "proactive_standard" not in configs:
                meta = record.metadata
                shortest = min(lengths, default=0.0)
                left = LeftOut(ids, record.task_type, meta.dataset, len(lengths), short, shortest)
                self.found.left_out.append(left)

    def _is_short(self, length: float) -> bool:
        rule = self.found.criterion
        if rule is None:
            return length <= 1.0
        threshold: float = rule["threshold_s"]
        return length <= threshold if rule["inclusive"] else length < threshold

    def _count(self, name: str, record: QARecord | ProactiveRecord, windows: int, short: int) -> None:
        population = self.populations[name]
        population.records += 1
        population.windows += windows
        population.short_windows += short
        population.sources[record.metadata.dataset] += 1
        population.tiers[record.metadata.validation_tier] += 1
        population.task_types[record.task_type] += 1
        self.paths[name].add(record.video_path)

    def _qa_times(self, record: QARecord) -> None:
        self.found.times.question_times.append(record.question_time_s)
        self.found.times.qa_spans.append(evidence_span(record).duration_s)

    def _proactive_times(self, record: ProactiveRecord, lengths: list[float], populations: Iterable[str]) -> None:
        times = self.found.times
        starts = [trigger_start(trigger) for trigger in record.metadata.trigger_annotations]
        if starts:
            times.leads.append(round(starts[0] - record.instruction_time_s, 6))
        times.gaps += [round(after - before, 6) for before, after in pairwise(starts)]
        times.windows_per_record.append(len(lengths))
        times.lengths["stored"] += lengths
        span = evidence_span(record)
        times.proactive_spans.append(span.duration_s)
        kinds = {"stored": [(w.start_s, w.end_s) for w in record.windows]}
        for tolerance in TOLERANCES_S:
            windows = effective_windows(record, tolerance)
            kinds[f"W = {tolerance:g}"] = [(w.start_s, w.end_s) for w in windows]
            times.lengths[f"W = {tolerance:g}"] += [w.duration_s for w in windows]
        frames = evidence_span(record, tolerance_s=max(TOLERANCES_S)).sampling_times()
        for kind, bounds in kinds.items():
            unseen = sum(not any(start <= time < end for time in frames) for start, end in bounds)
            for population in populations:
                entry = times.unseen.setdefault((population, kind), Unseen())
                entry.windows += len(bounds)
                entry.unseen += unseen

    def finish(self) -> None:
        for name, population in self.populations.items():
            population.videos = len(self.paths[name])
        self.found.populations = self.populations
