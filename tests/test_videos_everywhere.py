"""One set of tests, run against every kind of video root."""

from __future__ import annotations

import json
import shutil
import tarfile
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from servers import s3_bucket, web_server

pytest.importorskip("av", reason="PyAV is missing: pip install 'trace-hf[video]'")

from trace_hf.errors import TraceError, VideoNotFoundError
from trace_hf.sample_video import read_time_code, write_time_coded_video
from trace_hf.videos import VideoRoot, check_videos, clip, fetch_videos, frames, probe_videos
from trace_hf.videos.indexing import build_index

PATHS = (
    "videos/sample_1_real.mp4",
    "videos/sample_2_proactive.mp4",
    "src_videos/COIN/a b#1.mp4",
    "src_videos/-x_é.mp4",
)
SECONDS = {path: 20 + 5 * number for number, path in enumerate(PATHS)}

RECORDS = [
    {
        "task": "qa",
        "record_id": f"qa:{number}",
        "video_path": path,
        "evidence_anchor_s": 12.5,
        "question_time_s": 15.25,
        "metadata": {},
    }
    for number, path in enumerate(PATHS)
]

KINDS = ("local", "memory", "http", "s3", "zip", "zip_http", "split_tar", "index_zip_deflated", "mapping")


@dataclass
class Videos:
    """A root of some kind, and the same videos on disk."""

    folder: Path
    root: VideoRoot


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    for number, path in enumerate(PATHS):
        write_time_coded_video(folder / path, duration_s=SECONDS[path], title=path, faststart=bool(number % 2))
    return folder


@pytest.fixture(scope="module", params=KINDS)
def videos(request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Videos]:
    with ExitStack() as stack:
        yield Videos(folder, _root(request.param, folder, tmp_path_factory.mktemp(request.param), stack))


def _root(kind: str, folder: Path, work: Path, stack: ExitStack) -> VideoRoot:
    if kind == "local":
        return VideoRoot(folder)
    if kind == "memory":
        return VideoRoot(_memory(folder))
    if kind == "http":
        return VideoRoot(stack.enter_context(web_server(folder)).url)
    if kind == "s3":
        bucket = stack.enter_context(s3_bucket())
        bucket.upload(folder)
        return VideoRoot(bucket.url, bucket.options)
    if kind.startswith("zip"):
        _zip(folder, work / "all.zip", "inner/")
        if kind == "zip":
            return VideoRoot(f"zip://inner::{work / 'all.zip'}")
        return VideoRoot(f"zip://inner::{stack.enter_context(web_server(work)).url}/all.zip")
    if kind == "split_tar":
        _split_tar(folder, work)
        build_index([work]).save(work / "index.json")
        return VideoRoot(work / "index.json")
    if kind == "index_zip_deflated":
        _zip(folder, work / "all.zip", "", zipfile.ZIP_DEFLATED)
        build_index([work / "all.zip"]).save(work / "index.json")
        return VideoRoot(work / "index.json")
    server = stack.enter_context(web_server(folder))
    return VideoRoot({"videos/": str(folder / "videos"), "src_videos/": f"{server.url}/src_videos"})


def _memory(folder: Path) -> str:
    import fsspec

    url = f"memory://{uuid.uuid4().hex}"
    fs = fsspec.filesystem("memory")
    for path in PATHS:
        fs.pipe_file(f"{url}/{path}", (folder / path).read_bytes())
    return url


def _zip(folder: Path, target: Path, prefix: str, method: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(target, "w", method) as archive:
        for path in PATHS:
            archive.write(folder / path, prefix + path)


def _split_tar(folder: Path, work: Path) -> None:
    whole = work / "whole"
    with tarfile.open(whole, "w") as archive:
        for path in PATHS:
            archive.add(folder / path, f"./{path}")
    data = whole.read_bytes()
    whole.unlink()
    # Pieces so small that members lie across several of them.
    for number, start in enumerate(range(0, len(data), 5000)):
        suffix = chr(ord("a") + number // 26) + chr(ord("a") + number % 26)
        (work / f"all.tar.part{suffix}").write_bytes(data[start : start + 5000])


def test_every_video_is_found(videos: Videos) -> None:
    inventory = check_videos(RECORDS, videos.root)
    assert inventory.ok
    assert inventory.present == list(PATHS)
    assert inventory.records == 4


def test_an_absent_video_is_missing_and_names_its_records(videos: Videos) -> None:
    record = {**RECORDS[0], "video_path": "videos/sample_9_real.mp4", "record_id": "qa:9"}
    inventory = check_videos([*RECORDS, record], videos.root)
    assert [(video.path, video.records) for video in inventory.missing] == [("videos/sample_9_real.mp4", ["qa:9"])]
    assert len(inventory.present) == 4
    with pytest.raises(VideoNotFoundError, match="sample_9_real"):
        videos.root.open("videos/sample_9_real.mp4").read(1)
    assert not videos.root.exists("videos/sample_9_real.mp4")
    assert videos.root.exists(PATHS[0])


def test_bytes_are_those_of_the_file_wherever_they_are_read(videos: Videos) -> None:
    for path in PATHS:
        expected = (videos.folder / path).read_bytes()
        with videos.root.open(path) as file:
            file.seek(1000)
            assert file.read(100) == expected[1000:1100]
            file.seek(-50, 2)
            assert file.read() == expected[-50:]
            file.seek(0)
            assert file.read() == expected


def test_the_url_opens_through_fsspec_and_datasets_alike(videos: Videos) -> None:
    import fsspec

    for path in PATHS:
        url = videos.root.url(path)
        place = videos.root.place(path)
        if url.startswith("/"):
            assert Path(url).read_bytes() == (videos.folder / path).read_bytes()
            continue
        with fsspec.open(url, "rb", **place.options) as file:
            assert file.read() == (videos.folder / path).read_bytes()


def test_probe_says_what_the_files_are(videos: Videos) -> None:
    report = probe_videos(RECORDS, videos.root)
    assert report.ok, report.to_json()
    for video in report.videos:
        media = video.media
        assert media.duration_s == media.end_s == SECONDS[video.path]
        assert (media.fps, media.frames, media.codec) == (10.0, 10 * SECONDS[video.path], "mpeg4")
        assert (media.width, media.height) == (96, 96)
    assert all(record["ok"] and record["needed_s"] == 15.25 for record in report.records)


def test_frames_are_those_that_the_protocol_names(videos: Videos) -> None:
    for record in RECORDS:
        found = [(frame.time_s, frame.index, read_time_code(frame.array)) for frame in frames(record, videos.root)]
        # 2.5 + k falls on a frame; 15.25 is half way between two, and the later one is its own.
        assert found == [*((2.5 + k, 25 + 10 * k, 2.5 + k) for k in range(13)), (15.25, 153, 15.3)]


def test_a_clip_ends_with_the_frame_of_its_end(videos: Videos, tmp_path: Path) -> None:
    import av

    made = clip(RECORDS[2], tmp_path / "clip.mp4", videos.root)
    assert (made.first_index, made.last_index, made.frames) == (25, 153, 129)
    with av.open(made.path) as container:
        codes = [read_time_code(frame) for frame in container.decode(video=0)]
    assert codes == pytest.approx([number / 10 for number in range(25, 154)])


def test_fetch_copies_every_byte_and_a_second_run_nothing(videos: Videos, tmp_path: Path) -> None:
    report = fetch_videos(RECORDS, videos.root, tmp_path / "here")
    assert report.ok
    assert report.fetched == list(PATHS)
    for path in PATHS:
        assert (tmp_path / "here" / path).read_bytes() == (videos.folder / path).read_bytes()
    files = sorted(path.name for path in (tmp_path / "here").rglob("*") if path.is_file())
    assert files == sorted(Path(path).name for path in PATHS)
    again = fetch_videos(RECORDS, videos.root, tmp_path / "here")
    assert (again.fetched, again.bytes, again.already) == ([], 0, list(PATHS))


def test_a_root_travels_to_another_process(videos: Videos) -> None:
    import pickle

    there = pickle.loads(pickle.dumps(videos.root))
    assert there == videos.root
    assert there.key() == videos.root.key()
    assert [there.url(path) for path in PATHS] == [videos.root.url(path) for path in PATHS]


# --- servers without ranges ---


@pytest.mark.parametrize("ranges", ["no", "none"])
def test_without_ranges_nothing_is_downloaded_in_silence(tmp_path: Path, ranges: str) -> None:
    write_time_coded_video(tmp_path / PATHS[0], duration_s=20, width=480, height=480, gop=1)
    filler = 40_000_000
    with (tmp_path / PATHS[0]).open("ab") as file:
        file.write(filler.to_bytes(4, "big") + b"free" + bytes(filler - 8))
    with web_server(tmp_path, ranges=ranges) as server:
        root = VideoRoot(server.url)
        assert check_videos(RECORDS[:1], root).ok
        report = probe_videos(RECORDS[:1], root)
        assert [video.problems[0].kind for video in report.videos] == ["no_ranges"]
        assert "fetch" in report.videos[0].problems[0].detail
        with pytest.raises(TraceError, match="no byte ranges"):
            list(frames(RECORDS[0], root))
        # What the sockets had taken before each connection was dropped, at most.
        assert server.bytes < filler / 2


@pytest.mark.parametrize("ranges", ["no", "none"])
def test_fetch_works_without_ranges(folder: Path, tmp_path: Path, ranges: str) -> None:
    big = tmp_path / "served"
    shutil.copytree(folder, big)
    (big / PATHS[0]).write_bytes(bytes(range(256)) * 20_000)
    with web_server(big, ranges=ranges) as server:
        report = fetch_videos(PATHS, server.url, tmp_path / "here")
    assert report.ok, report.failed
    for path in PATHS:
        assert (tmp_path / "here" / path).read_bytes() == (big / path).read_bytes()


def test_a_server_without_listings_is_asked_for_each_file(folder: Path) -> None:
    with web_server(folder, listing=False) as server:
        inventory = check_videos([*PATHS, "videos/gone.mp4"], server.url)
        assert inventory.present == list(PATHS)
        assert [video.path for video in inventory.missing] == ["videos/gone.mp4"]
        assert any("one by one" in note for note in inventory.notes)


def test_a_server_that_is_down_is_not_a_missing_video() -> None:
    from servers import _free_port

    with pytest.raises(TraceError, match="could not be asked"):
        check_videos(PATHS, f"http://127.0.0.1:{_free_port()}")


def test_a_mapping_in_a_json_file_is_a_root(folder: Path, tmp_path: Path) -> None:
    mapping: dict[str, Any] = {"videos/": "v", "src_videos": {"url": str(folder / "src_videos")}}
    (tmp_path / "v").symlink_to(folder / "videos")
    (tmp_path / "root.json").write_text(json.dumps(mapping))
    assert check_videos(PATHS, tmp_path / "root.json").ok
