"""Rows of any kind are proven, and every way of spoiling them is named."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import rewrite_manifest

import trace_hf
from trace_hf import attest
from trace_hf.arrow import UNKNOWN_FIELDS, canonical_line, table_of
from trace_hf.attest import Difference
from trace_hf.errors import IntegrityError, SchemaError, TraceError, UnknownConfigError
from trace_hf.release import Release
from trace_hf.schema import CONFIGS, ChangeRecord, ProactiveRecord, QARecord

HIGH_FREQUENCY = "4de942e70cc8d58ec6af1f1a142de40b36bb271f32bbf9a3e1e064e021659598"


def table(release: Path, config: str) -> pa.Table:
    return pa.concat_tables(Release.open(release).tables(config, digests=None))


def rows(release: Path, config: str) -> list[dict[str, Any]]:
    return table(release, config).to_pylist()


def write(path: Path, value: pa.Table) -> Path:
    pq.write_table(value, path)
    return path


def differences(found: Any) -> list[tuple[str | None, str | None, str]]:
    assert not found.ok
    return [(d.record_id, d.field, d.what) for d in found.differences]


def only(found: Any) -> Difference:
    assert not found.ok
    assert len(found.differences) == 1, found
    return found.differences[0]


# --- rows of every kind -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", CONFIGS)
def test_every_config_of_the_package_is_attested_to_its_record_file(small_sample: Path, config: str) -> None:
    found = attest(trace_hf.load(config, release=small_sample), config, release=small_sample)
    manifest = json.loads((small_sample / "manifest.json").read_text())
    assert found.ok
    assert not found.pinned
    assert not found.reordered
    if not CONFIGS[config].ids_role:
        assert found.sha256 == manifest["files"][Release.open(small_sample).record_file(config)]
    assert str(found).startswith(f"attested: {config} of {manifest['release_id']}, {found.records} records, sha256 ")


@pytest.mark.parametrize("config", ["qa", "proactive", "changes"])
def test_rows_of_every_kind_are_attested(small_sample: Path, tmp_path: Path, config: str) -> None:
    value = table(small_sample, config)
    path = write(tmp_path / "rows.parquet", value)
    frame = value.to_pandas()
    kinds: dict[str, Any] = {
        "table": value,
        "reader": pa.RecordBatchReader.from_batches(value.schema, value.to_batches()),
        "path": path,
        "path as text": str(path),
        "iterable": iter(value.to_pylist()),
        "pandas": frame,
        "pandas, arrow types": frame.convert_dtypes(dtype_backend="pyarrow"),
        "pandas, read": __import__("pandas").read_parquet(path),
        "dataset": datasets.load_dataset("parquet", data_files={"test": str(path)}, split="test"),
        "splits": datasets.load_dataset("parquet", data_files={"test": str(path)}),
        "stream": datasets.load_dataset("parquet", data_files={"test": str(path)}, split="test", streaming=True),
        "numpy rows": datasets.Dataset(value).with_format("numpy"),
        "numpy rows, iterated": list(datasets.Dataset(value).with_format("numpy")),
        "memory": datasets.Dataset.from_list(value.to_pylist()),
    }
    for kind, given in kinds.items():
        found = attest(given, config, release=small_sample)
        assert found.ok, (kind, found.differences[:3])
        assert found.records == value.num_rows


@pytest.mark.parametrize("config", ["qa", "proactive", "changes"])
def test_polars_frames_are_attested(small_sample: Path, tmp_path: Path, config: str) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    path = write(tmp_path / "rows.parquet", table(small_sample, config))
    for frame in (polars.read_parquet(path), polars.scan_parquet(path), polars.from_arrow(table(small_sample, config))):
        found = attest(frame, config, release=small_sample)
        assert found.ok, found.differences


def test_column_order_and_a_harness_own_columns_do_not_matter(small_sample: Path) -> None:
    value = table(small_sample, "qa")
    value = value.select(value.schema.names[::-1]).append_column("doc_id", pa.array(range(value.num_rows)))
    assert attest(value, "qa", release=small_sample).ok


def test_row_order_is_restored_and_said(small_sample: Path, sample_release: Path) -> None:
    found = attest(rows(small_sample, "qa")[::-1], "qa", release=small_sample)
    assert found.ok
    assert found.reordered
    assert "another order" in str(found)
    tiny = attest(rows(sample_release, "qa_tiny")[::-1], "qa_tiny", release=sample_release)
    assert tiny.ok
    assert tiny.reordered


def test_what_is_not_rows_is_refused_by_name(small_sample: Path, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="int is not rows"):
        attest(7, "qa", release=small_sample)
    with pytest.raises(TraceError, match="str is not rows"):
        attest(["a"], "qa", release=small_sample)
    with pytest.raises(TraceError, match="one mapping is not rows"):
        attest({"question": ["a"]}, "qa", release=small_sample)
    with pytest.raises(SchemaError, match="no readable Parquet file"):
        attest(tmp_path / "absent.parquet", "qa", release=small_sample)
    (tmp_path / "text.parquet").write_text("text")
    with pytest.raises(SchemaError, match="no readable Parquet file"):
        attest(tmp_path / "text.parquet", "qa", release=small_sample)
    with pytest.raises(UnknownConfigError, match="proactive_standard"):
        attest([], "proactive_standrad")


def test_rows_of_the_model_input_view_are_refused(small_sample: Path) -> None:
    inputs = trace_hf.load("qa", release=small_sample, view="model_input")
    with pytest.raises(TraceError, match="model_input"):
        attest(inputs, "qa", release=small_sample)


# --- what is spoiled is named -------------------------------------------------------------------------------------


def spoiled(release: Path, config: str, spoil: Callable[[list[dict[str, Any]]], object]) -> Any:
    value = rows(release, config)
    spoil(value)
    return attest(value, config, release=release)


def test_a_float_that_moved_by_one_unit_in_the_last_place_is_named(small_sample: Path) -> None:
    first = rows(small_sample, "qa")[0]
    moved = math.nextafter(first["question_time_s"], math.inf)
    found = spoiled(small_sample, "qa", lambda r: r[0].update(question_time_s=moved))
    one = only(found)
    assert (one.record_id, one.field) == (first["record_id"], "$.question_time_s")
    assert one.what == f"{moved!r} instead of {first['question_time_s']!r} (one unit in the last place)"


def test_floats_that_were_rounded_are_named(small_sample: Path) -> None:
    value = table(small_sample, "qa")
    index = value.schema.get_field_index("evidence_anchor_s")
    exact = value["evidence_anchor_s"].to_pylist()
    rounded = value.set_column(index, "evidence_anchor_s", value["evidence_anchor_s"].cast(pa.float32()))
    lost = [number for number in exact if pa.scalar(number, pa.float32()).as_py() != number]
    found = attest(rounded, "qa", release=small_sample)
    assert len(found.differences) == min(len(lost), 20) > 0
    assert {d.field for d in found.differences} == {"$.evidence_anchor_s"}
    assert all("rounded to 32 bits" in d.what for d in found.differences)
    one = next(number for number in exact if round(number, 1) != number)
    at = exact.index(one)
    found = spoiled(small_sample, "qa", lambda r: r[at].update(evidence_anchor_s=round(one, 1)))
    assert only(found).what == f"{round(one, 1)!r} instead of {one!r} (rounded)"


def test_one_chinese_character_is_named(small_sample: Path) -> None:
    value = rows(small_sample, "qa")
    at, span = next(
        (at, span)
        for at, row in enumerate(value)
        for span, one in enumerate(row["metadata"]["evidence_spans"] or ())
        if any("\u4e00" <= c <= "\u9fff" for c in one["description"])
    )
    spans = value[at]["metadata"]["evidence_spans"]
    text = spans[span]["description"]
    place = next(i for i, c in enumerate(text) if "\u4e00" <= c <= "\u9fff")
    spans[span]["description"] = text[:place] + "\u9f98" + text[place + 1 :]
    one = only(attest(value, "qa", release=small_sample))
    assert (one.record_id, one.field) == (value[at]["record_id"], f"$.metadata.evidence_spans[{span}].description")
    assert "\u9f98" in one.what


def test_the_same_text_in_another_normalisation_is_named(small_sample: Path) -> None:
    composed = rows(small_sample, "qa")[0]["question"] + "\u00e9"
    edit_first(small_sample, lambda row: row.update(question=composed))
    found = spoiled(small_sample, "qa", lambda r: r[0].update(question=composed[:-1] + "e\u0301"))
    assert "Unicode normalisation" in only(found).what


def edit_first(release: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    path = release / "qa.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    row = json.loads(lines[0])
    edit(row)
    lines[0] = json.dumps(row, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    rewrite_manifest(release)


def test_a_null_that_became_empty_is_named(small_sample: Path) -> None:
    value = rows(small_sample, "proactive")
    at, step = next(
        (at, step)
        for at, row in enumerate(value)
        for step, trigger in enumerate(row["metadata"]["trigger_annotations"])
        if trigger["interval_start_s"] is None
    )
    value[at]["metadata"]["trigger_annotations"][step]["interval_start_s"] = ""
    one = only(attest(value, "proactive", release=small_sample))
    assert one.record_id == value[at]["record_id"]
    assert one.field == f"$.metadata.trigger_annotations[{step}].interval_start_s"
    assert one.what == '"" instead of null (a null that became empty)'


def test_an_absent_field_that_became_empty_is_named_in_a_parquet_file(small_sample: Path, tmp_path: Path) -> None:
    value = rows(small_sample, "proactive")
    at, step = next(
        (at, step)
        for at, row in enumerate(value)
        for step, trigger in enumerate(row["metadata"]["trigger_annotations"])
        if trigger["evidence_description"] is None
    )
    value[at]["metadata"]["trigger_annotations"][step]["evidence_description"] = ""
    path = write(tmp_path / "rows.parquet", pa.Table.from_pylist(value, table(small_sample, "proactive").schema))
    one = only(attest(path, "proactive", release=small_sample))
    assert one.field == f"$.metadata.trigger_annotations[{step}].evidence_description"
    assert one.what == 'was added, as "": an absent field that became empty'


def test_a_dropped_optional_field_is_named(small_sample: Path) -> None:
    value = rows(small_sample, "qa")
    at = next(at for at, row in enumerate(value) if row["metadata"]["evidence_spans"] is not None)
    value[at]["metadata"]["evidence_spans"] = None
    one = only(attest(value, "qa", release=small_sample))
    assert one.field == "$.metadata.evidence_spans"
    assert one.what.startswith("was dropped")


def test_a_dropped_column_is_named_for_every_record(small_sample: Path) -> None:
    value = table(small_sample, "qa").drop_columns(["answer"])
    found = attest(value, "qa", release=small_sample)
    assert found.sha256 is None
    assert {d.field for d in found.differences} == {"$.answer"}
    assert all(d.what.startswith("was dropped") for d in found.differences)


def test_rows_that_are_missing_foreign_or_double_are_named(small_sample: Path) -> None:
    value = rows(small_sample, "qa")
    lost = value[3]["record_id"]
    found = attest([*value[:3], *value[4:], {**value[5], "record_id": "new:1"}, value[6]], "qa", release=small_sample)
    assert differences(found) == [
        (lost, None, "is missing"),
        (None, None, f"{len(value) + 1} rows instead of {len(value)}"),
        ("new:1", None, "is not in the release"),
        (value[6]["record_id"], None, "comes twice"),
    ]


def test_a_field_inside_a_record_that_the_release_does_not_have_is_named(small_sample: Path) -> None:
    found = spoiled(small_sample, "qa", lambda r: r[0]["metadata"].update(note="x"))
    assert (only(found).field, only(found).what) == ("$.metadata.note", 'was added, as "x"')
    as_table = datasets.Dataset.from_list(
        [{**r, "metadata": {**r["metadata"], "note": "x"}} for r in rows(small_sample, "qa")]
    )
    assert {d.field for d in attest(as_table, "qa", release=small_sample).differences} == {"$.metadata.note"}


@pytest.mark.parametrize("number", [math.nan, math.inf, "12", True])
def test_what_is_no_number_is_named(small_sample: Path, number: Any) -> None:
    found = spoiled(small_sample, "qa", lambda r: r[0].update(question_time_s=number))
    assert only(found).field == "$.question_time_s"
    assert found.sha256 is None


def test_minus_zero_is_not_zero(small_sample: Path) -> None:
    edit_first(small_sample, lambda row: row.update(evidence_anchor_s=0.0))
    found = spoiled(small_sample, "qa", lambda r: r[0].update(evidence_anchor_s=-0.0))
    assert only(found).what == "-0.0 instead of 0.0"


def test_a_whole_number_column_of_the_same_values_is_the_same(small_sample: Path) -> None:
    edit_first(small_sample, lambda row: row.update(evidence_anchor_s=7.0))
    value = rows(small_sample, "qa")
    value[0]["evidence_anchor_s"] = 7
    assert attest(value, "qa", release=small_sample).ok


def test_only_the_first_twenty_differences_are_named(small_sample: Path) -> None:
    found = spoiled(small_sample, "qa", lambda r: [row.update(question="?") for row in r])
    assert len(found.differences) == 20


# --- columns that could write over what the row shows --------------------------------------------------------------


def test_kept_unknown_fields_cannot_hide_a_changed_value(small_sample: Path) -> None:
    value = rows(small_sample, "qa")
    true = value[0]["answer"]
    value[0]["answer"] = "Z"
    value[0][UNKNOWN_FIELDS] = json.dumps([["/answer", true]])
    found = attest(value, "qa", release=small_sample)
    assert not found.ok
    assert found.differences[0].record_id == value[0]["record_id"]


@pytest.mark.parametrize("text", ["[", "7", '[["/a/b/c",1]]', '[["/metadata/x",1],["/metadata/x",2]]', "[[1]]"])
def test_broken_unknown_fields_are_a_difference(small_sample: Path, text: str) -> None:
    found = spoiled(small_sample, "qa", lambda r: r[0].update({UNKNOWN_FIELDS: text}))
    assert not found.ok
    assert found.sha256 is None


def test_json_text_cannot_write_fields_of_its_own() -> None:
    whole = {"field": "f", "old_value": '{"a":1,"old_value":2}', "new_value": "3"}
    true = change([whole])
    split = change([{"field": "f", "new_value": '3,"old_value":{"a":1', "old_value": "2}"}])
    assert canonical_line(true, ChangeRecord) == canonical_line(split, ChangeRecord), "the trick works on bytes alone"
    from trace_hf._lines import LineStore

    with LineStore(CONFIGS["changes"]) as store:
        store.add_rows([true])
        assert not store.faults
        store.add_rows([split])
        assert [fault.field for fault in store.faults] == ["$.changes[0].old_value"] or store.faults[
            0
        ].what == "is not JSON text"


def change(changes: list[dict[str, Any]]) -> dict[str, Any]:
    record = {
        "record_id": "a:1",
        "stable_id": "a:qa:1",
        "dataset": "a",
        "mode": "qa",
        "task_type": "t",
        "disposition": "edit",
        "issue_codes": [],
    }
    return {**record, "changes": changes}


def test_fields_of_a_newer_schema_are_attested_and_missed(small_sample: Path) -> None:
    edit_first(small_sample, lambda row: row["metadata"].update(reviewer="r1"))
    kept = trace_hf.load("qa", release=small_sample, unknown="keep")
    assert attest(kept, "qa", release=small_sample).ok
    without = attest(kept.remove_columns(UNKNOWN_FIELDS), "qa", release=small_sample)
    assert (only(without).field, only(without).what) == ("$.metadata.reviewer", 'was dropped, it is "r1"')


# --- canonical bytes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number", [0.0, 1e-05, 1.5e-07, 0.0001, 123456.789, 1e15, 1e16, 1.5e22, 5e-324, 1.7976931348623157e308]
)
def test_floats_are_written_as_python_does_at_every_magnitude(small_sample: Path, number: float) -> None:
    edit_first(small_sample, lambda row: row.update(evidence_anchor_s=number))
    assert attest(trace_hf.load("qa", release=small_sample), "qa", release=small_sample).ok
    assert attest(table(small_sample, "qa").to_pandas(), "qa", release=small_sample).ok


def test_a_record_file_that_is_not_canonical_is_named_with_its_line(small_sample: Path) -> None:
    path = small_sample / "qa.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[2] = json.dumps(json.loads(lines[2]), ensure_ascii=False)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    rewrite_manifest(small_sample)
    one = only(attest(table(small_sample, "qa"), "qa", release=small_sample))
    assert one.record_id is None
    assert "not canonically encoded (first on line 3)" in one.what


def test_a_record_file_in_another_order_than_its_ids_is_attested(small_sample: Path) -> None:
    path = small_sample / "qa.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join(lines[::-1]) + "\n", encoding="utf-8")
    rewrite_manifest(small_sample)
    found = attest(table(small_sample, "qa"), "qa", release=small_sample)
    assert found.ok
    assert not found.reordered


# --- origin and consistency ---------------------------------------------------------------------------------------


def test_the_official_file_through_parquet_and_plain_datasets_has_the_pinned_hash(real: Path, tmp_path: Path) -> None:
    official = real / "official" / "proactive_high_frequency.jsonl"
    decoder = __import__("msgspec").json.Decoder(ProactiveRecord)
    records = [decoder.decode(line) for line in official.read_bytes().splitlines()]
    path = write(tmp_path / "rows.parquet", table_of(records, ProactiveRecord))
    loaded = datasets.load_dataset("parquet", data_files={"test": str(path)}, split="test")
    found = attest(loaded, "proactive_high_frequency")
    assert found.ok
    assert found.pinned
    assert (found.release_id, found.sha256) == ("v1.1.0", HIGH_FREQUENCY)
    said = f"attested: proactive_high_frequency of v1.1.0, 8 records, sha256 {HIGH_FREQUENCY}"
    assert str(found) == f"{said} (a pinned hash: origin proven)"


def test_rows_that_name_an_unknown_release_but_are_pinned_ones_are_attested_as_the_known(real_release: Path) -> None:
    loaded = trace_hf.load("proactive_high_frequency", release=real_release)
    found = attest(loaded, "proactive_high_frequency")
    assert found.ok
    assert (found.release_id, found.pinned) == ("v1.1.0", True)
    against = attest(loaded, "proactive_high_frequency", release=real_release)
    assert against.ok
    assert (against.release_id, against.pinned, against.pinned_as) == ("v1.1.0-sample", False, "v1.1.0")
    assert "consistent with the given release; origin not proven" in str(against)
    assert "v1.1.0's pinned ones" in str(against)


def test_an_unknown_release_needs_to_be_given(small_sample: Path) -> None:
    with pytest.raises(TraceError, match="no hash is pinned"):
        attest(trace_hf.load("qa", release=small_sample), "qa")
    with pytest.raises(TraceError, match="no record file of its own"):
        attest(trace_hf.load("qa_tiny", release=small_sample), "qa_tiny")


def test_with_a_pinned_hash_alone_a_difference_is_seen_but_not_placed(small_sample: Path) -> None:
    found = attest(rows(small_sample, "qa"), "qa")
    assert not found.ok
    assert "differ from the pinned ones" in only(found).what


def test_a_release_that_does_not_verify_attests_nothing(small_sample: Path) -> None:
    value = rows(small_sample, "qa")
    with (small_sample / "qa.jsonl").open("ab") as file:
        file.write(b" ")
    with pytest.raises(IntegrityError, match=r"qa\.jsonl"):
        attest(value, "qa", release=small_sample)


def test_memory_stays_flat(tmp_path: Path) -> None:
    """Sixteen times the rows must not need much more memory."""
    code = (
        "import resource, sys\n"
        "import trace_hf\n"
        "found = trace_hf.attest(sys.argv[2], 'proactive', release=sys.argv[1])\n"
        "assert found.ok, found\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    peaks = []
    for scale in (1.0, 16.0):
        release = tmp_path / f"release-{scale:.0f}"
        trace_hf.write_sample(release, scale=scale)
        path = tmp_path / f"{scale:.0f}.parquet"
        opened = Release.open(release)
        with pq.ParquetWriter(path, table(release, "proactive").schema) as writer:
            for part in opened.tables("proactive", digests=None):
                writer.write_table(part, row_group_size=512)
        done = subprocess.run(
            [sys.executable, "-c", code, str(release), str(path)], capture_output=True, text=True, check=True
        )
        peaks.append(int(done.stdout))
    assert peaks[1] <= 1.5 * peaks[0], peaks


def test_a_qa_record_written_again_is_itself(small_sample: Path) -> None:
    lines = (small_sample / "qa.jsonl").read_bytes().splitlines()
    assert [canonical_line(row, QARecord) for row in rows(small_sample, "qa")] == lines


@pytest.mark.parametrize("config", ["qa", "proactive_standard", "changes", "exclusions"])
def test_typed_records_are_attested(small_sample: Path, config: str) -> None:
    assert trace_hf.attest(trace_hf.Release.open(small_sample).records(config), config, release=small_sample).ok
