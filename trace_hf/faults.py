"""Where a file's own form first shows that it cannot be the released one, when nothing else explains it."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ._files import lines_of
from .decode import decode, decoder_of, encode_canonical
from .errors import TraceError
from .schema import (
    CHANGES_FILE,
    EXCLUSIONS_FILE,
    SIDECARS,
    ChangeRecord,
    ExclusionRecord,
    Manifest,
    ProactiveRecord,
    QARecord,
)

__all__ = ["first_fault"]

Fault = tuple[str, str]
"""The name of a cause, and its text."""


def first_fault(path: Path, manifest: Manifest | None = None) -> Fault | None:
    """Find the first place of a file that cannot be a released one's.

    Parameters
    ----------
    path
        A file that differs, small enough to be held in memory.
    manifest
        Tells which records the file should hold, and how many.

    Returns
    -------
    tuple or None
        ``truncated``, ``incomplete``, ``first_record`` or ``edited``, and what was found.
    """
    data = path.read_bytes()
    if path.suffix != ".jsonl":
        return _document_fault(data, path.name)
    body = data.rstrip(b"\0")
    if len(body) < len(data):
        return "truncated", f"likely cut short: after {len(body)} bytes it holds only zero bytes"
    kind = _kind_of(path.name, data, manifest)
    return _lines_fault(data, kind, path.name, _stated(path.name, manifest)) if kind else None


def _kind_of(name: str, data: bytes, manifest: Manifest | None) -> type[Struct] | None:
    """Tell which kind of record a file should hold, by its role, else by its first readable line."""
    fixed: dict[str, type[Struct]] = {CHANGES_FILE: ChangeRecord, EXCLUSIONS_FILE: ExclusionRecord}
    if manifest:
        fixed |= {manifest.qa_file: QARecord, manifest.proactive_file: ProactiveRecord}
    if name in fixed:
        return fixed[name]
    for line in data[: 4 * 1024 * 1024].split(b"\n", 100)[:100]:
        for kind in (ProactiveRecord, QARecord):
            try:
                decoder_of(kind).decode(line)
            except (msgspec.MsgspecError, RecursionError):
                continue
            return kind
    return None


def _stated(name: str, manifest: Manifest | None) -> int | None:
    if manifest is None:
        return None
    return {manifest.qa_file: manifest.counts.qa, manifest.proactive_file: manifest.counts.proactive}.get(name)


# --- line files -------------------------------------------------------------------------------------------------


def _lines_fault(data: bytes, kind: type[Struct], file: str, stated: int | None) -> Fault:
    *lines, last = lines_of(data)
    previous = ""
    for number, line in enumerate(lines, 1):
        fault, previous = _line_fault(line, kind, file, number, previous)
        if fault:
            return "first_record", f"line {number} is the first that cannot be a released record: {fault}"
    if last:
        place = f"line {len(lines) + 1}, the last one"
        if _is_beginning(last, kind):
            return "truncated", f"likely cut short in {place}, which has no end"
        return "first_record", f"{place}, cannot be a released record"
    if stated is not None and len(lines) < stated:
        return "incomplete", (
            f"it holds {len(lines)} of {stated} records, all well-formed; likely cut short at a line end, or records "
            "were removed"
        )
    return "edited", "every record in it is well-formed; values were edited, or it belongs to another release"


def _line_fault(line: bytes, kind: type[Struct], file: str, number: int, previous: str) -> tuple[str | None, str]:
    """Return what is wrong with a line, and its record ID for the next one's order."""
    if not line:
        return "it is blank", previous
    try:
        record: Any = decode(line, kind, file=file, line=number)
    except TraceError as problem:
        place = f"record {ascii(problem.record_id)[1:-1]}, " if problem.record_id else ""
        at = f"at {problem.json_path}, " if problem.json_path else ""
        return f"{place}{at}{problem.what[:200]}", previous
    name = ascii(record.record_id[:100])[1:-1]
    if encode_canonical(record) != line:
        return f"record {name} is not written as a release writes it", previous
    if kind in (QARecord, ProactiveRecord) and record.record_id <= previous:
        return f"record {name} is out of order", previous
    return None, record.record_id


def _is_beginning(line: bytes, kind: type[Struct]) -> bool:
    """Tell whether a line can be the beginning of a canonical record."""
    opening = b'{"' + min(kind.__struct_fields__).encode() + b'":'
    if not (line.startswith(opening) or opening.startswith(line)):
        return False
    try:
        # A cut may go through a character, but nothing before it may be damaged.
        text = codecs.getincrementaldecoder("utf-8")().decode(line)
        decoder_of(kind).decode(text.encode("utf-8"))
    except UnicodeDecodeError:
        return False
    except msgspec.DecodeError as problem:
        return "truncated" in str(problem)
    return False


# --- ID files and sidecars ----------------------------------------------------------------------------------------

# A line of a JSON file as a release writes it: a key or none, one value or bracket, a comma or none.
_STRING = rb'"(?:[^"\\]|\\.)*"'
_PRETTY_LINE = re.compile(rb" *(?:" + _STRING + rb": )?(?:[\[{]|\[\]|\{\}|[\]}]|" + _STRING + rb"|[a-z]+|-?[0-9.]+),?")


def _document_fault(data: bytes, name: str) -> Fault:
    kind: Any = SIDECARS.get(name, list[str])
    try:
        value = decode(data, kind, file=name)
    except TraceError as problem:
        if _is_cut_document(data):
            return "truncated", f"likely cut short in line {data.count(10) + 1}, where its JSON has no end"
        at = f" at {problem.json_path}" if problem.json_path else ""
        return "first_record", f"its content is damaged{at}: {problem.what[:200]}"
    if isinstance(value, list) and len(set(value)) < len(value):
        twice = next(v for n, v in enumerate(value) if v in value[:n])
        return "first_record", f"it names {twice[:100]!a} twice"
    return "edited", "its JSON is well-formed; values were edited, or it belongs to another release"


def _is_cut_document(data: bytes) -> bool:
    """Tell whether bytes can be the beginning of a JSON file as a release writes it."""
    *lines, last = lines_of(data)
    if data[:1] not in (b"[", b"{") or not all(_PRETTY_LINE.fullmatch(line) for line in lines):
        return False
    # Only the first and the last line stand at the margin.
    if any(line[:1] != b" " for line in lines[1:]):
        return False
    if last.lstrip(b" ")[:1] not in (b"", b'"', b"[", b"{", b"]", b"}"):
        return False
    try:
        msgspec.json.decode(codecs.getincrementaldecoder("utf-8")().decode(data))
    except UnicodeDecodeError:
        return False
    except msgspec.DecodeError as problem:
        return "truncated" in str(problem)
    return False
