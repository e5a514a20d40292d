"""The command line: exit codes, stable JSON, no tracebacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import trace_hf
from trace_hf.cli import main


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def as_json(result: Result) -> Any:
    return json.loads(result.stdout)


def test_verify_of_an_intact_release(small_sample: Path) -> None:
    result = run("verify", small_sample)
    assert result.exit_code == 0, result.output
    assert "ok\tqa.jsonl" in result.output
    assert "proves consistency, not origin" in result.output
    report = as_json(run("verify", small_sample, "--json"))
    assert {"release_id", "ok", "pinned", "files"} <= set(report)
    assert (report["ok"], report["pinned"]) == (True, False)
    assert {tuple(file) for file in report["files"]} == {("name", "state", "expected", "actual", "cause")}


def test_verify_of_a_damaged_release(small_sample: Path) -> None:
    (small_sample / "qa.jsonl").unlink()
    result = run("verify", small_sample)
    assert result.exit_code == 1
    assert "missing\tqa.jsonl" in result.output
    assert "NOT verified: 1 of 13 files are missing or differ" in result.output
    assert "get it from where the release is published" in result.output
    assert as_json(run("verify", small_sample, "--json"))["ok"] is False


def test_real_releases_are_verified(real: Path) -> None:
    assert run("verify", real / "sample_release").exit_code == 0
    result = run("verify", real / "official", "--json")
    assert result.exit_code == 1
    report = as_json(result)
    assert report["pinned"] is True
    assert [file["name"] for file in report["files"] if file["state"] == "missing"] == [
        "changes.jsonl",
        "proactive.jsonl",
        "proactive_standard.jsonl",
        "qa.jsonl",
        "standard_proactive_ids.json",
    ]
    assert sum(file["state"] == "ok" for file in report["files"]) == 8


def test_release_comes_from_the_environment(small_sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_RELEASE", str(small_sample))
    assert run("verify").exit_code == 0


@pytest.mark.parametrize("arguments", [["verify"], ["info"], ["verify", "nowhere"], ["videos", "check"]])
def test_not_found_is_exit_2_with_a_hint(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr
    assert "Do: " in result.stderr
    assert "Traceback" not in result.output


def test_broken_manifest_is_exit_1(small_sample: Path) -> None:
    (small_sample / "manifest.json").write_text("{")
    result = run("verify", small_sample)
    assert result.exit_code == 1
    assert "not JSON" in result.stderr


def test_mistyped_verb_is_guessed() -> None:
    result = run("verfy")
    assert result.exit_code == 2
    assert "verify" in result.stderr


def test_every_verb_has_help_with_an_example() -> None:
    listed = run("--help").output
    for verb, command in [(name, main.get_command(None, name)) for name in main.list_commands(None)]:  # type: ignore[arg-type]
        assert verb in listed
        assert command is not None
        verbs = getattr(command, "commands", None) or {verb: command}
        for name, one in verbs.items():
            assert "Example:" in (one.help or ""), f"{verb} {name}"


def test_info_says_what_a_release_is(small_sample: Path) -> None:
    facts = as_json(run("info", small_sample, "--json"))
    release = trace_hf.Release.open(small_sample)
    assert facts["release_id"] == release.release_id
    assert facts["manifest_sha256"] == release.manifest_sha256
    assert "status\tsynthetic" in run("info", small_sample).output


def test_sample_writes_the_same_release_as_python(tmp_path: Path) -> None:
    assert run("sample", tmp_path / "a", "--scale", "0.05", "--seed", "3").exit_code == 0
    trace_hf.write_sample(tmp_path / "b", scale=0.05, seed=3)
    assert (tmp_path / "a/manifest.json").read_bytes() == (tmp_path / "b/manifest.json").read_bytes()
    again = run("sample", tmp_path / "a")
    assert again.exit_code == 2
    assert "Do: " in again.stderr


def test_demo_runs_to_its_end(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trace_hf.cli", "demo"],
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "proactive_standard\t407\t" in done.stdout
    assert done.stdout.count("\tattested ") == 8
    assert done.stdout.count("its video is there") == 2
    assert "Next:" in done.stdout
