"""The derived release: what may be public, as a release of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import rewrite_manifest, writable_copy
from mirror_kit import RESTRICTED

import trace_hf
from trace_hf.errors import DataTermsError, IntegrityError
from trace_hf.hub.decide import terms_in_use
from trace_hf.hub.derive import derive
from trace_hf.hub.export import export
from trace_hf.release import Release
from trace_hf.schema import CONFIGS

pytest_plugins = ["mirror_fixtures"]


def manifest_of(folder: Path) -> dict[str, object]:
    value: dict[str, object] = json.loads((folder / "manifest.json").read_bytes())
    return value


def assert_nothing_restricted(folder: Path) -> None:
    for path in folder.iterdir():
        data = path.read_bytes()
        if path.name == "manifest.json":
            manifest = json.loads(data)
            del manifest["source_files"], manifest["lineage"]
            data = json.dumps(manifest, ensure_ascii=False).encode()
        assert RESTRICTED not in data, path.name


def assert_sound(folder: Path) -> None:
    assert trace_hf.verify(folder).ok
    report = trace_hf.validate(folder)
    assert report.ok, report.failed


def test_the_derived_release_verifies_validates_and_names_nothing_restricted(derived: Path, whole: Path) -> None:
    assert_sound(derived)
    assert_nothing_restricted(derived)
    manifest = manifest_of(derived)
    assert manifest["release_id"] == "v9.9.9+streambench"
    assert manifest["status"] == "public"
    # Every kept record has its parent's bytes, in its parent's order.
    parent = (whole / "qa.jsonl").read_bytes().splitlines()
    kept = [line for line in parent if b'"dataset":"streambench"' in line]
    assert kept
    assert (derived / "qa.jsonl").read_bytes().splitlines() == kept


def test_the_lineage_says_what_was_left_out_why_and_what_was_only_copied(derived: Path, whole: Path) -> None:
    lineage = Release.open(derived).manifest.lineage
    assert lineage
    assert lineage.parent_release_id == "v9.9.9"
    assert lineage.parent_files == Release.open(whole).manifest.files
    assert "terms of the OVO-Bench annotations are unresolved" in lineage.rule
    counts = Release.open(whole).manifest.counts
    assert lineage.counts["qa, kept"] + lineage.counts["qa, left out of ovo_bench"] == counts.qa
    copied = {"validation_report.json:checks", "review_summary.json:duplicate_policy", "proactive_subsets.json:checks"}
    assert copied <= set(lineage.inherited)


def test_limitations_are_written_anew(derived: Path) -> None:
    release = Release.open(derived)
    assert release.manifest.limitations[0].startswith("A derived release: it holds ")
    screened = sum(
        record.metadata.validation_tier == "machine_screened"
        for config in ("qa", "proactive")
        for record in release.records(config)
    )
    stated = [text for text in release.manifest.limitations if "model-assisted" in text]
    assert all(text.startswith(f"{screened} records passed") for text in stated)


def test_deriving_twice_gives_the_same_bytes(derived: Path, whole: Path, tmp_path: Path) -> None:
    again = derive(Release.open(whole), tmp_path / "again", terms_in_use()).root
    assert {p.name: p.read_bytes() for p in again.iterdir()} == {p.name: p.read_bytes() for p in derived.iterdir()}


def test_configs_left_with_no_rows_are_empty_and_still_valid(whole: Path, tmp_path: Path) -> None:
    folder = writable_copy(whole, tmp_path / "parent")
    for name in ("changes.jsonl", "exclusions.jsonl"):
        rows = [line for line in (folder / name).read_bytes().splitlines(keepends=True) if RESTRICTED in line]
        (folder / name).write_bytes(b"".join(rows))
    tiny = json.loads((folder / "tiny_qa_ids.json").read_bytes())
    kept = [record_id for record_id in tiny if record_id.startswith("ovo_bench")]
    (folder / "tiny_qa_ids.json").write_text(json.dumps(kept), encoding="utf-8")
    rewrite_manifest(folder)
    made = derive(Release.open(folder), tmp_path / "derived", terms_in_use())
    assert made.verify().ok
    assert len(trace_hf.load("qa_tiny", release=made)) == 0
    assert len(trace_hf.load("changes", release=made)) == 0
    assert set(export(made, tmp_path / "out").left_out) >= {"changes", "exclusions", "qa_tiny"}


def test_synthetic_data_is_never_called_public(sample_release: Path, tmp_path: Path) -> None:
    made = derive(Release.open(sample_release), tmp_path / "d", terms_in_use())
    assert made.manifest.status == "synthetic"


def test_a_release_of_permitted_records_alone_is_not_derived_from(derived: Path, tmp_path: Path) -> None:
    with pytest.raises(DataTermsError, match="is a derived release already"):
        derive(Release.open(derived), tmp_path / "d", terms_in_use())
    folder = writable_copy(derived, tmp_path / "r")
    manifest = manifest_of(folder)
    del manifest["lineage"]
    (folder / "manifest.json").write_text(json.dumps(manifest | {"status": "private_provisional"}), encoding="utf-8")
    with pytest.raises(DataTermsError, match="nothing would be left out"):
        derive(Release.open(folder), tmp_path / "d2", terms_in_use())


def test_a_damaged_parent_is_refused_before_anything_is_written(whole: Path, tmp_path: Path) -> None:
    folder = writable_copy(whole, tmp_path / "r")
    with (folder / "qa.jsonl").open("ab") as stream:
        stream.write(b"\n")
    with pytest.raises(IntegrityError, match=r"qa\.jsonl"):
        derive(Release.open(folder), tmp_path / "d", terms_in_use())
    assert not (tmp_path / "d").exists()


def test_a_kept_text_that_mentions_a_restricted_source_stops_it(whole: Path, tmp_path: Path) -> None:
    folder = writable_copy(whole, tmp_path / "r")
    rows = (folder / "qa.jsonl").read_bytes().splitlines(keepends=True)
    at = next(number for number, row in enumerate(rows) if b'"dataset":"streambench"' in row)
    rows[at] = rows[at].replace(b'"question":"', b'"question":"As in ovo_bench: ', 1)
    (folder / "qa.jsonl").write_bytes(b"".join(rows))
    rewrite_manifest(folder)
    with pytest.raises(DataTermsError, match=r"qa\.jsonl names ovo_bench"):
        derive(Release.open(folder), tmp_path / "d", terms_in_use())


def test_the_real_sample_release_is_derived_soundly(real_release: Path, tmp_path: Path) -> None:
    made = derive(Release.open(real_release), tmp_path / "d", terms_in_use())
    assert made.release_id == "v1.1.0-sample+streambench"
    assert_sound(made.root)
    assert_nothing_restricted(made.root)
    exported = export(made, tmp_path / "out")
    card = (exported.path / "README.md").read_text(encoding="utf-8")
    assert "The terms of the OVO-Bench annotations are unresolved" in card
    assert "left out of ovo" in card.replace("\\", "")
    assert {"changes", "exclusions"} == set(exported.left_out)
    for config in set(CONFIGS) - set(exported.left_out):
        assert RESTRICTED not in b"".join(p.read_bytes() for p in (exported.path / config).glob("*.parquet"))
