#!/usr/bin/env python3
"""Load every config in every way, in several versions of `datasets`, and compare all of it with the release.

    python3 scripts/matrix.py                         the oldest and the newest supported version
    python3 scripts/matrix.py --all                   all of them
    python3 scripts/matrix.py --versions 3.6.0 4.0.0

In each version, every config is loaded from an export by the plain library (by its path, by its name from the folder
above, and streamed), by the package and, below 4, by the loading script. All ways share one cache folder. Every row is
compared with the release's, and all are attested. Then two exports of one name, and one that is edited, are loaded one
after the other: no version may answer one with the cached rows of another. Exits with 1 on any inequality.

Environments are made once, in `.venvs/`. The script needs Python 3.10 or newer and nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev import PROJECT, DevError, Environment, say

VERSIONS = ("2.21.0", "3.6.0", "4.0.0", "4.8.5", "5.2.0")
CONFIGS = 8
WORKER = PROJECT / "scripts" / "matrix_worker.py"


@dataclass
class Result:
    """One row of the table."""

    version: str
    release: str
    way: str
    equal: int
    attested: int
    records: int
    seconds: float
    problems: list[str]

    @property
    def ok(self) -> bool:
        """Whether nothing differs."""
        return not self.problems


def environment(version: str) -> Environment:
    """Return the environment of a version of `datasets`."""
    (PROJECT / ".venvs").mkdir(exist_ok=True)
    return Environment(f".venvs/datasets-{version}", (f"datasets=={version}",))


def work(env: Environment, home: Path, cwd: Path, **job: Any) -> dict[str, Any]:
    """Run one job of the worker in an environment; all of them share the caches under `home`."""
    variables = env.variables()
    for name in [name for name in variables if name.startswith(("HF_", "TRACE_"))]:
        del variables[name]
    variables |= {
        "HF_HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "TRACE_CACHE": str(home / "trace"),
    }
    done = subprocess.run(
        [str(env.python), str(WORKER), json.dumps(job)],
        cwd=cwd,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"], "log": done.stderr}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


class Matrix:
    """Runs the ways of every version over every release."""

    def __init__(self, folder: Path, releases: dict[str, str]) -> None:
        self.folder = folder
        self.home = folder / "cache"
        self.releases = releases
        self.results: list[Result] = []
        self._exports: dict[str, dict[str, str]] = {}

    def prepare(self, env: Environment) -> None:
        """Write the synthetic releases, an edited one, every export, and the rows that are due."""
        for name in ("a", "b"):
            release = self.folder / "trap" / f"release-{name}"
            self._must(env, job="sample", out=str(release), scale=0.05, seed=ord(name))
            self._must(env, job="export", release=str(release), out=str(self._trap(name)))
        self._must(env, job="edit", release=str(self.folder / "trap" / "release-a"), out=str(self._trap("edited")))
        for name, place in self.releases.items():
            if place == "sample":
                place = self.releases[name] = str(self.folder / "releases" / name)
                self._must(env, job="sample", out=place, scale=1.0, seed=0)
            self._must(env, job="export", release=place, out=str(self._export(name)))
            self._must(env, job="due", release=place, out=str(self._due(name)))

    def _must(self, env: Environment, **job: Any) -> dict[str, Any]:
        answer = work(env, self.home, self.folder, **job)
        if "failed" in answer:
            raise DevError(f"{job['job']} failed: {answer['log']}")
        return answer

    def _export(self, name: str) -> Path:
        return self.folder / "exports" / name / "trace"

    def _due(self, name: str) -> Path:
        return self.folder / "due" / name

    def _trap(self, name: str) -> Path:
        return self.folder / "trap" / name / "trace"

    def run(self, version: str) -> None:
        """Load everything in one version."""
        env = environment(version)
        for name, place in self.releases.items():
            export, snapshot = self._export(name), Path(place).resolve()
            self._export_again(env, version, name, snapshot)
            common = {"due": str(self._due(name)), "release": str(snapshot)}
            self._load(env, version, name, "plain, by path", self.folder, job="plain", source=str(export), **common)
            self._load(env, version, name, "plain, by name", export.parent, job="plain", source="trace", **common)
            streamed = {"job": "plain", "source": str(export), "streaming": True}
            self._load(env, version, name, "plain, streamed", self.folder, **streamed, **common)
            self._load(env, version, name, "package", self.folder, job="package", **common)
            if int(version.split(".")[0]) < 4:
                script = str(PROJECT / "loading_script" / "trace.py")
                self._load(env, version, name, "script", self.folder, job="script", source=script, **common)
        places = [str(self._trap(name)) for name in ("a", "b", "edited")]
        self._load(env, version, "two of one name", "cache trap", self.folder, job="trap", places=places)

    def _export_again(self, env: Environment, version: str, name: str, snapshot: Path) -> None:
        """Every version must write the same names, and with the same pyarrow the same bytes."""
        started = time.monotonic()
        out = self.folder / "again" / version / name
        answer = work(env, self.home, self.folder, job="export", release=str(snapshot), out=str(out))
        problems = answer.get("failed", [])
        records = 0
        if not problems:
            records = answer["records"]
            first = self._exports.setdefault(f"{name} {answer['pyarrow']}", answer["files"])
            problems = [
                f"{file} differs" for file in {*first, *answer["files"]} if first.get(file) != answer["files"].get(file)
            ]
            if {Path(file).name for file in answer["files"]} != {
                path.name for path in self._export(name).rglob("*.*") if path.is_file()
            }:
                problems.append("other files than the first version's")
        seconds = time.monotonic() - started
        self.results.append(
            Result(version, name, "export", CONFIGS - len(problems), CONFIGS, records, seconds, problems)
        )

    def _load(self, env: Environment, version: str, name: str, way: str, cwd: Path, **job: Any) -> None:
        started = time.monotonic()
        answer = work(env, self.home, cwd, **job)
        problems = list(answer.get("failed", [])) + answer.get("problems", [])
        result = Result(
            version,
            name,
            way,
            answer.get("equal", 0),
            answer.get("attested", 0),
            answer.get("records", 0),
            time.monotonic() - started,
            problems,
        )
        self.results.append(result)
        say(f"  {name}, {way}: {'ok' if result.ok else 'FAILED'} ({result.seconds:.1f} s)")


def table(results: list[Result]) -> str:
    """Return the table as text."""
    head = ("datasets", "release", "way", "equal", "attested", "records", "seconds", "")
    rows = [
        (
            r.version,
            r.release,
            r.way,
            str(r.equal),
            str(r.attested),
            str(r.records),
            f"{r.seconds:.1f}",
            "ok" if r.ok else "FAILED",
        )
        for r in results
    ]
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def releases(chosen: list[str]) -> dict[str, str]:
    """Name the releases to load: the chosen ones, else a synthetic one and the real rows where they are."""
    if chosen:
        return {Path(place).name or f"release-{number}": place for number, place in enumerate(chosen)}
    found = {"synthetic": "sample"}
    if real := os.environ.get("TRACE_TEST_REAL"):
        found["real"] = str(Path(real).resolve() / "sample_release")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run the matrix."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", nargs="+", metavar="VERSION", default=[VERSIONS[0], VERSIONS[-1]])
    parser.add_argument("--all", action="store_true", help=f"all of {', '.join(VERSIONS)}")
    parser.add_argument("--release", action="append", default=[], help="a release to load, instead of the usual ones")
    parser.add_argument("--json", metavar="FILE", help="also write the results there")
    options = parser.parse_args(arguments)
    versions = list(VERSIONS) if options.all else options.versions
    try:
        for version in versions:
            environment(version).prepare("video")
        with tempfile.TemporaryDirectory(prefix="trace-hf-matrix-") as folder:
            matrix = Matrix(Path(folder), releases(options.release))
            matrix.prepare(environment(versions[-1]))
            for version in versions:
                say(f"datasets {version}")
                matrix.run(version)
    except DevError as problem:
        say(str(problem))
        return 2
    say("\n" + table(matrix.results))
    failed = [result for result in matrix.results if not result.ok]
    for result in failed:
        say(f"\n{result.version}, {result.release}, {result.way}:")
        for what in result.problems[:10]:
            say(f"  {what}")
    if options.json:
        Path(options.json).write_text(
            json.dumps([vars(result) for result in matrix.results], indent=1), encoding="utf-8"
        )
    say(f"\n{len(matrix.results) - len(failed)} of {len(matrix.results)} are equal" + ("" if failed else ": all"))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
