"""Many processes, killed ones, full and write-protected disks: right rows or a clear error, and then right rows."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import forked
import pytest

import trace_hf
from trace_hf.errors import TraceError


@pytest.fixture
def another_sample(tmp_path: Path) -> Path:
    folder = tmp_path / "another_sample"
    trace_hf.write_sample(folder, scale=0.05, seed=5)
    return folder


def test_eight_processes_load_two_snapshots_into_one_cold_cache(
    small_sample: Path, another_sample: Path, tmp_path: Path
) -> None:
    configs = ["qa", "qa", "proactive", "qa_tiny"]
    jobs = [
        {"config": config, "release": str(folder), "cache": str(tmp_path / "cache")}
        for folder in (small_sample, another_sample)
        for config in configs
    ]
    cold, warm = forked.run(jobs, jobs)
    assert all(answer["attested"] for answer in [*cold, *warm]), cold


def test_eight_processes_fetch_one_remote_release_into_one_cold_cache(small_sample: Path, tmp_path: Path) -> None:
    url = forked.zipped(small_sample, tmp_path / "release.zip")
    jobs = [{"config": c, "release": url} for c in ["qa", "qa", "proactive", "changes"] * 2]
    (cold,) = forked.run(jobs)
    assert all(answer.get("attested") for answer in cold), cold


@pytest.mark.parametrize("kind", ["local", "remote"])
def test_after_a_kill_at_any_moment_the_next_load_is_right(small_sample: Path, tmp_path: Path, kind: str) -> None:
    release, moments = str(small_sample), [m for m in forked.MOMENTS if "fetch" not in m]
    if kind == "remote":
        release = forked.zipped(small_sample, tmp_path / "release.zip")
        moments = [m for m in forked.MOMENTS if "fetch" in m]
    jobs = [
        {
            "config": "qa",
            "release": release,
            "cache": str(tmp_path / m),
            "env": {"TRACE_CACHE": str(tmp_path / m / "t")},
        }
        for m in moments
    ]
    killed, first, second = forked.run([j | {"kill": m} for j, m in zip(jobs, moments, strict=True)], jobs, jobs)
    for number, moment in enumerate(moments):
        assert killed[number] == {"signal": 9}, f"{moment} never came"
        assert first[number].get("attested"), f"after a kill while {moment}: {first[number]}"
        assert second[number] == first[number]
        assert not list((tmp_path / moment).glob("**/*.incomplete")), moment
        assert not list((tmp_path / moment).glob("t/releases/.aside/*")), moment


def test_killed_writer_does_not_hold_up_others(small_sample: Path, tmp_path: Path) -> None:
    job = {"config": "proactive", "release": str(small_sample), "cache": str(tmp_path / "cache")}
    (answers,) = forked.run([{**job, "kill": "writing"}, *[job] * 3])
    alive = [answer for answer in answers if "signal" not in answer]
    assert len(alive) >= 3
    assert all(answer["attested"] for answer in alive)


# --- disks --------------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a filesystem of a few kilobytes; skip where that is not allowed."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"cannot mount a small disk: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True)


def test_full_disk_is_a_clear_error_and_with_room_the_next_load_is_right(small_sample: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "24k") as disk:
        job = {"config": "proactive", "release": str(small_sample), "cache": str(disk / "cache")}
        ((full,),) = forked.run([job])
        assert full["error"] == "TraceError", full
        assert "the cache folder cannot be written: No space left on device" in full["text"]
        assert str(disk) in full["text"]
        assert "HF_DATASETS_CACHE" in full["text"]
        remount(disk, "size=32m")
        ((right,),) = forked.run([job])
        assert right["attested"]


def test_file_that_cannot_grow_is_a_clear_error_and_the_next_load_is_right(small_sample: Path, tmp_path: Path) -> None:
    job = {"config": "proactive", "release": str(small_sample), "cache": str(tmp_path / "cache")}
    (failed,), (right,) = forked.run([{**job, "largest": 4096}], [job])
    assert failed["error"] == "TraceError", failed
    assert "the cache folder cannot be written: File too large" in failed["text"]
    assert right["attested"]


def test_full_disk_during_a_fetch_is_a_clear_error_and_with_room_the_next_load_is_right(
    small_sample: Path, tmp_path: Path
) -> None:
    url = forked.zipped(small_sample, tmp_path / "release.zip")
    with small_disk(tmp_path / "disk", "64k") as disk:
        own = {"TRACE_CACHE": str(disk / "trace")}
        job = {"config": "qa", "release": url, "cache": str(tmp_path / "cache"), "env": own}
        ((full,),) = forked.run([job])
        assert full["error"] == "TraceError", full
        assert "TRACE_CACHE" in full["text"]
        assert not list(disk.glob("trace/releases/.aside/*")), "nothing of a failed fetch stays"
        remount(disk, "size=32m")
        ((right,),) = forked.run([job])
        assert right["attested"]


def test_read_only_cache_gives_right_rows_or_a_clear_error(small_sample: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "32m") as disk:
        empty = {"config": "qa", "release": str(small_sample), "cache": str(disk / "empty")}
        prepared = {**empty, "cache": str(disk / "prepared")}
        assert forked.run([prepared])[0][0]["attested"]
        remount(disk, "ro")
        streams = [{**job, "options": {"streaming": True}} for job in (empty, prepared)]
        (answers,) = forked.run([empty, prepared, *streams])
        remount(disk, "rw")
        (right,) = forked.run([empty, prepared])
    assert all(answer["attested"] for answer in right)
    for answer in answers:
        if not answer.get("attested"):
            assert answer["error"] == "TraceError", answer
            assert "the cache folder cannot be written: Read-only file system" in answer["text"]


def test_cache_folder_below_a_file_is_a_clear_error(small_sample: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TraceError, match=r"the cache folder cannot be written: Not a directory") as error:
        trace_hf.load("qa", release=small_sample, cache_dir=tmp_path / "file" / "cache")
    assert error.value.file == str(tmp_path / "file" / "cache")


def test_prepared_rows_that_were_cut_are_a_clear_error_and_can_be_made_again(
    small_sample: Path, tmp_path: Path
) -> None:
    trace_hf.load("qa", release=small_sample, cache_dir=tmp_path)
    (arrow,) = tmp_path.glob("**/*.arrow")
    os.truncate(arrow, 100)
    with pytest.raises(TraceError, match="the prepared rows cannot be read") as error:
        trace_hf.load("qa", release=small_sample, cache_dir=tmp_path)
    assert "force_redownload" in str(error.value)
    rows = trace_hf.load("qa", release=small_sample, cache_dir=tmp_path, download_mode="force_redownload")
    assert trace_hf.attest(rows, "qa", release=small_sample).ok


def test_prepared_info_that_was_emptied_is_a_clear_error(small_sample: Path, tmp_path: Path) -> None:
    trace_hf.load("qa", release=small_sample, cache_dir=tmp_path)
    (info,) = tmp_path.glob("**/dataset_info.json")
    info.write_bytes(b"")
    with pytest.raises(TraceError, match="the prepared rows cannot be read"):
        trace_hf.load("qa", release=small_sample, cache_dir=tmp_path)
