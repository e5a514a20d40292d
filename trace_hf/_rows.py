"""Rows of any kind -> mappings of plain values, with nothing lost and nothing guessed.

What a row may be made of is decided by the schema: numpy's scalars and arrays become Python's, a NaN that stands for
null in a library without nulls becomes one, and a field inside a record that the schema does not name is kept where
the canonical writer will write it, so that it is seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from .arrow import UNKNOWN_FIELDS, row_of
from .decode import canonical_json, takes_raw
from .errors import SchemaError, TraceError
from .schema import Config, Field, fields_of

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 1024
"""So many rows are Python objects at a time."""


def iter_rows(rows: Any, spec: Config) -> Iterator[Mapping[str, Any]]:
    """Turn rows of any kind into mappings of plain values.

    Parameters
    ----------
    rows
        A `datasets.Dataset` or `IterableDataset`, or a `DatasetDict` with a ``test`` split; an Arrow table, batch or
        reader; a pandas or polars frame; the path or URL of a Parquet file; an iterable of mappings, or of the typed
        records that `Release.records` gives.
    spec
        The config that they are said to be. Columns that it does not have are left out.

    Raises
    ------
    SchemaError
        When a Parquet file cannot be read.
    TraceError
        When `rows` is nothing of the above.
    """
    known = frozenset(field.name for field in fields_of(spec.record)) | {UNKNOWN_FIELDS}
    for part in _parts(rows, known):
        if isinstance(part, Struct):
            yield row_of(part)
        elif isinstance(part, Mapping):
            yield clean_row({name: part[name] for name in known if name in part}, spec.record)
        elif hasattr(part, "iloc"):
            for row in part.astype(object).where(part.notna(), None).to_dict("records"):
                yield clean_row(row, spec.record)
        elif hasattr(part, "to_pylist"):
            batch = part.select([name for name in part.schema.names if name in known])
            yield from _batch_rows(batch, spec.record)
        else:
            raise _not_rows(part)


def _parts(rows: Any, known: frozenset[str]) -> Iterable[Any]:
    """Break rows into mappings, Arrow batches or pandas frames of a bounded size."""
    if isinstance(rows, (str, os.PathLike)):
        return parquet_batches(os.fspath(rows))
    if isinstance(rows, Mapping):
        return _parts(_test_split(rows), known)
    if hasattr(rows, "collect_schema") and hasattr(rows, "collect"):  # a lazy polars frame, or an eager one
        rows = rows.lazy().select([n for n in rows.collect_schema().names() if n in known]).collect()
    if hasattr(rows, "to_arrow") and not hasattr(rows, "to_pydict"):
        rows = rows.to_arrow()
    if hasattr(rows, "with_format") and hasattr(rows, "features"):
        names = [name for name in rows.features or known if name in known]
        batches: Iterable[Any] = (
            rows.select_columns(names).with_format("arrow").iter(BATCH_ROWS) if rows.features else rows
        )
        return batches
    if hasattr(rows, "iloc") and hasattr(rows, "columns"):
        frame = rows[[name for name in rows.columns if name in known]]
        return (frame.iloc[start : start + BATCH_ROWS] for start in range(0, len(frame), BATCH_ROWS))
    if hasattr(rows, "to_batches"):
        return rows.to_batches(max_chunksize=BATCH_ROWS)  # type: ignore[no-any-return]
    if hasattr(rows, "to_pylist"):
        return [rows]
    if not isinstance(rows, Iterable):
        raise _not_rows(rows)
    return rows


def _test_split(rows: Mapping[str, Any]) -> Any:
    if "test" not in rows or isinstance(rows["test"], (str, bytes)):
        raise TraceError(
            "one mapping is not rows", do='pass the split ds["test"], a frame, a Parquet file or an iterable of rows'
        )
    return rows["test"]


def _not_rows(value: Any) -> TraceError:
    return TraceError(
        f"a {type(value).__name__} is not rows",
        do="pass a datasets.Dataset, an Arrow table, a frame, the path of a Parquet file or an iterable of mappings",
    )


def parquet_batches(place: str, storage_options: Mapping[str, Any] | None = None) -> Iterator[pa.RecordBatch]:
    """Read a Parquet file, local or at an fsspec URL, a bounded number of rows at a time.

    Raises
    ------
    SchemaError
        When it is not there or is no Parquet file.
    """
    import fsspec
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with fsspec.open(place, "rb", **(storage_options or {})) as stream, pq.ParquetFile(stream) as file:
            yield from file.iter_batches(BATCH_ROWS)
    except (OSError, ValueError, pa.ArrowException) as problem:
        if isinstance(problem, TraceError):
            raise
        raise SchemaError(
            f"is no readable Parquet file ({problem})", file=place, do="check the path, or get the file again"
        ) from None


def _batch_rows(batch: Any, record: type[Struct]) -> Iterator[Mapping[str, Any]]:
    """Give a batch's rows; only rows of a shape that the schema does not have need to be cleaned."""
    usual = not takes_raw(record) and all(
        _is_usual(batch.schema.field(field.name).type, field)
        for field in fields_of(record)
        if field.name in batch.schema.names
    )
    for row in batch.to_pylist():
        yield row if usual else clean_row(row, record)


def _is_usual(kind: pa.DataType, field: Field) -> bool:
    """Whether a column's type holds no field that the schema does not name, at any depth."""
    if field.kind == "struct":
        if not hasattr(kind, "get_field_index") or not hasattr(kind, "num_fields"):
            return False
        children = {child.name: child for child in field.children}
        parts = [kind.field(index) for index in range(kind.num_fields)]
        return all(part.name in children and _is_usual(part.type, children[part.name]) for part in parts)
    if field.kind == "list":
        return hasattr(kind, "value_type") and _is_usual(kind.value_type, field.item)
    return True


# --- cleaning ---------------------------------------------------------------------------------------------------


def clean_row(row: Mapping[str, Any], record: type[Struct]) -> dict[str, Any]:
    """Return a row of plain values; fields inside it that the schema does not name go to `UNKNOWN_FIELDS`."""
    strays: list[tuple[str, Any]] = []
    cleaned: dict[str, Any] = {}
    for field in fields_of(record):
        if field.name in row:
            cleaned[field.name] = _clean(row[field.name], field, f"/{field.name}", strays)
    given = _plain(row.get(UNKNOWN_FIELDS))
    if given is not None or strays:
        cleaned[UNKNOWN_FIELDS] = _with_strays(given, strays)
    return cleaned


def _with_strays(given: Any, strays: Sequence[tuple[str, Any]]) -> Any:
    if not strays or not isinstance(given, (str, type(None))):
        return given
    text = canonical_json([list(stray) for stray in strays]).decode("utf-8")
    return text if not given else f"{given.rstrip()[:-1]},{text[1:]}"


def _clean(value: Any, field: Field, pointer: str, strays: list[tuple[str, Any]]) -> Any:
    value = _plain(value)
    if value is None:
        return None
    if field.kind == "struct" and isinstance(value, Mapping):
        return _clean_struct(value, field, pointer, strays)
    if field.kind == "list":
        if isinstance(value, Mapping) and field.item.kind == "struct":
            value = _transposed(value)  # what a sequence of named features is stored as
        if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)):
            return [_clean(item, field.item, f"{pointer}/{i}", strays) for i, item in enumerate(value)]
    if field.kind == "json" and not isinstance(value, str):
        return canonical_json(value).decode("utf-8")
    return value


def _clean_struct(
    value: Mapping[str, Any], field: Field, pointer: str, strays: list[tuple[str, Any]]
) -> dict[str, Any]:
    children = {child.name: child for child in field.children}
    cleaned = {}
    for name, item in value.items():
        if name in children:
            cleaned[name] = _clean(item, children[name], f"{pointer}/{name}", strays)
        elif (item := _plain(item)) is not None:
            escaped = str(name).replace("~", "~0").replace("/", "~1")
            strays.append((f"{pointer}/{escaped}", item))
    return cleaned


def _transposed(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    lists = {name: list(_plain(column) or ()) for name, column in columns.items()}
    count = max(map(len, lists.values()), default=0)
    return [{name: column[i] if i < len(column) else None for name, column in lists.items()} for i in range(count)]


def _plain(value: Any) -> Any:
    """Turn numpy's and torch's values into Python's; what is NaN there stands for null."""
    if value is None or type(value) in (str, float, int, bool, list, dict):
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
        return None if isinstance(value, float) and value != value else value
    return None if type(value).__name__ in ("NAType", "NaTType") else value
