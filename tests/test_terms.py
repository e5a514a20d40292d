"""The data terms as a table, and what is decided by it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import rewrite_manifest, writable_copy
from helpers import edit_line

from trace_hf.errors import DataTermsError
from trace_hf.hub.decide import Decision, decide, terms_in_use
from trace_hf.hub.terms import BUILT_IN, load_terms
from trace_hf.release import Release

pytest_plugins = ["mirror_fixtures"]


def decided(folder: Path, visibility: Any, terms: Path | None = None) -> Decision:
    release = Release.open(folder)
    return decide(release, release.proven(), visibility, terms_in_use(terms))


def edited_terms(path: Path, **public: bool) -> Path:
    value = json.loads(BUILT_IN.read_text(encoding="utf-8"))
    for source in value["sources"]:
        source["public"] = public.get(source["name"], source["public"])
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def test_the_table_has_a_date_and_a_published_reason_for_each_source() -> None:
    terms, sha256 = load_terms()
    assert sha256 == hashlib.sha256(BUILT_IN.read_bytes()).hexdigest()
    assert len(terms.date) == 10
    assert {source.name: source.public for source in terms.sources} == {"streambench": True, "ovo_bench": False}
    assert all(source.reasons for source in terms.sources)


def test_a_private_copy_of_everything_is_allowed(whole: Path) -> None:
    decision = decided(whole, "private")
    assert decision.allowed
    assert set(decision.sources) == {"ovo_bench", "streambench"}
    decision.require()


@pytest.mark.parametrize("visibility", ["public", "gated"])
def test_publication_is_refused_for_status_and_for_source(whole: Path, visibility: Any) -> None:
    decision = decided(whole, visibility)
    assert not decision.allowed
    with pytest.raises(DataTermsError, match="private_provisional") as caught:
        decision.require()
    assert "OVO-Bench annotations are unresolved" in str(caught.value)
    assert f"built in, SHA-256 {hashlib.sha256(BUILT_IN.read_bytes()).hexdigest()}" in str(caught.value)


def test_a_status_of_public_is_no_licence(forged: Path) -> None:
    decision = decided(forged, "public")
    assert not decision.allowed
    assert decision.status == "public"
    assert decision.blocked["ovo_bench"] > 0


def test_what_is_left_when_restricted_records_are_left_out_may_be_public(derived: Path) -> None:
    decision = decided(derived, "public")
    assert decision.allowed
    assert decision.blocked == {}
    assert set(decision.sources) == {"streambench"}


def test_a_provisional_release_of_permitted_records_is_not_public(derived: Path, tmp_path: Path) -> None:
    folder = writable_copy(derived, tmp_path / "r")
    rewrite_manifest(folder, status="private_provisional")
    assert decided(folder, "public").reasons == ("The manifest's status is 'private_provisional', not 'public'.",)


def test_one_restricted_row_in_any_file_is_enough(derived: Path, whole: Path, tmp_path: Path) -> None:
    row = next(line for line in (whole / "changes.jsonl").read_bytes().split(b"\n") if b'"dataset":"ovo_bench"' in line)
    folder = writable_copy(derived, tmp_path / "r")
    with (folder / "changes.jsonl").open("ab") as stream:
        stream.write(row + b"\n")
    rewrite_manifest(folder)
    decision = decided(folder, "public")
    assert not decision.allowed
    assert decision.blocked == {"ovo_bench": 1}


def test_a_record_that_is_relabelled_is_known_by_its_ids(derived: Path, tmp_path: Path) -> None:
    folder = writable_copy(derived, tmp_path / "r")
    edit_line(folder / "qa.jsonl", 0, lambda line: line.replace(b"streambench:qa:", b"ovo_bench:qa:"))
    rewrite_manifest(folder)
    assert decided(folder, "public").blocked == {"ovo_bench": 1}


def test_an_unknown_source_is_not_public(derived: Path, tmp_path: Path) -> None:
    folder = writable_copy(derived, tmp_path / "r")
    edit_line(folder / "qa.jsonl", 0, lambda line: line.replace(b'"dataset":"streambench"', b'"dataset":"newbench"'))
    rewrite_manifest(folder)
    decision = decided(folder, "public")
    assert decision.blocked == {"newbench": 1}
    assert "does not name this source" in " ".join(decision.reasons)


def test_a_file_of_which_nobody_knows_what_it_holds_is_not_public(derived: Path, tmp_path: Path) -> None:
    folder = writable_copy(derived, tmp_path / "r")
    (folder / "extra.jsonl").write_bytes(b"{}\n")
    manifest = json.loads((folder / "manifest.json").read_bytes())
    manifest["files"]["extra.jsonl"] = "0" * 64
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    rewrite_manifest(folder)
    assert "What extra.jsonl holds is not known" in " ".join(decided(folder, "public").reasons)


@pytest.mark.parametrize("text", ['["ovo_bench_qa:1"]', '["\\u006fvo_bench_qa:1"]'])
def test_an_id_file_that_names_a_restricted_record_is_not_public(derived: Path, tmp_path: Path, text: str) -> None:
    folder = writable_copy(derived, tmp_path / "r")
    (folder / "tiny_qa_ids.json").write_text(text, encoding="utf-8")
    rewrite_manifest(folder)
    assert decided(folder, "public").reasons == ("tiny_qa_ids.json names ovo_bench, whose records may not be public.",)


def test_an_administrator_with_other_rights_passes_a_table_that_the_report_names(
    forged: Path, whole: Path, tmp_path: Path
) -> None:
    terms = edited_terms(tmp_path / "our_terms.json", ovo_bench=True)
    decision = decided(forged, "public", terms)
    assert decision.allowed
    assert decision.to_json()["terms"]["file"] == str(terms)
    assert decision.to_json()["terms"]["sha256"] == hashlib.sha256(terms.read_bytes()).hexdigest()
    # The status is the maintainers' to set, whatever rights the administrator has.
    assert not decided(whole, "public", terms).allowed


def test_a_table_that_permits_nothing_stops_everything(derived: Path, tmp_path: Path) -> None:
    assert not decided(derived, "public", edited_terms(tmp_path / "t.json", streambench=False)).allowed


@pytest.mark.parametrize("text", ["", "{}", '{"date": 1}', "[]"])
def test_a_table_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "terms.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataTermsError, match=r"terms\.json"):
        terms_in_use(path)
