"""Whether videos are whole, long enough and the right ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from servers import web_server

av = pytest.importorskip("av", reason="PyAV is missing: pip install 'trace-hf[video]'")

from trace_hf.errors import TraceError  # noqa: E402
from trace_hf.sample_video import read_time_code, write_time_coded_video  # noqa: E402
from trace_hf.videos import VideoRoot, check_videos, probe_videos  # noqa: E402
from trace_hf.videos.media import MediaFacts  # noqa: E402


def record(name: str, until: float = 55.0, end: float | None = None) -> dict[str, Any]:
    metadata = {} if end is None else {"media_boundary_adjustments": [{"effective_value_s": end}]}
    return {
        "task": "qa",
        "record_id": f"q:{name}",
        "video_path": f"videos/{name}.mp4",
        "evidence_anchor_s": until - 5,
        "question_time_s": until,
        "metadata": metadata,
    }


def cut(path: Path, share: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])


def kinds(report: Any) -> dict[str, list[str]]:
    return {Path(video.path).stem: [problem.kind for problem in video.problems] for video in report.videos}


def test_each_classic_mistake_is_named_in_one_check_and_one_probe(tmp_path: Path) -> None:
    root = tmp_path / "root"
    videos = root / "videos"
    for name in ("good", "chunk", "cut_table_first", "cut_table_last", "zeros", "ends_elsewhere", "late", "uneven"):
        write_time_coded_video(
            videos / f"{name}.mp4",
            # A chunk begins at 0 again and lasts as long as its span.
            duration_s=15 if name == "chunk" else 60,
            title=name,
            faststart=name in ("cut_table_first", "zeros"),
            start_s=4.0 if name == "late" else 0.0,
            variable_rate=name == "uneven",
        )
    cut(videos / "cut_table_first.mp4", 0.7)
    cut(videos / "cut_table_last.mp4", 0.7)
    data = bytearray((videos / "zeros.mp4").read_bytes())
    data[len(data) * 7 // 10 :] = bytes(len(data) - len(data) * 7 // 10)
    (videos / "zeros.mp4").write_bytes(data)
    shutil.copy(videos / "good.mp4", videos / "wrong_name.mp4")
    (videos / "page.mp4").write_bytes(b"<!doctype html>" + bytes(5000))
    (videos / "empty.mp4").write_bytes(b"")
    (videos / "pointer.mp4").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 2\n")
    write_time_coded_video(tmp_path / "outside.mp4", duration_s=60, title="outside")
    (videos / "link.mp4").symlink_to(tmp_path / "outside.mp4")
    names = [*sorted(path.stem for path in videos.iterdir()), "gone"]
    records = [record(name, 21.096, 21.096) if name == "ends_elsewhere" else record(name) for name in names]

    inventory = check_videos(records, root)
    assert [video.path for video in inventory.missing] == ["videos/gone.mp4"]
    assert [video.path for video in inventory.empty] == ["videos/empty.mp4"]
    assert [video.path for video in inventory.pointers] == ["videos/pointer.mp4"]
    assert [video.path for video in inventory.outside] == ["videos/link.mp4"]

    report = probe_videos(records, root)
    assert not report.ok
    assert kinds(report) == {
        "chunk": ["too_short"],
        "cut_table_first": ["truncated", "too_short"],
        "cut_table_last": ["truncated"],
        "empty": ["unreadable"],
        "ends_elsewhere": ["other_end"],
        "gone": ["missing"],
        "good": ["same_content"],
        "late": [],
        "link": [],
        "page": ["unreadable"],
        "pointer": ["unreadable"],
        "uneven": [],
        "wrong_name": ["same_content"],
        "zeros": ["damaged", "too_short"],
    }
    details = {Path(video.path).stem: video.problems[0].detail for video in report.videos if video.problems}
    assert "chunk of the original" in details["chunk"]
    assert "moov" not in details["cut_table_first"]
    assert "lost" in details["cut_table_last"]
    assert "videos/good.mp4" in details["wrong_name"]
    assert "a web page" in details["page"]
    assert "Git LFS pointer" in details["pointer"]
    assert "21.096" in details["ends_elsewhere"]
    covered = {item["record_id"] for item in report.records if item["ok"]}
    assert covered == {f"q:{n}" for n in ("good", "late", "link", "uneven", "wrong_name", "ends_elsewhere")}
    assert json.loads(json.dumps(report.to_json()))["ok"] is False


@pytest.mark.parametrize("codec", ["mpeg4", "h264"])
@pytest.mark.parametrize("share", [0.3, 0.55, 0.9])
def test_the_readable_end_of_a_cut_file_is_where_decoding_ends(tmp_path: Path, codec: Any, share: float) -> None:
    path = tmp_path / "videos" / "a.mp4"
    write_time_coded_video(path, duration_s=60, codec=codec, faststart=True, width=192, height=192)
    cut(path, share)
    last = 0.0
    with av.open(str(path)) as container:
        for packet in container.demux(video=0):
            if packet.is_corrupt:
                break
            for frame in packet.decode():
                last = read_time_code(frame)
    (video,) = probe_videos([record("a")], tmp_path, cache=False).videos
    assert video.media.state == "truncated"
    assert video.media.end_s == pytest.approx(last + 0.1, abs=0.3)


def test_a_time_in_the_last_frame_is_covered_and_one_beyond_is_not(tmp_path: Path) -> None:
    write_time_coded_video(tmp_path / "videos" / "a.mp4", duration_s=20)
    assert probe_videos([record("a", 20.0)], tmp_path).ok
    assert probe_videos([record("a", 20.1)], tmp_path).ok
    late = probe_videos([record("a", 20.2), record("a", 15.0)], tmp_path)
    assert [item["ok"] for item in late.records] == [False, True]


def test_only_what_is_needed_is_read(tmp_path: Path) -> None:
    for name, first in (("front", True), ("back", False)):
        write_time_coded_video(
            tmp_path / "videos" / f"{name}.mp4", duration_s=60, width=400, height=400, gop=1, faststart=first
        )
    with web_server(tmp_path) as server:
        for name in ("front", "back"):
            size = (tmp_path / "videos" / f"{name}.mp4").stat().st_size
            assert size > 1_500_000
            server.reset()
            report = probe_videos([record(name, 59.0)], server.url)
            assert report.ok, report.to_json()
            assert server.bytes < 600_000
            assert len(server.requests) < 16


def test_answers_are_kept_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "videos" / "a.mp4"
    write_time_coded_video(path, duration_s=10)
    opened: list[str] = []
    plain = VideoRoot.open
    monkeypatch.setattr(VideoRoot, "open", lambda self, path: opened.append(path) or plain(self, path))
    first = probe_videos([record("a", 9.0)], tmp_path)
    again = probe_videos([record("a", 9.0)], tmp_path)
    assert first.to_json() == again.to_json()
    assert len(opened) == 1
    probe_videos([record("a", 9.0)], tmp_path, cache=False)
    assert len(opened) == 2
    write_time_coded_video(path, duration_s=12)
    assert probe_videos([record("a", 9.0)], tmp_path).videos[0].media.duration_s == 12
    with web_server(tmp_path) as server:
        probe_videos([record("a", 9.0)], server.url)
        server.reset()
        assert probe_videos([record("a", 9.0)], server.url).ok
        assert [command for command, _, _ in server.requests] == ["HEAD"]


def test_a_damaged_answer_in_the_cache_is_made_again(tmp_path: Path, isolated_caches: Path) -> None:
    write_time_coded_video(tmp_path / "videos" / "a.mp4", duration_s=10)
    first = probe_videos([record("a", 9.0)], tmp_path)
    (kept,) = (isolated_caches / "trace" / "probe").rglob("*.json")
    for text in ("", "{", '{"unknown": 1}'):
        kept.write_text(text)
        assert probe_videos([record("a", 9.0)], tmp_path).to_json() == first.to_json()


def test_a_root_is_compared_with_a_known_good_one(tmp_path: Path) -> None:
    for name, seconds in (("a", 20), ("b", 30)):
        write_time_coded_video(tmp_path / "good" / "videos" / f"{name}.mp4", duration_s=seconds)
        write_time_coded_video(tmp_path / "mine" / "videos" / f"{name}.mp4", duration_s=50 - seconds, codec="h264")
    good = probe_videos([record("a", 10.0), record("b", 10.0)], tmp_path / "good").to_json()
    mine = probe_videos([record("a", 10.0), record("b", 10.0)], tmp_path / "mine", reference=good)
    assert kinds(mine) == {"a": ["differs"], "b": ["differs"]}
    assert "another video" in mine.videos[0].problems[0].detail
    assert probe_videos([record("a", 10.0)], tmp_path / "good", reference=good).ok


def test_paths_alone_are_probed_without_a_length(tmp_path: Path) -> None:
    write_time_coded_video(tmp_path / "videos" / "a.mp4", duration_s=5, width=128, height=64, audio=True)
    (video,) = probe_videos(["videos/a.mp4"], tmp_path).videos
    assert video.needed_s is None
    media = video.media
    assert isinstance(media, MediaFacts)
    assert (media.state, media.width, media.height, media.frames) == ("ok", 128, 64, 50)


def test_a_long_stretch_without_key_frames_is_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_hf.videos.media._MOST_TAIL_BYTES", 1000)
    write_time_coded_video(tmp_path / "videos" / "a.mp4", duration_s=60, gop=10_000)
    (video,) = probe_videos([record("a")], tmp_path).videos
    assert (video.media.state, video.media.end_s) == ("ok", 60.0)


def test_an_unknown_engine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="engine 'spark'"):
        probe_videos([], tmp_path, engine="spark")


@pytest.mark.slow
def test_dask_gives_the_same_report_for_200_videos(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="dask is missing: pip install 'trace-hf[dask]'")
    for number in range(40):
        write_time_coded_video(tmp_path / f"videos/v{number}.mp4", duration_s=4 + number % 7, title=str(number))
    cut(tmp_path / "videos/v3.mp4", 0.5)
    (tmp_path / "videos/v5.mp4").write_bytes(b"<html>")
    for number in range(40, 200):
        shutil.copy(tmp_path / f"videos/v{number % 40}.mp4", tmp_path / f"videos/v{number}.mp4")
    records = [record(f"v{number}", 5.5 if number % 2 else 8.0) for number in range(200)]
    local = probe_videos(records, tmp_path, cache=False).to_json()
    assert len(local["videos"]) == 200
    done: list[int] = []
    mine = probe_videos(records, tmp_path, cache=False, engine="dask", workers=2, progress=done.append)
    assert json.dumps(mine.to_json()) == json.dumps(local)
    assert sum(done) == 200
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")
        theirs = probe_videos(records, tmp_path, cache=False, engine=f"dask://{address}")
    assert json.dumps(theirs.to_json()) == json.dumps(local)
