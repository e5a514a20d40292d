"""A file that differs says why: each cause on a real example of it, and none on random damage."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import rewrite_manifest, sha256

from trace_hf import repairs
from trace_hf.causes import Cause, explain, find_cause
from trace_hf.manifest import PINS
from trace_hf.release import Release
from trace_hf.repairs import proven_repair
from trace_hf.schema import Manifest

RECORDS, IDS, SIDECAR = "qa.jsonl", "tiny_qa_ids.json", "review_summary.json"
EACH_KIND = [RECORDS, "proactive.jsonl", "changes.jsonl", IDS, "standard_proactive_ids.json", SIDECAR]

Damage = Callable[[bytes], bytes]


@pytest.fixture(params=["real_release", "small_sample"])
def folder(request: pytest.FixtureRequest) -> Path:
    if request.param == "real_release":
        request.getfixturevalue("real")
    release: Path = request.getfixturevalue(request.param)
    return release


@pytest.fixture
def manifest(folder: Path) -> Manifest:
    return Release.open(folder).manifest


def damaged(folder: Path, name: str, damage: Damage) -> Path:
    path = folder / name
    path.write_bytes(damage(path.read_bytes()))
    return path


def cause_of(path: Path, manifest: Manifest) -> Cause | None:
    return explain(path, manifest.files[path.name], manifest)


def _values(name: str, data: bytes) -> list[object]:
    if not name.endswith(".jsonl"):
        return [json.loads(data)]
    return [json.loads(line) for line in data.split(b"\n") if line]


def _pretty(name: str, data: bytes) -> bytes:
    return "\n".join(json.dumps(value, indent=4, ensure_ascii=False) for value in _values(name, data)).encode()


def _escaped(name: str, data: bytes) -> bytes:
    return "\n".join(json.dumps(value, separators=(",", ":")) for value in _values(name, data)).encode()


def _reversed_keys(name: str, data: bytes) -> bytes:
    def turn(value: object) -> object:
        if isinstance(value, dict):
            return {key: turn(value[key]) for key in sorted(value, reverse=True)}
        return [turn(item) for item in value] if isinstance(value, list) else value

    lines = [json.dumps(turn(value), ensure_ascii=False, separators=(",", ":")) for value in _values(name, data)]
    return ("\n".join(lines) + "\n").encode()


# --- proven by a hash ---------------------------------------------------------------------------------------------

PROVEN: dict[str, tuple[str, Callable[[str, bytes], bytes], str]] = {
    "crlf": ("crlf", lambda _, b: b.replace(b"\n", b"\r\n"), "CRLF"),
    "bom": ("bom", lambda _, b: b"\xef\xbb\xbf" + b, "byte-order mark"),
    "bom and crlf": ("bom", lambda _, b: b"\xef\xbb\xbf" + b.replace(b"\n", b"\r\n"), "CRLF"),
    "utf16": ("utf16", lambda _, b: b.decode().encode("utf-16"), "UTF-16"),
    "utf16 big-endian": ("utf16", lambda _, b: b.decode().encode("utf-16-be"), "UTF-16"),
    "utf16 and crlf": ("utf16", lambda _, b: b.decode().replace("\n", "\r\n").encode("utf-16-le"), "UTF-16"),
    "gzip": ("gzip", lambda _, b: gzip.compress(b), "gunzip"),
    "no last line end": ("line_end", lambda _, b: b[:-1], "line end"),
    "two last line ends": ("line_end", lambda _, b: b + b"\n", "line end"),
    "pretty": ("reformatted", _pretty, "written otherwise"),
    "escaped": ("reformatted", _escaped, "written otherwise"),
    "keys reordered": ("reformatted", _reversed_keys, "written otherwise"),
}


@pytest.mark.parametrize("name", EACH_KIND)
@pytest.mark.parametrize("damage", PROVEN)
def test_damage_that_can_be_undone_is_proven_named_and_repaired(
    folder: Path, manifest: Manifest, name: str, damage: str
) -> None:
    kind, apply, words = PROVEN[damage]
    released = (folder / name).read_bytes()
    if kind == "reformatted" and apply(name, released) == released:
        pytest.skip("this file has nothing that could be written so")
    path = damaged(folder, name, lambda data: apply(name, data))
    if sha256(path) == manifest.files[name]:
        pytest.skip("this file has nothing that could be written so")
    cause = cause_of(path, manifest)
    assert cause is not None
    if damage == "escaped" and apply(name, released) + b"\n" == released:
        kind, words = "line_end", "line end"  # no text in it needs an escape
    if damage == "keys reordered" and cause.name == "line_end":
        pytest.skip("an ID file has no keys")
    assert (cause.name, cause.proven) == (kind, True), cause.text
    assert words in cause.text
    assert cause.repair is not None
    assert b"".join(cause.repair.chunks()) == released
    repair = proven_repair(path, manifest.files[name])
    assert repair is not None
    assert b"".join(repair.chunks()) == released


@pytest.mark.parametrize("name", [RECORDS, "proactive.jsonl", "changes.jsonl"])
def test_rows_in_another_order_are_proven(folder: Path, manifest: Manifest, name: str) -> None:
    path = damaged(folder, name, lambda b: b"\n".join(sorted(b.rstrip().split(b"\n"), key=hash_of)) + b"\n")
    if sha256(path) == manifest.files[name]:
        pytest.skip("the shuffled rows came out as they were")
    cause = cause_of(path, manifest)
    assert cause is not None
    assert (cause.name, cause.proven) == ("reordered", True), cause.text


def hash_of(line: bytes) -> bytes:
    return hashlib.sha256(line).digest()


def test_ids_in_another_order_are_proven(folder: Path, manifest: Manifest) -> None:
    path = damaged(
        folder, "standard_proactive_ids.json", lambda b: (json.dumps(json.loads(b)[::-1], indent=2) + "\n").encode()
    )
    cause = cause_of(path, manifest)
    assert cause is not None
    assert (cause.name, cause.proven) == ("reordered", True)


@pytest.mark.parametrize("name", [RECORDS, "proactive.jsonl", "changes.jsonl"])
def test_a_file_that_was_appended_to_itself_is_proven(folder: Path, manifest: Manifest, name: str) -> None:
    cause = cause_of(damaged(folder, name, lambda b: b + b), manifest)
    assert cause is not None
    assert (cause.name, cause.proven) == ("repeated", True)


def test_records_saved_as_one_json_array_without_decimal_points_are_proven(folder: Path, manifest: Manifest) -> None:
    def damage(data: bytes) -> bytes:
        return json.dumps(_values(RECORDS, data), indent=1).replace(".0,", ",").encode()

    cause = cause_of(damaged(folder, RECORDS, damage), manifest)
    assert cause is not None
    assert (cause.name, cause.proven) == ("reformatted", True)
    assert "JSON array" in cause.text


# --- something else in its place ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EACH_KIND)
def test_a_git_lfs_pointer_is_named(folder: Path, manifest: Manifest, name: str) -> None:
    size = (folder / name).stat().st_size
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{manifest.files[name]}\nsize {size}\n"
    cause = cause_of(damaged(folder, name, lambda _: pointer.encode()), manifest)
    assert cause is not None
    assert cause.name == "lfs_pointer"
    assert "to the released file" in cause.text
    assert "git lfs pull" in cause.text
    other = pointer.replace(manifest.files[name], "0" * 64)
    assert "another file" in str(find_cause(damaged(folder, name, lambda _: other.encode()), manifest.files[name]))


PAGES = [
    b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>",
    b"\n  <html><body>502</body></html>",
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code></Error>',
    b'{"error":"Repository not found"}',
    b'{\n  "message": "Not Found",\n  "status": "404"\n}\n',
    b"404: Not Found",
    b"Entry not found",
]


@pytest.mark.parametrize("name", EACH_KIND)
@pytest.mark.parametrize("page", PAGES)
def test_an_error_page_is_named_as_likely(folder: Path, manifest: Manifest, name: str, page: bytes) -> None:
    cause = cause_of(damaged(folder, name, lambda _: page), manifest)
    assert cause is not None
    assert (cause.name, cause.proven) == ("error_page", False)
    assert "likely" in cause.text


def test_what_a_server_wrote_cannot_act_on_a_terminal(folder: Path, manifest: Manifest) -> None:
    path = damaged(folder, RECORDS, lambda _: b'{"error":"\\u001b[31m \xe2\x80\xae"}')
    text = find_cause(path, manifest.files[RECORDS], manifest)
    assert text is not None
    assert text.isprintable()
    assert text.isascii()


@pytest.mark.parametrize("name", EACH_KIND)
def test_an_empty_file_is_named(folder: Path, manifest: Manifest, name: str) -> None:
    cause = cause_of(damaged(folder, name, lambda _: b""), manifest)
    assert cause is not None
    assert cause.name == "empty"
    cause = cause_of(damaged(folder, name, lambda _: b"\0" * 5000), manifest)
    assert cause is not None
    assert "never finished" in cause.text


def test_another_file_of_the_same_release_is_named(folder: Path, manifest: Manifest) -> None:
    path = damaged(folder, RECORDS, lambda _: (folder / "proactive.jsonl").read_bytes())
    assert "it is proactive.jsonl of this release" in str(find_cause(path, manifest.files[RECORDS], manifest))


def test_a_file_of_another_known_release_is_named(real: Path, real_release: Path) -> None:
    name = "exclusions.jsonl"
    manifest = Release.open(real_release).manifest
    path = damaged(real_release, name, lambda _: (real / "official" / name).read_bytes())
    assert sha256(path) == PINS["v1.1.0"].files[name]
    assert "it is exclusions.jsonl of release v1.1.0" in str(find_cause(path, manifest.files[name], manifest))


# --- cut short, and the first record that differs -----------------------------------------------------------------


@pytest.mark.parametrize("name", EACH_KIND)
@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_a_truncated_copy_is_named(folder: Path, manifest: Manifest, name: str, part: float) -> None:
    cause = cause_of(damaged(folder, name, lambda b: b[: int(len(b) * part)]), manifest)
    assert cause is not None
    assert cause.name == "truncated", cause.text
    assert "cut short" in cause.text


def test_a_cut_between_two_records_is_told_by_the_manifests_count(folder: Path, manifest: Manifest) -> None:
    path = damaged(folder, RECORDS, lambda b: b[: b.rfind(b"\n", 0, len(b) // 2) + 1])
    cause = cause_of(path, manifest)
    assert cause is not None
    assert cause.name == "incomplete"
    assert f"of {manifest.counts.qa} records" in cause.text


def test_a_cut_through_a_character_is_still_truncation(folder: Path, manifest: Manifest) -> None:
    data = (folder / RECORDS).read_bytes()
    place = next(n for n in range(len(data) // 3, len(data)) if data[n] >= 0xE0) + 1
    cause = cause_of(damaged(folder, RECORDS, lambda b: b[:place]), manifest)
    assert cause is not None
    assert cause.name == "truncated"


@pytest.mark.parametrize("name", ["proactive_standard.jsonl", "proactive_high_frequency.jsonl", "proactive.jsonl"])
def test_the_rest_of_the_snapshot_shows_the_first_record_that_differs(
    folder: Path, manifest: Manifest, name: str
) -> None:
    released = (folder / name).read_bytes()
    *before, line = released.rstrip(b"\n").split(b"\n")
    record = json.loads(line)
    changed = line.replace(
        f'"source_file":"{record["metadata"]["source_file"]}"'.encode(), b'"source_file":"else.json"'
    )
    path = damaged(folder, name, lambda _: b"\n".join([*before, changed, b""]))
    cause = cause_of(path, manifest)
    assert cause is not None
    assert (cause.name, cause.proven) == ("first_record", True)
    assert f"line {len(before) + 1} is" in cause.text
    assert record["record_id"] in cause.text
    assert "$.metadata.source_file" in cause.text
    assert cause.repair is not None
    assert b"".join(cause.repair.chunks()) == released


def test_a_row_that_is_gone_or_too_many_is_named(folder: Path, manifest: Manifest) -> None:
    name = "proactive_standard.jsonl"
    lines = (folder / name).read_bytes().split(b"\n")
    third = json.loads(lines[2])["record_id"]
    cause = cause_of(damaged(folder, name, lambda _: b"\n".join(lines[:2] + lines[3:])), manifest)
    assert cause is not None
    assert f"record {third} is missing" in cause.text
    stray = lines[0].replace(b'"task":"proactive"', b'"task":"reactive"')
    cause = cause_of(damaged(folder, name, lambda _: b"\n".join([*lines[:2], stray, *lines[2:]])), manifest)
    assert cause is not None
    assert f"before record {third} should not be there" in cause.text


def test_id_lists_are_written_again_from_their_record_files(folder: Path, manifest: Manifest) -> None:
    name = "standard_proactive_ids.json"
    released = (folder / name).read_bytes()
    path = damaged(folder, name, lambda b: b.replace(b"_proactive:", b"_reactive:", 1))
    cause = cause_of(path, manifest)
    assert cause is not None
    assert cause.proven
    assert cause.repair is not None
    assert b"".join(cause.repair.chunks()) == released


def test_without_the_rest_the_first_line_that_cannot_be_a_record_is_named(folder: Path, manifest: Manifest) -> None:
    lines = (folder / RECORDS).read_bytes().split(b"\n")
    record_id = json.loads(lines[1])["record_id"]
    lines[1] = lines[1].replace(b'"question_time_s":', b'"question_time_s":"x",', 1)
    cause = cause_of(damaged(folder, RECORDS, lambda _: b"\n".join(lines)), manifest)
    assert cause is not None
    assert (cause.name, cause.proven) == ("first_record", False)
    assert "line 2 is the first" in cause.text
    assert record_id in cause.text or "not JSON" in cause.text


def test_an_edited_value_is_said_to_be_just_that(folder: Path, manifest: Manifest) -> None:
    cause = cause_of(damaged(folder, RECORDS, lambda b: b.replace(b'"A. ', b'"A. x', 1)), manifest)
    assert cause is not None
    assert cause.name == "edited"
    assert "well-formed" in cause.text


def test_a_file_that_does_not_differ_has_no_cause(folder: Path, manifest: Manifest) -> None:
    for name, expected in manifest.files.items():
        assert explain(folder / name, expected, manifest) is None


# --- never wrong, never long ----------------------------------------------------------------------------------------


def _random_damage(dice: random.Random, data: bytes) -> bytes:
    size = len(data)
    place = dice.randrange(size)
    run = min(size - place, dice.choice([1, 1, 2, 7, 40, 300]))
    noise = dice.randbytes(run)
    kind = dice.randrange(6)
    if kind == 0:  # a bit
        return data[:place] + bytes([data[place] ^ (1 << dice.randrange(8))]) + data[place + 1 :]
    if kind == 1:  # overwritten
        return data[:place] + noise + data[place + run :]
    if kind == 2:  # inserted
        return data[:place] + noise + data[place:]
    if kind == 3:  # taken out of the middle
        place = min(place, max(0, size - run - 3))
        return data[:place] + data[place + run :]
    if kind == 4:  # a block of zeros inside
        return data[:place] + b"\0" * run + data[place + run :]
    other = dice.randrange(size)  # a piece copied over another place
    piece = data[other : other + run]
    return data[:place] + piece + data[place + len(piece) :]


def _prefix(damaged: bytes, released: bytes) -> bool:
    return released.startswith(damaged.rstrip(b"\0"))


@pytest.mark.parametrize("seed", range(200))
def test_no_cause_is_claimed_wrongly_on_random_damage(
    small_sample: Path, seed: int, request: pytest.FixtureRequest
) -> None:
    dice = random.Random(seed)
    manifest = Release.open(small_sample).manifest
    name = dice.choice(sorted(manifest.files))
    path = small_sample / name
    released = path.read_bytes()
    data = _random_damage(dice, released)
    if data == released:
        return
    path.write_bytes(data)
    cause = cause_of(path, manifest)
    assert cause is None or cause.text
    if cause is None:
        return
    if cause.repair is not None:
        assert b"".join(cause.repair.chunks()) == released
    if cause.name in {"truncated", "empty"}:
        assert _prefix(data, released), cause.text
    elif cause.name == "incomplete":
        assert data.count(b"\n") < released.count(b"\n"), cause.text
    elif cause.name in {"crlf", "line_end", "reformatted", "reordered", "repeated"}:
        assert cause.proven, cause.text
    else:
        # No pointer, page, archive, encoding or other file is the work of chance.
        assert cause.name in {"first_record", "edited"}, cause.text


def test_a_compressed_bomb_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "qa.jsonl"
    with gzip.open(path, "wb") as stream:
        for _ in range(64):
            stream.write(b"\0" * 2**20)
    tracemalloc.start()
    started = time.monotonic()
    cause = explain(path, "0" * 64)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert cause is not None
    assert cause.name == "gzip"
    assert peak < 32 * 2**20
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 100_000, b'"' * 99_999, b"[[]," * 50_000, b"\n" * 100_000]
)
@pytest.mark.parametrize("name", [RECORDS, IDS, SIDECAR])
def test_hostile_text_raises_nothing(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    find_cause(path, "0" * 64)


def test_a_file_over_the_bounds_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / RECORDS
    path.write_bytes(b'{"record_id":"x"}\r\n' * 1000)
    monkeypatch.setattr(repairs, "MAX_PARSE_BYTES", 1000)
    monkeypatch.setattr("trace_hf.causes.MAX_PARSE_BYTES", 1000)
    cause = explain(path, "0" * 64)
    assert cause is not None
    assert cause.name == "crlf"
    assert not cause.proven
    path.write_bytes(b'{"record_id":"x"}\n' * 1000)
    assert explain(path, "0" * 64) is None


def test_a_directory_or_nothing_at_all_raises_nothing(tmp_path: Path) -> None:
    assert find_cause(tmp_path, "0" * 64) is None
    assert find_cause(tmp_path / "absent", "0" * 64) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / RECORDS)
    assert find_cause(tmp_path / RECORDS, "0" * 64) is None


def test_a_manifest_in_a_sub_folder_finds_its_siblings(small_sample: Path) -> None:
    inner = small_sample / "data"
    inner.mkdir()
    (small_sample / "proactive_standard.jsonl").rename(inner / "proactive_standard.jsonl")
    rewrite_manifest(small_sample)
    manifest = Release.open(small_sample).manifest
    manifest.files["data/proactive_standard.jsonl"] = sha256(inner / "proactive_standard.jsonl")
    path = damaged(inner, "proactive_standard.jsonl", lambda b: b[: len(b) // 2])
    cause = explain(path, manifest.files["data/proactive_standard.jsonl"], manifest)
    assert cause is not None
    assert (cause.name, cause.proven) == ("truncated", True)


def test_line_ends_alone_do_not_fill_the_memory(small_sample: Path) -> None:
    path = small_sample / "qa.jsonl"
    path.write_bytes(path.read_bytes() + b"\n" * (4 * 1024 * 1024) + b"x")
    assert explain(path, "0" * 64, Release.open(small_sample).manifest) is None


def test_text_of_a_file_cannot_act_on_a_terminal(small_sample: Path) -> None:
    path = small_sample / "qa.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"question":', b'"\\u0085\\u202equestion":', 1))
    cause = explain(path, "0" * 64, Release.open(small_sample).manifest)
    assert cause is not None
    assert cause.text.isprintable()
