"""Whatever a snapshot holds, the error says what is wrong, where, and what to do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from conftest import rewrite_manifest
from helpers import edit_line, edit_manifest

import trace_hf
from trace_hf.errors import IntegrityError, ManifestError, ReleaseNotFoundError, SchemaError, UnsafePathError
from trace_hf.schema import MAX_LINE_BYTES


def load(config: str, folder: Path, **options: Any) -> Any:
    return trace_hf.load(config, release=folder, **options)


def message(error: pytest.ExceptionInfo[BaseException]) -> str:
    return str(error.value)


# --- the place and the manifest -----------------------------------------------------------------------------------


def test_no_release_named_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_RELEASE", "")
    with pytest.raises(ReleaseNotFoundError) as error:
        trace_hf.load("qa")
    assert "TRACE_RELEASE" in message(error)
    assert 'release="sample"' in message(error)


def test_missing_folder_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(ReleaseNotFoundError, match="no such folder"):
        load("qa", tmp_path / "nowhere")


def test_folder_without_manifest(tmp_path: Path) -> None:
    with pytest.raises(ReleaseNotFoundError, match=r"no manifest\.json") as error:
        load("qa", tmp_path)
    assert "name the folder that holds manifest.json" in message(error)


def test_manifest_that_is_not_json(small_sample: Path) -> None:
    (small_sample / "manifest.json").write_text("release_id: v1.1.0\n")
    with pytest.raises(ManifestError, match="not JSON"):
        load("qa", small_sample)


def test_manifest_that_lacks_a_key(small_sample: Path) -> None:
    edit_manifest(small_sample, lambda manifest: manifest.pop("qa_file"))
    with pytest.raises(ManifestError, match="missing field `qa_file`"):
        load("qa", small_sample)


def test_manifest_with_a_wrong_type(small_sample: Path) -> None:
    edit_manifest(small_sample, lambda manifest: manifest["counts"].update(qa="21"))
    with pytest.raises(ManifestError, match="expected an integer, found a string") as error:
        load("qa", small_sample)
    assert "$.counts.qa" in message(error)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a\\b", "C:x", "s3://x", "a::b", ""])
def test_manifest_that_names_a_file_outside(small_sample: Path, name: str) -> None:
    edit_manifest(small_sample, lambda manifest: manifest["files"].update({name: "0" * 64}))
    with pytest.raises(UnsafePathError):
        load("qa", small_sample)


def test_manifest_role_that_names_a_file_outside(small_sample: Path) -> None:
    edit_manifest(small_sample, lambda manifest: manifest.update(qa_file="../qa.jsonl"))
    with pytest.raises(UnsafePathError, match=r"\.\./qa\.jsonl"):
        load("qa", small_sample)


def test_manifest_role_without_a_hash(small_sample: Path) -> None:
    edit_manifest(small_sample, lambda manifest: manifest["files"].pop("qa.jsonl"))
    with pytest.raises(ManifestError, match="lists no hash"):
        load("qa", small_sample)


def test_unknown_schema_version(small_sample: Path) -> None:
    edit_manifest(small_sample, lambda manifest: manifest.update(schema_version="osb-canonical-v9"))
    with pytest.raises(ManifestError, match="unknown schema_version 'osb-canonical-v9'") as error:
        load("qa", small_sample)
    assert 'unknown="keep"' in message(error)
    assert len(load("qa", small_sample, unknown="keep")) > 0


def test_oversized_manifest_is_refused_unread(small_sample: Path) -> None:
    with (small_sample / "manifest.json").open("r+b") as stream:
        stream.truncate(2**30)  # sparse
    with pytest.raises(ManifestError, match="larger than 16 MiB"):
        load("qa", small_sample)


# --- files ----------------------------------------------------------------------------------------------------


def test_changed_byte_is_refused_and_named(small_sample: Path) -> None:
    edit_line(small_sample / "qa.jsonl", 0, lambda line: line.replace(b"qa", b"qb", 1))
    with pytest.raises(IntegrityError, match=r"qa\.jsonl differs"):
        load("changes", small_sample)  # another file of the snapshot


def test_missing_file_is_named(small_sample: Path) -> None:
    (small_sample / "changes.jsonl").unlink()
    with pytest.raises(IntegrityError, match=r"changes\.jsonl is missing"):
        load("qa", small_sample)


def test_directory_in_place_of_a_file(small_sample: Path) -> None:
    (small_sample / "qa.jsonl").unlink()
    (small_sample / "qa.jsonl").mkdir()
    with pytest.raises(IntegrityError, match="a directory stands in its place"):
        load("qa", small_sample)
    with pytest.warns(UserWarning, match="verify=False"), pytest.raises(IntegrityError, match="cannot be read"):
        load("qa", small_sample, verify=False)


_WITHOUT_PERMISSION = """
import os, sys
import trace_hf
release = trace_hf.Release.open(sys.argv[1])
release.verify()
if os.geteuid() == 0:
    os.seteuid(65534)  # root may read everything
try:
    release.proven()
except trace_hf.errors.IntegrityError as error:
    print(error)
"""


def test_file_without_permission(small_sample: Path) -> None:
    with TemporaryDirectory() as open_to_all:
        folder = Path(shutil.copytree(small_sample, Path(open_to_all, "release")))
        folder.parent.chmod(0o755)
        (folder / "qa.jsonl").chmod(0o000 if os.geteuid() else 0o600)
        done = subprocess.run(
            [sys.executable, "-c", _WITHOUT_PERMISSION, str(folder)], capture_output=True, text=True, check=True
        )
    assert "permission denied; make the file readable" in done.stdout
    assert "; " not in done.stdout.split("release sample-0")[1].split("\n")[0], "only the one file is named"


_CLOSED_FOLDER = """
import os, sys
import trace_hf
trace_hf.Release.open(sys.argv[1]).verify()
os.chmod(sys.argv[1], 0o600)
if os.geteuid() == 0:
    os.seteuid(65534)
for place in (sys.argv[1], sys.argv[1] + "/sub", "x" * 5000, "~nobody-of-that-name/x"):
    try:
        trace_hf.Release.open(place)
    except (trace_hf.errors.ReleaseNotFoundError, trace_hf.errors.ManifestError) as error:
        print(error.what)
"""


def test_folder_that_cannot_be_looked_into(small_sample: Path) -> None:
    with TemporaryDirectory() as open_to_all:
        folder = Path(shutil.copytree(small_sample, Path(open_to_all, "release")))
        folder.parent.chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-c", _CLOSED_FOLDER, str(folder)], capture_output=True, text=True, check=True
        )
        folder.chmod(0o700)
    assert len(done.stdout.splitlines()) == 4
    assert "Permission denied" in done.stdout


# --- rows -----------------------------------------------------------------------------------------------------


def damaged(folder: Path, file: str, edit: Any, line: int = 1) -> Path:
    """Damage a line and make the manifest agree, so that only the schema can object."""
    edit_line(folder / file, line, edit)
    rewrite_manifest(folder)
    return folder


def in_json(edit: Any) -> Any:
    def edit_bytes(line: bytes) -> bytes:
        record = json.loads(line)
        edit(record)
        return json.dumps(record, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()

    return edit_bytes


def refused(config: str, folder: Path) -> str:
    """Load in every way; all refuse with the same words."""
    with pytest.raises(SchemaError) as error:
        load(config, folder)
    with pytest.raises(SchemaError) as streamed:
        list(load(config, folder, streaming=True))
    with pytest.raises(SchemaError) as typed:
        list(trace_hf.Release.open(folder).records(config))
    assert message(error) == message(streamed)
    assert error.value.what.split(" (")[0] == typed.value.what.split(" (")[0]
    return message(error)


def test_line_that_is_not_json(small_sample: Path) -> None:
    text = refused("qa", damaged(small_sample, "qa.jsonl", lambda line: line[: len(line) // 2]))
    assert "qa.jsonl, line 2" in text
    assert "not JSON" in text


def test_wrong_type_deep_inside_a_trigger_gives_the_json_path(small_sample: Path) -> None:
    def edit(record: dict[str, Any]) -> None:
        record["metadata"]["trigger_annotations"][0]["point_trigger_s"] = "12.5"

    text = refused("proactive", damaged(small_sample, "proactive.jsonl", in_json(edit)))
    assert "proactive.jsonl, line 2, record " in text
    assert "at $.metadata.trigger_annotations[0].point_trigger_s" in text
    assert "expected a number or null, found a string" in text


def test_unknown_field_is_named(small_sample: Path) -> None:
    text = refused("qa", damaged(small_sample, "qa.jsonl", in_json(lambda r: r["metadata"].update(shiny=1))))
    assert "unknown field `shiny`" in text
    assert "at $.metadata" in text
    assert 'unknown="keep"' in text


def test_missing_field_is_named(small_sample: Path) -> None:
    text = refused("qa", damaged(small_sample, "qa.jsonl", in_json(lambda r: r.pop("question"))))
    assert "missing field `question`" in text


def test_missing_nullable_field_is_not_taken_for_null(small_sample: Path) -> None:
    def edit(record: dict[str, Any]) -> None:
        for trigger in record["metadata"]["trigger_annotations"]:
            trigger.pop("interval_end_s")

    text = refused("proactive", damaged(small_sample, "proactive.jsonl", in_json(edit)))
    assert "missing field `interval_end_s`" in text


def test_null_is_not_taken_for_an_absent_field(small_sample: Path) -> None:
    edit = in_json(lambda record: record["metadata"].update(evidence_spans=None))
    assert "$.metadata.evidence_spans" in refused("qa", damaged(small_sample, "qa.jsonl", edit))


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e400"])
def test_non_finite_number(small_sample: Path, number: bytes) -> None:
    def edit(line: bytes) -> bytes:
        head, tail = line.split(b'"question_time_s":', 1)
        return head + b'"question_time_s":' + number + tail[tail.index(b",") :]

    assert "finite" in refused("qa", damaged(small_sample, "qa.jsonl", edit))


def test_invalid_utf8(small_sample: Path) -> None:
    edit = lambda line: line.replace(b'"question":"', b'"question":"\xff', 1)  # noqa: E731
    assert "UTF-8" in refused("qa", damaged(small_sample, "qa.jsonl", edit)).replace("utf-8", "UTF-8")


def test_line_over_16_mib(small_sample: Path) -> None:
    edit = in_json(lambda record: record.update(question="x" * (MAX_LINE_BYTES + 1)))
    text = refused("qa", damaged(small_sample, "qa.jsonl", edit))
    assert "qa.jsonl, line 2" in text
    assert "over 16 MiB" in text


def test_line_of_just_under_16_mib_is_read(small_sample: Path) -> None:
    edit = in_json(lambda record: record.update(question="x" * (MAX_LINE_BYTES - 4096)))
    rows = load("qa", damaged(small_sample, "qa.jsonl", edit))
    assert len(rows[1]["question"]) == MAX_LINE_BYTES - 4096


def test_two_objects_on_a_line(small_sample: Path) -> None:
    assert "not JSON" in refused("qa", damaged(small_sample, "qa.jsonl", lambda line: line + line))


def test_duplicate_id(small_sample: Path) -> None:
    first = (small_sample / "qa.jsonl").read_bytes().split(b"\n")[0]
    text = refused("qa", damaged(small_sample, "qa.jsonl", lambda _line: first))
    assert "comes twice" in text
    assert json.loads(first)["record_id"] in text


def test_unknown_id_in_an_id_file(small_sample: Path) -> None:
    path = small_sample / "tiny_qa_ids.json"
    path.write_text(json.dumps([*json.loads(path.read_text())[:-1], "ovo_bench_qa:999999"], indent=2) + "\n")
    rewrite_manifest(small_sample)
    text = refused("qa_tiny", small_sample)
    assert "tiny_qa_ids.json, record ovo_bench_qa:999999" in text
    assert "not in qa.jsonl" in text


@pytest.mark.parametrize("subset", ["standard", "high_frequency"])
def test_unknown_id_in_an_id_file_of_the_split(small_sample: Path, subset: str) -> None:
    path = small_sample / f"{subset}_proactive_ids.json"
    path.write_text(json.dumps([*json.loads(path.read_text())[:-1], "ovo_bench_proactive:999999"], indent=2) + "\n")
    rewrite_manifest(small_sample)
    text = refused(f"proactive_{subset}", small_sample)
    assert f"{subset}_proactive_ids.json, record ovo_bench_proactive:999999" in text


def test_id_listed_twice_in_an_id_file(small_sample: Path) -> None:
    path = small_sample / "tiny_qa_ids.json"
    ids = json.loads(path.read_text())
    path.write_text(json.dumps([*ids, ids[0]], indent=2) + "\n")
    rewrite_manifest(small_sample)
    assert "comes twice" in refused("qa_tiny", small_sample)


def test_empty_file_whose_count_is_not_zero(small_sample: Path) -> None:
    count = json.loads((small_sample / "manifest.json").read_text())["counts"]["qa"]
    (small_sample / "qa.jsonl").write_bytes(b"")
    rewrite_manifest(small_sample)
    assert f"holds 0 records, the manifest says {count}" in refused("qa", small_sample)


def test_empty_file_whose_count_is_zero_is_an_empty_typed_dataset(small_sample: Path) -> None:
    (small_sample / "qa.jsonl").write_bytes(b"")
    (small_sample / "tiny_qa_ids.json").write_text("[]\n")
    (small_sample / "exclusions.jsonl").write_bytes(b"")
    edit_manifest(small_sample, lambda manifest: manifest["counts"].update(qa=0))
    rewrite_manifest(small_sample)
    for config in ("qa", "qa_tiny", "exclusions"):
        full = load(config, small_sample)
        assert len(full) == 0
        assert "record_id" in full.features
        assert list(load(config, small_sample, streaming=True)) == []
        assert trace_hf.attest(full, config, release=small_sample).ok
        again = load(config, small_sample)  # from the cache
        assert again.features == full.features
    assert load("qa", small_sample, view="model_input").column_names == [
        "record_id",
        "task",
        "video_path",
        "question",
        "options",
        "question_time_s",
    ]


def test_integer_where_a_float_stands_is_that_float(small_sample: Path) -> None:
    edit = in_json(lambda record: record.update(question_time_s=9000))
    value = load("qa", damaged(small_sample, "qa.jsonl", edit))[1]["question_time_s"]
    assert value == 9000.0
    assert isinstance(value, float)


def test_duplicate_key_and_blank_line_are_not_misread(small_sample: Path) -> None:
    edit = lambda line: b"\n" + line.replace(b'{"answer":', b'{"answer":"Z","answer":', 1)  # noqa: E731
    untouched = load("qa", small_sample).to_list()
    assert load("qa", damaged(small_sample, "qa.jsonl", edit)).to_list() == untouched
