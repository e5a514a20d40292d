"""Nothing is lost: from any form that rows take, the released bytes can be written again."""

from __future__ import annotations

import hashlib
import io
import json
import math
from pathlib import Path
from typing import Any

import jsonlines
import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trace_hf
from trace_hf.arrow import arrow_schema, canonical_line, decode_block, row_of, table_of
from trace_hf.decode import canonical_json, encode_canonical
from trace_hf.errors import SchemaError
from trace_hf.release import Release
from trace_hf.schema import CONFIGS, Window, fields_of

OWN_FILE = ["qa", "proactive", "proactive_standard", "proactive_high_frequency", "changes", "exclusions"]
OFFICIAL_SHA256 = "4de942e70cc8d58ec6af1f1a142de40b36bb271f32bbf9a3e1e064e021659598"


def written_again(rows: Any, config: str) -> bytes:
    def dumps(row: Any) -> str:
        return canonical_line(row, CONFIGS[config].record).decode() if row else "{}"  # the writer tries it with {}

    stream = io.BytesIO()
    jsonlines.Writer(stream, dumps=dumps).write_all(rows)
    return stream.getvalue()


@pytest.mark.parametrize("config", OWN_FILE)
@pytest.mark.parametrize("source", ["sample", "real"])
def test_typed_rows_are_written_again_byte_for_byte(request: pytest.FixtureRequest, config: str, source: str) -> None:
    folder = request.getfixturevalue("sample_release" if source == "sample" else "real")
    release = Release.open(folder if source == "sample" else folder / "sample_release")
    released = (release.root / release.record_file(config)).read_bytes()
    assert written_again(trace_hf.load(config, release=release), config) == released
    records = list(release.records(config))
    assert b"".join(encode_canonical(record) + b"\n" for record in records) == released
    assert table_of(records, CONFIGS[config].record).equals(decode_block(released, CONFIGS[config].record, file="x"))
    assert trace_hf.attest(trace_hf.load(config, release=release), config, release=release).ok


def test_official_file_is_decoded_and_written_again_to_its_published_hash(real: Path) -> None:
    data = (real / "official" / "proactive_high_frequency.jsonl").read_bytes()
    table = decode_block(data, CONFIGS["proactive"].record, file="proactive_high_frequency.jsonl")
    again = written_again(table.to_pylist(), "proactive")
    assert hashlib.sha256(again).hexdigest() == OFFICIAL_SHA256


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_written_as_repr_writes_them(value: float) -> None:
    line = canonical_line({"start_s": value, "end_s": 1.0, "expected_answer": "e5"}, Window)
    assert line == b'{"end_s":1.0,"expected_answer":"e5","start_s":%s}' % repr(value).encode()
    assert encode_canonical(Window(start_s=value, end_s=1.0, expected_answer="e5")) == line
    assert canonical_json(value) == repr(value).encode()


@given(st.text())
def test_text_is_written_as_json_dumps_writes_it(text: str) -> None:
    row = {"start_s": 1e22, "end_s": 1.0, "expected_answer": text}  # 1e22 takes the slow way
    for start in (0.5, 1e22):
        due = json.dumps({**row, "start_s": start}, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        assert canonical_line({**row, "start_s": start}, Window).decode() == due


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_numbers_are_refused(value: float) -> None:
    with pytest.raises(SchemaError, match="not finite"):
        canonical_line({"start_s": value, "end_s": 1.0, "expected_answer": ""}, Window)
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(value)


def test_values_of_any_type_keep_their_bytes(small_sample: Path) -> None:
    for record in Release.open(small_sample).records("changes"):
        row = row_of(record)
        for change, typed in zip(row["changes"], record.changes, strict=True):
            assert change["old_value"].encode() == bytes(typed.old_value)
            msgspec.json.decode(change["new_value"])


@pytest.mark.parametrize("config", CONFIGS)
def test_every_field_is_described_and_never_both_nullable_and_optional(config: str) -> None:
    def walk(fields: Any) -> None:
        for field in fields:
            assert field.name == "item" or field.description.endswith(".")
            assert not (field.nullable and field.optional)
            assert field.unit == ("s" if field.kind == "float" else "")
            walk(field.children)

    walk(fields_of(CONFIGS[config].record))


def test_arrow_schema_has_the_order_of_the_field_reference() -> None:
    schema = arrow_schema(CONFIGS["proactive"].record)
    assert schema.names == [field.name for field in fields_of(CONFIGS["proactive"].record)]
    assert schema.field("windows").type == pa.list_(
        pa.struct([("start_s", pa.float64()), ("end_s", pa.float64()), ("expected_answer", pa.string())])
    )
