"""`verify --repair`: what is written has the released hash, and whatever no hash proves is not written."""

from __future__ import annotations

import codecs
import gzip
import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from conftest import sha256
from helpers import edit_line, edit_manifest

import trace_hf
from trace_hf.cli import main
from trace_hf.errors import IntegrityError, ManifestError, TraceError
from trace_hf.release import Release
from trace_hf.repair import repair


def crlf(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r\n")


def bom(data: bytes) -> bytes:
    return codecs.BOM_UTF8 + data


def utf16(data: bytes) -> bytes:
    return data.decode("utf-8").encode("utf-16")


def as_array(data: bytes) -> bytes:
    return json.dumps([json.loads(line) for line in data.splitlines()], indent=4).encode()


def escaped(data: bytes) -> bytes:
    return b"".join(json.dumps(json.loads(line)).encode() + b"\n" for line in data.splitlines())


def shuffled(data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    random.Random(3).shuffle(lines)
    return b"".join(lines)


def twice(data: bytes) -> bytes:
    return data + data


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "CRLF": (crlf, "CRLF line ends"),
    "BOM": (bom, "byte-order mark"),
    "gzip": (gzip.compress, "gzip-compressed copy"),
    "UTF-16": (utf16, "UTF-16 text"),
    "reformatted": (as_array, "written otherwise"),
    "escaped": (escaped, "written otherwise"),
    "re-sorted": (shuffled, "in another order"),
    "twice": (twice, "more than once"),
    "BOM and CRLF": (lambda data: bom(crlf(data)), "byte-order mark"),
}


def hashes(folder: Path) -> dict[str, str]:
    return {path.name: sha256(path) for path in folder.iterdir()}


@pytest.mark.parametrize("damage", DAMAGES)
def test_known_damage_to_every_record_file_is_undone(small_sample: Path, tmp_path: Path, damage: str) -> None:
    due = hashes(small_sample)
    spoil, words = DAMAGES[damage]
    names = [path.name for path in small_sample.glob("*.jsonl")]
    for name in names:
        (small_sample / name).write_bytes(spoil((small_sample / name).read_bytes()))
    before = hashes(small_sample)
    report = repair(Release.open(small_sample), tmp_path / "out")
    assert report.ok
    assert hashes(tmp_path / "out") == due
    assert hashes(small_sample) == before, "nothing is mended in place"
    for file in report.files:
        assert file.outcome == ("repaired" if before[file.name] != due[file.name] else "kept")
        assert "the hash that the manifest states" in file.why
        assert file.outcome == "kept" or words in file.why or "another order" in file.why or "rows of" in file.why
    assert trace_hf.verify(tmp_path / "out").ok


@pytest.mark.real
def test_real_release_is_repaired_and_its_rows_attest(real_release: Path, tmp_path: Path) -> None:
    due = hashes(real_release)
    for name, spoil in zip(sorted(due.keys() - {"manifest.json"}), [crlf, bom, gzip.compress, utf16] * 4, strict=False):
        (real_release / name).write_bytes(spoil((real_release / name).read_bytes()))
    assert repair(Release.open(real_release), tmp_path / "out").ok
    assert hashes(tmp_path / "out") == due


def test_missing_and_cut_files_are_put_together_from_repaired_ones(small_sample: Path, tmp_path: Path) -> None:
    due = hashes(small_sample)
    (small_sample / "proactive.jsonl").write_bytes(crlf((small_sample / "proactive.jsonl").read_bytes()))
    (small_sample / "proactive_standard.jsonl").unlink()
    os.truncate(small_sample / "standard_proactive_ids.json", 40)
    report = repair(Release.open(small_sample), tmp_path / "out")
    assert report.ok
    assert hashes(tmp_path / "out") == due
    why = {file.name: file.why for file in report.files}
    assert "rows of proactive.jsonl" in why["proactive_standard.jsonl"]
    assert "ID list of proactive_standard.jsonl" in why["standard_proactive_ids.json"]


def test_file_under_another_name_is_found(small_sample: Path, tmp_path: Path) -> None:
    due = hashes(small_sample)
    (small_sample / "qa.jsonl").rename(small_sample / "qa (1).jsonl")
    changes = small_sample / "changes.jsonl"
    (small_sample / "changes.jsonl.gz").write_bytes(gzip.compress(changes.read_bytes()))
    changes.write_text("<html>not found")
    report = repair(Release.open(small_sample), tmp_path / "out")
    assert hashes(tmp_path / "out") == due
    why = {file.name: file.why for file in report.files}
    assert why["qa.jsonl"].startswith("qa (1).jsonl has the hash")
    assert why["changes.jsonl"].startswith("changes.jsonl.gz is a gzip-compressed copy")


def test_what_no_hash_proves_is_left_out_and_named(small_sample: Path, tmp_path: Path) -> None:
    edit_line(small_sample / "qa.jsonl", 3, lambda line: line.replace(b'"task":"qa"', b'"task":"qb"'))
    (small_sample / "review_summary.json").unlink()
    report = repair(Release.open(small_sample), tmp_path / "out")
    assert not report.ok
    refused = {file.name: file.why for file in report.files if file.outcome == "refused"}
    assert set(refused) == {"qa.jsonl", "review_summary.json"}
    assert "it is missing" in refused["review_summary.json"]
    assert set(refused).isdisjoint(hashes(tmp_path / "out"))
    with pytest.raises(IntegrityError, match=r"qa\.jsonl is missing; review_summary\.json is missing"):
        trace_hf.load("changes", release=tmp_path / "out")


def test_nothing_is_written_when_nothing_is_proven(small_sample: Path, tmp_path: Path) -> None:
    for path in small_sample.iterdir():
        if path.name != "manifest.json":
            path.write_text("lost")
    report = repair(Release.open(small_sample), tmp_path / "out")
    assert (report.ok, report.path) == (False, None)
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out*"))


def test_manifest_that_breaks_a_pinned_fact_proves_nothing(small_sample: Path, tmp_path: Path) -> None:
    edit_manifest(small_sample, lambda manifest: manifest.update(release_id="v1.1.0"))
    with pytest.raises(IntegrityError, match=r"the manifest is not one of release v1\.1\.0"):
        repair(Release.open(small_sample), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.real
def test_pinned_release_is_repaired_by_its_pinned_hashes(real: Path, tmp_path: Path) -> None:
    from conftest import writable_copy

    folder = writable_copy(real / "official", tmp_path / "official")
    name = "proactive_high_frequency.jsonl"
    (folder / name).write_bytes(crlf((folder / name).read_bytes()))
    report = repair(Release.open(folder), tmp_path / "out")
    found = {file.name: file for file in report.files}
    assert report.pinned
    assert found[name].outcome == "repaired"
    assert "the hash that is pinned" in found[name].why
    assert sha256(tmp_path / "out" / name) == "4de942e70cc8d58ec6af1f1a142de40b36bb271f32bbf9a3e1e064e021659598"
    assert not report.ok, "five of its files are not there"


def test_damaged_manifest_is_an_error(small_sample: Path, tmp_path: Path) -> None:
    (small_sample / "manifest.json").write_bytes(bom((small_sample / "manifest.json").read_bytes()))
    with pytest.raises(ManifestError):
        repair(Release.open(small_sample), tmp_path / "out")


@pytest.mark.parametrize("there", ["file", "folder", "link"])
def test_nothing_is_replaced(small_sample: Path, tmp_path: Path, there: str) -> None:
    out = tmp_path / "out"
    if there == "folder":
        out.mkdir()
        (out / "mine").write_text("")
    elif there == "link":
        out.symlink_to(small_sample)
    else:
        out.write_text("mine")
    with pytest.raises(TraceError, match="a repair replaces nothing"):
        repair(Release.open(small_sample), out)


def test_folder_that_cannot_be_written_is_an_error(small_sample: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TraceError, match="cannot be written: "):
        repair(Release.open(small_sample), tmp_path / "file" / "out")


def invoke(*args: str) -> Result:
    return CliRunner().invoke(main, ["verify", *args])


def test_command_line_says_what_was_done(small_sample: Path, tmp_path: Path) -> None:
    (small_sample / "qa.jsonl").write_bytes(crlf((small_sample / "qa.jsonl").read_bytes()))
    assert invoke(str(small_sample)).exit_code == 1
    done = invoke(str(small_sample), "--repair", str(tmp_path / "out"))
    assert done.exit_code == 0
    assert "repaired\tqa.jsonl\tit has CRLF line ends; undoing that gives the hash" in done.output
    assert done.output.endswith(f"wrote {tmp_path / 'out'}, a complete snapshot that verifies\n")
    assert invoke(str(tmp_path / "out")).exit_code == 0

    (small_sample / "qa.jsonl").write_bytes(b"lost")
    done = invoke(str(small_sample), "--repair", str(tmp_path / "part"), "--json")
    assert done.exit_code == 1
    value = json.loads(done.stdout)
    assert not value["ok"]
    assert not value["repair"]["ok"]
    assert [f["name"] for f in value["repair"]["files"] if f["outcome"] == "refused"] == ["qa.jsonl"]
    assert value["repair"]["path"] == str(tmp_path / "part")


def test_random_damage_is_never_repaired_to_anything_else(small_sample: Path, tmp_path: Path) -> None:
    original = (small_sample / "exclusions.jsonl").read_bytes()
    for seed in range(25):
        damaged = bytearray(original)
        source = random.Random(seed)
        for _ in range(source.randrange(1, 4)):
            damaged[source.randrange(len(damaged))] ^= 1 << source.randrange(8)
        (small_sample / "exclusions.jsonl").write_bytes(damaged)
        report = repair(Release.open(small_sample), tmp_path / f"out-{seed}")
        written = tmp_path / f"out-{seed}" / "exclusions.jsonl"
        assert report.ok == written.exists()
        assert not written.exists() or written.read_bytes() == original
