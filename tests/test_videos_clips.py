"""Clips and frames: exactly what the protocol lets a model see, and nothing later."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

av = pytest.importorskip("av", reason="PyAV is missing: pip install 'trace-hf[video]'")

from trace_hf.errors import TraceError, VideoNotFoundError  # noqa: E402
from trace_hf.sample_video import read_time_code, write_time_coded_video  # noqa: E402
from trace_hf.videos import VideoRoot, clip, frames, save_frames  # noqa: E402
from trace_hf.windows import sampling_times  # noqa: E402

PATH = "videos/sample_1_real.mp4"
RECORD: dict[str, Any] = {
    "task": "qa",
    "record_id": "qa:1",
    "video_path": PATH,
    "evidence_anchor_s": 13.0,
    "question_time_s": 17.0,
    "metadata": {},
}

# name: what the file is like
KINDS: dict[str, dict[str, Any]] = {
    "10": {"fps": 10},
    "24": {"fps": 24},
    "29.97": {"fps": 29.97},
    "30": {"fps": 30},
    "b_frames": {"fps": 24, "codec": "h264", "b_frames": 3},
    "b_frames_mpeg4": {"fps": 30, "b_frames": 2},
    "variable": {"fps": 10, "variable_rate": True},
    "variable_b_frames": {"fps": 30, "codec": "h264", "b_frames": 2, "variable_rate": True},
    "late_start": {"fps": 29.97, "start_s": 2.5},
    "late_start_variable": {"fps": 24, "start_s": 1.25, "variable_rate": True},
    "audio": {"fps": 24, "audio": True},
    "one_key_frame": {"fps": 10, "gop": 500},
}


def source_frame(times: list[Fraction], time: float, options: dict[str, Any]) -> int:
    """The number of the frame that the protocol names, computed apart from the package."""
    if options.get("variable_rate"):
        exact = Fraction(str(time))
        return max(range(len(times)), key=lambda n: (-abs(times[n] - exact), n))
    fps = 30_000 / 1001 if options["fps"] == 29.97 else options["fps"]
    return min(math.floor(time * fps + 0.5), len(times) - 1)


def codes(path: str | Path) -> list[float]:
    with av.open(str(path)) as container:
        return [read_time_code(frame) for frame in container.decode(video=0)]


def close(times: list[Fraction]) -> Any:
    return pytest.approx([float(time) for time in times], abs=6e-5)


@pytest.fixture(scope="module", params=KINDS)
def video(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Fraction], Any]:
    folder = tmp_path_factory.mktemp(request.param.replace(".", "_"))
    options = KINDS[request.param]
    return folder, write_time_coded_video(folder / PATH, duration_s=20, **options), options


@pytest.mark.parametrize("span", [(3.0, 7.0), (0.0, 2.5), (3.77, 9.06), (6.35, 6.35), (16.4, 19.96)])
def test_a_clip_holds_the_frames_of_its_span_and_none_later(
    video: tuple[Path, list[Fraction], Any], span: tuple[float, float], tmp_path: Path
) -> None:
    folder, times, options = video
    first, last = (source_frame(times, time, options) for time in span)
    made = clip(RECORD, tmp_path / "clip.mp4", folder, span=span)
    assert codes(made.path) == close(times[first : last + 1])
    assert made.frames == last - first + 1
    assert made.first_frame_s == pytest.approx(float(times[first]), abs=1e-6)
    assert made.last_frame_s == pytest.approx(float(times[last]), abs=1e-6)
    assert (made.first_index, made.last_index) == ((None, None) if options.get("variable_rate") else (first, last))
    with av.open(made.path) as container:
        # A track of sound would tell what comes later.
        assert [stream.type for stream in container.streams] == ["video"]
        stream = container.streams.video[0]
        shown = [frame.pts * stream.time_base for frame in container.decode(stream)]
        assert float(stream.duration * stream.time_base) <= float(times[last] - times[first]) + 0.31
    # The distances are those of the original, from 0 on.
    assert [float(time) for time in shown] == close([time - times[first] for time in times[first : last + 1]])
    assert [file.name for file in tmp_path.iterdir()] == ["clip.mp4"]


@pytest.mark.parametrize("span", [(3.0, 7.0), (0.0, 2.5), (3.77, 9.06), (6.35, 6.35), (16.4, 19.96), (17.5, 40.0)])
def test_frames_are_those_of_the_rule(video: tuple[Path, list[Fraction], Any], span: tuple[float, float]) -> None:
    folder, times, options = video
    found = list(frames(RECORD, folder, span=span))
    with av.open(str(folder / PATH)) as container:
        stream = container.streams.video[0]
        end = round(float(stream.duration * stream.time_base), 6)
    asked = sampling_times(span[0], min(span[1], end))
    assert [frame.time_s for frame in found] == asked
    numbers = [source_frame(times, time, options) for time in asked]
    assert [read_time_code(frame.array) for frame in found] == close([times[number] for number in numbers])
    assert [frame.source_time_s for frame in found] == pytest.approx([float(times[n]) for n in numbers], abs=1e-6)
    assert [frame.index for frame in found] == ([None] * len(numbers) if options.get("variable_rate") else numbers)
    half = 0.5 / float(options["fps"]) + 1e-6
    if not options.get("variable_rate"):
        assert all(frame.source_time_s <= frame.time_s + half for frame in found)


def test_the_records_own_span_is_the_default(tmp_path: Path) -> None:
    write_time_coded_video(tmp_path / PATH, duration_s=20)
    found = list(frames(RECORD, tmp_path))
    assert [frame.time_s for frame in found] == [float(time) for time in range(3, 18)]
    assert clip(RECORD, tmp_path / "c.mp4", tmp_path).frames == 141
    proactive = {
        "task": "proactive",
        "record_id": "p:1",
        "video_path": PATH,
        "instruction_time_s": 6.0,
        "windows": [{"expected_answer": "yes"}],
        "metadata": {
            "trigger_annotations": [{"point_trigger_s": 8.25, "interval_start_s": None, "interval_end_s": None}]
        },
    }
    assert [frame.time_s for frame in frames(proactive, tmp_path)][-2:] == [13.0, 13.25]
    assert [frame.time_s for frame in frames(proactive, tmp_path, tolerance_s=10)][-2:] == [18.0, 18.25]


def test_the_span_that_ends_between_two_seconds_is_the_designs_own_example(tmp_path: Path) -> None:
    write_time_coded_video(tmp_path / PATH, duration_s=400, fps=4)
    record = {**RECORD, "evidence_anchor_s": 387.73, "question_time_s": 396.0}
    found = list(frames(record, tmp_path))
    assert [frame.time_s for frame in found[-3:]] == [394.73, 395.73, 396.0]
    assert [frame.index for frame in found[-3:]] == [1579, 1583, 1584]
    assert [read_time_code(frame.array) for frame in found[-3:]] == [394.75, 395.75, 396.0]


def test_a_span_past_the_end_is_cut_there_and_held_to_the_last_frame(tmp_path: Path) -> None:
    write_time_coded_video(tmp_path / PATH, duration_s=12)
    found = [(frame.time_s, frame.index) for frame in frames(RECORD, tmp_path, span=(9.5, 30.0))]
    assert found == [(9.5, 95), (10.5, 105), (11.5, 115), (12.0, 119)]
    assert clip(RECORD, tmp_path / "c.mp4", tmp_path, span=(11.0, 30.0)).last_index == 119


def test_a_span_that_begins_after_the_end_is_no_silent_still(tmp_path: Path) -> None:
    write_time_coded_video(tmp_path / PATH, duration_s=2)
    for ask in (lambda: list(frames(RECORD, tmp_path)), lambda: clip(RECORD, tmp_path / "c.mp4", tmp_path)):
        with pytest.raises(TraceError, match=r"ends at 2.0 s, before the span 3.0 … 17.0 s"):
            ask()
    assert not (tmp_path / "c.mp4").exists()


def test_a_video_that_is_cut_gives_its_last_readable_frame(tmp_path: Path) -> None:
    write_time_coded_video(tmp_path / PATH, duration_s=20, faststart=True)
    data = (tmp_path / PATH).read_bytes()
    (tmp_path / PATH).write_bytes(data[: len(data) * 3 // 4])
    found = list(frames(RECORD, tmp_path))
    assert len(found) == 15
    shown = [read_time_code(frame.array) for frame in found]
    assert shown == sorted(shown)
    assert shown[0] == 3.0
    assert 10 < shown[-1] < 17


def test_a_broken_connection_is_not_the_end_of_the_video(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_time_coded_video(tmp_path / PATH, duration_s=20, width=480, height=480, gop=1)

    class Breaking:
        def __init__(self, file: Any) -> None:
            self.file, self.left = file, 12

        def read(self, size: int = -1) -> bytes:
            self.left -= 1
            if self.left < 0:
                raise ConnectionResetError("cable pulled")
            return self.file.read(size)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

    plain = VideoRoot.open
    monkeypatch.setattr(VideoRoot, "open", lambda self, path: Breaking(plain(self, path)))
    with pytest.raises(ConnectionResetError, match="cable pulled"):
        list(frames(RECORD, tmp_path))


def test_images_are_written_with_their_times(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is missing: pip install 'trace-hf[video]'")
    write_time_coded_video(tmp_path / PATH, duration_s=20)
    for kind in ("png", "jpg"):
        written = save_frames(RECORD, tmp_path / "out" / kind, tmp_path, kind=kind, span=(3.0, 5.5))
        assert [path.name for path in written] == [f"{n:05d}.{kind}" for n in range(4)]
        assert [read_time_code(image.open(path)) for path in written] == [3.0, 4.0, 5.0, 5.5]
        listed = json.loads((tmp_path / "out" / kind / "frames.json").read_text())
        assert [item["time_s"] for item in listed["frames"]] == [3.0, 4.0, 5.0, 5.5]
        assert [item["index"] for item in listed["frames"]] == [30, 40, 50, 55]
    assert len(save_frames(RECORD, tmp_path / "out" / "png", tmp_path, span=(3.0, 4.0))) == 2
    assert sorted(path.name for path in (tmp_path / "out" / "png").iterdir()) == [
        "00000.png",
        "00001.png",
        "frames.json",
    ]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not delete")
    with pytest.raises(TraceError, match="other files"):
        save_frames(RECORD, tmp_path / "mine", tmp_path)


def test_a_clip_is_cached_by_video_span_and_settings(tmp_path: Path, isolated_caches: Path) -> None:
    write_time_coded_video(tmp_path / PATH, duration_s=20)
    made = clip(RECORD, None, tmp_path, span=(3.0, 5.0))
    assert Path(made.path).parent == isolated_caches / "trace" / "clips"
    stamp = Path(made.path).stat().st_mtime_ns
    assert clip(RECORD, None, tmp_path, span=(3.0, 5.0)) == made
    assert Path(made.path).stat().st_mtime_ns == stamp
    others = [clip(RECORD, None, tmp_path, span=(3.0, 6.0)), clip(RECORD, None, tmp_path, span=(3.0, 5.0), crf=30)]
    write_time_coded_video(tmp_path / PATH, duration_s=21)
    others.append(clip(RECORD, None, tmp_path, span=(3.0, 5.0)))
    assert len({made.path, *(other.path for other in others)}) == 4


def test_a_turned_video_comes_upright(tmp_path: Path) -> None:
    write_time_coded_video(tmp_path / "flat.mp4", duration_s=6, width=128, height=96)
    (tmp_path / "videos").mkdir()
    with av.open(str(tmp_path / "flat.mp4")) as source, av.open(str(tmp_path / PATH), "w") as target:
        stream = source.streams.video[0]
        if not hasattr(stream, "set_display_rotation"):
            pytest.skip("PyAV before 18 cannot write a rotation")
        copy = target.add_stream_from_template(stream)
        copy.set_display_rotation(90)
        for packet in source.demux(stream):
            if packet.dts is not None:
                packet.stream = copy
                target.mux(packet)
    (frame,) = frames(RECORD, tmp_path, span=(2.0, 2.0))
    assert frame.array.shape == (128, 96, 3)
    import numpy as np

    turned = [np.rot90(frame.array, turns) for turns in (1, 3)]
    assert any(_reads(picture, 2.0) for picture in turned)
    made = clip(RECORD, tmp_path / "c.mp4", tmp_path, span=(2.0, 3.0))
    with av.open(made.path) as container:
        assert (container.streams.video[0].width, container.streams.video[0].height) == (96, 128)


def _reads(picture: Any, time: float) -> bool:
    try:
        return read_time_code(picture) == time
    except ValueError:
        return False


def test_what_is_no_video_says_so(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    (tmp_path / PATH).write_bytes(b"<html>" + bytes(5000))
    with pytest.raises(TraceError, match="cannot be decoded"):
        list(frames(RECORD, tmp_path))
    with pytest.raises(VideoNotFoundError, match="sample_9"):
        clip({**RECORD, "video_path": "videos/sample_9_real.mp4"}, tmp_path / "c.mp4", tmp_path)
    with pytest.raises(TraceError, match="no video_path"):
        list(frames({"task": "qa"}, tmp_path))
    write_time_coded_video(tmp_path / PATH, duration_s=2)
    with pytest.raises(ValueError, match="in order"):
        list(frames(RECORD, tmp_path, span=(2.0, 1.0)))
