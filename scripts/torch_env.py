#!/usr/bin/env python3
"""Make the environment of the tests that need torch, torchcodec or lmms-eval, once, and print its Python's path.

    python3 scripts/torch_env.py

It lies in `.venv-torch`, takes about 1.7 GB and two minutes, and is used as it is by later calls. Exit code 3 means
that the packages cannot be installed here. The script needs Python 3.10 or newer and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from dev import PROJECT, locked, packaging_part, pyproject, remove, require_venv

NAME = ".venv-torch"
CANNOT_INSTALL = 3

# The smallest set that lmms-eval runs with on a CPU; all that its models need beside it would be many gigabytes.
# filelock 4 breaks it. Each entry is one call of pip.
HARNESS: tuple[tuple[str, ...], ...] = (
    ("pip>=21.3",),
    ("torch==2.13.0",),
    # torchcodec goes with one version of torch, and says so in no metadata.
    ("--no-deps", "lmms-eval==0.7.3", "torchcodec==0.13.0"),
    (
        "accelerate",
        "av<16",
        "datasets",
        "evaluate",
        "filelock<4",
        "loguru",
        "pytablewriter",
        "pytz",
        "sacrebleu",
        "tenacity",
        "transformers",
    ),
)
OURS = ("--editable", f"{PROJECT}[video]", "av<16", "filelock<4")


def digest(*parts: object) -> str:
    """Return a hash of what something is made of."""
    version = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
    return hashlib.sha256(json.dumps([version, str(PROJECT), *parts]).encode()).hexdigest()


def recipe() -> dict[str, str]:
    """Return what the environment follows from: the harness, and what this project needs, which changes more often."""
    return {"harness": digest(HARNESS), "ours": digest(OURS, packaging_part(pyproject()))}


def python_of(folder: Path) -> Path:
    """Return the interpreter of an environment."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def made(folder: Path, stamp: Path) -> dict[str, str]:
    """Return the recipe that the environment was made by; empty if there is none that works."""
    probe = [str(python_of(folder)), "-c", "import torch, lmms_eval"]
    try:
        found: dict[str, str] = json.loads(stamp.read_text(encoding="utf-8"))
        works = subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except (OSError, ValueError):
        return {}
    return found if works else {}


def install(folder: Path, *step: str) -> None:
    """Run pip once."""
    command = [str(python_of(folder)), "-m", "pip", "install", "--quiet", *step]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr)
        print(f"pip could not install {' '.join(step)} into {NAME}", file=sys.stderr)
        sys.exit(CANNOT_INSTALL)


def make(folder: Path, stamp: Path) -> None:
    """Make what is missing or stale."""
    wanted, there = recipe(), made(folder, stamp)
    if there == wanted:
        return
    started = time.monotonic()
    stamp.unlink(missing_ok=True)  # until all is there, it is good for nothing
    if there.get("harness") != wanted["harness"]:
        print(f"making {NAME} (once, about two minutes) …", file=sys.stderr, flush=True)
        require_venv()
        remove(folder)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        for step in HARNESS:
            install(folder, *step)
    install(folder, *OURS)
    stamp.write_text(json.dumps(wanted), encoding="utf-8")
    print(f"{NAME} is ready ({time.monotonic() - started:.0f} s)", file=sys.stderr)


def main() -> int:
    """Make it if it is not there, and print where its Python is."""
    folder, stamp = PROJECT / NAME, PROJECT / f"{NAME}.stamp"
    with locked(PROJECT / f"{NAME}.lock"):
        make(folder, stamp)
    print(python_of(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
