"""What a request shows: real videos whose frames tell their own time."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from harness_records import pair, proactive_record, qa_record

import trace_hf
from trace_hf.errors import VideoNotFoundError
from trace_hf.harness import (
    clip_path,
    images,
    open_population,
    polling_times,
    proactive_prompt,
    proactive_system,
    qa_prompt,
    request_span,
)
from trace_hf.sample_video import read_time_code, write_time_coded_video
from trace_hf.schema import CONFIGS

FPS = 10


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("videos")
    write_time_coded_video(folder / "videos/one.mp4", duration_s=40, fps=FPS, codec="h264", b_frames=2, audio=True)
    return folder


def shown_times(path: str) -> list[float]:
    """Return the time that each frame of a video shows."""
    import av

    with av.open(path) as container:
        assert [stream.type for stream in container.streams] == ["video"]
        return [read_time_code(frame) for frame in container.decode(video=0)]


def last_allowed(time: float) -> float:
    """Return the time of the last frame that may be seen for a time."""
    return math.floor(time * FPS + 0.5) / FPS


@pytest.mark.parametrize("time", [20.0, 17.26, 0.04])
def test_qa_evidence_ends_with_the_frame_of_the_question_time(root: Path, time: float) -> None:
    record = qa_record(1, "A", question_time_s=time)
    record["evidence_anchor_s"] = min(12.0, time)
    times = shown_times(clip_path(record, root))
    assert times[0] == pytest.approx(last_allowed(max(0.0, record["evidence_anchor_s"] - 10)))
    assert times[-1] == max(times) == pytest.approx(last_allowed(time))
    frames = [read_time_code(image) for image in images(record, root)]
    assert frames[-1] == max(frames) == pytest.approx(last_allowed(time))


def test_each_polled_request_ends_with_the_frame_of_its_own_time(root: Path) -> None:
    record = proactive_record(1, 7.3, [(9.0, "x"), (21.0, "y")])
    times = polling_times(record, 5.0)
    assert times == [7.3, 12.3, 17.3, 22.3, 27.3]
    for time in times:
        assert tuple(request_span(record, time)) == (2.3, time)
        shown = shown_times(clip_path(record, root, time))
        assert shown[0] == pytest.approx(2.3)
        assert shown[-1] == max(shown) == pytest.approx(last_allowed(time))
        frames = [read_time_code(image) for image in images(record, root, time)]
        assert len(frames) == int(time - 2.3) + 1
        assert max(frames) == pytest.approx(last_allowed(time))


def test_a_clip_is_cut_once_and_its_name_says_nothing(root: Path) -> None:
    record = qa_record(1, "B")
    path = clip_path(record, root)
    made = Path(path).stat().st_mtime_ns
    assert clip_path(record, root) == path
    assert Path(path).stat().st_mtime_ns == made
    assert len(Path(path).stem) == 64
    assert set(Path(path).stem) <= set("0123456789abcdef")


def test_a_missing_video_is_named(root: Path) -> None:
    with pytest.raises(VideoNotFoundError, match=r"videos/two\.mp4"):
        clip_path(pair()[1], root, 5.0)


def inputs(record: dict[str, Any], config: str) -> dict[str, Any]:
    """Return the row of the model_input view."""
    return {name: record[name] for name in CONFIGS[config].inputs}


def test_prompts_are_made_of_model_inputs_alone(small_sample: Path) -> None:
    endings = set()
    for record in open_population("qa", small_sample).records.values():
        options = "\n".join(record["options"])
        head = f"Question: {record['question']}\nOptions:\n{options}\n\n"
        prompt = qa_prompt(inputs(record, "qa"))
        assert prompt.startswith(head)
        endings.add(prompt.removeprefix(head))
    # What stands behind the options is the same for every record, so that it can give nothing away.
    assert endings == {"Answer with the letter of the right option and nothing else."}
    for record in open_population("proactive", small_sample).records.values():
        assert proactive_prompt(inputs(record, "proactive")) == record["instruction"]
    assert "WAIT" in proactive_system()


def test_the_neutral_rooms_need_no_harness_and_no_torch() -> None:
    names = [
        "answers",
        "evidence",
        "judge",
        "parsing",
        "population",
        "proactive",
        "prompts",
        "qa",
        "ratios",
        "lmms_eval",
    ]
    code = f"import sys\nfor name in {names}: __import__('trace_hf.harness.' + name)\nimport trace_hf.harness as h\n"
    code += "[getattr(h, name) for name in h.__all__]\n"
    code += "print([name for name in ('torch', 'lmms_eval', 'datasets', 'av') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_the_package_does_not_load_the_harness() -> None:
    code = "import sys, trace_hf; print([name for name in sys.modules if 'harness' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert trace_hf.__version__
