"""Archive indexes: zips and split tars, read where they are."""

from __future__ import annotations

import io
import json
import random
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from servers import web_server

from trace_hf.errors import IntegrityError, TraceError, UnsafePathError, VideoNotFoundError
from trace_hf.videos import BUILT_IN_RULES, Rule, VideoRoot, build_index, check_videos, fetch_videos, probe_videos
from trace_hf.videos.archive import ArchiveIndex
from trace_hf.videos.rules import parse_rules

MIB = 1 << 20


def noise(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def make_zip(path: Path, members: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def make_tar(path: Path, members: Mapping[str, bytes], form: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, "w", format=form) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def split(path: Path, size: int, suffix: str = "part{}{}") -> list[Path]:
    data = path.read_bytes()
    path.unlink()
    pieces = []
    for number, start in enumerate(range(0, len(data), size)):
        letters = chr(ord("a") + number // 26), chr(ord("a") + number % 26)
        piece = path.with_name(f"{path.name}.{suffix.format(*letters)}")
        piece.write_bytes(data[start : start + size])
        pieces.append(piece)
    return pieces


def saved(index: ArchiveIndex, path: Path) -> VideoRoot:
    index.save(path)
    return VideoRoot(path)


# --- rules ---


@pytest.mark.parametrize(
    ("archive", "member", "path"),
    [
        ("Real-Time Visual Understanding_1-50.zip", "sample_361/video.mp4", "videos/sample_361_real.mp4"),
        ("Real-Time Visual Understanding_1-50.zip", "a/b/sample_361/video.mp4", "videos/sample_361_real.mp4"),
        ("Proactive Output_1-50.zip", "sample_48/video.mp4", "videos/sample_48_proactive.mp4"),
        (
            "Anomaly Context Understanding.zip",
            "sample_19/video.mp4",
            "videos/sample_19_Anomaly_Context_Understanding.mp4",
        ),
        ("src_videos.tar", "src_videos/Ego4D/clips/x.mp4", "src_videos/Ego4D/clips/x.mp4"),
        ("mine.zip", "videos/sample_1_real.mp4", "videos/sample_1_real.mp4"),
        ("Proactive Output_1-50.zip", "sample_x/video.mp4", None),
        ("Other_1-50.zip", "sample_1/video.mp4", None),
        ("Proactive Output_1-50.zip", "xsample_48/video.mp4", None),
    ],
)
def test_built_in_rules_know_the_published_layouts(archive: str, member: str, path: str | None) -> None:
    found = [rule.apply(archive, member) for rule in BUILT_IN_RULES]
    assert next((item for item in found if item), None) == path


def test_rules_are_read_from_text() -> None:
    text = "# a remark\n\n{set}_*.zip | clips/{n:int}.* => videos/{set}_{n}.mp4\nx/{rest:path} => {rest}\n"
    first, second = parse_rules(text)
    assert first.apply("demo_1.zip", "clips/7.mov") == "videos/demo_7.mp4"
    assert first.apply("demo_1.zip", "clips/a.mov") is None
    assert second.apply("any.tar", "x/y/z.mp4") == "y/z.mp4"
    assert parse_rules(json.dumps([str(first), str(second)])) == [first, second]


@pytest.mark.parametrize(
    "text", ["no arrow", "a => ", " => b", "x => {n}.mp4", "{n:float} => {n}", "{n} => {0}", "{n}/{n} => {n}"]
)
def test_a_rule_that_is_not_understood_says_why(text: str) -> None:
    with pytest.raises(TraceError):
        Rule.parse(text).apply("a.zip", "b")


# --- what is found ---


def test_an_index_maps_lists_and_reads_everything(tmp_path: Path) -> None:
    stored, packed, tarred = noise(300_000, 1), b"abc" * 200_000, noise(500_000, 2)
    real = {"sample_361/video.mp4": stored, "readme.txt": b"x", "__MACOSX/._sample": b"x", "sample_7/.DS_Store": b""}
    make_zip(tmp_path / "Real-Time Visual Understanding_1-50.zip", real)
    make_zip(tmp_path / "Proactive Output_1-50.zip", {"sample_48/video.mp4": packed}, zipfile.ZIP_DEFLATED)
    long = f"src_videos/{'x' * 160}/a.mp4"
    members = {"./src_videos/COIN/a.mp4": tarred, f"./{long}": stored, "notes/x.txt": b"y"}
    split(make_tar(tmp_path / "src_videos.tar", members, tarfile.GNU_FORMAT), 200_003)
    root = saved(build_index([tmp_path]), tmp_path / "index.json")
    expected = {
        "videos/sample_361_real.mp4": stored,
        "videos/sample_48_proactive.mp4": packed,
        "src_videos/COIN/a.mp4": tarred,
        long: stored,
    }
    for path, data in expected.items():
        with root.open(path) as file:
            assert file.read() == data
            file.seek(100_000)
            assert file.read(10) == data[100_000:100_010]
            file.seek(-3, 2)
            assert file.read(10) == data[-3:]
    written = json.loads((tmp_path / "index.json").read_text())
    assert written["version"] == 1
    section = written["trace_archive_index"]
    assert set(section["members"]) == set(expected)
    assert [item["member"] for item in section["unmapped"]] == ["readme.txt", "notes/x.txt"]
    assert section["ambiguous"] == {}
    assert section["problems"] == []
    # Deflated members and those across pieces cannot be plain references.
    assert "videos/sample_361_real.mp4" in written["refs"]
    assert "videos/sample_48_proactive.mp4" not in written["refs"]
    assert check_videos(expected, root).ok


def test_stored_members_are_read_by_fsspec_alone(tmp_path: Path) -> None:
    import fsspec

    data = noise(50_000)
    make_zip(tmp_path / "a.zip", {"videos/a.mp4": data, "videos/b.mp4": data[::-1]})
    build_index([tmp_path / "a.zip"]).save(tmp_path / "index.json")
    fs = fsspec.filesystem("reference", fo=str(tmp_path / "index.json"))
    assert fs.cat_file("videos/b.mp4") == data[::-1]
    with fsspec.open(VideoRoot(tmp_path / "index.json").url("videos/a.mp4")) as file:
        assert file.read() == data


def test_a_reference_file_of_another_tool_is_a_root(tmp_path: Path) -> None:
    (tmp_path / "blob.bin").write_bytes(b"....VIDEO....")
    value = {"version": 1, "refs": {"videos/a.mp4": [str(tmp_path / "blob.bin"), 4, 5], ".zgroup": "{}"}}
    (tmp_path / "refs.json").write_text(json.dumps(value))
    root = VideoRoot(tmp_path / "refs.json")
    assert root.open("videos/a.mp4").read() == b"VIDEO"
    assert check_videos(["videos/a.mp4"], root).ok


def test_what_two_members_claim_is_listed_and_not_chosen(tmp_path: Path) -> None:
    make_zip(tmp_path / "Proactive Output_1-25.zip", {"sample_4/video.mp4": b"one" * 9})
    make_zip(tmp_path / "Proactive Output_26-50.zip", {"sample_4/video.mp4": b"two" * 9})
    index = build_index([tmp_path])
    claims = index.ambiguous["videos/sample_4_proactive.mp4"]
    assert [claim["archive"] for claim in claims] == ["Proactive Output_1-25.zip", "Proactive Output_26-50.zip"]
    root = saved(index, tmp_path / "index.json")
    (video,) = check_videos(["videos/sample_4_proactive.mp4"], root).missing
    assert video.ambiguous
    assert "several members" in video.reason
    with pytest.raises(VideoNotFoundError, match="several members claim it"):
        root.open("videos/sample_4_proactive.mp4")


def test_rules_of_ones_own_go_first(tmp_path: Path) -> None:
    make_zip(tmp_path / "lab.zip", {"v/007.mp4": b"bond" * 5})
    index = build_index([tmp_path / "lab.zip"], [Rule.parse("v/{n}.mp4 => videos/sample_{n}_real.mp4")])
    assert list(index.members) == ["videos/sample_007_real.mp4"]


# --- split archives ---


@pytest.mark.parametrize("suffix", ["part{}{}", "{}{}"])
def test_one_piece_names_them_all(tmp_path: Path, suffix: str) -> None:
    data = noise(100_000)
    pieces = split(make_tar(tmp_path / "src_videos.tar", {"src_videos/a.mp4": data}), 7_000, suffix)
    index = build_index([pieces[3]])
    assert len(index.archives[0].parts) == len(pieces)
    assert saved(index, tmp_path / "i.json").open("src_videos/a.mp4").read() == data


def test_numbered_pieces_of_a_zip_are_one_archive(tmp_path: Path) -> None:
    data = noise(100_000)
    whole = make_zip(tmp_path / "all.zip", {"videos/a.mp4": data}).read_bytes()
    (tmp_path / "all.zip").unlink()
    for number in range(12):
        (tmp_path / f"all.zip.{number + 1:03}").write_bytes(whole[number * 9000 : (number + 1) * 9000])
    assert saved(build_index([tmp_path]), tmp_path / "i.json").open("videos/a.mp4").read() == data


def test_a_missing_piece_is_named(tmp_path: Path) -> None:
    pieces = split(make_tar(tmp_path / "src_videos.tar", {"src_videos/a.mp4": noise(50_000)}), 9_000)
    pieces[2].unlink()
    with pytest.raises(TraceError, match="lacks 1 of its pieces: aa, ab, ad"):
        build_index([tmp_path])


def test_a_missing_last_piece_is_noticed(tmp_path: Path) -> None:
    members = {f"src_videos/{n}.mp4": noise(20_000, n) for n in range(3)}
    pieces = split(make_tar(tmp_path / "src_videos.tar", members), 30_000)
    pieces[-1].unlink()
    index = build_index([tmp_path])
    assert any("part is missing" in problem for problem in index.problems)
    assert list(index.members) == ["src_videos/0.mp4", "src_videos/1.mp4"]


def test_an_archive_that_changed_is_not_read_at_wrong_places(tmp_path: Path) -> None:
    make_zip(tmp_path / "a.zip", {"videos/a.mp4": noise(5_000)})
    root = saved(build_index([tmp_path / "a.zip"]), tmp_path / "i.json")
    make_zip(tmp_path / "a.zip", {"videos/b.mp4": noise(9), "videos/a.mp4": noise(5_000)})
    with pytest.raises(TraceError, match="changed after the index"):
        root.open("videos/a.mp4").read()
    (tmp_path / "a.zip").unlink()
    with pytest.raises(VideoNotFoundError, match="archive"):
        VideoRoot(tmp_path / "i.json").open("videos/a.mp4")
    (video,) = check_videos(["videos/a.mp4"], tmp_path / "i.json").missing
    assert "a.zip is not there" in video.reason


# --- archives that are not as they should be ---


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"<html>not found</html>" * 100, "neither a zip nor a tar"),
        (b"\x1f\x8b\x08" + bytes(1000), "gzip"),
        (b"\xfd7zXZ" + bytes(1000), "xz"),
        (b"PK\x03\x04" + bytes(1000), "no readable directory"),
    ],
)
def test_a_file_that_is_no_archive_says_what_it_is(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "a.tar").write_bytes(data)
    with pytest.raises(TraceError, match=message):
        build_index([tmp_path / "a.tar"])


def test_nothing_to_index_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "readme.md").write_text("x")
    with pytest.raises(VideoNotFoundError, match="no archive"):
        build_index([tmp_path])
    with pytest.raises(VideoNotFoundError, match="not there"):
        build_index([tmp_path / "gone.zip"])


def test_members_that_would_leave_the_root_are_skipped_and_named(tmp_path: Path) -> None:
    make_zip(tmp_path / "a.zip", {"videos/../../evil.mp4": b"x", "videos/ok.mp4": b"y", "videos/b\\c.mp4": b"z"})
    index = build_index([tmp_path / "a.zip"])
    assert list(index.members) == ["videos/ok.mp4"]
    assert {item["member"] for item in index.skipped} == {"videos/../../evil.mp4", "videos/b\\c.mp4"}
    with tarfile.open(tmp_path / "b.tar", "w") as archive:
        link = tarfile.TarInfo("src_videos/link.mp4")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    (item,) = build_index([tmp_path / "b.tar"]).skipped
    assert "link to /etc/passwd" in item["reason"]


def _patch_central(path: Path, **changes: int) -> None:
    """Change fields of the first entry of a zip's central directory."""
    data = bytearray(path.read_bytes())
    start = data.index(b"PK\x01\x02")
    places = {"flags": (8, "<H"), "method": (10, "<H"), "stored": (20, "<L"), "size": (24, "<L"), "offset": (42, "<L")}
    for name, value in changes.items():
        at, form = places[name]
        struct.pack_into(form, data, start + at, value)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"flags": 1}, "encrypted"),
        ({"method": 9}, "compression method 9"),
        ({"size": 4_000_000_000}, "more than compression can give"),
        ({"stored": 3_000_000_000}, "beyond the archive's end"),
    ],
)
def test_members_that_cannot_be_honest_are_skipped(tmp_path: Path, changes: dict[str, int], reason: str) -> None:
    path = make_zip(tmp_path / "a.zip", {"videos/a.mp4": b"abc" * 1000}, zipfile.ZIP_DEFLATED)
    _patch_central(path, **changes)
    index = build_index([path])
    assert not index.members
    assert reason in index.skipped[0]["reason"]


def test_members_that_share_bytes_are_skipped(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.zip", {"videos/a.mp4": noise(100, 1), "videos/b.mp4": noise(100, 2)})
    with zipfile.ZipFile(path) as archive:
        second = archive.getinfo("videos/b.mp4").header_offset
    _patch_central(path, offset=second)
    index = build_index([path])
    assert not index.members
    assert {item["reason"] for item in index.skipped} == {"it shares bytes with another member"}


@pytest.mark.parametrize("claim", [3_000_000 - 1, 1000, 3_000_000 + 1])
def test_a_member_unpacks_to_no_more_and_no_less_than_it_claims(tmp_path: Path, claim: int) -> None:
    path = make_zip(tmp_path / "a.zip", {"videos/a.mp4": bytes(3_000_000)}, zipfile.ZIP_DEFLATED)
    _patch_central(path, size=claim)
    root = saved(build_index([path]), tmp_path / "i.json")
    with pytest.raises(IntegrityError, match="unpacks to"):
        root.open("videos/a.mp4").read()
    report = fetch_videos(["videos/a.mp4"], root, tmp_path / "here")
    assert "unpacks to" in report.failed[0]["error"]
    assert not [path for path in (tmp_path / "here").rglob("*") if path.is_file() and path.suffix == ".mp4"]


def test_a_wrong_checksum_is_noticed(tmp_path: Path) -> None:
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        path = make_zip(tmp_path / "a.zip", {"videos/a.mp4": noise(50_000)}, method)
        root = saved(build_index([path]), tmp_path / "i.json")
        data = bytearray(path.read_bytes())
        data[20_000] ^= 1
        path.write_bytes(data)
        report = fetch_videos(["videos/a.mp4"], root, tmp_path / f"here{method}")
        assert not report.ok
        assert not (tmp_path / f"here{method}" / "videos" / "a.mp4").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"trace_archive_index": {"version": 99}},
        {"trace_archive_index": []},
        {"trace_archive_index": {"version": 1, "archives": [], "members": {}}},
        {"refs": {"videos/a.mp4": ["x", "y", "z"]}, "trace_archive_index": None},
    ],
)
def test_a_damaged_index_says_so(tmp_path: Path, change: dict[str, object]) -> None:
    make_zip(tmp_path / "a.zip", {"videos/a.mp4": b"x" * 50})
    value = {**build_index([tmp_path / "a.zip"]).to_json(), **change}
    (tmp_path / "i.json").write_text(json.dumps({k: v for k, v in value.items() if v is not None}))
    with pytest.raises(TraceError, match="not understood"):
        VideoRoot(tmp_path / "i.json")


def test_an_index_cannot_name_a_path_outside_of_its_root(tmp_path: Path) -> None:
    make_zip(tmp_path / "a.zip", {"videos/a.mp4": b"x" * 50})
    text = json.dumps(build_index([tmp_path / "a.zip"]).to_json()).replace("videos/a.mp4", "../a.mp4")
    (tmp_path / "i.json").write_text(text)
    with pytest.raises(UnsafePathError, match="archive index"):
        VideoRoot(tmp_path / "i.json")


def test_a_remote_index_cannot_name_a_file_of_this_machine(tmp_path: Path) -> None:
    make_zip(tmp_path / "a.zip", {"videos/a.mp4": b"x" * 50})
    build_index([tmp_path / "a.zip"]).save(tmp_path / "i.json")
    with web_server(tmp_path) as server:
        with pytest.raises(UnsafePathError, match="local file"):
            VideoRoot(f"{server.url}/i.json")
        text = (tmp_path / "i.json").read_text().replace(str(tmp_path / "a.zip"), "a.zip")
        (tmp_path / "i.json").write_text(text)
        assert VideoRoot(f"{server.url}/i.json").open("videos/a.mp4").read() == b"x" * 50
        assert VideoRoot(tmp_path / "i.json").open("videos/a.mp4").read() == b"x" * 50


# --- remote ---


def _sparse_tar(path: Path, data: bytes, filler: int) -> None:
    with path.open("wb") as file:
        for name, content, size in (
            ("src_videos/before.mp4", b"", filler // 2),
            ("src_videos/wanted.mp4", data, len(data)),
            ("src_videos/after.mp4", b"", filler // 2),
        ):
            info = tarfile.TarInfo(name)
            info.size = size
            file.write(info.tobuf())
            end = file.tell() + -(-size // 512) * 512
            file.write(content)
            file.seek(end)
        file.write(bytes(1024))


def _sparse_zip(path: Path, data: bytes, filler: int) -> None:
    central = b""
    with path.open("wb") as file:
        members = (("videos/before.mp4", b"", filler // 2), ("videos/wanted.mp4", data, len(data)))
        for name, content, size in (*members, ("videos/after.mp4", b"", filler // 2)):
            start = file.tell()
            raw, crc = name.encode(), zlib.crc32(content)
            file.write(struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 0, 0, 33, crc, size, size, len(raw), 0) + raw)
            end = file.tell() + size
            file.write(content)
            file.seek(end)
            fields = (b"PK\x01\x02", 20, 20, 0, 0, 0, 33, crc, size, size, len(raw), 0, 0, 0, 0, 0, start)
            central += struct.pack("<4s6H3L5H2L", *fields) + raw
        start = file.tell()
        file.write(central + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 3, 3, len(central), start, 0))


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_one_megabyte_of_a_gigabyte_moves_little_more_than_itself(tmp_path: Path, kind: str) -> None:
    data, folder = noise(MIB), "src_videos" if kind == "tar" else "videos"
    archive = tmp_path / f"big.{kind}"
    (_sparse_tar if kind == "tar" else _sparse_zip)(archive, data, 1 << 30)
    total = archive.stat().st_size
    assert total > 1 << 30
    with web_server(tmp_path) as server:
        root = saved(build_index([f"{server.url}/{archive.name}"]), tmp_path / "i.json")
        report = fetch_videos([f"{folder}/wanted.mp4"], root, tmp_path / "here")
        assert report.ok, report.failed
        assert (tmp_path / "here" / folder / "wanted.mp4").read_bytes() == data
        assert server.bytes <= len(data) + total // 100
        assert len(server.requests) < 40
    assert archive.stat().st_blocks * 512 < 1 << 28


def test_a_packed_member_far_away_is_not_moved_whole_to_look_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("av", reason="PyAV is missing: pip install 'trace-hf[video]'")
    monkeypatch.setattr("trace_hf.videos.media._MOST_PACKED_BYTES", 100_000)
    make_zip(tmp_path / "a.zip", {"videos/a.mp4": noise(500_000)}, zipfile.ZIP_DEFLATED)
    with web_server(tmp_path) as server:
        root = saved(build_index([f"{server.url}/a.zip"]), tmp_path / "i.json")
        server.reset()
        (video,) = probe_videos(["videos/a.mp4"], root).videos
        assert video.media.state == "no_ranges"
        assert server.bytes < 1000


def test_archives_on_a_web_server_are_found_by_their_folder(tmp_path: Path) -> None:
    served = tmp_path / "served"
    served.mkdir()
    data = noise(30_000)
    make_zip(served / "Real-Time Visual Understanding_1-50.zip", {"sample_3/video.mp4": data})
    split(make_tar(served / "src_videos.tar", {"src_videos/a b.mp4": data}), 9_000)
    with web_server(served) as server:
        index = build_index([server.url])
        assert [archive.name for archive in index.archives] == [
            "Real-Time Visual Understanding_1-50.zip",
            "src_videos.tar",
        ]
        root = saved(index, tmp_path / "i.json")
        for path in ("videos/sample_3_real.mp4", "src_videos/a b.mp4"):
            assert root.open(path).read() == data
