"""Fetching: resumed after a kill, checked, never half there."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from servers import web_server

from trace_hf.errors import TraceError
from trace_hf.videos import VideoRoot, build_index, fetch_videos, plan_fetch
from trace_hf.videos.fetch import _LOCK

MIB = 1 << 20


def noise(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def fill(root: Path, **sizes: int) -> dict[str, bytes]:
    videos = {f"videos/{name}.mp4": noise(size, number) for number, (name, size) in enumerate(sizes.items())}
    for path, data in videos.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return videos


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_plan_writes_nothing_and_counts_bytes(tmp_path: Path) -> None:
    videos = fill(tmp_path / "from", a=1000, b=2000)
    plan = plan_fetch(videos, tmp_path / "from", tmp_path / "to")
    assert plan.bytes == 3000
    assert [transfer.path for transfer in plan.todo] == list(videos)
    assert not (tmp_path / "to").exists()
    moved: list[int] = []
    plan.run(progress=moved.append)
    assert sum(moved) == 3000


def test_a_file_of_another_size_is_left_alone_until_told(tmp_path: Path) -> None:
    videos = fill(tmp_path / "from", a=1000)
    fill(tmp_path / "to", a=500)
    report = fetch_videos(videos, tmp_path / "from", tmp_path / "to")
    assert report.conflicts == [{"path": "videos/a.mp4", "here": 500, "source": 1000}]
    assert not report.ok
    assert (tmp_path / "to/videos/a.mp4").stat().st_size == 500
    assert fetch_videos(videos, tmp_path / "from", tmp_path / "to", overwrite=True).ok
    assert (tmp_path / "to/videos/a.mp4").read_bytes() == videos["videos/a.mp4"]


def test_what_the_source_has_not_is_missing_unless_it_is_there_already(tmp_path: Path) -> None:
    fill(tmp_path / "from", a=1000)
    fill(tmp_path / "to", old=700)
    report = fetch_videos(["videos/a.mp4", "videos/old.mp4", "videos/gone.mp4"], tmp_path / "from", tmp_path / "to")
    assert report.fetched == ["videos/a.mp4"]
    assert report.kept == ["videos/old.mp4"]
    assert [video.path for video in report.missing] == ["videos/gone.mp4"]
    assert json.dumps(report.to_json())


def test_empty_files_and_pointers_are_not_copied(tmp_path: Path) -> None:
    fill(tmp_path / "from", empty=0)
    (tmp_path / "from/videos/p.mp4").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    report = fetch_videos(["videos/empty.mp4", "videos/p.mp4"], tmp_path / "from", tmp_path / "to")
    assert [item["path"] for item in report.failed] == ["videos/empty.mp4", "videos/p.mp4"]
    assert not (tmp_path / "to").exists()


def test_an_interrupted_video_goes_on_where_it_stopped(tmp_path: Path) -> None:
    videos = fill(tmp_path / "from", a=3 * MIB)
    with web_server(tmp_path / "from") as server:
        (transfer,) = plan_fetch(videos, server.url, tmp_path / "to").todo
        transfer.part.parent.mkdir(parents=True)
        transfer.part.write_bytes(videos["videos/a.mp4"][: 2 * MIB + 17])
        plan = plan_fetch(videos, server.url, tmp_path / "to")
        assert plan.bytes == MIB - 17
        server.reset()
        assert plan.run().ok
        assert server.bytes <= MIB
    assert (tmp_path / "to/videos/a.mp4").read_bytes() == videos["videos/a.mp4"]
    assert files(tmp_path / "to") == ["videos/a.mp4"]


def test_pieces_of_two_versions_are_never_joined(tmp_path: Path) -> None:
    videos = fill(tmp_path / "from", a=MIB)
    (transfer,) = plan_fetch(videos, tmp_path / "from", tmp_path / "to").todo
    transfer.part.parent.mkdir(parents=True)
    transfer.part.write_bytes(videos["videos/a.mp4"][:1000])
    newer = noise(MIB, 99)
    (tmp_path / "from/videos/a.mp4").write_bytes(newer)
    os.utime(tmp_path / "from/videos/a.mp4", (1, 1))
    assert fetch_videos(videos, tmp_path / "from", tmp_path / "to").ok
    assert (tmp_path / "to/videos/a.mp4").read_bytes() == newer
    assert files(tmp_path / "to") == ["videos/a.mp4"]


def test_a_longer_or_wrong_piece_does_no_harm(tmp_path: Path) -> None:
    data = noise(100_000)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("videos/a.mp4", data)
    build_index([tmp_path / "a.zip"]).save(tmp_path / "i.json")
    for piece in (bytes(200_000), bytes(50_000)):
        (transfer,) = plan_fetch(["videos/a.mp4"], tmp_path / "i.json", tmp_path / "to").todo
        transfer.part.parent.mkdir(parents=True, exist_ok=True)
        transfer.part.write_bytes(piece)
        assert fetch_videos(["videos/a.mp4"], tmp_path / "i.json", tmp_path / "to").ok
        assert (tmp_path / "to/videos/a.mp4").read_bytes() == data
        (tmp_path / "to/videos/a.mp4").unlink()


def test_a_second_fetch_into_the_same_folder_is_refused(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl", reason="fcntl is missing: this system has no file locks of that kind")
    videos = fill(tmp_path / "from", a=1000)
    (tmp_path / "to").mkdir()
    with (tmp_path / "to" / _LOCK).open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(TraceError, match="another fetch"):
            fetch_videos(videos, tmp_path / "from", tmp_path / "to")
    assert fetch_videos(videos, tmp_path / "from", tmp_path / "to").ok
    assert files(tmp_path / "to") == ["videos/a.mp4"]


def test_one_failure_does_not_stop_the_others(tmp_path: Path) -> None:
    videos = fill(tmp_path / "from", a=1000, b=1000, c=1000)
    (tmp_path / "to").mkdir()
    plan = plan_fetch(videos, tmp_path / "from", tmp_path / "to")
    (tmp_path / "from/videos/b.mp4").unlink()
    report = plan.run()
    assert report.fetched == ["videos/a.mp4", "videos/c.mp4"]
    assert [item["path"] for item in report.failed] == ["videos/b.mp4"]


def test_a_remote_destination_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="not local"):
        plan_fetch([], tmp_path, "s3://bucket/videos")


def test_no_room_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    videos = fill(tmp_path / "from", a=1000)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: type("Usage", (), {"free": 10})())
    with pytest.raises(TraceError, match="has room for"):
        fetch_videos(videos, tmp_path / "from", tmp_path / "to")
    assert files(tmp_path / "to") == []


_FETCH = """
import json, sys
from trace_hf.videos import fetch_videos
paths, source, target = json.loads(sys.argv[1])
report = fetch_videos(paths, source, target, workers=3)
print(json.dumps(report.to_json()))
sys.exit(0 if report.ok else 1)
"""


@pytest.mark.slow
def test_killed_at_twenty_random_moments_it_ends_with_every_file_right(tmp_path: Path) -> None:
    source, target = tmp_path / "from", tmp_path / "to"
    videos = fill(source, **{f"v{number}": 2 * MIB + number for number in range(6)})
    packed = {f"videos/z{number}.mp4": noise(MIB, number + 50) + bytes(MIB) for number in range(3)}
    with zipfile.ZipFile(source / "z.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path, data in packed.items():
            archive.writestr(path, data)
    dice = random.Random(20)
    with web_server(source, pause_s=0.01) as server:
        build_index([f"{server.url}/z.zip"]).save(tmp_path / "z.json")
        mapping = {"": server.url, **{path: str(tmp_path / "z.json") for path in packed}}
        (tmp_path / "root.json").write_text(json.dumps(mapping))
        every = {**videos, **packed}
        argument = json.dumps([list(every), str(tmp_path / "root.json"), str(target)])
        command = [sys.executable, "-c", _FETCH, argument]
        started = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        whole = time.monotonic() - started
        interrupted = 0
        for _ in range(20):
            for path in list(target.rglob("*.mp4")):
                # Always something to do, with what the kills left still lying about.
                path.unlink()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            time.sleep(dice.uniform(0.2, 1.05) * whole)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            interrupted += bool(list(target.rglob(".trace-*.part")))
            for path in target.rglob("*.mp4"):
                assert path.read_bytes() == every[str(path.relative_to(target))]
        assert interrupted >= 5, "the kills came before or after the work, so they show nothing"
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        assert files(target) == sorted(every)
        for path, data in every.items():
            assert (target / path).read_bytes() == data
        server.reset()
        again = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        assert (again["fetched"], again["bytes"]) == ([], 0)
        assert server.bytes < MIB
        assert files(target) == sorted(every)


def test_a_kill_at_the_very_last_step_leaves_nothing_for_good(tmp_path: Path) -> None:
    videos = fill(tmp_path / "from", a=1000)
    assert fetch_videos(videos, tmp_path / "from", tmp_path / "to").ok
    root = VideoRoot(tmp_path / "from")
    (transfer,) = plan_fetch(videos, root, tmp_path / "elsewhere").todo
    (tmp_path / "to/videos" / transfer.part.name).write_bytes(b"left")
    (tmp_path / "to" / _LOCK).write_bytes(b"")
    assert fetch_videos(videos, root, tmp_path / "to").ok
    assert files(tmp_path / "to") == ["videos/a.mp4"]
