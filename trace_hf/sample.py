"""Write a synthetic release of any size: complete, consistent, and made of invented text only.

A release is planned as lists of numbers (which record stands where, on which video, reviewed by whom). Each record is
then made from its ID and the seed alone, so records can be made in any order, made again, and forgotten once written.
Times are whole milliseconds until they enter a record, so that every derived duration is exact.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import jsonlines
import msgspec

from ._sample_plan import FPS, Plan, encode, plan_release
from ._sample_records import changes, media_end_ms, proactive_record, qa_record, removals
from .cachedir import cache_dir
from .errors import OutputExistsError, TraceError
from .schema import (
    CHANGES_FILE,
    EXCLUSIONS_FILE,
    MANIFEST_FILE,
    REVIEW_SUMMARY_FILE,
    SCHEMA_VERSION,
    SUBSETS_FILE,
    SUBSETS_SCHEMA_VERSION,
    VALIDATION_REPORT_FILE,
    Counts,
    Manifest,
    ProactiveRecord,
    ProactiveSubsets,
    QARecord,
    ReviewSummary,
    SourceFile,
    Subset,
    SubsetCriterion,
    SubsetPair,
    SubsetSource,
    ValidationReportFile,
)

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["SAMPLE_FORMAT", "cached_sample", "write_sample"]

SAMPLE_FORMAT = 1
"""Raised by one whenever the bytes of a sample change, so that an older cached one is not used."""

VIDEO_ROOT = "video_root"
"""The folder, beside a sample's files, that holds its videos."""


# --- files ------------------------------------------------------------------------------------------------------


class _HashingFile(io.FileIO):
    """A file that hashes what is written to it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "x")
        self.sha256 = hashlib.sha256()

    def write(self, data: ReadableBuffer, /) -> int:
        written = super().write(data)
        self.sha256.update(memoryview(data)[:written])
        return written


class _IdList:
    """Writes a JSON list of record IDs one by one."""

    def __init__(self, out: BinaryIO) -> None:
        self._out, self._count = out, 0

    def add(self, record_id: str) -> None:
        self._out.write(b",\n  " if self._count else b"[\n  ")
        self._out.write(encode(record_id))
        self._count += 1

    def close(self) -> None:
        self._out.write(b"\n]\n" if self._count else b"[]\n")


@dataclass
class _Output:
    """A release while it is written: its folder, its hashes so far, and what was counted."""

    folder: Path
    plan: Plan
    hashes: dict[str, str] = field(default_factory=dict)
    sources: Counter[str] = field(default_factory=Counter)
    task_types: Counter[str] = field(default_factory=Counter)
    tiers: Counter[str] = field(default_factory=Counter)
    reviews: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    windows: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def file(self, name: str) -> Iterator[BinaryIO]:
        with _HashingFile(self.folder / name) as raw:
            with io.BufferedWriter(raw, 1 << 18) as out:
                yield out
            self.hashes[name] = raw.sha256.hexdigest()

    @contextmanager
    def lines(self, name: str) -> Iterator[jsonlines.Writer]:
        with self.file(name) as out, jsonlines.Writer(out, dumps=encode) as writer:
            yield writer

    @contextmanager
    def ids(self, name: str) -> Iterator[_IdList]:
        with self.file(name) as out:
            ids = _IdList(out)
            yield ids
            ids.close()

    def sidecar(self, name: str, value: msgspec.Struct) -> None:
        with self.file(name) as out:
            out.write(msgspec.json.format(encode(value), indent=2) + b"\n")

    def tally(self, record: QARecord | ProactiveRecord) -> None:
        self.counts[record.task] += 1
        self.sources[f"{record.metadata.dataset}:{record.task}"] += 1
        self.task_types[record.task_type] += 1
        self.tiers[record.metadata.validation_tier] += 1


def _write_qa(out: _Output) -> None:
    with out.lines("qa.jsonl") as rows:
        for group in out.plan.groups:
            for slot in group.in_text_order() if group.mode == "qa" else ():
                record = qa_record(out.plan, group, slot)
                rows.write(record)
                out.tally(record)


def _write_proactive(out: _Output) -> None:
    with (
        out.lines("proactive.jsonl") as all_rows,
        out.lines("proactive_standard.jsonl") as standard_rows,
        out.lines("proactive_high_frequency.jsonl") as stress_rows,
        out.ids("standard_proactive_ids.json") as standard_ids,
        out.ids("high_frequency_proactive_ids.json") as stress_ids,
    ):
        sides = {"standard": (standard_rows, standard_ids), "high_frequency": (stress_rows, stress_ids)}
        for group in out.plan.groups:
            for slot in group.in_text_order() if group.mode == "proactive" else ():
                record = proactive_record(out.plan, group, slot)
                all_rows.write(record)
                short = sum(w.end_s - w.start_s <= 1.0 for w in record.windows)
                side = "high_frequency" if short else "standard"
                rows, ids = sides[side]
                rows.write(record)
                ids.add(record.record_id)
                out.tally(record)
                out.counts[side] += 1
                out.windows[side] += len(record.windows)
                out.windows["short"] += short


def _write_audit(out: _Output) -> None:
    with out.lines(CHANGES_FILE) as rows:
        for change in changes(out.plan):
            rows.write(change)
            out.reviews[change.disposition] += 1
    with out.lines(EXCLUSIONS_FILE) as rows:
        for gone in removals(out.plan):
            rows.write(gone)
            out.counts["duplicates"] += "DUPLICATE_RECORD" in gone.reason_codes
    out.reviews["valid"] = out.tiers["human_reviewed"] - out.reviews["edit"]


def _write_subsets(out: _Output) -> None:
    def side(name: str, short: int) -> Subset:
        ids, rows = f"{name}_proactive_ids.json", f"proactive_{name}.jsonl"
        return Subset(
            ids_file=ids,
            record_file=rows,
            record_count=out.counts[name],
            window_count=out.windows[name],
            qualifying_window_count=short,
        )

    pair = SubsetPair(standard=side("standard", 0), high_frequency=side("high_frequency", out.windows["short"]))
    hashes = {"source_file": out.hashes["proactive.jsonl"]}
    for name, subset in (("standard", pair.standard), ("high_frequency", pair.high_frequency)):
        hashes[f"{name}_ids_file"] = out.hashes[subset.ids_file]
        hashes[f"{name}_record_file"] = out.hashes[subset.record_file]
    subsets = ProactiveSubsets(
        schema_version=SUBSETS_SCHEMA_VERSION,
        source_file="proactive.jsonl",
        source=SubsetSource(
            record_count=out.counts["proactive"], window_count=out.windows["standard"] + out.windows["high_frequency"]
        ),
        criterion=SubsetCriterion(
            name="any_response_window_duration_le_1s",
            scope="record",
            window_duration="end_s - start_s",
            threshold_s=1.0,
            inclusive=True,
            reason="A window of one second or less can lie between two frames at 1 FPS.",
        ),
        subsets=pair,
        hashes=hashes,
        checks=dict.fromkeys(
            (
                "full_records_preserved",
                "record_ids_disjoint",
                "record_ids_union_equals_source",
                "record_order_sorted_by_record_id",
            ),
            True,
        ),
    )
    out.sidecar(SUBSETS_FILE, subsets)


def _write_summary(out: _Output) -> None:
    included, removed = out.counts["qa"] + out.counts["proactive"], out.reviews["remove"]
    summary = ReviewSummary(
        release_id=out.plan.release_id,
        source_record_count=included + removed,
        included_record_count=included,
        excluded_record_count=removed,
        included_by_dataset_mode=dict(out.sources),
        included_by_task_type=dict(out.task_types),
        validation_tiers=dict(out.tiers),
        review_dispositions={name: out.reviews[name] for name in ("edit", "remove", "valid")},
        saved_review_count=out.reviews.total(),
        unresolved_saved_reviews=0,
        pending_machine_screened_count=out.tiers["machine_screened"],
        duplicate_policy="keep_smaller_stable_id_remove_larger_stable_id",
        duplicate_upper_id_removals=out.counts["duplicates"],
    )
    out.sidecar(REVIEW_SUMMARY_FILE, summary)


# Every check of a real report that can be true of synthetic data; two are about upstream files, which it has not.
_CHECKS = (
    "all_saved_reviews_completed",
    "all_unreviewed_records_machine_completed_no_issue",
    "answers_match_options",
    "canonical_content_unique",
    "canonical_record_ids_unique",
    "duplicate_upper_ids_removed",
    "media_boundaries_within_last_readable_frame",
    "proactive_instruction_before_trigger",
    "proactive_positive_windows",
    "proactive_windows_non_overlapping",
    "qa_evidence_not_after_question",
    "reviewed_memory_intervals_derived",
)


def _write_report(out: _Output) -> None:
    qa, proactive, removed = out.counts["qa"], out.counts["proactive"], out.reviews["remove"]
    report = ValidationReportFile(
        release_id=out.plan.release_id,
        status="passed",
        checks=dict.fromkeys(_CHECKS, True),
        counts={
            "changes": out.reviews["edit"] + removed,
            "excluded": removed,
            "included": qa + proactive,
            "proactive": proactive,
            "qa": qa,
        },
    )
    out.sidecar(VALIDATION_REPORT_FILE, report)


def _write_manifest(out: _Output) -> None:
    plan = out.plan
    sources = [f"{group.dataset}_{group.mode}.json" for group in plan.groups]
    manifest = Manifest(
        release_id=plan.release_id,
        schema_version=SCHEMA_VERSION,
        status="synthetic",
        counts=Counts(qa=out.counts["qa"], proactive=out.counts["proactive"]),
        files=dict(out.hashes),
        qa_file="qa.jsonl",
        proactive_file="proactive.jsonl",
        tiny_qa_ids_file="tiny_qa_ids.json",
        tiny_proactive_ids_file="tiny_proactive_ids.json",
        limitations=[
            "This release is synthetic: its records, reviews and sources are invented.",
            "No number that was made on it is a TRACE result.",
        ],
        source_files=[
            SourceFile(
                path=f"synthetic/{name}", sha256=hashlib.sha256(f"{plan.release_id}/{name}".encode()).hexdigest()
            )
            for name in sources
        ],
        video_root_notes="The videos are invented; `trace-hf sample --videos` writes those of the tiny subsets.",
    )
    out.sidecar(MANIFEST_FILE, manifest)


def _write_videos(folder: Path, plan: Plan) -> None:
    from .sample_video import write_time_coded_video

    for group, slot in (place for tiny in plan.tiny.values() for place in tiny.values()):
        path = folder / VIDEO_ROOT / group.video(slot)
        path.parent.mkdir(parents=True, exist_ok=True)
        # The last frame begins at the media end, where the record says that the readable media ends.
        last = media_end_ms(plan, group, slot) * FPS // 1000
        write_time_coded_video(path, duration_s=(last + 1) / FPS, fps=FPS)


def _write_release(folder: Path, plan: Plan) -> None:
    out = _Output(folder, plan)
    _write_qa(out)
    _write_proactive(out)
    for mode, tiny in plan.tiny.items():
        with out.ids(f"tiny_{mode}_ids.json") as ids:
            for name in tiny:
                ids.add(name)
    _write_audit(out)
    _write_subsets(out)
    _write_summary(out)
    _write_report(out)
    _write_manifest(out)


# --- folders ----------------------------------------------------------------------------------------------------


def _refuse_if_taken(target: Path) -> None:
    if target.is_symlink() or target.exists():
        if target.is_dir() and not any(target.iterdir()):
            return
        raise OutputExistsError(
            "exists and is not an empty folder",
            file=str(target),
            why="A sample is written whole into a new folder and never over something that is there.",
            do="Name another folder, or move this one away first.",
        )


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """Give a folder that becomes `target` when the block ends well, and is gone when it does not."""
    _refuse_if_taken(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        # A folder inside has the permissions that the user's umask gives; the scratch folder itself is private.
        folder = scratch / "release"
        folder.mkdir()
        yield folder
        try:
            if os.name == "nt" and target.is_dir():
                target.rmdir()
            folder.rename(target)
        except OSError:
            _refuse_if_taken(target)
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write_sample(path: str | os.PathLike[str], scale: float = 1.0, seed: int = 0, videos: bool = False) -> Path:
    """Write a complete synthetic release.

    At scale 1 it has the counts of release v1.1.0. Other scales are in proportion, apart from the tiny subsets, which
    never have more than nine records; above zero, no config is empty. The same scale and seed always give the same
    bytes. Memory does not grow with the records: each is made, written and forgotten.

    Parameters
    ----------
    path : str or path
        A folder that does not exist, or is empty. It appears only once it is complete.
    scale : float
        Size in relation to v1.1.0: 0.1 for a tenth, 100 for a hundred times as many records, 0 for empty files.
    seed : int
        Another seed gives other contents with the same counts.
    videos : bool
        Also write small videos for the records of the tiny subsets, below ``<path>/video_root``. Each frame shows its
        own time, and the last one begins where the record's media ends.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    TraceError
        If something is at `path` already, or `scale` is negative or not finite.
    """
    if not 0 <= scale < math.inf:
        raise TraceError(f"scale is {scale}", why="It is a size.", do="Give a number of 0 or more; 1 is release size.")
    target = Path(path).absolute()
    with _new_folder(target) as folder:
        plan = plan_release(scale, seed)
        _write_release(folder, plan)
        if videos:
            _write_videos(folder, plan)
    return target


def cached_sample() -> Path:
    """Return a sample of scale 1 and seed 0 in the user's cache, which is written on first use.

    The cache is ``$TRACE_CACHE``, else ``$XDG_CACHE_HOME/trace-hf``, else ``~/.cache/trace-hf``.
    """
    target = cache_dir() / f"sample-format{SAMPLE_FORMAT}-seed0"
    if not (target / MANIFEST_FILE).is_file():
        try:
            write_sample(target)
        except TraceError:
            # Another process may have been first; its sample is the same one.
            if not (target / MANIFEST_FILE).is_file():
                raise
    return target
