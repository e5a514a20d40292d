"""One job of `matrix.py`, run by the Python of one environment. Prints one line of JSON."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

CONFIGS = (
    "qa",
    "qa_tiny",
    "proactive",
    "proactive_standard",
    "proactive_high_frequency",
    "proactive_tiny",
    "changes",
    "exclusions",
)


def lines_of(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Write rows so that any difference shows: values, types, nulls, and the order of columns and fields."""
    for row in rows:
        yield json.dumps(row, ensure_ascii=False)


def compare(config: str, rows: Iterable[dict[str, Any]], due: Path) -> tuple[int, list[str]]:
    """Compare rows with those that are due, one by one."""
    count = 0
    problems: list[str] = []
    with (due / f"{config}.jsonl").open(encoding="utf-8") as expected:
        for number, (found, wanted) in enumerate(zip_longest(lines_of(rows), (line.rstrip("\n") for line in expected))):
            count += found is not None
            if found != wanted and not problems:
                problems.append(f"{config}, row {number}: {str(found)[:200]} instead of {str(wanted)[:200]}")
    return count, problems


def sample(out: str, scale: float, seed: int) -> dict[str, Any]:
    """Write a synthetic release."""
    import trace_hf

    trace_hf.write_sample(out, scale=scale, seed=seed)
    return {}


def edit(release: str, out: str) -> dict[str, Any]:
    """Export a copy of a release in which one question was edited."""
    copy = Path(out).parent / "release"
    shutil.copytree(release, copy)
    manifest = json.loads((copy / "manifest.json").read_text(encoding="utf-8"))
    path = copy / manifest["qa_file"]
    lines = path.read_text(encoding="utf-8").splitlines()
    first = json.loads(lines[0])
    first["question"] += " 改"
    lines[0] = json.dumps(first, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    manifest["files"][manifest["qa_file"]] = hashlib.sha256(path.read_bytes()).hexdigest()
    (copy / "manifest.json").write_text(json.dumps(manifest, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    return export(str(copy), out)


def export(release: str, out: str) -> dict[str, Any]:
    """Export a release and hash every file of it."""
    import pyarrow as pa

    from trace_hf.hub.export import export as write

    made = write(release, out)
    files = sorted(path for path in made.path.rglob("*") if path.is_file())
    return {
        "pyarrow": pa.__version__,
        "records": sum(table.rows for table in made.tables.values()),
        "files": {p.relative_to(made.path).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files},
    }


def due(release: str, out: str) -> dict[str, Any]:
    """Write the rows that every way has to give, straight from the release's files."""
    from trace_hf.arrow import row_of
    from trace_hf.release import Release

    opened = Release.open(release)
    Path(out).mkdir(parents=True)
    for config in CONFIGS:
        with (Path(out) / f"{config}.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines_of(map(row_of, opened.records(config))))
    return {}


def load(due: str, release: str, one: Callable[[str], Any]) -> dict[str, Any]:
    """Load every config in one way, compare it and attest it."""
    loaded = {config: one(config) for config in CONFIGS}
    result: dict[str, Any] = {"equal": 0, "attested": 0, "records": 0, "problems": []}
    for config, rows in loaded.items():
        count, problems = compare(config, rows, Path(due))
        result["records"] += count
        result["equal"] += not problems
        result["problems"] += problems
    from trace_hf import attest

    for config, rows in loaded.items():
        proof = attest(rows, config, release=release)
        result["attested"] += proof.ok
        result["problems"] += [] if proof.ok else [str(proof)]
    return result


def plain(source: str, due: str, release: str, streaming: bool = False) -> dict[str, Any]:
    """Load an export with nothing but `datasets`."""
    import datasets

    def one(config: str) -> Any:
        assert "trace_hf" not in sys.modules
        return datasets.load_dataset(source, config, split="test", streaming=streaming)

    return load(due, release, one)


def package(due: str, release: str) -> dict[str, Any]:
    """Load a release with the package."""
    import trace_hf

    return load(due, release, lambda config: trace_hf.load(config, release=release))


def script(source: str, due: str, release: str) -> dict[str, Any]:
    """Load a release with the loading script."""
    import datasets

    def one(config: str) -> Any:
        return datasets.load_dataset(source, config, split="test", data_dir=release, trust_remote_code=True)

    return load(due, release, one)


def trap(places: list[str]) -> dict[str, Any]:
    """Load exports of one folder name after each other, by name and by path, and one that is replaced in place.

    The same is done with copies whose YAML says nothing but where the files are, so that only their names tell them
    apart; and, as a control, with copies whose names do not: these must show the trap, or the test would show nothing.
    """
    import datasets
    import pyarrow.parquet as pq

    result: dict[str, Any] = {"equal": 0, "attested": 0, "records": 0, "problems": [], "stale": 0}

    def wrong(source: str, folder: Path) -> list[str]:
        found = []
        for config in CONFIGS:
            rows = datasets.load_dataset(source, config, split="test").to_list()
            (path,) = (folder / config).glob("*.parquet")
            result["records"] += len(rows)
            if list(lines_of(rows)) != list(lines_of(pq.read_table(path).to_pylist())):
                found.append(config)
        return found

    def check(label: str, source: str, folder: Path) -> None:
        found = wrong(source, folder)
        result["equal"] += len(CONFIGS) - len(found)
        result["problems"] += [f"{label}: {config} gives the rows of another export" for config in found]

    base = Path(places[0]).parent.parent / f"work-{datasets.__version__}"
    bare = [_bare(Path(place), base / f"bare-{i}" / "trace", hashed=True) for i, place in enumerate(places)]
    for folder in [*map(Path, places), *bare]:
        os.chdir(folder.parent)
        check(f"by name in {folder.parent}", "trace", folder)
        check(f"by path {folder}", str(folder), folder)
    moved = base / "replaced" / "trace"
    for folder in (bare[0], bare[2], bare[0]):  # as it was, edited, and as it was again
        shutil.rmtree(moved, ignore_errors=True)
        shutil.copytree(folder, moved)
        check(f"in place of {folder}", str(moved), moved)
    for i, place in enumerate(places):
        folder = _bare(Path(place), base / f"control-{i}" / "trace", hashed=False)
        result["stale"] += len(wrong(str(folder), folder))
    if not result["stale"]:
        result["problems"].append("the control shows no trap, so that this test shows nothing")
    assert "trace_hf" not in sys.modules
    return result


def _bare(source: Path, target: Path, *, hashed: bool) -> Path:
    """Copy an export; its card keeps the files' places only, and the files keep the hash in their names or not."""
    shutil.copytree(source, target)
    entries = []
    for config in CONFIGS:
        (path,) = (target / config).glob("*.parquet")
        if not hashed:
            path = path.rename(path.with_name("test-00000-of-00001.parquet"))
        name = path.relative_to(target).as_posix()
        entries.append(f"- config_name: {config}\n  data_files:\n  - split: test\n    path: {name}\n")
    (target / "README.md").write_text(f"---\nconfigs:\n{''.join(entries)}---\n", encoding="utf-8")
    return target


JOBS: dict[str, Callable[..., dict[str, Any]]] = {
    job.__name__: job for job in (sample, edit, export, due, plain, package, script, trap)
}

if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    answer = JOBS[job.pop("job")](**job)
    print(json.dumps(answer))
