"""What a root has, and what is near to what it has not."""

from __future__ import annotations

from pathlib import Path

import pytest
from servers import web_server

from trace_hf.errors import TraceError, UnsafePathError, VideoNotFoundError
from trace_hf.videos import VideoRoot, check_videos
from trace_hf.videos.candidates import Candidates

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def fill(root: Path, *paths: str, data: bytes = b"x" * 2000) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)


def test_each_state_is_told_apart(tmp_path: Path) -> None:
    root = tmp_path / "root"
    fill(root, "videos/good.mp4", "videos/tiny.mp4")
    fill(root, "videos/tiny.mp4", data=b"no pointer")
    fill(root, "videos/empty.mp4", data=b"")
    fill(root, "videos/pointer.mp4", data=POINTER)
    fill(root, "videos/folder.mp4/folder.mp4")
    fill(tmp_path, "outside.mp4")
    (root / "videos" / "link.mp4").symlink_to(tmp_path / "outside.mp4")
    (root / "videos" / "broken.mp4").symlink_to(tmp_path / "nothing")
    names = ("good", "tiny", "empty", "pointer", "folder", "link", "broken", "gone")
    records = [{"record_id": f"q:{name}", "video_path": f"videos/{name}.mp4"} for name in names]
    inventory = check_videos(records, root)
    assert inventory.present == ["videos/good.mp4", "videos/tiny.mp4", "videos/link.mp4"]
    assert [(v.path, v.records) for v in inventory.empty] == [("videos/empty.mp4", ["q:empty"])]
    assert [(v.path, v.records) for v in inventory.pointers] == [("videos/pointer.mp4", ["q:pointer"])]
    assert [(v.path, v.target) for v in inventory.outside] == [("videos/link.mp4", str(tmp_path / "outside.mp4"))]
    missing = {video.path: video for video in inventory.missing}
    assert set(missing) == {"videos/folder.mp4", "videos/broken.mp4", "videos/gone.mp4"}
    assert missing["videos/folder.mp4"].candidates == ["videos/folder.mp4/folder.mp4"]
    assert "folder" in missing["videos/folder.mp4"].reason
    assert "link to nothing" in missing["videos/broken.mp4"].reason
    assert not inventory.ok


def test_a_link_out_of_the_root_fails_only_where_links_are_not_followed(tmp_path: Path) -> None:
    fill(tmp_path, "outside.mp4")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a.mp4").symlink_to(tmp_path / "outside.mp4")
    assert check_videos(["a.mp4"], tmp_path / "root").ok
    assert not check_videos(["a.mp4"], VideoRoot(tmp_path / "root", follow_symlinks=False)).ok


def test_json_has_the_promised_keys(tmp_path: Path) -> None:
    fill(tmp_path, "videos/a.mp4", "real/sample_361/video.mp4")
    records = [
        {"record_id": "q:1", "video_path": "videos/a.mp4"},
        {"record_id": "q:2", "video_path": "videos/a.mp4"},
        {"record_id": "q:3", "video_path": "videos/sample_361_real.mp4"},
    ]
    value = check_videos(records, tmp_path).to_json()
    assert value["ok"] is False
    assert value["present"] == ["videos/a.mp4"]
    assert value["missing"] == [
        {
            "path": "videos/sample_361_real.mp4",
            "records": ["q:3"],
            "candidates": ["real/sample_361/video.mp4"],
            "ambiguous": False,
            "reason": "",
        }
    ]
    assert value["empty"] == []
    assert (value["records"], value["videos"]) == (3, 2)


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        ("videos/Sample_4_REAL.mp4", "videos/sample_4_real.mp4"),
        ("Videos/sample_4_real.mp4", "videos/sample_4_real.mp4"),
        ("videos/sample_4_real.MKV", "videos/sample_4_real.mp4"),
        ("videos/sample_4_real.webm", "videos/sample_4_real.mp4"),
        ("videos/videos/sample_4_real.mp4", "videos/sample_4_real.mp4"),
        ("sample_4_real.mp4", "videos/sample_4_real.mp4"),
        ("real/sample_361/video.mp4", "videos/sample_361_real.mp4"),
        ("Real-Time Visual Understanding_1-50/sample_4/video.mp4", "videos/sample_4_real.mp4"),
        ("Proactive Output_1-50/sample_48/video.mp4", "videos/sample_48_proactive.mp4"),
        (
            "Anomaly Context Understanding/sample_19/video.mp4",
            "videos/sample_19_Anomaly_Context_Understanding.mp4",
        ),
        ("videos/sample-4-real.mp4", "videos/sample_4_real.mp4"),
        ("videos/sample_4_rael.mp4", "videos/sample_4_real.mp4"),
        ("videos/cafe\u0301.mp4", "videos/caf\u00e9.mp4"),
    ],
)
def test_the_nearest_file_is_a_candidate(tmp_path: Path, there: str, wanted: str) -> None:
    fill(tmp_path, there, "videos/sample_44_real.mp4", "videos/sample_5_proactive.mp4", "src_videos/COIN/x.mp4")
    (video,) = check_videos([wanted], tmp_path).missing
    assert video.candidates[0] == there


def test_another_number_is_never_a_candidate() -> None:
    files = ["videos/sample_48_proactive.mp4", "videos/sample_84_proactive.mp4", "proactive/sample_4/video.mp4"]
    assert Candidates(files).nearest("videos/sample_8_proactive.mp4") == []


def test_a_duplicate_basename_is_ambiguous(tmp_path: Path) -> None:
    fill(tmp_path, "old/a.mp4", "new/a.mp4", "b.mp4")
    wanted = ["videos/a.mp4", "src_videos/COIN/b.mp4", "src_videos/Ego4D/b.mp4"]
    inventory = check_videos(wanted, tmp_path)
    assert all(video.ambiguous for video in inventory.missing)
    assert inventory.ambiguous == [
        {"basename": "a.mp4", "paths": ["videos/a.mp4"], "candidates": ["new/a.mp4", "old/a.mp4"]},
        {"basename": "b.mp4", "paths": wanted[1:], "candidates": ["b.mp4"]},
    ]


def test_candidates_come_from_every_place_of_a_mapping(tmp_path: Path) -> None:
    fill(tmp_path, "one/other.mp4", "two/deep/a.mp4")
    root = VideoRoot({"videos/": str(tmp_path / "one"), "src_videos/": str(tmp_path / "two")})
    (video,) = check_videos(["videos/a.mp4"], root).missing
    assert video.candidates == [str(tmp_path / "two/deep/a.mp4")]
    (video,) = check_videos(["elsewhere/other.mp4"], root).missing
    assert "no prefix" in video.reason
    assert video.candidates == [str(tmp_path / "one/other.mp4")]


def test_522_paths_in_6_folders_take_at_most_12_requests(tmp_path: Path) -> None:
    folders = ("videos", "src_videos/COIN", "src_videos/Ego4D/clips", "src_videos/AutoEvalMetaData", "a", "b")
    paths = [f"{folders[n % 6]}/sample {n}.mp4" for n in range(522)]
    fill(tmp_path, *paths)
    with web_server(tmp_path) as server:
        inventory = check_videos(paths, server.url)
        assert inventory.ok
        assert len(inventory.present) == 522
        assert len(server.requests) <= 12
        server.reset()
        (tmp_path / paths[7]).unlink()
        inventory = check_videos(paths, server.url)
        assert [video.path for video in inventory.missing] == [paths[7]]
        assert len(server.requests) <= 12


def test_sizes_are_asked_for_only_when_wanted(tmp_path: Path) -> None:
    fill(tmp_path, "videos/a.mp4")
    fill(tmp_path, "videos/empty.mp4", data=b"")
    fill(tmp_path, "videos/pointer.mp4", data=POINTER)
    paths = ["videos/a.mp4", "videos/empty.mp4", "videos/pointer.mp4"]
    with web_server(tmp_path) as server:
        quick = check_videos(paths, server.url)
        assert len(server.requests) == 1
        assert quick.to_json()["unsized"] == 3
        assert any("no sizes" in note for note in quick.notes)
        exact = check_videos(paths, server.url, sizes=True)
        assert exact.present == ["videos/a.mp4"]
        assert [v.path for v in exact.empty] == ["videos/empty.mp4"]
        assert [v.path for v in exact.pointers] == ["videos/pointer.mp4"]


def test_the_search_for_candidates_is_bounded(tmp_path: Path) -> None:
    fill(tmp_path, *(f"folder_{n}/x.mp4" for n in range(30)))
    with web_server(tmp_path) as server:
        inventory = check_videos(["videos/y.mp4"], server.url, search_folders=5)
        assert len(server.requests) <= 10
        assert any("more folders" in note for note in inventory.notes)


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    fill(tmp_path, "videos/a.mp4")
    (tmp_path / "videos" / "again").symlink_to(tmp_path)
    (video,) = check_videos(["videos/b.mp4"], tmp_path).missing
    assert video.candidates == []


def test_a_record_with_an_unsafe_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnsafePathError) as error:
        check_videos([{"record_id": "q:7", "video_path": "../x.mp4"}], tmp_path)
    assert error.value.record_id == "q:7"


def test_a_root_that_is_not_there_is_not_522_missing_videos(tmp_path: Path) -> None:
    with pytest.raises(VideoNotFoundError, match="is not there"):
        check_videos(["a.mp4"], tmp_path / "typo")
    half = VideoRoot({"videos/": str(tmp_path), "src_videos/": str(tmp_path / "typo")})
    assert any("typo is not there" in note for note in check_videos(["videos/a.mp4"], half).notes)


def test_records_without_videos_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no video_path"):
        check_videos([{"record_id": "x:1"}], tmp_path)
