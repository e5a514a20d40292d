"""Hashing: what is read is what was hashed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import trace_hf
from trace_hf import integrity
from trace_hf.errors import IntegrityError
from trace_hf.integrity import digest_file, read_line_blocks


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integrity, "BLOCK_BYTES", 64)


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 128, 1000])
def test_digest_is_the_files_sha256(tmp_path: Path, size: int) -> None:
    data = bytes(range(256)) * 4
    path = write(tmp_path / "file", data[:size])
    seen: list[int] = []
    digest = digest_file(path, advance=seen.append)
    assert digest.sha256 == hashlib.sha256(data[:size]).hexdigest()
    assert digest.size == size == sum(seen)
    assert len(digest.prefixes) == -(-size // 64)


@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize("width", [1, 31, 63, 64, 65, 200])
def test_blocks_are_whole_lines_and_lose_nothing(tmp_path: Path, width: int, end: bytes) -> None:
    lines = [bytes([97 + i % 26]) * (width + i % 3) for i in range(20)]
    path = write(tmp_path / "file", b"\n".join(lines) + end)
    blocks = list(read_line_blocks(path, digest_file(path)))
    assert b"".join(block for _, block in blocks) == path.read_bytes()
    for first_line, block in blocks:
        assert block.split(b"\n")[0] == lines[first_line - 1]
        assert block.endswith(b"\n") or block is blocks[-1][1]


@pytest.mark.parametrize("place", [0, 100, 639])
def test_change_between_the_passes_gives_no_byte_of_the_block(tmp_path: Path, place: int) -> None:
    data = bytearray(b"0123456789abcde\n" * 40)
    path = write(tmp_path / "file", bytes(data))
    digest = digest_file(path)
    data[place] ^= 1
    path.write_bytes(bytes(data))
    given: list[bytes] = []
    with pytest.raises(IntegrityError, match="changed while it was read"):
        given.extend(block for _, block in read_line_blocks(path, digest))
    assert b"".join(given) == bytes(data[: place // 64 * 64])


@pytest.mark.parametrize("size", [0, 64, 100, 639, 641, 704])
def test_file_cut_or_grown_between_the_passes_is_caught(tmp_path: Path, size: int) -> None:
    path = write(tmp_path / "file", b"0123456789abcde\n" * 40)
    digest = digest_file(path)
    path.write_bytes((b"0123456789abcde\n" * 50)[:size])
    with pytest.raises(IntegrityError, match="changed while it was read"):
        list(read_line_blocks(path, digest))


def test_file_that_grows_while_it_is_hashed_is_caught(tmp_path: Path) -> None:
    path = write(tmp_path / "file", b"x" * 1000)

    def grow(_size: int) -> None:
        with path.open("ab") as stream:
            stream.write(b"y")

    with pytest.raises(IntegrityError, match="changed while it was read"):
        digest_file(path, advance=grow)


def test_missing_differing_and_unlisted_files_are_told_apart(small_sample: Path) -> None:
    (small_sample / "qa.jsonl").unlink()
    with (small_sample / "changes.jsonl").open("ab") as stream:
        stream.write(b"\n")
    (small_sample / "notes.txt").write_text("mine")
    (small_sample / ".hidden").write_text("mine")
    (small_sample / "videos").mkdir()
    report = trace_hf.verify(small_sample)
    assert {file.name: file.state for file in report.files if file.state != "ok"} == {
        "changes.jsonl": "differs",
        "notes.txt": "unlisted",
        "qa.jsonl": "missing",
    }
    assert not report.ok


def test_unlisted_files_only_warn(small_sample: Path) -> None:
    (small_sample / "notes.txt").write_text("mine")
    report = trace_hf.verify(small_sample)
    assert report.ok
    assert [file.name for file in report.files if file.state == "unlisted"] == ["notes.txt"]
    assert len(trace_hf.load("qa", release=small_sample))
