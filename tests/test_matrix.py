"""Every way of loading in the oldest and the newest version gives the release's rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "matrix.py"
sys.path.insert(0, str(SCRIPT.parent))


@pytest.mark.slow
def test_the_oldest_and_the_newest_version_give_the_same_rows(tmp_path: Path) -> None:
    report = tmp_path / "matrix.json"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--json", str(report)], capture_output=True, text=True, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(report.read_text(encoding="utf-8"))
    assert {result["version"] for result in results} == {"2.21.0", "5.2.0"}
    for result in results:
        assert not result["problems"]
        if result["way"] not in ("export", "cache trap"):
            assert (result["equal"], result["attested"]) == (8, 8)
    ways = {result["way"] for result in results if result["version"] == "2.21.0"}
    assert ways == {"export", "plain, by path", "plain, by name", "plain, streamed", "package", "script", "cache trap"}


def test_an_inequality_is_named_and_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import matrix

    monkeypatch.setattr(matrix.Environment, "prepare", lambda self, level: None)

    def work(env: object, home: object, cwd: object, **job: object) -> dict[str, object]:
        if job["job"] == "package":
            return {"equal": 7, "attested": 7, "records": 9, "problems": ["qa, row 0: a instead of b"]}
        return {"equal": 8, "attested": 8, "records": 9, "pyarrow": "1", "files": {}}

    monkeypatch.setattr(matrix, "work", work)
    assert matrix.main(["--versions", "5.2.0", "--release", "r"]) == 1
    out = capsys.readouterr().out
    assert "FAILED" in out
    assert "qa, row 0: a instead of b" in out


def test_the_worker_notices_any_difference(tmp_path: Path) -> None:
    import matrix_worker

    (tmp_path / "qa.jsonl").write_text('{"a": 1.0, "b": null}\n{"a": 2.0, "b": null}\n', encoding="utf-8")
    rows = [{"a": 1.0, "b": None}, {"a": 2.0, "b": None}]
    assert matrix_worker.compare("qa", rows, tmp_path) == (2, [])
    for spoiled in (
        rows[:1],
        [*rows, rows[0]],
        rows[::-1],
        [{"a": 1, "b": None}, rows[1]],
        [{"b": None, "a": 1.0}, rows[1]],
    ):
        assert matrix_worker.compare("qa", spoiled, tmp_path)[1]
