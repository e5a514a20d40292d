"""Proofs of why a file differs: undo a kind of damage that is known to happen, and see the released bytes.

Each candidate here is a rewriting of the file that is at hand, or of the other files of its snapshot. Whether it is
right is never guessed: its SHA-256 is the one that is due, or it is dropped. So what is found can be said as a fact,
and the same bytes can be written in the file's place.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ._files import lines_of, open_regular
from .decode import canonical_json, decoder_of, encode_canonical
from .schema import SIDECARS, ExclusionRecord, ProactiveRecord, QARecord, Window

__all__ = ["MAX_PARSE_BYTES", "MAX_STREAM_BYTES", "Repair", "proven_repair", "rebuilding", "rewriting"]

MAX_STREAM_BYTES = 1024 * 1024 * 1024
"""No more than this is read, or unpacked, for one candidate that is made block by block."""

MAX_PARSE_BYTES = 128 * 1024 * 1024
"""A larger file is not parsed for its cause: the candidates that need its records hold them in memory."""

SHORT_WINDOW_S = 1.0
"""The threshold of the published partition, in seconds; a guess that the hash confirms."""

_CHUNK = 1024 * 1024
_HEAD = 64 * 1024

# What damaged or hostile bytes make the parsers raise; the candidate is then none.
BAD_BYTES = (ValueError, TypeError, OSError, EOFError, RecursionError, zlib.error, msgspec.MsgspecError)


@dataclass(frozen=True)
class Repair:
    """A way to the released bytes, proven by their hash.

    Attributes
    ----------
    kind : str
        ``gzip``, ``utf16``, ``bom``, ``crlf``, ``line_end``, ``reformatted``, ``reordered``, ``repeated`` or
        ``rebuilt``.
    what : str
        What was found, in words that follow "it".
    do : str
        What to do so that it does not happen again.
    chunks : callable
        Gives the released bytes, in blocks, each time it is called.
    """

    kind: str
    what: str
    do: str
    chunks: Callable[[], Iterator[bytes]]


def proven_repair(path: Path, expected: str, siblings: Sequence[Path] = ()) -> Repair | None:
    """Find a rewriting that gives the released bytes.

    Parameters
    ----------
    path
        The file that differs.
    expected
        The SHA-256 that is due, in lower-case hex.
    siblings
        The other files of its snapshot, from which it may be put together again. They need not be verified: the
        hash of the result is the proof.

    Returns
    -------
    Repair or None
        None when no candidate has the hash. Time and memory are bounded by `MAX_STREAM_BYTES` and
        `MAX_PARSE_BYTES`, whatever the file holds.
    """
    return rewriting(path, expected) or rebuilding(path, expected, siblings)


def rewriting(path: Path, expected: str) -> Repair | None:
    """Find a proven repair that needs the file alone; see `proven_repair`."""
    return _first(chain(_unpackings(path), _encodings(path), _reformattings(path)), expected)


def rebuilding(path: Path, expected: str, siblings: Sequence[Path]) -> Repair | None:
    """Find a proven repair that takes the content from other files of the snapshot; see `proven_repair`."""
    return _first(_rebuildings(path, siblings), expected)


def _first(candidates: Iterator[Repair], expected: str) -> Repair | None:
    while True:
        try:
            candidate = next(candidates, None)
            if candidate is None or _sha256(candidate.chunks()) == expected:
                return candidate
        except BAD_BYTES:
            continue


def _sha256(chunks: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


# --- block by block ---------------------------------------------------------------------------------------------


def read_head(path: Path, size: int = _HEAD) -> bytes:
    """Return the first bytes of a file."""
    with open_regular(path) as stream:
        return stream.read(size)


def _raw(path: Path) -> Iterator[bytes]:
    if path.stat().st_size > MAX_STREAM_BYTES:
        raise ValueError("too large to read again")
    with open_regular(path) as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def _unpackings(path: Path) -> Iterator[Repair]:
    if read_head(path, 2) == b"\x1f\x8b":
        yield Repair(
            "gzip",
            "is a gzip-compressed copy of the released file",
            f"decompress it (mv {path.name} {path.name}.gz && gunzip {path.name}.gz)",
            partial(_gunzip, path),
        )


def _gunzip(path: Path) -> Iterator[bytes]:
    # A few kilobytes can unpack to terabytes, while JSON text of a release shrinks to a tenth.
    left = min(MAX_STREAM_BYTES, max(16 * _CHUNK, 64 * path.stat().st_size))
    with open_regular(path) as packed, gzip.open(packed) as stream:
        while chunk := stream.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                raise ValueError("unpacks to too much")
            yield chunk


def text_encoding(head: bytes) -> tuple[str, str] | None:
    """Return the kind and the codec of a file that is not plain UTF-8, by its first bytes."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf16", "utf-16"
    if head.startswith(codecs.BOM_UTF8):
        return "bom", "utf-8-sig"
    # The first characters of every file are ASCII, so that UTF-16 without a mark shows as every other byte zero.
    if len(head) >= 4 and head[1:4:2] == b"\0\0" and head[0] and head[2]:
        return "utf16", "utf-16-le"
    if len(head) >= 4 and head[0:4:2] == b"\0\0" and head[1] and head[3]:
        return "utf16", "utf-16-be"
    return None


_ENCODING_WORDS = {
    "utf16": ("is UTF-16 text", "copy it without re-encoding; in PowerShell use Copy-Item, not `>`"),
    "bom": ("starts with a UTF-8 byte-order mark", "copy it without opening it in an editor that adds one"),
    "crlf": ("has CRLF line ends", "turn off line-end conversion (git config core.autocrlf false) and copy it again"),
    "line_end": ("has another end than one line end", "copy it without an editor that trims or adds lines"),
}


def _encodings(path: Path) -> Iterator[Repair]:
    found = text_encoding(read_head(path))
    steps = [found[0]] if found else []
    codec = found[1] if found else None
    for extra in ([], ["crlf"], ["line_end"], ["crlf", "line_end"]):
        kinds = steps + extra
        if kinds:
            what = " and ".join(_ENCODING_WORDS[kind][0] for kind in kinds)
            yield Repair(kinds[0], what, _ENCODING_WORDS[kinds[0]][1], partial(_plain_text, path, codec, tuple(extra)))


def _plain_text(path: Path, codec: str | None, steps: tuple[str, ...]) -> Iterator[bytes]:
    chunks = _raw(path)
    if codec:
        chunks = _recoded(chunks, codec)
    if "crlf" in steps:
        chunks = (chunk.replace(b"\r", b"") for chunk in chunks)
    return _one_line_end(chunks) if "line_end" in steps else chunks


def _recoded(chunks: Iterable[bytes], codec: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(codec)()
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8")
    yield decoder.decode(b"", final=True).encode("utf-8")


def _one_line_end(chunks: Iterable[bytes]) -> Iterator[bytes]:
    held = b""
    for chunk in chunks:
        body = chunk.rstrip()
        if body:
            yield held + body
            held = chunk[len(body) :]
        elif len(held) < _CHUNK:
            held += chunk
    yield b"\n"


# --- with the records in memory -----------------------------------------------------------------------------------


def _text(path: Path) -> bytes:
    """The whole file as plain UTF-8."""
    if path.stat().st_size > MAX_PARSE_BYTES:
        raise ValueError("too large to parse")
    found = text_encoding(read_head(path))
    return b"".join(_plain_text(path, found[1] if found else None, ("crlf",)))


def _reformattings(path: Path) -> Iterator[Repair]:
    text = _text(path)
    if path.suffix != ".jsonl":
        yield from _document_rewritings(text, path.name)
        return
    lines = [_canonical(value) for value in _values(text)]
    ordered = sorted(lines, key=_id_of)
    known = list(dict.fromkeys(lines))
    tool = "copy the file as it is, without a tool that reads and writes JSON"
    yield Repair("reformatted", f"has the same records, {_how(text)}", tool, partial(_joined, lines))
    yield Repair("reordered", "has the same records in another order", tool, partial(_joined, ordered))
    if len(known) < len(lines):
        joined = "download it to a new file, instead of appending to one"
        yield Repair("repeated", "has records more than once", joined, partial(_joined, known))
        yield Repair(
            "repeated", "has records more than once, in another order", joined, partial(_joined, sorted(known))
        )


def _joined(lines: list[bytes]) -> Iterator[bytes]:
    for start in range(0, len(lines), 256):
        yield b"\n".join(lines[start : start + 256]) + b"\n"


def _how(text: bytes) -> str:
    """Name how JSON text is not written as a release writes it."""
    first = text[: text.find(b"\n")] if b"\n" in text else text
    signs = []
    if text.lstrip()[:1] == b"[":
        signs.append("as one JSON array")
    if not first.rstrip().endswith((b"}", b"]")):
        signs.append("pretty-printed")
    elif b'": ' in first:
        signs.append("with spaces")
    if b"\\u" in text:
        signs.append("non-ASCII text escaped")
    return (
        "written otherwise (" + ", ".join(signs or ["keys reordered, blank lines, or numbers written otherwise"]) + ")"
    )


def _values(text: bytes) -> Iterator[bytes]:
    """Give the JSON text of each record, whether it stands on a line of its own or not."""
    lines = [line for line in lines_of(text) if line.strip()]
    try:
        msgspec.json.decode(lines[0], type=dict[str, msgspec.Raw])
    except (IndexError, msgspec.DecodeError):
        yield from _embedded_values(text.decode("utf-8"))
        return
    yield from lines


def _embedded_values(text: str) -> Iterator[bytes]:
    read = json.JSONDecoder().raw_decode
    between = " \t\r\n"
    place = len(text) - len(text.lstrip(between))
    if text[place : place + 1] == "[":
        between += ",]"
        place += 1
    while True:
        while place < len(text) and text[place] in between:
            place += 1
        if place == len(text):
            return
        _, end = read(text, place)
        yield text[place:end].encode("utf-8")
        place = end


def _canonical(value: bytes) -> bytes:
    """Write one record's JSON as a release writes it."""
    # By the schema where there is one, since a tool may have written 41.0 as 41.
    for kind in (QARecord, ProactiveRecord, ExclusionRecord):
        try:
            return encode_canonical(decoder_of(kind).decode(value))
        except msgspec.ValidationError:
            continue
    return canonical_json(msgspec.json.decode(value))


class _Glance(Struct):
    """What a rebuilding needs of a record."""

    record_id: str
    windows: list[Window] | UnsetType = UNSET


def _id_of(line: bytes) -> str:
    record_id: str = decoder_of(_Glance).decode(line).record_id
    return record_id


def _document_rewritings(text: bytes, name: str) -> Iterator[Repair]:
    value = msgspec.json.decode(text)
    tool = "copy the file as it is, without a tool that reads and writes JSON"
    if name in SIDECARS:
        value = msgspec.to_builtins(msgspec.convert(value, SIDECARS[name]))
    what = f"has the same content, {_how_document(text)}"
    yield Repair("reformatted", what, tool, partial(_document, value))
    if isinstance(value, list):
        yield Repair("reordered", "has the same IDs in another order", tool, partial(_document, sorted(value)))
        yield Repair("repeated", "has IDs more than once", tool, partial(_document, list(dict.fromkeys(value))))


def _how_document(text: bytes) -> str:
    signs = ["on one line"] if b"\n" not in text.strip() else []
    if b"\\u" in text:
        signs.append("non-ASCII text escaped")
    return f"written otherwise ({', '.join(signs or ['other spaces, keys reordered, or numbers written otherwise'])})"


def _document(value: Any) -> Iterator[bytes]:
    """Write a JSON file as a release writes it."""
    yield (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


# --- from the other files of the snapshot -----------------------------------------------------------------------------


def _rebuildings(path: Path, siblings: Sequence[Path]) -> Iterator[Repair]:
    pools = [(sibling.name, pool) for sibling in siblings if (pool := _pool(sibling))]
    again = "get the file again, or write it from {}: there are the same records"
    if path.suffix != ".jsonl":
        for name, pool in pools:
            ids = [record_id for record_id, _, _ in pool]
            yield Repair("rebuilt", f"is not the ID list of {name}", again.format(name), partial(_document, ids))
        return
    pools = [(name, [row for row in pool if row[2] is not None]) for name, pool in pools]
    for name, pool in pools:
        for short in (False, True):
            lines = [line for _, line, is_short in pool if is_short is short]
            if lines and len(lines) < len(pool):
                do = again.format(name)
                yield Repair("rebuilt", f"does not have the rows of {name}", do, partial(_joined, lines))
    union = {record_id: line for _, pool in pools for record_id, line, _ in pool}
    names = " and ".join(name for name, pool in pools if pool)
    if union:
        lines = [union[record_id] for record_id in sorted(union)]
        yield Repair("rebuilt", f"does not have the rows of {names}", again.format(names), partial(_joined, lines))


def _pool(path: Path) -> list[tuple[str, bytes, bool | None]]:
    """Read a record file as ``(record_id, line, whether it has a short window)``; None of a record without windows."""
    rows: list[tuple[str, bytes, bool | None]] = []
    try:
        if path.suffix != ".jsonl" or path.stat().st_size > MAX_PARSE_BYTES:
            return []
        for line in lines_of(path.read_bytes()):
            if line:
                glance = decoder_of(_Glance).decode(line)
                windows = glance.windows
                short = None if windows is UNSET else any(w.end_s - w.start_s <= SHORT_WINDOW_S for w in windows)
                rows.append((glance.record_id, line, short))
    except BAD_BYTES:
        return []
    return rows
