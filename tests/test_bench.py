"""The benchmark runs, and its JSON has the shape that readers of it count on. How fast anything is is not asserted."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("HF_HUB_OFFLINE", os.environ.get("HF_HUB_OFFLINE", "0"))
    monkeypatch.setenv("HF_DATASETS_OFFLINE", os.environ.get("HF_DATASETS_OFFLINE", "0"))
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_a_tiny_run_prints_its_table_and_writes_its_json(tmp_path: Path) -> None:
    target = tmp_path / "bench.json"
    command = [sys.executable, str(SCRIPTS / "bench.py"), "--repeat", "1", "--json", str(target)]
    done = subprocess.run([*command, "--scale", "0.05", "--scale", "0.1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "goal" in done.stdout
    document = json.loads(target.read_text(encoding="utf-8"))
    assert document["repeat"] == 1
    names = {figure["name"] for figure in document["figures"]}
    assert {"cold load, typed and verified", "warm load, all files hashed", "import trace_hf"} <= names
    assert {"trace-hf verify, whole process", "peak memory of load, 0.1x", "peak memory of validate, 0.1x"} <= names
    for figure in document["figures"]:
        assert figure["ours_median"] > 0
        assert len(figure["ours"]) == 1
        limit = figure["limit"]
        assert figure["met"] is (None if limit is None else figure["value"] <= limit)
        assert figure["goal"] in done.stdout


def test_the_sides_alternate_and_take_turns_in_going_first(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = load("bench", monkeypatch)
    order: list[str] = []

    def sample(side: str) -> float:
        order.append(side)
        return float(len(order))

    figure = bench.Figure("a", "b", 1.0, "s", "<= 1 of it", 1.0)
    bench.alternate(figure, 3, lambda: sample("ours"), lambda: sample("baseline"))
    assert order == ["ours", "baseline", "baseline", "ours", "ours", "baseline"]
    assert figure.ours == [1.0, 4.0, 5.0]
    assert figure.value == 4.0 / 3.0


def test_the_pydantic_loader_checks_the_same(small_sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pydantic")
    rival = load("_bench_pydantic", monkeypatch)
    assert rival.validate_with_pydantic(small_sample)
    path = small_sample / "qa.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"answer":"', b'"answer":"Z', 1))
    with pytest.raises(ValueError, match="answer_is_a_label"):
        rival.validate_with_pydantic(small_sample)
