"""croissant.json names every file by its hash and describes every field, as mlcroissant reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import sha256

from trace_hf.arrow import row_of
from trace_hf.hub.export import export
from trace_hf.release import Release
from trace_hf.schema import CONFIGS, Field, fields_of


@pytest.fixture
def exported(small_sample: Path, tmp_path: Path) -> Path:
    return export(small_sample, tmp_path / "trace").path


def description(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "croissant.json").read_text(encoding="utf-8"))
    return found


def test_every_file_stands_there_with_its_hash(exported: Path) -> None:
    listed = {file["contentUrl"]: file for file in description(exported)["distribution"]}
    texts = {"README.md", "DATA_TERMS.md", "croissant.json"}
    there = {path.relative_to(exported).as_posix() for path in exported.rglob("*") if path.is_file()} - texts
    assert set(listed) == there
    for name, file in listed.items():
        assert file["sha256"] == sha256(exported / name)
        assert file["contentSize"] == f"{(exported / name).stat().st_size} B"


def test_every_field_of_every_config_is_described(exported: Path) -> None:
    sets = {record_set["@id"]: record_set for record_set in description(exported)["recordSet"]}
    assert list(sets) == list(CONFIGS)

    def check(described: list[dict[str, Any]], fields: tuple[Field, ...], prefix: str) -> None:
        assert [one["@id"] for one in described] == [f"{prefix}/{field.name}" for field in fields]
        for one, field in zip(described, fields, strict=True):
            assert one["description"].startswith(field.description)
            assert one.get("repeated", False) is (field.kind == "list")
            item = field.item if field.kind == "list" else field
            if item.kind == "struct":
                check(one["subField"], item.children, one["@id"])
            else:
                assert one["dataType"] in ("sc:Text", "sc:Float", "sc:Integer", "sc:Boolean")

    for config, spec in CONFIGS.items():
        check(sets[config]["field"], fields_of(spec.record), config)


def test_a_config_without_rows_has_no_record_set(small_sample: Path, tmp_path: Path) -> None:
    from conftest import rewrite_manifest

    (small_sample / "exclusions.jsonl").write_bytes(b"")
    rewrite_manifest(small_sample)
    folder = export(small_sample, tmp_path / "trace").path
    assert "exclusions" not in [record_set["@id"] for record_set in description(folder)["recordSet"]]


# --- mlcroissant --------------------------------------------------------------------------------------------------

mlcroissant_needed = pytest.mark.skipif(
    subprocess.run([sys.executable, "-c", "import mlcroissant"], capture_output=True, check=False).returncode != 0,
    reason="mlcroissant is not installed",
)


def validated(folder: Path) -> str:
    program = Path(sys.executable).with_name("mlcroissant")
    done = subprocess.run(
        [program, "validate", "--jsonld", folder / "croissant.json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@mlcroissant_needed
def test_mlcroissant_validates_it(exported: Path) -> None:
    said = validated(exported)
    assert "Done." in said
    assert "error" not in said.lower()


@mlcroissant_needed
def test_mlcroissant_validates_the_real_rows(real_release: Path, tmp_path: Path) -> None:
    assert "error" not in validated(export(real_release, tmp_path / "trace").path).lower()


def decoded(value: Any) -> Any:
    """Text is bytes and lists are arrays there."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, dict):
        return {name.rsplit("/", 1)[-1]: decoded(item) for name, item in value.items()}
    if isinstance(value, list) or hasattr(value, "tolist"):
        return [decoded(item) for item in value]
    return value


@mlcroissant_needed
@pytest.mark.parametrize("config", CONFIGS)
def test_mlcroissant_gives_the_releases_rows(exported: Path, small_sample: Path, config: str) -> None:
    """Equal for top-level and one-level fields.

    What it does with lists inside `metadata` is its own: they come beside `metadata` instead of in it, and an absent
    list comes as one empty item. They are described all the same.
    """
    import mlcroissant

    spec = CONFIGS[config]
    found = [decoded(record) for record in mlcroissant.Dataset(str(exported / "croissant.json")).records(config)]
    due = [row_of(record) for record in Release.open(small_sample).records(config)]
    assert len(found) == len(due)
    for row, wanted in zip(found, due, strict=True):
        for field in fields_of(spec.record):
            if field.kind != "struct":
                assert row[field.name] == wanted[field.name]
                continue
            for child in field.children:
                if child.kind not in ("list", "struct"):
                    assert row[field.name][child.name] == wanted[field.name][child.name]
