"""The plan of a synthetic release: lists of numbers that say which record stands where, on which video."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field
from itertools import accumulate

import msgspec

from . import _sample_text as text

FPS = 10
"""Frames a second of the synthetic videos."""

encode = msgspec.json.Encoder(order="sorted").encode
"""Write a value as a release writes it; every synthetic number is one that msgspec writes as `repr` does."""


@dataclass(frozen=True)
class _Kind:
    """The records of one source and task type, and their numbers in a release of scale 1."""

    dataset: str
    mode: str
    task_type: str
    records: int
    windows: int = 0


# In the order of record IDs as text. Proactive kinds count the standard population only.
_KINDS = (
    _Kind("ovo_bench", "proactive", "CRR", 48, 48),
    _Kind("ovo_bench", "proactive", "SSR", 40, 160),
    _Kind("ovo_bench", "proactive", "REC", 78, 390),
    _Kind("ovo_bench", "qa", "EPM", 144),
    _Kind("ovo_bench", "qa", "HLD", 60),
    _Kind("ovo_bench", "qa", "ASI", 100),
    _Kind("streambench", "proactive", "stream bench proactive", 241, 672),
    _Kind("streambench", "qa", "Anomaly Context Understanding", 186),
    _Kind("streambench", "qa", "Clips Summarize", 244),
    _Kind("streambench", "qa", "Causal Reasoning", 99),
)
_GROUPS = (("ovo_bench", "proactive"), ("ovo_bench", "qa"), ("streambench", "proactive"), ("streambench", "qa"))
_VIDEOS = (108, 160, 70, 180)
_EXCLUDED = (1, 15, 2, 34)
FIRST_NUMBER = (1468, 10, 1, 1)


@dataclass(frozen=True)
class _Burst:
    """A sampling-stress record.

    Its gaps between triggers are x (0.03 s), s (short), m (medium) or l (long); `last_ms` is the length of its last
    window where the media end cuts it, else 0.
    """

    task_type: str
    gaps: str
    last_ms: int = 0


_BURSTS = (
    _Burst("REC", "ssss", 3806),
    _Burst("stream bench proactive", "llxlll"),
    _Burst("SSR", "ll"),
    _Burst("REC", "ssmsslssss"),
    _Burst("stream bench proactive", "lsllllmlllllllllsllll"),
    _Burst("REC", "sssm", 30),
    _Burst("stream bench proactive", "lllmslmll"),
    _Burst("REC", "ssss"),
)

# What a slot's video is: shared by several records, or its own one, which is long or short and may end at the record's
# last moment. Tiny subsets use short ones, so that their videos are small.
_SHARED, SHORT_CUT, SHORT, LONG_CUT, _LONG, _BURST = range(6)
_OWN_EVERY = 11


@dataclass
class Cell:
    """The records of one kind in a release of a given scale."""

    kind: _Kind
    count: int
    bursts: list[_Burst]
    windows: int
    human: int = 0
    edits: int = 0

    def is_human(self, i: int) -> bool:
        """Whether a human reviewed the kind's i-th record."""
        return hit(i, self.human, self.count)

    def is_edited(self, i: int) -> bool:
        """Whether the review changed the kind's i-th record."""
        return self.is_human(i) and hit(i * self.human // self.count, self.edits, self.human)

    def window_counts(self) -> list[int]:
        """Return the windows of each standard record; they add up to `windows` and differ among records."""
        n = self.count - len(self.bursts)
        counts = [(i + 1) * self.windows // n - i * self.windows // n for i in range(n)]
        for i in range(0, n - 1, 2):
            moved = min(counts[i + 1] - 1, i // 2 % 4)
            counts[i], counts[i + 1] = counts[i] + moved, counts[i + 1] - moved
        return counts


@dataclass
class Group:
    """All records of one source and mode. A *slot* is a record's place in order of its number."""

    dataset: str
    mode: str
    cells: list[Cell]
    excluded: list[int]
    numbers: array[int]
    video_of: array[int] = field(default_factory=lambda: array("q"))
    video_kind: bytearray = field(default_factory=bytearray)
    windows: array[int] = field(default_factory=lambda: array("q"))
    bursts: dict[int, _Burst] = field(default_factory=dict)
    videos: int = 0
    borrowed: int = 0
    lender: Group | None = None

    def cell(self, slot: int) -> tuple[Cell, int]:
        """Return the slot's kind, and its place among the records of that kind."""
        for cell in self.cells:
            if slot < cell.count:
                return cell, slot
            slot -= cell.count
        raise IndexError(slot)

    def name(self, number: int) -> str:
        """Return the record ID of a number."""
        return f"{self.dataset}_{self.mode}:{number}"

    def in_text_order(self) -> list[int]:
        """Return the slots in the order of their record IDs as text."""
        return sorted(range(len(self.numbers)), key=lambda slot: str(self.numbers[slot]))

    def video(self, slot: int) -> str:
        """Return the slot's video path; the last shared ones are those of the same source's QA records."""
        number, kind = self.video_of[slot], self.video_kind[slot]
        if kind == _SHARED and self.lender and number >= self.videos - self.borrowed:
            return text.video_path(self.dataset, "q", self.lender.videos - self.videos + number)
        return text.video_path(self.dataset, "h" if kind == _BURST else self.mode[0], number)


@dataclass
class Plan:
    """A whole release."""

    release_id: str
    seed: int
    groups: list[Group]
    duplicates: int
    tiny: dict[str, dict[str, tuple[Group, int]]]


def hit(i: int, part: int, whole: int) -> bool:
    """Whether item i is one of `part` items that are spread evenly over `whole`."""
    return (i + 1) * part // whole > i * part // whole


def _share(total: int, weights: list[int]) -> list[int]:
    """Split a total in proportion; exact where it can be, and always adding up to the total."""
    whole = sum(weights) or 1
    ends = [total * end // whole for end in accumulate(weights)]
    return [end - start for start, end in zip([0, *ends], ends)]  # noqa: B905


def _cells(scale: float) -> list[Cell]:
    def some(count: int) -> int:
        return max(1, _scaled(count, scale)) if scale else 0

    standard = [k for k in _KINDS if k.windows]
    bursts = [_BURSTS[i % len(_BURSTS)] for i in range(some(8))]
    counts = dict(zip(standard, _share(some(407), [k.records for k in standard]), strict=True))
    windows = dict(zip(standard, _share(_scaled(1270, scale), [k.windows for k in standard]), strict=True))
    qa = [k for k in _KINDS if not k.windows]
    counts.update(zip(qa, _share(some(833), [k.records for k in qa]), strict=True))
    cells = []
    for kind in _KINDS:
        own = [b for b in bursts if b.task_type == kind.task_type]
        cells.append(Cell(kind, counts[kind] + len(own), own, max(counts[kind], windows.get(kind, 0))))
    _assign_reviews(cells, scale)
    return cells


def _assign_reviews(cells: list[Cell], scale: float) -> None:
    # A state's window follows from its review, so every record of states is a reviewed one.
    states = [c for c in cells if c.kind.task_type == "SSR"]
    others = [c for c in cells if c.kind.task_type != "SSR"]
    for cell in states:
        cell.human = cell.count
    rest = sum(c.count for c in others)
    human = min(rest, max(0, _scaled(525, scale) - sum(c.human for c in states)))
    for cell, share in zip(others, _share(human, [c.count for c in others]), strict=True):
        cell.human = share
    reviewed = sum(c.human for c in cells)
    for cell, share in zip(cells, _share(min(reviewed, _scaled(328, scale)), [c.human for c in cells]), strict=True):
        cell.edits = share


def _scaled(count: int, scale: float) -> int:
    return math.floor(count * scale + 0.5)


def _group(index: int, cells: list[Cell], excluded: int, scale: float) -> Group:
    dataset, mode = _GROUPS[index]
    own = [c for c in cells if (c.kind.dataset, c.kind.mode) == (dataset, mode)]
    first, total = FIRST_NUMBER[index], sum(c.count for c in own) + excluded
    left_out = [first + (2 * j + 1) * total // (2 * excluded) for j in range(excluded)]
    unwanted = set(left_out)
    numbers = array("q", (n for n in range(first, first + total) if n not in unwanted))
    group = Group(dataset, mode, own, left_out, numbers)
    _place_bursts_and_windows(group)
    _place_videos(group, _scaled(_VIDEOS[index], scale))
    return group


def _place_bursts_and_windows(group: Group) -> None:
    start = 0
    for cell in group.cells:
        for j, burst in enumerate(cell.bursts):
            i = (2 * j + 1) * cell.count // (2 * len(cell.bursts))
            later = [k for k in range(i, cell.count) if start + k not in group.bursts][:_OWN_EVERY]
            good = (k for k in later if cell.is_human(k) and (start + k) % _OWN_EVERY)
            group.bursts[start + next(good, later[0])] = burst
        counts = iter(cell.window_counts() if group.mode == "proactive" and cell.count > len(cell.bursts) else ())
        for slot in range(start, start + cell.count):
            group.windows.append(0 if slot in group.bursts else next(counts, 0))
        start += cell.count


def _place_videos(group: Group, videos: int) -> None:
    kinds = bytearray(len(group.numbers))
    for slot in range(len(kinds)):
        if slot in group.bursts:
            kinds[slot] = _BURST if group.dataset == "ovo_bench" else _SHARED
        elif slot % _OWN_EVERY == 0:
            kinds[slot] = (SHORT_CUT, SHORT, LONG_CUT, _LONG)[slot // _OWN_EVERY % 4]
    sharing = kinds.count(_SHARED)
    own = len(kinds) - sharing - kinds.count(_BURST)
    shared = min(sharing, max(1, videos - own))
    rank = alone = 0
    for slot, kind in enumerate(kinds):
        if kind == _SHARED:
            group.video_of.append(own + rank * shared // sharing)
            rank += 1
        elif kind == _BURST:
            group.video_of.append(slot)
        else:
            group.video_of.append(alone)
            alone += 1
    group.video_kind, group.videos = kinds, own + shared


def _tiny(groups: list[Group], count: int) -> dict[str, tuple[Group, int]]:
    short = [(g, s) for g in groups for s, kind in enumerate(g.video_kind) if kind in (SHORT_CUT, SHORT)]
    count = min(count, len(short))
    chosen = [short[(2 * i + 1) * len(short) // (2 * count)] for i in range(count)]
    return {name: (g, s) for name, g, s in sorted((g.name(g.numbers[s]), g, s) for g, s in chosen)}


def plan_release(scale: float, seed: int) -> Plan:
    cells = _cells(scale)
    removed = max(1, _scaled(52, scale)) if scale else 0
    excluded = _share(removed, list(_EXCLUDED))
    groups = [_group(i, cells, excluded[i], scale) for i in range(len(_GROUPS))]
    asker, lender = groups[2], groups[3]
    lent = [g.videos - _own_videos(g) for g in (asker, lender)]
    asker.lender, asker.borrowed = lender, min(max(1, _scaled(1, scale)), *lent)
    tiny_count = min(9, max(1, _scaled(9, scale))) if scale else 0
    tiny = {mode: _tiny([g for g in groups if g.mode == mode], tiny_count) for mode in ("qa", "proactive")}
    release_id = f"sample-{seed}"
    if scale != 1:
        release_id += f"-x{repr(float(scale)).removesuffix('.0')}"
    return Plan(release_id, seed, groups, min(removed, _scaled(25, scale)), tiny)


def _own_videos(group: Group) -> int:
    return sum(1 for kind in group.video_kind if kind not in (_SHARED, _BURST))
