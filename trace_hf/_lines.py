"""Canonical lines in a store that stays small in memory, and the words for how two records differ."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import struct
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import msgspec

from .arrow import UNKNOWN_FIELDS, canonical_line
from .decode import canonical_json, split_unknown, takes_raw
from .errors import SchemaError
from .schema import Config, Field, fields_of

_SPOOL_BYTES = 32 * 1024 * 1024
_SHOWN = 60


@dataclass(frozen=True)
class Difference:
    """One place where rows are not the release's.

    Attributes
    ----------
    record_id : str or None
        The record, or None for what concerns all of them.
    field : str or None
        JSON path of the field.
    what : str
        What differs, with both values where that is short.
    """

    record_id: str | None
    field: str | None
    what: str

    def __str__(self) -> str:
        place = ", ".join(part for part in (self.record_id, self.field) if part)
        return f"{place}: {self.what}" if place else self.what

    def to_json(self) -> dict[str, str | None]:
        """Return the form that ``--json`` prints."""
        return {"record_id": self.record_id, "field": self.field, "what": self.what}


class LineStore:
    """The canonical lines of rows: their bytes on disk when they are many, their places in memory.

    Parameters
    ----------
    spec
        The config.
    order
        Record IDs in canonical order; None for the order of the IDs as text.

    Attributes
    ----------
    faults : list of Difference
        Rows that cannot be written, one entry for each; their values are kept for comparison all the same.
    """

    def __init__(self, spec: Config, order: Sequence[str] | None = None) -> None:
        self.spec = spec
        self.faults: list[Difference] = []
        self._places: list[tuple[str, int, int]] = []  # record ID, offset, length; in the order of arrival
        self._index: dict[str, int] = {}
        self._fields = fields_of(spec.record)
        self._spool: IO[bytes] = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115 - closed by __exit__
        self._end = 0
        self.set_order(order)

    def __enter__(self) -> LineStore:
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def __len__(self) -> int:
        return len(self._places)

    def set_order(self, order: Sequence[str] | None) -> None:
        """Say what the canonical order is."""
        self._rank = {record_id: index for index, record_id in enumerate(order)} if order is not None else None

    def add_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows; those that cannot be written are noted in `faults`."""
        for row in rows:
            self._add_row(row)

    def _add_row(self, row: Mapping[str, Any]) -> None:
        record_id = row.get("record_id")
        if not isinstance(record_id, str):
            self.faults.append(Difference(None, "$.record_id", f"row {len(self)} has no record ID"))
            record_id = ""
        try:
            line = self._line(row)
        except (SchemaError, msgspec.MsgspecError, ValueError, TypeError, LookupError, OverflowError) as problem:
            path = problem.json_path if isinstance(problem, SchemaError) else None
            what = problem.what if isinstance(problem, SchemaError) else f"cannot be written ({problem})"
            self.faults.append(Difference(record_id or None, path, what))
            line = _lenient(row, self._fields)
        self.add(record_id, line)

    def _line(self, row: Mapping[str, Any]) -> bytes:
        if takes_raw(self.spec.record):
            _check_json(row, self._fields)
        line = canonical_line(row, self.spec.record)
        if row.get(UNKNOWN_FIELDS):
            # Such a column can name a field that the schema knows, and so write over the value that the row shows.
            given = [tuple(pair) for pair in msgspec.json.decode(row[UNKNOWN_FIELDS])]
            kept = split_unknown(msgspec.json.decode(line), self._fields)
            if sorted(map(canonical_json, given)) != sorted(map(canonical_json, kept)):
                raise SchemaError(
                    "names fields that the schema knows, or the same one twice", json_path=f"$.{UNKNOWN_FIELDS}"
                )
        return line

    def add(self, record_id: str, line: bytes) -> None:
        """Add a canonical line with no line end."""
        self._index.setdefault(record_id, len(self._places))
        self._spool.write(line + b"\n")
        self._places.append((record_id, self._end, len(line)))
        self._end += len(line) + 1

    def __contains__(self, record_id: object) -> bool:
        return record_id in self._index

    def ids(self) -> Iterator[str]:
        """Give the record IDs in the order of arrival."""
        return (place[0] for place in self._places)

    def __getitem__(self, record_id: str) -> bytes:
        return self._read(self._places[self._index[record_id]])

    def _read(self, place: tuple[str, int, int]) -> bytes:
        self._spool.seek(place[1])
        line = self._spool.read(place[2])
        self._spool.seek(self._end)
        return line

    def _key(self, place: tuple[str, int, int]) -> tuple[int, str]:
        return (self._rank.get(place[0], len(self._rank)) if self._rank is not None else 0, place[0])

    @property
    def reordered(self) -> bool:
        """Whether the lines came in another order than the canonical one."""
        keys = [self._key(place) for place in self._places]
        return any(a > b for a, b in itertools.pairwise(keys))

    def sha256(self) -> str | None:
        """Return the hash of the lines in canonical order; None when a row could not be written."""
        if self.faults:
            return None
        whole = hashlib.sha256()
        for place in sorted(self._places, key=self._key):
            whole.update(self._read(place) + b"\n")
        return whole.hexdigest()


def _check_json(row: Any, fields: Sequence[Field], path: str = "$") -> None:
    """Refuse JSON text that is not one whole value: it could write fields of its own into the line."""
    for field in fields:
        value, place = row.get(field.name), f"{path}.{field.name}"
        if field.kind == "json" and isinstance(value, str):
            try:
                msgspec.json.decode(value)
            except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
                raise SchemaError("is not JSON text", json_path=place) from None
        elif field.kind == "struct" and isinstance(value, Mapping):
            _check_json(value, field.children, place)
        elif field.kind == "list" and field.item.kind == "struct" and isinstance(value, list):
            for index, item in enumerate(value):
                _check_json(item if isinstance(item, Mapping) else {}, field.item.children, f"{place}[{index}]")


def _lenient(row: Mapping[str, Any], fields: Any) -> bytes:
    """Write a row that the canonical writer refuses, so that it can still be compared field by field."""

    def pruned(value: Any, children: Any) -> Any:
        kept = {}
        for child in children:
            item = value.get(child.name)
            if item is None and not (child.nullable and child.name in value):
                continue
            if child.kind == "struct" and isinstance(item, Mapping):
                item = pruned(item, child.children)
            elif child.kind == "list" and child.item.kind == "struct" and isinstance(item, list):
                item = [pruned(part, child.item.children) if isinstance(part, Mapping) else part for part in item]
            elif child.kind == "json" and isinstance(item, str):
                item = _parsed(item)
            kept[child.name] = item
        return kept

    text = json.dumps(pruned(row, fields), ensure_ascii=True, default=str, sort_keys=True)
    return text.encode("ascii")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


# --- how two records differ -------------------------------------------------------------------------------------


def differing_lines(record_id: str, due: bytes, found: bytes) -> Iterator[Difference]:
    """Name the fields in which two lines differ, by JSON path."""
    for path, a, b in differing_values(json.loads(due), json.loads(found)):
        yield Difference(record_id, path, worded(a, b))


class Absent:
    """Stands for a field that is not there."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = Absent()


def differing_values(due: Any, found: Any, path: str = "$") -> Iterator[tuple[str, Any, Any]]:
    """Walk two JSON values; yield path and both values wherever they differ, `ABSENT` for what is not there."""
    if isinstance(due, dict) and isinstance(found, dict):
        for name in sorted({*due, *found}):
            place = f"{path}.{name}" if name.isidentifier() else f"{path}[{name!r}]"
            if name in due and name in found:
                yield from differing_values(due[name], found[name], place)
            else:
                yield place, due.get(name, ABSENT), found.get(name, ABSENT)
    elif isinstance(due, list) and isinstance(found, list):
        for index in range(max(len(due), len(found))):
            place = f"{path}[{index}]"
            if index < len(due) and index < len(found):
                yield from differing_values(due[index], found[index], place)
            else:
                yield place, due[index] if index < len(due) else ABSENT, found[index] if index < len(found) else ABSENT
    elif type(due) is not type(found) or repr(due) != repr(found):  # repr: -0.0 is not 0.0, and NaN is NaN
        yield path, due, found


def worded(due: Any, found: Any) -> str:
    """Say how a value differs, and what likely happened to it."""
    if found is ABSENT:
        return f"was dropped, it is {shown(due)}"
    if due is ABSENT:
        became = ": an absent field that became empty" if found in ("", [], {}) else ""
        return f"was added, as {shown(found)}{became}"
    a, b = (shown(due), shown(found)) if not isinstance(due, str) or not isinstance(found, str) else _apart(due, found)
    hint = _hint(due, found)
    return f"{b} instead of {a}" + (f" ({hint})" if hint else "")


def _hint(due: Any, found: Any) -> str:
    if due == found:
        return ""
    if due is None and found in ("", [], {}, 0):
        return "a null that became empty"
    if isinstance(due, str) and isinstance(found, str):
        same = unicodedata.normalize("NFC", due) == unicodedata.normalize("NFC", found)
        return "the same text in another Unicode normalisation" if same else ""
    if not (isinstance(due, float) and isinstance(found, float) and math.isfinite(due) and math.isfinite(found)):
        return ""
    if found in (math.nextafter(due, math.inf), math.nextafter(due, -math.inf)):
        return "one unit in the last place"
    if abs(due) < 1e38 and found == struct.unpack("f", struct.pack("f", due))[0]:
        return "rounded to 32 bits"
    return "rounded" if any(round(due, digits) == found for digits in range(15)) else ""


def _apart(due: str, found: str) -> tuple[str, str]:
    """Show two texts around the first character in which they differ."""
    if max(len(due), len(found)) <= _SHOWN:
        return shown(due), shown(found)
    at = next((i for i, (a, b) in enumerate(zip(due, found, strict=False)) if a != b), min(len(due), len(found)))
    start = max(0, at - 12)
    a, b = (shown(text[start : start + 36]) for text in (due, found))
    return a, f"at character {at}, {b}"


def shown(value: Any) -> str:
    """Write a value on one short line."""
    if value is ABSENT:
        return "absent"
    text = repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN + 20 else text[: _SHOWN + 17] + "..."
