"""Schema -> Arrow schema and features; lines and rows -> Arrow tables and back.

A block of lines is parsed twice at the same time: pyarrow's C++ reader builds the table, and msgspec's decoder
judges every line by the schema. pyarrow alone would take NaN, a byte-order mark, two objects on a line, or null for
a field that is missing; the judge refuses them and says where. Where pyarrow cannot read what the judge accepts
(values of mixed types, duplicate keys), the table is built from the judge's typed records instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.json as pj
from msgspec import UNSET, Struct

from .decode import (
    BAD_JSON,
    Unknown,
    canonical_json,
    check_raw,
    decode_keeping,
    decoder_of,
    encode_canonical,
    explained,
    merge_unknown,
    plain,
    takes_raw,
)
from .errors import SchemaError
from .schema import Field, fields_of

if TYPE_CHECKING:
    import datasets

UNKNOWN_FIELDS = "unknown_fields"
"""The string column that carries fields which the schema does not know: a JSON list of ``[pointer, value]``."""

_SCALARS = {"string": pa.string(), "json": pa.string(), "float": pa.float64(), "int": pa.int64(), "bool": pa.bool_()}

# A smaller block is parsed in less time than it takes to wake a thread.
_SMALL_BYTES = 1024 * 1024

# Two blocks ahead of the judge keep two cores busy; more would only hold more memory.
_AHEAD = 2
_pool = ThreadPoolExecutor(_AHEAD, thread_name_prefix="trace-hf-arrow")


@cache
def arrow_schema(record: type[Struct], unknown: Unknown = "error") -> pa.Schema:
    """Return the Arrow schema of a record kind, columns in the order of the field reference."""
    columns = [pa.field(field.name, _arrow_type(field)) for field in fields_of(record)]
    if unknown == "keep":
        columns.append(pa.field(UNKNOWN_FIELDS, pa.string()))
    return pa.schema(columns)


def _arrow_type(field: Field) -> pa.DataType:
    if field.kind == "struct":
        return pa.struct([pa.field(child.name, _arrow_type(child)) for child in field.children])
    if field.kind == "list":
        return pa.list_(_arrow_type(field.item))
    return _SCALARS[field.kind]


def features_of(schema: pa.Schema) -> datasets.Features:
    """Return the features that the installed `datasets` gives an Arrow schema.

    Its versions before and from 4 write lists in dialects that the other cannot always read.
    """
    return _features_of(schema).copy()


@cache
def _features_of(schema: pa.Schema) -> datasets.Features:
    import datasets

    return datasets.Features.from_arrow_schema(schema)


def decode_blocks(
    blocks: Iterable[tuple[int, bytes]], record: type[Struct], *, file: str, unknown: Unknown = "error"
) -> Iterator[pa.Table]:
    """Decode blocks of whole lines into tables of `arrow_schema`, parsing one block ahead.

    Parameters
    ----------
    blocks
        The 1-based number of the first line, and the lines: one JSON object each, UTF-8; blank ones are passed over.
    record
        The record kind.
    file
        Where the blocks come from, for messages.
    unknown
        ``"keep"`` carries fields that the schema does not name in `UNKNOWN_FIELDS`.

    Raises
    ------
    SchemaError
        With file, line, record and JSON path.
    """
    ahead: deque[_Block] = deque()
    for first_line, lines in blocks:
        ahead.append(_Block(first_line, lines, record, file, unknown))
        if len(ahead) > _AHEAD:
            yield ahead.popleft().table()
    while ahead:
        yield ahead.popleft().table()


def decode_block(lines: bytes, record: type[Struct], *, file: str, unknown: Unknown = "error") -> pa.Table:
    """Decode one block of whole lines; see `decode_blocks`."""
    return _Block(1, lines, record, file, unknown).table()


class _Block:
    """A block of lines whose table is being built while somebody else is still busy with the one before."""

    def __init__(self, first_line: int, lines: bytes, record: type[Struct], file: str, unknown: Unknown) -> None:
        self._first_line = first_line
        self._lines = lines
        self._record = record
        self._file = file
        self._unknown: Unknown = unknown
        self._parsed: Future[pa.Table | None] | None = None
        if len(lines) > _SMALL_BYTES and not takes_raw(record):
            self._parsed = _pool.submit(_parse, lines, arrow_schema(record))

    def table(self) -> pa.Table:
        numbers, kept = self._judge()
        table = None
        if self._parsed:
            table = self._parsed.result()
        elif not kept and not takes_raw(self._record):
            table = _parse(self._lines, arrow_schema(self._record))
        if table is None or table.num_rows != len(numbers):
            table = self._slow_table(numbers)
        if self._unknown == "keep":
            column = pa.array([_unknown_text(kept.get(number)) for number in numbers], pa.string())
            table = table.append_column(UNKNOWN_FIELDS, column)
        return table

    def _judge(self) -> tuple[Sequence[int], dict[int, list[tuple[str, Any]]]]:
        """Decode every line by the schema; return the numbers of the lines with a record, and unknown fields."""
        decode = decoder_of(self._record).decode
        rows = self._lines.split(b"\n")
        if not rows[-1]:
            rows.pop()
        blank = False
        raw = takes_raw(self._record)
        kept: dict[int, list[tuple[str, Any]]] = {}
        for number, row in enumerate(rows, self._first_line):
            try:
                if raw:
                    check_raw(row)
                decode(row)
            except BAD_JSON as problem:
                if not row.strip():
                    blank = True
                elif self._unknown == "keep" and "unknown field" in str(problem):
                    kept[number] = decode_keeping(row, self._record, file=self._file, line=number)[1]
                else:
                    raise explained(problem, row, file=self._file, line=number) from None
        numbers: Sequence[int] = range(self._first_line, self._first_line + len(rows))
        if blank:
            numbers = [number for number, row in enumerate(rows, self._first_line) if row.strip()]
        return numbers, kept

    def _slow_table(self, numbers: Sequence[int]) -> pa.Table:
        rows = self._lines.split(b"\n")
        decode = decoder_of(self._record).decode
        records = []
        for number in numbers:
            row = rows[number - self._first_line]
            try:
                records.append(decode(row))
            except msgspec.ValidationError:
                records.append(decode_keeping(row, self._record, file=self._file, line=number)[0])
        return table_of(records, self._record)


def _parse(lines: bytes, schema: pa.Schema) -> pa.Table | None:
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    try:
        table = pj.read_json(pa.BufferReader(lines), pj.ReadOptions(block_size=max(len(lines), 1)), options)
    except (pa.ArrowException, UnicodeDecodeError):
        return None  # the judge says what is wrong, or the slow way reads it
    return table if table.schema.equals(schema) else table.select(schema.names)


def _unknown_text(extra: list[tuple[str, Any]] | None) -> str | None:
    return None if extra is None else canonical_json(extra).decode()


# --- rows <-> structs -------------------------------------------------------------------------------------------


def row_of(value: Struct) -> dict[str, Any]:
    """Turn a typed record into a row: absent fields become None, raw JSON becomes its text."""
    return _plain_struct(value, fields_of(type(value)))


def _plain_struct(value: Struct, fields: Sequence[Field]) -> dict[str, Any]:
    return {field.name: _plain(getattr(value, field.name), field) for field in fields}


def _plain(value: Any, field: Field) -> Any:
    if value is UNSET or value is None:
        return None
    if field.kind == "json":
        return bytes(value).decode("utf-8")
    if field.kind == "struct":
        return _plain_struct(value, field.children)
    if field.kind == "list" and field.item.kind in ("struct", "json", "list"):
        return [_plain(item, field.item) for item in value]
    return value


def table_of(records: Iterable[Struct], record: type[Struct]) -> pa.Table:
    """Build a table of `arrow_schema` from typed records."""
    return pa.Table.from_pylist([row_of(value) for value in records], schema=arrow_schema(record))


def canonical_line(row: Mapping[str, Any], record: type[Struct]) -> bytes:
    """Write a row as the release writes it, with no line end.

    Parameters
    ----------
    row
        The values by field name, as any columnar form gives them: None for an absent optional field, JSON text
        for a field of any type, and `UNKNOWN_FIELDS` when unknown fields were kept. Other columns are ignored.
    record
        The record kind.

    Returns
    -------
    bytes
        One JSON object: keys sorted, no spaces, UTF-8 not escaped, floats as Python's `repr`.

    Raises
    ------
    SchemaError
        When a value is missing, of a wrong type, or not finite.
    """
    value = _jsonable(row, fields_of(record))
    try:
        typed = msgspec.convert(value, record)
    except msgspec.ValidationError as problem:
        error = explained(problem, b"", file="row", error=SchemaError)
        error.record_id = str(row.get("record_id"))
        raise error from None
    if row.get(UNKNOWN_FIELDS):
        whole = plain(typed)
        merge_unknown(whole, msgspec.json.decode(row[UNKNOWN_FIELDS]))
        return canonical_json(whole)
    return encode_canonical(typed)


def _jsonable(row: Mapping[str, Any], fields: Sequence[Field]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for field in fields:
        item = row.get(field.name)
        if item is not None:
            value[field.name] = _jsonable_item(item, field)
        elif field.nullable:
            value[field.name] = None
    return value


def _jsonable_item(item: Any, field: Field) -> Any:
    if field.kind == "json" and isinstance(item, str):
        return msgspec.Raw(item.encode("utf-8"))
    if field.kind == "struct" and isinstance(item, Mapping):
        return _jsonable(item, field.children)
    if field.kind == "list" and isinstance(item, Iterable) and not isinstance(item, (str, bytes, Mapping)):
        return [_jsonable_item(part, field.item) for part in item]
    return item
