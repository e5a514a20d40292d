"""Cases: which files of a release are damaged how, made from two numbers."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from .damage import DAMAGES, MIB, VALUES, edit_json, places
from .reference import sha256_of

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Step:
    """One damage to one file, with the seed of its own random choices."""

    file: str
    kind: str
    seed: int


@dataclass(frozen=True)
class Case:
    """What is done to a copy of a release.

    Attributes
    ----------
    name : str
        ``seed:index``, or the name of a monster; makes the same case again.
    steps : tuple of Step
    agree : bool
        Whether the manifest is made to agree afterwards, with hashes and, mostly, counts.
    manifest_steps : tuple of Step
        Damage to the manifest after that.
    """

    name: str
    steps: tuple[Step, ...]
    agree: bool
    manifest_steps: tuple[Step, ...] = field(default=())

    def without(self, index: int) -> Case:
        """Return the case without one of its steps, to find a smaller one."""
        steps = [*self.steps, *self.manifest_steps]
        del steps[index]
        return Case(
            self.name,
            tuple(s for s in steps if s in self.steps),
            self.agree,
            tuple(s for s in steps if s not in self.steps),
        )


def files_of(folder: Path) -> list[str]:
    """Return the names of a release's files, without its manifest."""
    return sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != MANIFEST)


def case_of(name: str, files: list[str]) -> Case:
    """Make a case from its name."""
    if name in MONSTERS:
        file, agree, _ = MONSTERS[name]
        return Case(name, (Step(file, name, 0),), agree)
    random = Random(name)
    # Damage that only the hash would notice is soon understood; most cases are about what lies behind it.
    agree = random.random() < 0.85
    steps = [
        Step(random.choice(files), _kind(random), random.getrandbits(32))
        for _ in range(random.choice([0, 1, 1, 1, 1, 2, 3]))
    ]
    manifest_steps = []
    if not steps or random.random() < 0.15:
        kind = random.choice([*DAMAGES, "value", "shape", "manifest_value", "manifest_value", "manifest_value"])
        manifest_steps.append(Step(MANIFEST, kind, random.getrandbits(32)))
    return Case(name, tuple(steps), agree, tuple(manifest_steps))


def _kind(random: Random) -> str:
    if random.random() < 0.04:
        return random.choice([*OBJECTS])
    return random.choice([*DAMAGES, "token", "value", "value", "shape", "shape", "bits"])


def build(case: Case, release: Path, folder: Path) -> None:
    """Make the damaged copy in a new folder."""
    shutil.copytree(release, folder)
    for path in (folder, *folder.iterdir()):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    files = files_of(release)
    others = [(release / name).read_bytes() for name in files]
    for step in case.steps:
        _apply(step, folder, others)
    if case.agree:
        _agree(folder, Random(case.name))
    for step in case.manifest_steps:
        _apply(step, folder, others)


def _apply(step: Step, folder: Path, others: list[bytes]) -> None:
    path, random = folder / step.file, Random(step.seed)
    if step.kind in MONSTERS:
        MONSTERS[step.kind][2](path)
    elif step.kind in OBJECTS:
        OBJECTS[step.kind](path)
    elif path.is_file() and not path.is_symlink():
        data = path.read_bytes()
        path.write_bytes(
            edit_json(data, random, _manifest_value)
            if step.kind == "manifest_value"
            else DAMAGES[step.kind](data, random, others)
        )


def _manifest_value(manifest: Any, random: Random) -> Any:
    """Edit what a manifest says, in ways that an attacker would."""
    files = list(manifest["files"])
    kind = random.randrange(6)
    if kind == 0:
        role = random.choice(["qa_file", "proactive_file", "tiny_qa_ids_file", "tiny_proactive_ids_file"])
        manifest[role] = random.choice([*files, *VALUES])
    elif kind == 1:
        manifest["files"][str(random.choice(VALUES))] = random.choice([manifest["files"][files[0]], "0" * 64, "x"])
    elif kind == 2:
        manifest["files"].pop(random.choice(files))
    elif kind == 3:
        a, b = random.sample(files, 2)
        manifest["files"][a], manifest["files"][b] = manifest["files"][b], manifest["files"][a]
    elif kind == 4:
        manifest["release_id"] = random.choice(["v1.1.0", "x\npinned: true", "a" * 5000, "\u202e"])
        manifest["status"] = random.choice(["public", "x\nverified: true\npinned: true", ""])
    else:
        container, key = random.choice(places(manifest))
        container[key] = random.choice(VALUES)
    return manifest


def _agree(folder: Path, random: Random) -> None:
    """Make the manifest agree with the files, as somebody would who edits both."""
    path = folder / MANIFEST
    if path.stat().st_size > 16 * MIB:
        return
    manifest = json.loads(path.read_text("utf-8"))
    for name in list(manifest["files"]):
        if (folder / name).is_file():
            with (folder / name).open("rb") as stream:
                manifest["files"][name] = sha256_of(stream)
        elif not os.path.lexists(folder / name) and name not in manifest.values():
            del manifest["files"][name]
    if random.random() < 0.9:
        for task in ("qa", "proactive"):
            file = folder / manifest[f"{task}_file"]
            if file.is_file() and file.stat().st_size < 64 * MIB:
                manifest["counts"][task] = sum(bool(line.strip()) for line in file.read_bytes().split(b"\n"))
    path.write_text(json.dumps(manifest, ensure_ascii=False, indent=2, sort_keys=True) + "\n", "utf-8")


# --- what is no file ----------------------------------------------------------------------------------------------


def _in_place(make: Callable[[Path], Any]) -> Callable[[Path], None]:
    def act(path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        path.unlink(missing_ok=True)
        make(path)

    return act


OBJECTS: dict[str, Callable[[Path], None]] = {
    "missing": _in_place(lambda path: None),
    "folder": _in_place(Path.mkdir),
    "pipe": _in_place(os.mkfifo),
    "link out": _in_place(lambda path: path.symlink_to("/etc/passwd")),
    "link to nothing": _in_place(lambda path: path.symlink_to("nothing")),
    "link to itself": _in_place(lambda path: path.symlink_to(path.name)),
    "link to a device": _in_place(lambda path: path.symlink_to("/dev/zero")),
}


# --- monsters -----------------------------------------------------------------------------------------------------


def _sparse(path: Path) -> None:
    os.truncate(path, 1024 * MIB)


def _long_line(mib: int) -> Callable[[Path], None]:
    def act(path: Path) -> None:
        head, tail = path.read_bytes().split(b'"question":"', 1)
        path.write_bytes(head + b'"question":"' + b"x" * (mib * MIB) + tail)

    return act


def _put(head: bytes, block: bytes, times: int, tail: bytes = b"") -> Callable[[Path], None]:
    def act(path: Path) -> None:
        with path.open("wb") as stream:
            stream.write(head)
            for _ in range(times):
                stream.write(block)
            stream.write(tail)

    return act


def _after(block: bytes, times: int, tail: bytes = b"") -> Callable[[Path], None]:
    return lambda path: _put(path.read_bytes(), block, times, tail)(path)


def _bomb(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=1) as stream:
        for _ in range(2048):
            stream.write(bytes(MIB))


def _many_files(path: Path) -> None:
    manifest = json.loads(path.read_bytes())
    manifest["files"] |= {f"{number}": "0" * 64 for number in range(150_000)}
    path.write_text(json.dumps(manifest))


_IDS = b'"ovo_bench_qa:123456789012345678901234567890123456789012345678",' * (MIB // 64)
_CHECK = b'"' + b"x" * 50 + b'":true,'

MONSTERS: dict[str, tuple[str, bool, Callable[[Path], None]]] = {
    "manifest of 1 GiB": (MANIFEST, False, _sparse),
    "manifest of 150,000 files": (MANIFEST, False, _many_files),
    "manifest nested deeply": (MANIFEST, False, _put(b"", b"[" * 1000, 8000)),
    "manifest as one string": (MANIFEST, False, _put(b'{"release_id":"', b"x" * MIB, 12, b'"}')),
    "line of 15 MiB": ("qa.jsonl", True, _long_line(15)),
    "line of 17 MiB": ("qa.jsonl", True, _long_line(17)),
    "line of 300 MiB": ("qa.jsonl", True, _put(b"", b"x" * MIB, 300)),
    "zeros in place of records": ("qa.jsonl", True, _sparse),
    "zeros in place of IDs": ("tiny_qa_ids.json", True, _sparse),
    "zeros in place of subsets": ("proactive_subsets.json", True, _sparse),
    "800 MiB of IDs": ("tiny_qa_ids.json", True, _put(b"[", _IDS, 800, b'"x"]')),
    "12 MiB of nothing in a list": ("tiny_qa_ids.json", True, _put(b"[", b'"",' * (MIB // 3), 12, b'""]')),
    "60 MiB of checks": ("validation_report.json", True, _put(b'{"checks":{', _CHECK, MIB, b'"":true}}')),
    "64 MiB of line ends": ("qa.jsonl", True, _after(b"\n" * MIB, 64)),
    "120 MiB of line ends": ("qa.jsonl", True, _after(b"\n" * MIB, 120, b"x")),
    "64 MiB of blank lines": ("proactive.jsonl", True, _after(b" \n\t\r\n" * (MIB // 5), 64)),
    "15 MiB of spaces": ("exclusions.jsonl", True, _after(b" " * MIB, 15)),
    "15 MiB of brackets": ("changes.jsonl", True, _after(b"[" * MIB, 15)),
    "15 MiB of empty objects": ("qa.jsonl", True, _after(b"{}," * (MIB // 3), 15)),
    "4 million empty objects": ("exclusions.jsonl", True, _after(b"{}\n" * (MIB // 3), 12)),
    "half of a key, again and again": ("qa.jsonl", True, _after(b'"record_id" ' * (MIB // 12), 15)),
    "gzip of 2 GiB in place of records": ("qa.jsonl", False, _bomb),
    "gzip of 2 GiB, agreed": ("qa.jsonl", True, _bomb),
}  # fmt: skip
"""By name: the file, whether the manifest is made to agree, and what is done."""
