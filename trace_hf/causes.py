"""Why a file is not the released one, and what to do about it.

What can be proven by a hash is said as a fact: see `trace_hf.repairs`. Where the bytes only look like something, the
text says "likely". A cause is looked for only after a file was found to differ, so a snapshot that verifies pays
nothing for it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec

from ._files import lines_of
from .errors import TraceError, printable
from .faults import first_fault
from .integrity import digest_file
from .manifest import PINS
from .repairs import (
    BAD_BYTES,
    MAX_PARSE_BYTES,
    MAX_STREAM_BYTES,
    Repair,
    read_head,
    rebuilding,
    rewriting,
    text_encoding,
)
from .schema import SIDECARS, Manifest

__all__ = ["Cause", "explain", "find_cause"]

_AGAIN = "get the file again from where the release is published"

# Files are hashed in parallel; the search for a cause may hold one of them in memory.
_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class Cause:
    """Why a file differs.

    Attributes
    ----------
    name : str
        The kind: ``empty``, ``lfs_pointer``, ``other_file``, ``error_page``, ``truncated``, ``incomplete``,
        ``first_record``, ``edited``, or a kind of `trace_hf.repairs.Repair`.
    text : str
        What was found and what to do, for people.
    proven : bool
        Whether a hash proves it.
    repair : Repair or None
        The proven way back to the released bytes.
    """

    name: str
    text: str
    proven: bool = False
    repair: Repair | None = None


def find_cause(path: Path, expected: str, manifest: Manifest | None = None) -> str | None:
    """Say why a file differs and what to do; see `explain`."""
    cause = explain(path, expected, manifest)
    return cause.text if cause else None


def explain(path: Path, expected: str, manifest: Manifest | None = None) -> Cause | None:
    """Find why a file is not the one that is due.

    Parameters
    ----------
    path
        A local file that differs.
    expected
        The SHA-256 that is due.
    manifest
        The snapshot's manifest: it names the other files, and which kind of records a file should hold.

    Returns
    -------
    Cause or None
        None when nothing can be said. Never raises for what the file holds.
    """
    if not path.is_file():
        return None  # a pipe in its place would keep its reader waiting
    with _one_at_a_time:
        try:
            cause = _explain(path, expected, manifest)
            return cause and replace(cause, text=printable(cause.text))
        except (*BAD_BYTES, TraceError):
            return None


_SNIFFED = 64 * 1024


def looks_like(data: bytes, path: Path) -> str | None:
    """Say what a file of unknown hash is likely to be instead: a pointer, a page, gzip or another encoding.

    Parameters
    ----------
    data
        What the file holds, or its beginning.
    path
        The file.
    """
    head = data[:_SNIFFED]
    found = _empty(head) or _lfs_pointer(head, "") or _error_page(head, path)
    if found:
        return printable(found.text)
    if head.startswith(b"\x1f\x8b"):
        return "it is gzip data; decompress it"
    encoding = text_encoding(head)
    return (
        {"utf16": "it is UTF-16 text", "bom": "it begins with a UTF-8 byte-order mark"}[encoding[0]]
        if encoding
        else None
    )


def _explain(path: Path, expected: str, manifest: Manifest | None) -> Cause | None:
    head = read_head(path)
    simple = _empty(head) or _lfs_pointer(head, expected)
    if simple or path.stat().st_size > MAX_STREAM_BYTES:
        return simple
    actual = digest_file(path).sha256
    if actual == expected:
        return None
    other = _other_file(actual, manifest)
    if other:
        return other
    repair = rewriting(path, expected)
    if repair:
        return Cause(repair.kind, f"it {repair.what}; {repair.do}", True, repair)
    page = _error_page(head, path)
    if page:
        return page
    repair = rebuilding(path, expected, _siblings(path, manifest))
    if repair:
        return _against(path, repair)
    odd = _odd_encoding(head)
    if odd or path.stat().st_size > MAX_PARSE_BYTES:
        return odd
    fault = first_fault(path, manifest)
    return Cause(fault[0], f"{fault[1]}; {_AGAIN}") if fault else None


def _siblings(path: Path, manifest: Manifest | None) -> list[Path]:
    if manifest is None:
        return []
    # A name may lead into a folder; the file's own place tells where the snapshot begins.
    name = next((n for n in manifest.files if path.as_posix().endswith(f"/{n}")), path.name)
    root = path.parents[name.count("/")]
    return [root / other for other in manifest.files if other != name and (root / other).is_file()]


# --- something else stands in its place ---------------------------------------------------------------------------


def _empty(head: bytes) -> Cause | None:
    if not head:
        return Cause("empty", f"it is empty; the download or copy failed, {_AGAIN}", True)
    if not head.strip(b"\0"):
        return Cause("empty", f"it begins with zero bytes only; likely a download that was never finished, {_AGAIN}")
    return None


_POINTER = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\r?\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\r?\n")


def _lfs_pointer(head: bytes, expected: str) -> Cause | None:
    match = _POINTER.match(head[:1024])
    if match is None:
        return None
    if match[1].decode() == expected:
        return Cause("lfs_pointer", "it is the Git LFS pointer to the released file; run `git lfs pull`", True)
    if not expected:
        return Cause("lfs_pointer", "it is a Git LFS pointer; run `git lfs pull`")
    text = "it is a Git LFS pointer, to another file than the released one; check the revision, then run `git lfs pull`"
    return Cause("lfs_pointer", text, True)


def _other_file(actual: str, manifest: Manifest | None) -> Cause | None:
    for name, digest in (manifest.files if manifest else {}).items():
        if digest == actual:
            return Cause("other_file", f"it is {name} of this release under this name; {_AGAIN}", True)
    for release_id, pin in PINS.items():
        for name, digest in pin.files.items():
            if digest == actual:
                text = f"it is {name} of release {release_id}; do not mix releases, {_AGAIN}"
                return Cause("other_file", text, True)
    return None


_ERROR_KEYS = {"error", "errors", "message", "detail", "error_message", "errorMessage", "statusCode", "status_code"}
_PAGE = re.compile(rb"\s*(?:<!doctype\s+html|<html|<head|<\?xml|<Error>)", re.IGNORECASE)
_PLAIN_ERROR = re.compile(
    rb"\s*(?:[45]\d\d\b|not found|entry not found|access (?:denied|to \w+)|forbidden|unauthorized|invalid (?:username|"
    rb"credentials|token)|rate limit|too many requests|internal server error|bad gateway)",
    re.IGNORECASE,
)
_ERROR_DO = (
    "log in or check the address and your rights, then get the file again; download with a tool that fails on errors"
)


def _error_page(head: bytes, path: Path) -> Cause | None:
    text = head.removeprefix(b"\xef\xbb\xbf")
    small = len(head) < 16 * 1024
    if _PAGE.match(text):
        return Cause("error_page", f"likely a web page saved in its place, not the file; {_ERROR_DO}")
    if small and len(head) < 512 and _PLAIN_ERROR.match(text):
        return Cause("error_page", f"likely a server's error message saved in its place ({_quote(text)}); {_ERROR_DO}")
    if small and text.lstrip()[:1] == b"{" and _is_json_error(text, path):
        return Cause("error_page", f"likely a server's JSON error saved in its place ({_quote(text)}); {_ERROR_DO}")
    return None


def _is_json_error(text: bytes, path: Path) -> bool:
    try:
        value = msgspec.json.decode(text, type=dict[str, Any])
    except BAD_BYTES:
        return False
    kind = SIDECARS.get(path.name)
    own = set(kind.__struct_fields__) if kind else {"record_id"}
    return bool(_ERROR_KEYS & set(value)) and not own & set(value)


def _quote(text: bytes) -> str:
    """Quote the start of what somebody else wrote, so that it cannot act on a terminal."""
    return ascii(" ".join(text[:80].decode("utf-8", "replace").split()))


def _odd_encoding(head: bytes) -> Cause | None:
    if head.startswith(b"\x1f\x8b"):
        return Cause("gzip", f"it is gzip data, but not of the released file; {_AGAIN}")
    found = text_encoding(head)
    if found:
        name = {"utf16": "UTF-16 text", "bom": "text with a UTF-8 byte-order mark"}[found[0]]
        return Cause(found[0], f"it is {name}, and differs from the released file in more than that; {_AGAIN}")
    lines = head.count(b"\n")
    if lines and head.count(b"\r\n") == lines:
        return Cause("crlf", f"it has CRLF line ends, and differs from the released file in more than that; {_AGAIN}")
    return None


# --- compared with what it should be --------------------------------------------------------------------------------


def _against(path: Path, repair: Repair) -> Cause:
    """Say where a file first differs from the released bytes, which the rest of the snapshot gave."""
    due = b"".join(repair.chunks())
    found = path.read_bytes() if path.stat().st_size <= MAX_PARSE_BYTES else read_head(path, len(due) + 1)
    cut = found.rstrip(b"\0")
    if len(cut) < len(due) and due.startswith(cut):
        text = f"it is cut short after {len(cut)} of {len(due)} bytes, line {cut.count(10) + 1}; {repair.do}"
        return Cause("truncated", text, True, repair)
    rows = list(zip_longest(lines_of(found), lines_of(due), fillvalue=b""))
    line, (mine, theirs) = next((n, row) for n, row in enumerate(rows, 1) if row[0] != row[1])
    what = _difference(line, mine, theirs, rows[line][0] if line < len(rows) else b"", rows[line : line + 1])
    return Cause("first_record", f"{what}; {repair.do}", True, repair)


def _difference(
    line: int, mine: bytes, theirs: bytes, next_mine: bytes, next_rows: Sequence[tuple[bytes, bytes]]
) -> str:
    where, due_id = f"line {line} is the first that differs", _record_id(theirs)
    if due_id is None:
        return f"{where}: {'it should not be there' if not theirs else 'it should be ' + _quote(theirs)}"
    if next_rows and mine == next_rows[0][1]:
        return f"{where}: record {due_id} is missing there"
    if next_mine == theirs:
        return f"{where}: a line before record {due_id} should not be there"
    try:
        fields = _differing_fields(msgspec.json.decode(mine), msgspec.json.decode(theirs))
    except BAD_BYTES:
        return f"{where}: record {due_id} is damaged"
    return f"{where}: record {due_id}, at {', '.join(fields[:3]) or 'no value, only its writing'}"


def _record_id(line: bytes) -> str | None:
    try:
        value = msgspec.json.decode(line)
    except BAD_BYTES:
        return None
    return str(value["record_id"]) if isinstance(value, dict) and "record_id" in value else None


def _differing_fields(mine: Any, theirs: Any, place: str = "$") -> list[str]:
    if isinstance(mine, dict) and isinstance(theirs, dict):
        names = [*theirs, *(name for name in mine if name not in theirs)]
        gone = object()
        pairs = [(f"{place}.{name[:60]}", mine.get(name, gone), theirs.get(name, gone)) for name in names]
    elif isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        pairs = [(f"{place}[{n}]", a, b) for n, (a, b) in enumerate(zip(mine, theirs, strict=True))]
    else:
        return [] if mine == theirs else [place]
    return [field for at, a, b in pairs for field in _differing_fields(a, b, at)]
