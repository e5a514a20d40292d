"""What changed between two releases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from conftest import rewrite_manifest, writable_copy

import trace_hf
from trace_hf.cli import main
from trace_hf.diff import diff
from trace_hf.errors import IntegrityError
from trace_hf.hub.export import export


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(r, ensure_ascii=False, sort_keys=True, separators=(",", ":")) + "\n" for r in rows)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def edited(small_sample: Path, tmp_path: Path) -> Path:
    """A copy in which a QA record is changed, one is removed and one is added, and a subset has moved."""
    copy = writable_copy(small_sample, tmp_path / "edited")
    rows = lines(copy / "qa.jsonl")
    rows[0]["answer"] = "Q"
    rows[0]["metadata"]["evidence_spans"] = [{"start_s": 1.0, "end_s": 2.0, "description": "新"}]
    new = {**rows[2], "record_id": "zzz:1", "source_id": "zzz:1"}
    write(copy / "qa.jsonl", [rows[0], *rows[2:], new])
    (copy / "tiny_qa_ids.json").write_text(json.dumps(["zzz:1"]))
    rewrite_manifest(copy, release_id="edited", limitations=["one"])
    return copy


def test_a_release_is_equal_to_itself_and_to_its_export(small_sample: Path, tmp_path: Path) -> None:
    made = export(small_sample, tmp_path / "trace").path
    for a, b in ((small_sample, small_sample), (small_sample, made), (made, small_sample), (made, made)):
        found = diff(a, b)
        assert found.equal
        assert not list(found.lines())


def test_records_fields_subsets_and_manifest_are_named(small_sample: Path, edited: Path) -> None:
    rows = lines(small_sample / "qa.jsonl")
    found = diff(small_sample, edited)
    assert not found.equal
    qa = found.records["qa"]
    assert qa.added == ["zzz:1"]
    assert qa.removed == [rows[1]["record_id"]]
    assert list(qa.changed) == [rows[0]["record_id"]]
    assert not qa.reordered
    paths = {one.path: one for one in qa.changed[rows[0]["record_id"]]}
    assert (paths["$.answer"].a, paths["$.answer"].b) == (rows[0]["answer"], "Q")
    assert any(path.startswith("$.metadata.evidence_spans") for path in paths)
    assert all(found.records[name].equal for name in ("proactive", "changes", "exclusions"))
    assert found.subsets["qa_tiny"][0] == ["zzz:1"]
    assert found.subsets["qa_tiny"][1] == json.loads((small_sample / "tiny_qa_ids.json").read_text())
    manifest = {one.path: one for one in found.manifest}
    assert (manifest["$.release_id"].a, manifest["$.release_id"].b) == ("sample-0-x0.05", "edited")
    assert "$.limitations[0]" in manifest
    assert "$.files['qa.jsonl']" in manifest


def test_a_subset_move_is_named_on_both_sides(small_sample: Path, tmp_path: Path) -> None:
    copy = writable_copy(small_sample, tmp_path / "moved")
    standard, burst = (lines(copy / f"proactive_{name}.jsonl") for name in ("standard", "high_frequency"))
    moved = standard.pop(0)
    burst = sorted([*burst, moved], key=lambda row: row["record_id"])
    write(copy / "proactive_standard.jsonl", standard)
    write(copy / "proactive_high_frequency.jsonl", burst)
    for name, rows in (("standard", standard), ("high_frequency", burst)):
        (copy / f"{name}_proactive_ids.json").write_text(json.dumps([row["record_id"] for row in rows]))
    subsets = json.loads((copy / "proactive_subsets.json").read_text())
    subsets["subsets"]["standard"]["record_count"] -= 1
    subsets["subsets"]["high_frequency"]["record_count"] += 1
    (copy / "proactive_subsets.json").write_text(json.dumps(subsets))
    rewrite_manifest(copy)
    found = diff(small_sample, copy)
    assert found.subsets["proactive_standard"] == ([], [moved["record_id"]])
    assert found.subsets["proactive_high_frequency"] == ([moved["record_id"]], [])
    assert found.records["proactive"].equal
    assert f"proactive_standard: {moved['record_id']} left" in list(found.lines())


def test_an_export_whose_rows_left_its_snapshot_differs_from_its_release(small_sample: Path, tmp_path: Path) -> None:
    made = export(small_sample, tmp_path / "trace").path
    (path,) = (made / "qa").glob("*.parquet")
    value = pq.read_table(path)
    rows = value.to_pylist()
    rows[0]["answer"] = "Q"
    pq.write_table(pa.Table.from_pylist(rows, value.schema), path)
    assert list(diff(small_sample, made).records["qa"].changed) == [rows[0]["record_id"]]
    assert diff(small_sample, made / "snapshot").equal


def test_another_order_is_named(small_sample: Path, tmp_path: Path) -> None:
    copy = writable_copy(small_sample, tmp_path / "reordered")
    write(copy / "qa.jsonl", lines(copy / "qa.jsonl")[::-1])
    rewrite_manifest(copy)
    assert diff(small_sample, copy).records["qa"].reordered


def test_a_release_that_does_not_verify_is_not_compared(small_sample: Path, edited: Path) -> None:
    (edited / "qa.jsonl").write_bytes(b"")
    with pytest.raises(IntegrityError):
        diff(small_sample, edited)


def test_diff_on_the_command_line(small_sample: Path, edited: Path) -> None:
    def run(*arguments: object) -> Any:
        return CliRunner().invoke(main, ["diff", *map(str, arguments)])

    assert run(small_sample, small_sample).exit_code == 0
    done = run(small_sample, edited)
    assert done.exit_code == 1
    assert "qa: + zzz:1" in done.output
    assert '$.answer: "' in done.output
    value = json.loads(run(small_sample, edited, "--json").output)
    assert value["equal"] is False
    assert value["records"]["qa"]["added"] == ["zzz:1"]
    assert {"path", "a", "b"} == set(value["records"]["qa"]["changed"][0]["fields"][0])
    assert value["subsets"]["qa_tiny"]["joined"] == ["zzz:1"]
    assert run(small_sample, small_sample.parent / "absent").exit_code == 2


def test_real_and_synthetic_rows_are_told_apart(real: Path, tmp_path: Path) -> None:
    other = trace_hf.write_sample(tmp_path / "other", scale=0.02)
    found = diff(real / "sample_release", other)
    assert (found.a, found.b) == ("v1.1.0-sample", "sample-0-x0.02")
    qa = found.records["qa"]
    assert len(qa.removed) + len(qa.changed) == 21
    assert len(qa.added) + len(qa.changed) == len(lines(other / "qa.jsonl"))
