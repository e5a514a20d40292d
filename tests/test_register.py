"""The name "trace" is held in one place, and every other name is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import datasets
import datasets.inspect
import datasets.load
import pytest

import trace_hf
from trace_hf.errors import ReleaseNotFoundError


def run(code: str, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_loads_nothing_heavy(tmp_path: Path) -> None:
    code = "import sys, trace_hf; print([m for m in {} if m in sys.modules])".format(
        ["datasets", "pyarrow", "pandas", "huggingface_hub", "av", "numpy", "fsspec", "rich", "click"]
    )
    assert run(code, tmp_path) == "[]\n"


def test_registering_again_changes_nothing() -> None:
    before = datasets.load.dataset_module_factory
    trace_hf.register()
    trace_hf.register()
    assert datasets.load.dataset_module_factory is before
    assert datasets.inspect.dataset_module_factory is before
    assert before.__name__ == "dataset_module_factory"


def test_registered_name_wins_over_a_folder_of_that_name(small_sample: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work" / "trace"
    folder.mkdir(parents=True)
    (folder / "data.csv").write_text("a\n1\n")
    code = "import trace_hf, datasets; print({})"
    by_name = code.format(
        f"'question' in datasets.load_dataset('trace', 'qa', data_dir={str(small_sample)!r})['test'].features"
    )
    by_path = code.format("datasets.load_dataset('./trace')['train'].column_names")
    assert run(by_name, folder.parent) == "True\n"
    assert run(by_path, folder.parent) == "['a']\n"


def test_other_names_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text('{"a": 1}\n')
    rows = datasets.load_dataset("json", data_files=str(tmp_path / "rows.json"), split="train")
    assert rows.to_list() == [{"a": 1}]


@pytest.mark.parametrize("option", [{"data_files": "x.jsonl"}, {"revision": "main"}])
def test_options_that_mean_nothing_here_are_refused(option: dict[str, str]) -> None:
    with pytest.raises(ReleaseNotFoundError, match=f"takes no {next(iter(option))}"):
        datasets.load_dataset("trace", "qa", **option)


def test_function_stays_the_function_when_its_module_is_imported() -> None:
    from trace_hf.attest import attest

    assert trace_hf.attest is attest
    assert set(trace_hf.__all__) <= set(dir(trace_hf))
    for name in trace_hf.__all__:
        assert getattr(trace_hf, name) is not None
