"""What is said when a package of an extra is absent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trace_hf.errors import TraceError
from trace_hf.videos import clip, frames, probe_videos

RECORD = {
    "task": "qa",
    "record_id": "qa:1",
    "video_path": "a.mp4",
    "evidence_anchor_s": 1.0,
    "question_time_s": 2.0,
    "metadata": {},
}


def test_without_pyav_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    (tmp_path / "a.mp4").write_bytes(b"x" * 100)
    for ask in (
        lambda: probe_videos([RECORD], tmp_path),
        lambda: list(frames(RECORD, tmp_path)),
        lambda: clip(RECORD, tmp_path / "c.mp4", tmp_path),
    ):
        with pytest.raises(TraceError) as error:
            ask()
        assert "pip install 'trace-hf[video]'" in str(error.value)


def test_without_dask_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("av", reason="PyAV is missing: pip install 'trace-hf[video]'")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(TraceError) as error:
        probe_videos([RECORD], tmp_path, engine="dask")
    assert "pip install 'trace-hf[dask]'" in str(error.value)


@pytest.mark.slow
def test_a_scheduler_that_is_not_there_is_named(tmp_path: Path) -> None:
    pytest.importorskip("av", reason="PyAV is missing: pip install 'trace-hf[video]'")
    distributed = pytest.importorskip("distributed", reason="dask is missing: pip install 'trace-hf[dask]'")
    import dask
    from servers import _free_port

    assert distributed
    address = f"127.0.0.1:{_free_port()}"
    patience = dask.config.set({"distributed.comm.timeouts.connect": "1s"})
    with patience, pytest.raises(TraceError, match=f"no dask scheduler at {address}"):
        probe_videos([RECORD], tmp_path, engine=f"dask://{address}")
