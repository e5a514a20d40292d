"""The column `video`: a path, or a video that datasets decodes when it is read."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import datasets
import pytest
from environments import torch_python
from servers import web_server

import trace_hf
from trace_hf.errors import UnknownConfigError, VideoNotFoundError

HAS_VIDEO = hasattr(datasets, "Video")
needs_video = pytest.mark.skipif(not HAS_VIDEO, reason=f"datasets {datasets.__version__} has no Video feature")


@pytest.mark.skipif(HAS_VIDEO, reason="this datasets has the Video feature")
def test_old_datasets_says_that_it_has_no_such_feature(small_sample: Path) -> None:
    with pytest.raises(UnknownConfigError, match="has no Video feature"):
        trace_hf.load("qa", release=small_sample, video_root="videos", video="path")


@needs_video
def test_path_gives_the_place_of_the_video(small_sample: Path) -> None:
    for streaming in (False, True):
        rows = trace_hf.load("qa", release=small_sample, video_root="/videos", video="path", streaming=streaming)
        row = next(iter(rows))
        assert row["video"]["path"] == row["video_url"] == f"/videos/{row['video_path']}"
        assert row["video"]["bytes"] is None
        assert rows.features["video"] == datasets.Video(decode=False)
    model = trace_hf.load("qa", release=small_sample, video_root="/videos", video="path", view="model_input")
    assert model.column_names[-2:] == ["video_url", "video"]


@needs_video
def test_wrong_use_is_said(small_sample: Path) -> None:
    with pytest.raises(VideoNotFoundError, match="no video root"):
        trace_hf.load("qa", release=small_sample, video="path")
    with pytest.raises(UnknownConfigError, match='neither "path" nor "decode"'):
        trace_hf.load("qa", release=small_sample, video_root="v", video="bytes")  # type: ignore[arg-type]
    with pytest.raises(UnknownConfigError, match="is for audit and has no videos"):
        trace_hf.load("changes", release=small_sample, video_root="v", video="path")
    with pytest.raises(VideoNotFoundError, match="cannot open s3://lab/") as error:
        trace_hf.load("qa", release=small_sample, video_root="s3://lab/trace", video="decode")
    assert "videos fetch" in str(error.value)


_DECODE = """
import sys
import trace_hf
from trace_hf.sample_video import read_time_code
release, root = sys.argv[1:]
for config in ("qa_tiny", "proactive_tiny"):
    for streaming in (False, True):
        rows = trace_hf.load(config, release=release, video_root=root, video="decode", streaming=streaming)
        for row in rows:
            frame = row["video"].get_frame_played_at(2.0)
            seen = read_time_code(frame.data.permute(1, 2, 0).numpy())
            assert abs(seen - frame.pts_seconds) < 1e-3, (seen, frame.pts_seconds)
            assert abs(seen - 2.0) <= 0.1, seen
            print(config, streaming, row["record_id"], seen)
"""


@pytest.mark.slow
@needs_video
@pytest.mark.parametrize("place", ["folder", "web"])
def test_decoding_shows_the_frame_of_the_moment(tmp_path: Path, place: str) -> None:
    python = torch_python()
    ready = subprocess.run([python, "-c", "import torchcodec.decoders"], capture_output=True, text=True, check=False)
    if ready.returncode:
        pytest.skip("torchcodec does not load; it needs FFmpeg's libraries (on Debian: apt-get install ffmpeg)")
    release = trace_hf.write_sample(tmp_path / "release", scale=0.05, videos=True)
    with web_server(release / "video_root") as server:
        root = str(release / "video_root") if place == "folder" else server.url
        done = subprocess.run(
            [python, "-c", _DECODE, str(release), root],
            env={**os.environ, "HF_HUB_OFFLINE": "0" if place == "web" else "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 4
