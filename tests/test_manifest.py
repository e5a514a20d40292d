"""Pins: a snapshot that calls itself a known release has to be that release."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import rewrite_manifest
from helpers import edit_manifest

import trace_hf
from trace_hf.errors import IntegrityError
from trace_hf.manifest import PINS, parse_manifest, pin_problems
from trace_hf.schema import ROLES

ABSENT_FROM_OFFICIAL = [
    "changes.jsonl",
    "proactive.jsonl",
    "proactive_standard.jsonl",
    "qa.jsonl",
    "standard_proactive_ids.json",
]


@pytest.fixture
def official_manifest(real: Path) -> dict[str, object]:
    manifest: dict[str, object] = json.loads((real / "official" / "manifest.json").read_text())
    return manifest


def problems(manifest: object) -> list[str]:
    return pin_problems(parse_manifest(json.dumps(manifest).encode(), place="manifest.json"))


def test_pins_are_the_published_facts(official_manifest: dict[str, object]) -> None:
    pin = PINS["v1.1.0"]
    assert pin.files == official_manifest["files"]
    assert len(pin.files) == 13
    assert pin.counts == official_manifest["counts"] == {"qa": 833, "proactive": 415}
    assert pin.roles == {role: official_manifest[role] for role in ROLES}
    assert problems(official_manifest) == []


def test_status_and_provenance_are_not_pinned(official_manifest: dict[str, object]) -> None:
    assert problems({**official_manifest, "status": "public", "source_files": [], "limitations": []}) == []


@pytest.mark.parametrize("role", ROLES)
def test_role_that_names_another_genuine_file_is_caught(official_manifest: dict[str, object], role: str) -> None:
    assert any("pinned" in text and role in text for text in problems({**official_manifest, role: "changes.jsonl"}))


def test_counts_and_schema_version_are_pinned(official_manifest: dict[str, object]) -> None:
    assert any(
        "counts.qa is 1" in text for text in problems({**official_manifest, "counts": {"qa": 1, "proactive": 415}})
    )


def test_added_and_dropped_files_are_caught(official_manifest: dict[str, object]) -> None:
    files = dict(official_manifest["files"])  # type: ignore[call-overload]
    files["new.json"] = files.pop("changes.jsonl")
    found = problems({**official_manifest, "files": files})
    assert found == ["changes.jsonl is not listed, but is pinned", "new.json is listed, but is not a pinned file"]


def test_incomplete_official_snapshot_is_reported_exactly(real: Path) -> None:
    report = trace_hf.verify(real / "official").to_json()
    assert report["pinned"] is True
    assert report["ok"] is False
    states = {file["name"]: file["state"] for file in report["files"]}
    assert [name for name, state in states.items() if state == "missing"] == ABSENT_FROM_OFFICIAL
    assert {state for name, state in states.items() if name not in ABSENT_FROM_OFFICIAL} == {"ok"}


def test_copy_that_calls_itself_a_known_release_is_refused(real_release: Path) -> None:
    edit_manifest(real_release, lambda manifest: manifest.update(release_id="v1.1.0"))
    with pytest.raises(IntegrityError, match="pinned"):
        trace_hf.load("qa", release=real_release)
    report = trace_hf.verify(real_release)
    assert not report.ok
    states = {file.name: file.state for file in report.files}
    assert states["proactive_high_frequency.jsonl"] == "ok"  # it really is the official one
    assert states["qa.jsonl"] == "differs"


def test_known_release_whose_role_points_at_another_genuine_file_is_refused(real: Path, tmp_path: Path) -> None:
    folder = tmp_path / "v1.1.0"
    shutil.copytree(real / "official", folder)
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755)
    edit_manifest(folder, lambda m: m.update(tiny_proactive_ids_file="high_frequency_proactive_ids.json"))
    with pytest.raises(IntegrityError, match=r"tiny_proactive_ids_file is .*, the pinned one is"):
        trace_hf.load("proactive_tiny", release=folder)


def test_synthetic_copy_with_an_agreeing_manifest_is_refused(small_sample: Path) -> None:
    rewrite_manifest(small_sample, release_id="v1.1.0", counts={"qa": 833, "proactive": 415})
    with pytest.raises(IntegrityError, match=r"the hash of qa\.jsonl is .*, the pinned one is"):
        trace_hf.load("qa", release=small_sample)


def test_unknown_release_proves_consistency_only(small_sample: Path) -> None:
    report = trace_hf.verify(small_sample)
    assert report.ok
    assert not report.pinned
