"""Paths, URLs and roots: what a video path means, and what it must not mean."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from trace_hf.errors import TraceError, UnsafePathError, VideoNotFoundError
from trace_hf.paths import check_relative, join_url
from trace_hf.videos import VideoRoot

PATH = "videos/sample_48_proactive.mp4"

BAD = [
    "",
    "/etc/passwd",
    "../x.mp4",
    "videos/../../x.mp4",
    "videos/..",
    "videos\\x.mp4",
    "C:/x.mp4",
    "c:x.mp4",
    "s3://bucket/x.mp4",
    "file:x",
    "videos/http://host/x.mp4",
    "zip::x",
    "videos/a::b.mp4",
    "~/x.mp4",
    "~root/x.mp4",
    "videos/x\0.mp4",
    "videos/x\n.mp4",
    "videos//x.mp4",
    "./x.mp4",
    "videos/",
]


@pytest.mark.parametrize("path", BAD)
def test_a_path_that_could_leave_its_root_is_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(UnsafePathError, match="is refused") as error:
        check_relative(path, what="video_path", record_id="q:1")
    assert error.value.record_id == "q:1"
    root = VideoRoot(tmp_path)
    for ask in (root.url, root.open, root.exists, root.fs_for):
        with pytest.raises(UnsafePathError):
            ask(path)


@pytest.mark.parametrize(
    "path", [PATH, "src_videos/COIN/-a_b.mp4", "a b#c?d%.mp4", "v/é好.mp4", "v/a:b.mp4", "a..b/..c.mp4"]
)
def test_an_ordinary_path_is_kept_as_it_is(path: str) -> None:
    assert check_relative(path, what="video_path") == path


@pytest.mark.parametrize(
    ("root", "joined"),
    [
        ("/mnt/ovo", "/mnt/ovo/v/a b#.mp4"),
        ("/mnt/ovo/", "/mnt/ovo/v/a b#.mp4"),
        ("s3://lab/videos", "s3://lab/videos/v/a b#.mp4"),
        ("s3://lab/", "s3://lab/v/a b#.mp4"),
        ("memory://", "memory://v/a b#.mp4"),
        ("hf://datasets/o/n@main", "hf://datasets/o/n@main/v/a b#.mp4"),
        ("https://host", "https://host/v/a%20b%23.mp4"),
        ("https://host/d/?token=a/b", "https://host/d/v/a%20b%23.mp4?token=a/b"),
        ("zip://inner::https://host/a.zip?x=1", "zip://inner/v/a b#.mp4::https://host/a.zip?x=1"),
        ("zip://::/data/a.zip", "zip://v/a b#.mp4::/data/a.zip"),
        ("zip::/data/a.zip", "zip://v/a b#.mp4::/data/a.zip"),
        ("simplecache::s3://lab", "simplecache::s3://lab/v/a b#.mp4"),
        ("simplecache::zip://i::s3://lab/a.zip", "simplecache::zip://i/v/a b#.mp4::s3://lab/a.zip"),
    ],
)
def test_a_url_is_joined_in_its_first_part(root: str, joined: str) -> None:
    assert join_url(root, "v/a b#.mp4") == joined


def test_a_local_root_gives_plain_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for root in (tmp_path, str(tmp_path), f"file://{tmp_path}", f"{tmp_path}/", "."):
        assert VideoRoot(root).url(PATH) == f"{tmp_path}/{PATH}"
    assert VideoRoot("~/x").url(PATH) == f"{tmp_path}/home/x/{PATH}"


def test_the_longest_prefix_wins_and_is_replaced() -> None:
    root = VideoRoot(
        {
            "": "/rest",
            "videos/": "s3://lab/streamingbench/videos",
            "src_videos": "/mnt/ovo/src",
            "src_videos/COIN/": "memory://coin",
            "src_videos/one.mp4": "/elsewhere/1.mp4",
        }
    )
    assert root.url(PATH) == "s3://lab/streamingbench/videos/sample_48_proactive.mp4"
    assert root.url("src_videos/a/b.mp4") == "/mnt/ovo/src/a/b.mp4"
    assert root.url("src_videos/COIN/c.mp4") == "memory://coin/c.mp4"
    assert root.url("src_videos/COINS/c.mp4") == "/mnt/ovo/src/COINS/c.mp4"
    assert root.url("src_videos/one.mp4") == "/elsewhere/1.mp4"
    assert root.url("videos2/a.mp4") == "/rest/videos2/a.mp4"


def test_a_path_without_prefix_is_not_found() -> None:
    with pytest.raises(VideoNotFoundError, match="no prefix"):
        VideoRoot({"videos/": "/v"}).url("src_videos/a.mp4")


def test_storage_options_go_to_their_prefix() -> None:
    mapping = {"videos/": "s3://a", "src_videos/": {"url": "s3://b", "storage_options": {"anon": True}}, "": "/rest"}
    root = VideoRoot(mapping, {"videos/": {"key": "K"}, "use_ssl": False})
    options = {place.prefix: dict(place.options) for place in root.places}
    assert options == {"videos": {"use_ssl": False, "key": "K"}, "src_videos": {"use_ssl": False, "anon": True}, "": {}}


def test_a_json_file_holds_a_mapping_relative_to_itself(tmp_path: Path) -> None:
    (tmp_path / "roots").mkdir()
    (tmp_path / "roots" / "lab.json").write_text(json.dumps({"videos/": "v", "src_videos/": "s3://b"}))
    root = VideoRoot(tmp_path / "roots" / "lab.json")
    assert root.url(PATH) == f"{tmp_path}/roots/v/sample_48_proactive.mp4"
    assert root.url("src_videos/x.mp4") == "s3://b/x.mp4"
    nested = VideoRoot({"": str(tmp_path / "roots" / "lab.json")})
    assert nested.url(PATH) == root.url(PATH)
    assert VideoRoot('{"videos/": "/v"}').url(PATH) == "/v/sample_48_proactive.mp4"


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"../x/": "/v"}', '{"videos/": 3}', "{}"])
def test_a_json_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "root.json").write_text(text)
    with pytest.raises(TraceError):
        VideoRoot(tmp_path / "root.json")


def test_the_environment_gives_the_default_and_empty_is_unset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert VideoRoot.coerce(None) is None
    monkeypatch.setenv("TRACE_VIDEO_ROOT", "")
    assert VideoRoot.coerce(None) is None
    with pytest.raises(VideoNotFoundError, match="TRACE_VIDEO_ROOT"):
        VideoRoot.need(None)
    monkeypatch.setenv("TRACE_VIDEO_ROOT", str(tmp_path))
    root = VideoRoot.coerce(None)
    assert root is not None
    assert root.url("a.mp4") == f"{tmp_path}/a.mp4"
    assert VideoRoot.coerce(root) is root


def test_a_key_tells_roots_apart_without_their_secrets() -> None:
    plain = VideoRoot("s3://lab/v", {"key": "AKIA", "secret": "one"})
    other = VideoRoot("s3://lab/v", {"key": "BKIA", "secret": "two"})
    assert plain.key() == other.key()
    assert plain == pickle.loads(pickle.dumps(plain))
    elsewhere = VideoRoot("s3://lab/v", {"client_kwargs": {"endpoint_url": "http://minio"}})
    assert len({plain.key(), elsewhere.key(), VideoRoot("s3://lab/w").key(), VideoRoot({"v": "s3://lab/v"}).key()}) == 4


def test_messages_hold_no_credentials() -> None:
    for root in (VideoRoot("https://user:pass@host/d?token=T"), VideoRoot({"": "https://user:pass@host/d?token=T"})):
        assert "host/d" in repr(root)
        assert not any(secret in repr(root) for secret in ("user", "pass", "token", "T)"))


def test_a_link_out_of_the_root_is_refused_when_asked(tmp_path: Path) -> None:
    outside = tmp_path / "outside.mp4"
    outside.write_bytes(b"x" * 10)
    root = tmp_path / "root"
    (root / "videos").mkdir(parents=True)
    (root / "videos" / "in.mp4").write_bytes(b"y")
    (root / "videos" / "link.mp4").symlink_to(outside)
    (root / "videos" / "inner.mp4").symlink_to("in.mp4")
    (root / "src_videos").symlink_to(tmp_path)
    assert VideoRoot(root).open("videos/link.mp4").read() == b"x" * 10
    strict = VideoRoot(root, follow_symlinks=False)
    for path in ("videos/link.mp4", "src_videos/outside.mp4"):
        for ask in (strict.url, strict.open, strict.exists):
            with pytest.raises(UnsafePathError, match="link that leads out"):
                ask(path)
    assert strict.open("videos/inner.mp4").read() == b"y"
    (tmp_path / "alias").symlink_to(root)
    assert VideoRoot(tmp_path / "alias", follow_symlinks=False).open("videos/in.mp4").read() == b"y"


def test_an_unknown_scheme_says_what_to_install() -> None:
    with pytest.raises(TraceError, match="cannot be opened"):
        VideoRoot("nosuch://x").open(PATH)


def test_a_missing_video_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(VideoNotFoundError, match="videos check") as error:
        VideoRoot(tmp_path).open(PATH)
    assert str(tmp_path) in str(error.value)
    assert isinstance(error.value, FileNotFoundError)


def test_roots_and_windows_import_nothing_heavy() -> None:
    code = (
        "import sys, trace_hf.videos.root, trace_hf.windows, trace_hf.videos.inventory\n"
        "trace_hf.videos.root.VideoRoot({'': 's3://b'}).url('a.mp4')\n"
        "heavy = {'datasets', 'pyarrow', 'pandas', 'huggingface_hub', 'av', 'numpy', 'fsspec'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert result.stdout.strip() == "[]"


def test_errors_of_other_libraries_are_shown_without_credentials() -> None:
    from trace_hf.paths import scrubbed

    text = scrubbed(OSError("403, url='https://user:pass@host/a/b.mp4?token=SECRET' (s3://key:word@bucket/x)"))
    assert text == "OSError: 403, url='https://host/a/b.mp4' (s3://bucket/x)"
