"""Videos in which each frame shows its own time."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

av = pytest.importorskip("av", reason="PyAV is missing: pip install 'trace-hf[video]'")
np = pytest.importorskip("numpy", reason="NumPy is missing: pip install 'trace-hf[video]'")

from trace_hf.sample_video import frame_times, read_time_code, time_coded_frame, write_time_coded_video  # noqa: E402


def test_frames_stand_where_the_rate_puts_them() -> None:
    assert frame_times(0.5, 10) == [Fraction(n, 10) for n in range(5)]
    assert frame_times(0.1, 29.97) == [Fraction(1001 * n, 30_000) for n in range(3)]
    uneven = frame_times(10, 10, variable_rate=True)
    assert len({b - a for a, b in pairwise(uneven)}) > 2
    assert uneven[-1] < 10


@pytest.mark.parametrize("time", [0.0, 0.1, 1.5, 377.73, 7_199.9999, 26_000.0])
def test_a_frame_shows_its_time(time: float) -> None:
    assert read_time_code(time_coded_frame(time)) == pytest.approx(time, abs=5e-5)
    assert read_time_code(np.stack([time_coded_frame(time, 200, 52)] * 3, axis=2)) == pytest.approx(time, abs=5e-5)


def test_a_frame_that_shows_no_time_is_refused() -> None:
    for picture in (np.zeros((96, 96)), np.full((96, 96, 3), 255), np.random.default_rng(0).integers(0, 255, (96, 96))):
        with pytest.raises(ValueError, match="no time"):
            read_time_code(picture)
    damaged = time_coded_frame(12.5)
    damaged[:16, :16] = 251 - damaged[:16, :16]
    with pytest.raises(ValueError, match="check bits"):
        read_time_code(damaged)


def test_times_that_do_not_fit_are_refused() -> None:
    for time in (-1.0, 27_000.0):
        with pytest.raises(ValueError, match="cannot be shown"):
            time_coded_frame(time)
    for size in ((95, 96), (96, 40)):
        with pytest.raises(ValueError, match="even sizes"):
            write_time_coded_video("x.mp4", duration_s=1, width=size[0], height=size[1])


@pytest.mark.parametrize("codec", ["mpeg4", "h264"])
@pytest.mark.parametrize("fps", [1, 24, 29.97, 30])
@pytest.mark.parametrize(("start", "variable", "b_frames"), [(0.0, False, 2), (2.5, False, 0), (0.0, True, 2)])
def test_every_frame_is_read_back(
    tmp_path: Path, codec: str, fps: float, start: float, variable: bool, b_frames: int
) -> None:
    path = tmp_path / "new" / "video.mp4"
    times = write_time_coded_video(
        path,
        duration_s=4,
        fps=fps,
        codec=codec,
        b_frames=b_frames,
        start_s=start,
        variable_rate=variable,
        audio=True,
    )
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert float(stream.start_time * stream.time_base) == start
        shown = [(frame.pts - stream.start_time) * stream.time_base for frame in container.decode(stream)]
        assert shown == times
    with av.open(str(path)) as container:
        codes = [read_time_code(frame) for frame in container.decode(video=0)]
        assert container.streams.audio
    assert codes == pytest.approx([float(time) for time in times], abs=6e-5)
    assert [file.name for file in path.parent.iterdir()] == ["video.mp4"]


def test_the_pattern_outlives_scaling_and_jpeg(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is missing: pip install 'trace-hf[video]'")
    picture = image.fromarray(time_coded_frame(123.4)).resize((61, 55))
    picture.save(tmp_path / "frame.jpg", quality=40)
    assert read_time_code(image.open(tmp_path / "frame.jpg")) == 123.4
