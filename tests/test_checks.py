"""`validate` as a whole: what it says of releases that are sound, damaged, derived, newer or incomplete."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import rewrite_manifest
from helpers import edit_line, edit_manifest
from release_editor import Editor

from trace_hf.checks import CHECKS, CheckResult, ValidationReport, validate
from trace_hf.checks.form import duplicate_key
from trace_hf.checks.records import value_at
from trace_hf.cli.validate import validate as validate_command
from trace_hf.release import Release


def result(report: ValidationReport, name: str) -> CheckResult:
    return next(check for check in report.checks if check.name == name)


def failed(report: ValidationReport) -> dict[str, str]:
    return {check.name: check.detail for check in report.failed}


# --- sound releases -----------------------------------------------------------------------------------------------


def test_the_real_excerpt_is_valid(real: Path) -> None:
    report = validate(real / "sample_release")
    assert failed(report) == {}
    assert report.ok
    assert report.verification.ok
    assert [check.name for check in report.checks] == list(CHECKS)


def test_the_official_sized_sample_is_valid(sample_release: Path) -> None:
    assert failed(validate(sample_release)) == {}


def test_statements_that_the_data_cannot_show_are_called_so(small_sample: Path) -> None:
    kinds = {check.name: check.kind for check in validate(small_sample).checks}
    stated = {name for name, kind in kinds.items() if kind == "stated only"}
    assert stated == {"descriptor_statements", "review_statements", "report_statements"}


def test_json_has_the_stable_keys(small_sample: Path) -> None:
    value = validate(Release.open(small_sample)).to_json()
    assert set(value) >= {"release_id", "ok", "checks"}
    assert value["ok"] is value["verified"] is True
    assert value["pinned"] is False
    for check in value["checks"]:
        assert set(check) == {"name", "ok", "detail", "records", "meaning", "kind"}
    json.dumps(value)


def test_touching_windows_do_not_overlap(small_sample: Path) -> None:
    editor = Editor(small_sample)
    rows = [row["windows"] for row in editor.proactive]
    touching = sum(a["end_s"] == b["start_s"] for windows in rows for a, b in pairwise(windows))
    assert touching > 0
    assert result(validate(small_sample), "windows_do_not_overlap").ok


# --- files that cannot be read --------------------------------------------------------------------------------------


def test_the_incomplete_official_snapshot_says_what_is_missing(real: Path) -> None:
    report = validate(real / "official")
    assert not report.ok
    assert not report.verification.ok
    assert report.verification.pinned
    for name in ("schema", "memory_length", "manifest_counts", "known_counts"):
        assert "qa.jsonl: is missing" in result(report, name).detail, name
    for name in ("review_statements", "report_statements", "descriptor_rule", "release_ids", "review_duplicates"):
        assert result(report, name).ok, name
    hashes = result(report, "descriptor_hashes")
    assert hashes.ok, hashes.detail


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"not json at all\n", "not JSON"), (b'{"record_id":"x"}\n', "missing"), (b"\xff\xfe\x00\n", "UTF-8")],
)
@pytest.mark.parametrize("name", ["qa.jsonl", "proactive.jsonl", "changes.jsonl", "exclusions.jsonl"])
def test_an_unreadable_record_file_fails_the_checks_that_need_it(
    small_sample: Path, name: str, content: bytes, words: str
) -> None:
    (small_sample / name).write_bytes(content)
    rewrite_manifest(small_sample)
    report = validate(small_sample)
    need = name.removesuffix(".jsonl")
    for check in CHECKS.values():
        if need in check.needs:
            assert name in result(report, check.name).detail, check.name
            assert not result(report, check.name).ok
    assert words in result(report, "schema").detail or "not JSON" in result(report, "schema").detail


@pytest.mark.parametrize("content", [b"", b"[1, 2]", b"{", b"null", b'{"a": 1}', b"[" * 100_000])
@pytest.mark.parametrize(
    "name", ["tiny_qa_ids.json", "standard_proactive_ids.json", "proactive_subsets.json", "validation_report.json"]
)
def test_an_unreadable_json_file_fails_and_never_crashes(small_sample: Path, name: str, content: bytes) -> None:
    (small_sample / name).write_bytes(content)
    rewrite_manifest(small_sample)
    report = validate(small_sample)
    assert not result(report, "schema").ok
    assert name in result(report, "schema").detail
    assert all(check.detail for check in report.failed)


@pytest.mark.parametrize("name", ["qa.jsonl", "proactive_standard.jsonl", "review_summary.json", "tiny_qa_ids.json"])
def test_a_missing_file_or_a_directory_in_its_place_is_said(small_sample: Path, name: str) -> None:
    (small_sample / name).unlink()
    assert f"{name}: is missing" in result(validate(small_sample), "schema").detail
    (small_sample / name).mkdir()
    detail = result(validate(small_sample), "schema").detail
    assert name in detail
    assert "cannot be read" in detail


def test_one_bad_line_does_not_hide_the_other_faults(small_sample: Path) -> None:
    editor = Editor(small_sample)
    editor.qa[3]["answer"] = "Z"
    editor.raw["qa.jsonl"] = lambda data: b"{broken\n" + data
    editor.save()
    check = result(validate(small_sample), "answer_is_a_label")
    assert check.records == (editor.qa[3]["record_id"],)
    assert "qa.jsonl, line 1" in check.detail


def test_a_failure_names_five_records_and_counts_the_rest(small_sample: Path) -> None:
    editor = Editor(small_sample)
    for row in editor.qa:
        row["source_id"] += "0"
    editor.save()
    check = result(validate(small_sample), "source_id")
    assert check.records == tuple(row["record_id"] for row in editor.qa[:5])
    assert f"and {len(editor.qa) - 5} more" in check.detail


def test_bytes_that_do_not_verify_are_validated_and_said(small_sample: Path) -> None:
    edit_line(small_sample / "qa.jsonl", 0, lambda line: line.replace(b'"question":"', b'"question":"So: '))
    report = validate(small_sample)
    assert report.ok
    assert not report.verification.ok
    assert report.to_json()["verified"] is False


# --- form -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"task":"qa"', b'"task": "qa"'),
        (b'"task":"qa","task_type"', b'"task":"\\u0071a","task_type"'),
    ],
)
def test_a_record_that_is_written_otherwise_is_not_canonical(small_sample: Path, before: bytes, after: bytes) -> None:
    path = small_sample / "qa.jsonl"
    path.write_bytes(path.read_bytes().replace(before, after, 1))
    rewrite_manifest(small_sample)
    assert set(failed(validate(small_sample))) == {"canonical_encoding"}


def test_an_integer_where_a_float_stands_is_not_canonical(small_sample: Path) -> None:
    path = small_sample / "qa.jsonl"
    data = path.read_bytes()
    place = data.index(b'.0,"')
    path.write_bytes(data[:place] + data[place + 2 :])
    rewrite_manifest(small_sample)
    failures = failed(validate(small_sample))
    assert set(failures) == {"canonical_encoding"}
    assert "float" in failures["canonical_encoding"]


@pytest.mark.parametrize("name", ["qa.jsonl", "changes.jsonl"])
def test_blank_lines_and_a_missing_last_line_end_are_not_canonical(small_sample: Path, name: str) -> None:
    path = small_sample / name
    released = path.read_bytes()
    for data in (b"\n" + released, released + b"\n", released.replace(b"\n", b"\n  \n", 1), released[:-1]):
        path.write_bytes(data)
        rewrite_manifest(small_sample)
        assert set(failed(validate(small_sample))) == {"canonical_encoding"}


def test_numbers_that_msgspec_writes_unlike_repr_are_judged_by_repr(small_sample: Path) -> None:
    path = small_sample / "qa.jsonl"
    data = path.read_bytes()
    start = data.index(b'"source_memory_length_s":') + len(b'"source_memory_length_s":')
    end = data.index(b",", start)
    for number, canonical in ((b"1e22", False), (b"1e+22", True), (b"0.00001", False), (b"1e-05", True)):
        path.write_bytes(data[:start] + number + data[end:])
        rewrite_manifest(small_sample)
        assert result(validate(small_sample), "canonical_encoding").ok is canonical, number


def test_keys_inside_a_changed_value_are_judged_too(small_sample: Path) -> None:
    editor = Editor(small_sample)
    row = editor.first(editor.changes, lambda r: r["changes"])
    row["changes"][0]["new_value"] = "VALUE"
    for text, name in (
        (b'[{"b":1,"a":2}]', "canonical_encoding"),
        (b'[{"a":1,"a":2}]', "no_duplicate_keys"),
        (b'[{"a":1}, 2]', "canonical_encoding"),
        (b'[{"a":1.50}]', "canonical_encoding"),
    ):
        editor.raw["changes.jsonl"] = lambda data, text=text: data.replace(b'"VALUE"', text)
        editor.save()
        assert set(failed(validate(small_sample))) == {name}, text


@pytest.mark.parametrize("value", [b'"\xff"', b"[" * 5000 + b"]" * 5000, b'{"a":' * 5000 + b"1" + b"}" * 5000])
def test_a_hostile_value_in_the_changes_is_not_of_the_schema(small_sample: Path, value: bytes) -> None:
    editor = Editor(small_sample)
    editor.first(editor.changes, lambda r: r["changes"])["changes"][0]["new_value"] = "VALUE"
    editor.raw["changes.jsonl"] = lambda data: data.replace(b'"VALUE"', value)
    editor.save()
    report = validate(small_sample)
    assert "changes.jsonl" in result(report, "schema").detail
    assert not report.ok


def test_duplicate_keys_in_sidecars_and_the_manifest_are_found(small_sample: Path) -> None:
    assert duplicate_key(b'{"a": [{"b": 1, "b": 1}]}') == "b"
    assert duplicate_key(b'{"a": 1, "b": {"a": 1}}') is None
    path = small_sample / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b"{\n", b'{\n  "status": "public",\n', 1))
    report = validate(small_sample)
    assert set(failed(report)) == {"no_duplicate_keys"}
    assert "manifest.json" in result(report, "no_duplicate_keys").detail


# --- newer and derived releases -------------------------------------------------------------------------------------


def test_unknown_fields_are_accepted_when_they_are_kept(small_sample: Path) -> None:
    editor = Editor(small_sample)
    editor.qa[0]["new_field"] = {"x": [1.5]}
    editor.sides["review"] = lambda value: value.update(another=1)
    editor.save()
    assert set(failed(validate(small_sample))) == {"schema"}
    assert failed(validate(Release.open(small_sample, unknown="keep"))) == {}
    assert failed(validate(small_sample, unknown="keep")) == {}


def test_a_derived_release_may_leave_files_out_and_inherit_statements(small_sample: Path) -> None:
    editor = Editor(small_sample)
    lineage = {
        "parent_release_id": "v9.9.9",
        "parent_files": {},
        "rule": "half of it",
        "counts": {"qa": 1},
        "inherited": ["validation_report.json", "review_summary.json:saved_review_count"],
    }

    def derive(manifest: dict[str, object]) -> None:
        manifest["lineage"] = lineage
        manifest["files"].pop("exclusions.jsonl")  # type: ignore[attr-defined]

    editor.sides["manifest"] = derive
    editor.sides["report"] = lambda value: value["counts"].update(qa=833)
    editor.save()
    (small_sample / "exclusions.jsonl").unlink()
    report = validate(small_sample)
    assert failed(report) == {}
    assert result(report, "removals_are_exclusions").kind == "not applicable"
    assert result(report, "report_statements").kind == "stated only"
    assert "v9.9.9" in result(report, "report_statements").detail


def test_a_record_with_no_deadline_has_no_derived_span_to_break(small_sample: Path) -> None:
    editor = Editor(small_sample)
    row = editor.first(editor.proactive, lambda r: "media_boundary_adjustments" not in r["metadata"])
    row["deadline_s"] = row["memory_length"] = None
    editor.save()
    assert failed(validate(small_sample)) == {}


def test_an_adjusted_field_is_found_by_its_path(small_sample: Path) -> None:
    record = next(iter(Release.open(small_sample).records("proactive")))
    assert value_at(record, "windows[0].end_s") == record.windows[0].end_s
    assert value_at(record, "metadata.monitoring_horizon_s") == record.metadata.monitoring_horizon_s
    for path in ("windows[99].end_s", "windows", "nothing", "windows[0]", "", "windows[0].end_s.x", "a b", "__class__"):
        assert value_at(record, path) is None, path


# --- the command line -----------------------------------------------------------------------------------------------


def run(*arguments: str) -> tuple[int, str]:
    outcome = CliRunner().invoke(validate_command, list(arguments))
    return outcome.exit_code, outcome.output


def test_the_command_exits_zero_and_says_what_each_check_means(small_sample: Path) -> None:
    code, text = run(str(small_sample))
    assert code == 0
    assert text.splitlines()[-1].startswith("valid:")
    for check in CHECKS.values():
        assert check.meaning in text


def test_the_command_prints_json_and_exits_one_for_a_breach(small_sample: Path) -> None:
    editor = Editor(small_sample)
    editor.qa[0]["answer"] = "Z"
    editor.save()
    code, text = run(str(small_sample), "--json")
    assert code == 1
    (check,) = [check for check in json.loads(text)["checks"] if not check["ok"]]
    assert check["records"] == [editor.qa[0]["record_id"]]
    code, text = run(str(small_sample))
    assert code == 1
    assert "FAILED" in text
    assert "NOT valid: 1 of" in text


def test_the_command_says_when_the_bytes_do_not_verify(small_sample: Path) -> None:
    edit_manifest(small_sample, lambda manifest: manifest["files"].update({"qa.jsonl": "0" * 64}))
    code, text = run(str(small_sample))
    assert code == 0
    assert "do not verify" in text
