"""What one pass over the files of a release gathers for its checks.

Every record file is decoded once; all record checks look at the typed record, and only small facts of it stay: its
ID, a digest, a few numbers. So memory grows by little as a release grows. Nothing is raised for what a file holds:
a file that cannot be read whole is a problem that each check in need of it reports.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..decode import BAD_JSON, check_raw, decode, decode_keeping, decoder_of, explained, takes_raw
from ..errors import TraceError
from ..integrity import FileDigest, read_line_blocks
from ..release import Release
from ..schema import (
    CHANGES_FILE,
    EXCLUSIONS_FILE,
    MANIFEST_FILE,
    REVIEW_SUMMARY_FILE,
    SIDECARS,
    SUBSETS_FILE,
    VALIDATION_REPORT_FILE,
    ChangeRecord,
    ExclusionRecord,
    Manifest,
    ProactiveRecord,
    QARecord,
    Window,
)
from .form import FormJudge, duplicate_key
from .population import Audit, Faults, Part, Population
from .table import CHECKS

MAX_DOCUMENT_BYTES = 64 * 1024 * 1024
"""A larger ID file or sidecar is not read; real ones have kilobytes."""

SUBSETS = ("standard", "high_frequency")


class _Glance(Struct):
    record_id: str
    windows: list[Window]


class Facts:
    """Gathers and holds what the checks look at.

    Attributes
    ----------
    manifest : Manifest
    digests : mapping
        Of the files as they are.
    names : dict
        File of each need: ``qa``, ``proactive``, ``changes``, ``exclusions``, ``subsets``, ``review``, ``report``,
        ``tiny_qa``, ``tiny_proactive``, ``standard``, ``high_frequency``, ``standard_ids``, ``high_frequency_ids``.
        A need without a name is one that the manifest does not list.
    problems : dict
        Why a need cannot be read whole.
    faults : dict
        What was found while reading, by check.
    lists, sides, populations, parts, audits : dict
        ID lists, sidecars and facts by need.
    """

    _encode = staticmethod(msgspec.json.Encoder().encode)

    def __init__(self, release: Release, digests: Mapping[str, FileDigest], *, keep_unknown: bool) -> None:
        self.release = release
        self.manifest: Manifest = release.manifest
        self.digests = digests
        self.keep_unknown = keep_unknown
        self.names: dict[str, str] = {}
        self.problems: dict[str, str] = {}
        self.faults: dict[str, Faults] = {name: Faults() for name in CHECKS}
        self.lists: dict[str, list[str]] = {}
        self.sides: dict[str, Any] = {}
        self.populations = {"qa": Population(), "proactive": Population()}
        self.parts = {subset: Part() for subset in SUBSETS}
        self.audits = {"changes": Audit(), "exclusions": Audit()}
        self._content: set[bytes] = set()
        self._paths: dict[str, str] = {}  # many records share a video: keep one string for all of them
        self._find_names()
        self._read_documents()
        self._read_records("qa", QARecord)
        self._read_records("proactive", ProactiveRecord)
        for subset in SUBSETS:
            self._read_part(subset)
        self._read_records("changes", ChangeRecord)
        self._read_records("exclusions", ExclusionRecord)
        del self._content, self._paths

    # --- names ----------------------------------------------------------------------------------------------------

    def _find_names(self) -> None:
        manifest = self.manifest
        self.names = {
            "qa": manifest.qa_file,
            "proactive": manifest.proactive_file,
            "tiny_qa": manifest.tiny_qa_ids_file,
            "tiny_proactive": manifest.tiny_proactive_ids_file,
        }
        fixed = {
            "changes": CHANGES_FILE,
            "exclusions": EXCLUSIONS_FILE,
            "subsets": SUBSETS_FILE,
            "review": REVIEW_SUMMARY_FILE,
            "report": VALIDATION_REPORT_FILE,
        }
        self.names |= {need: name for need, name in fixed.items() if name in manifest.files}

    def _find_subset_names(self) -> None:
        descriptor = self.sides.get("subsets")
        for subset in SUBSETS if "subsets" in self.names else ():
            for need, key in ((subset, "record_file"), (f"{subset}_ids", "ids_file")):
                name = getattr(getattr(descriptor.subsets, subset), key) if descriptor else f"{subset}'s {key}"
                self.names[need] = name
                if descriptor is None:
                    self.problems[need] = f"{SUBSETS_FILE}, which names it, cannot be read"
                elif name not in self.manifest.files:
                    self.problems[need] = f"{SUBSETS_FILE} names {name[:100]!r}, the manifest does not list it"

    # --- JSON files -----------------------------------------------------------------------------------------------

    def _read_documents(self) -> None:
        data = self.release.read_file(MANIFEST_FILE)
        self._judge_document(MANIFEST_FILE, Manifest, data)
        for need in ("subsets", "review", "report"):
            if need in self.names:
                value = self._document(need, SIDECARS[self.names[need]])
                if value is not None:
                    self.sides[need] = value
        self._find_subset_names()
        for need in ("tiny_qa", "tiny_proactive", "standard_ids", "high_frequency_ids"):
            if need in self.names and need not in self.problems:
                value = self._document(need, list[str])
                if value is not None:
                    self.lists[need] = value

    def _document(self, need: str, kind: Any) -> Any:
        name = self.names[need]
        try:
            digest = self.digests.get(name)
            if digest is not None and digest.size > MAX_DOCUMENT_BYTES:
                raise TraceError(f"is larger than {MAX_DOCUMENT_BYTES // 2**20} MiB", file=name)
            data = self.release.read_file(name)
            value = decode(data, kind, file=name, unknown="keep")
        except TraceError as problem:
            self._unreadable(need, problem)
            return None
        if kind in SIDECARS.values():
            self._judge_document(name, kind, data)
        return value

    def _judge_document(self, name: str, kind: type[Struct], data: bytes) -> None:
        if not self.keep_unknown:
            for pointer, _ in decode_keeping(data, kind, file=name)[1]:
                self.faults["schema"].add(None, f"{name} has the unknown field {pointer[:100]}")
        twice = duplicate_key(data)
        if twice is not None:
            self.faults["no_duplicate_keys"].add(None, f"{name} has the key {twice[:100]!r} twice in one object")

    def _unreadable(self, need: str, problem: TraceError) -> None:
        # Missing and unreadable files are verify's matter; what is in a file that can be read is the schema's.
        what = "is missing" if "No such file" in (problem.why or "") else problem.what
        self.problems.setdefault(need, f"{problem.where}: {what}")
        self.faults["schema"].add(problem.record_id, f"{problem.where}: {what}")

    # --- record files -----------------------------------------------------------------------------------------------

    def _lines(self, need: str) -> Iterator[tuple[int, bytes]]:
        """Give the lines of a file with their numbers."""
        name = self.names.get(need)
        if name is None or need in self.problems:
            return
        try:
            for first_line, block in read_line_blocks(self.release.root / name, self.digests.get(name)):
                yield from _split(block, first_line)
                if not block.endswith(b"\n"):
                    self.faults["canonical_encoding"].add(None, f"{name} has no line end after its last record")
        except TraceError as problem:
            self._unreadable(need, problem)
        except OSError as problem:
            what = "is missing" if isinstance(problem, FileNotFoundError) else f"cannot be read: {problem.strerror}"
            self._unreadable(need, TraceError(what, file=name))

    def _read_records(self, need: str, kind: type[Struct]) -> None:
        """Decode a record file once; judge each record's form and meaning; keep its facts."""
        read = decoder_of(kind).decode
        mine = [check for check in CHECKS.values() if kind in check.records]
        checks = [(self.faults[check.name], check.judge) for check in mine if check.judge]
        judge = FormJudge(kind)
        raw = takes_raw(kind)
        record: Any
        keep: Callable[[str, Any, bytes], None] = self._keep_audit
        if need in self.populations:
            keep = self._keep_qa if need == "qa" else self._keep_proactive
        for number, line in self._lines(need):
            try:
                if raw:
                    check_raw(line)
                record = read(line)
            except BAD_JSON as problem:
                record = self._mend(need, kind, number, line, problem)
                if record is None:
                    continue
            record_id = record.record_id
            if not judge.is_canonical(record, line):
                self._judge_form(need, judge, record_id, number, line)
            for faults, check in checks:
                fault = check(record)
                if fault is not None:
                    faults.add(record_id, fault)
            keep(need, record, line)

    def _mend(self, need: str, kind: type[Struct], number: int, line: bytes, problem: Exception) -> Any:
        """Report a line that is not of the schema, and give its record if only unknown fields stand in the way."""
        name = self.names[need]
        if not line.strip():
            self.faults["canonical_encoding"].add(None, f"{name}, line {number} is blank")
            return None
        if "unknown field" in str(problem):
            try:
                record: Any
                record, extra = decode_keeping(line, kind, file=name, line=number)
            except TraceError as other:
                self._unreadable(need, other)
                return None
            if not self.keep_unknown:
                self.faults["schema"].add(record.record_id, f"has the unknown field {extra[0][0][:100]}")
            return record
        self._unreadable(need, explained(problem, line, file=name, line=number))
        return None

    def _judge_form(self, need: str, judge: FormJudge, record_id: str, number: int, line: bytes) -> None:
        place = f"{self.names[need]}, line {number}"
        twice, fault = judge.faults(line)
        if twice is not None:
            self.faults["no_duplicate_keys"].add(record_id, f"{place} has the key {twice[:100]!r} twice in one object")
        if fault is not None:
            self.faults["canonical_encoding"].add(record_id, f"{place} {fault}")

    def _keep_record(self, need: str, record: Any, content: tuple[Any, ...]) -> Population:
        population, record_id = self.populations[need], record.record_id
        metadata = record.metadata
        population.ids.append(record_id)
        population.kinds[metadata.dataset, record.task_type, metadata.validation_tier] += 1
        population.videos.append(self._paths.setdefault(record.video_path, record.video_path))
        if metadata.validation_tier == "human_reviewed":
            population.reviewed.add(record_id)
        digest = _digest(self._encode(content))
        if digest in self._content:
            self.faults["content_unique"].add(record_id, "has the content of an earlier record")
        self._content.add(digest)
        return population

    def _keep_qa(self, need: str, r: QARecord, _line: bytes) -> None:
        content = (r.video_path, r.task_type, r.question, r.options, r.answer, r.question_time_s, r.evidence_anchor_s)
        self._keep_record(need, r, content)

    def _keep_proactive(self, need: str, r: ProactiveRecord, line: bytes) -> None:
        content = (r.video_path, r.task_type, r.instruction, r.instruction_time_s, r.deadline_s, r.windows)
        population = self._keep_record(need, r, content)
        population.lines[_digest(line)] = len(population.windows)
        population.windows.append(len(r.windows))
        population.short.append(self._short(r.windows))

    def _short(self, windows: list[Window]) -> int:
        """Count the windows that meet the partition's criterion, computed as it is written."""
        descriptor = self.sides.get("subsets")
        if descriptor is None:
            return 0
        limit, inclusive = descriptor.criterion.threshold_s, descriptor.criterion.inclusive
        return sum(w.end_s - w.start_s <= limit if inclusive else w.end_s - w.start_s < limit for w in windows)

    def _keep_audit(self, need: str, record: Any, _line: bytes) -> None:
        audit = self.audits[need]
        audit.ids.append(record.record_id)
        if need == "exclusions":
            audit.duplicates += "DUPLICATE_RECORD" in record.reason_codes
        elif record.disposition == "edit":
            audit.edited.append(record.record_id)
        elif record.disposition == "remove":
            audit.removed.add(record.record_id)

    def _read_part(self, subset: str) -> None:
        """Find each row of a side's record file in the canonical one, by its bytes."""
        part, canonical = self.parts[subset], self.populations["proactive"]
        glance = decoder_of(_Glance).decode
        for number, line in self._lines(subset):
            index = canonical.lines.get(_digest(line))
            part.rows.append(index)
            if index is not None:
                part.windows += canonical.windows[index]
                part.short += canonical.short[index]
                continue
            try:
                stranger = glance(line)
            except (msgspec.DecodeError, RecursionError):
                part.strangers.append((None, number))
                continue
            part.strangers.append((stranger.record_id, number))
            part.windows += len(stranger.windows)
            part.short += self._short(stranger.windows)

    # --- words for checks -------------------------------------------------------------------------------------------

    def rows(self, need: str) -> int:
        """Records of a QA, Proactive or audit file."""
        if need in self.audits:
            return len(self.audits[need].ids)
        return len(self.populations[need].ids)


def _split(block: bytes, number: int) -> Iterator[tuple[int, bytes]]:
    """Split a block into lines one at a time, since all of them at once would take the block's size again."""
    start = 0
    while (end := block.find(b"\n", start)) >= 0:
        yield number, block[start:end]
        start, number = end + 1, number + 1
    if start < len(block):
        yield number, block[start:]


def _digest(line: bytes) -> bytes:
    return hashlib.sha256(line).digest()[:16]
