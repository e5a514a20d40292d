#!/usr/bin/env python3
"""Make an environment that some tests need for themselves, once, and print the path of its Python.

    python3 scripts/envs.py torch    torch, torchcodec and trace-hf: decoding, and several loader workers
    python3 scripts/envs.py lmms     lmms-eval and trace-hf

It lies in `.venv-NAME` and is used as it is by later calls. Exit code 3 means that the packages cannot be installed
here. The script needs Python 3.10 or newer and nothing else.
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

CANNOT_INSTALL = 3

# Each entry is one call of pip.
RECIPES: dict[str, tuple[tuple[str, ...], ...]] = {
    # torchcodec goes with one version of torch, and says so in no metadata.
    "torch": (
        ("pip>=21.3",),
        ("torch==2.13.0",),
        ("--no-deps", "torchcodec==0.13.0"),
        ("--editable", f"{PROJECT}[video]"),
    ),
    # The smallest set that lmms-eval runs with on a CPU; all that its models need beside it would be many gigabytes.
    # filelock 4 breaks it.
    "lmms": (
        ("pip>=21.3",),
        ("torch==2.13.0",),
        ("--no-deps", "lmms-eval==0.7.3"),
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
        ("--editable", f"{PROJECT}[video]", "av<16", "filelock<4"),
    ),
}
PROBES = {"torch": "import trace_hf, torch", "lmms": "import trace_hf, torch, lmms_eval"}


def recipe(name: str) -> str:
    """Return a hash of everything that the environment follows from."""
    version = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
    parts = [RECIPES[name], version, str(PROJECT), packaging_part(pyproject())]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def python_of(folder: Path) -> Path:
    """Return the interpreter of an environment."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def ready(name: str, folder: Path, stamp: Path) -> bool:
    """Say whether it was made by its recipe and still imports what it is for."""
    try:
        if stamp.read_text(encoding="utf-8") != recipe(name):
            return False
        probe = [str(python_of(folder)), "-c", PROBES[name]]
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def make(name: str, folder: Path, stamp: Path) -> None:
    """Make it anew."""
    require_venv()
    stamp.unlink(missing_ok=True)
    remove(folder)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    for step in RECIPES[name]:
        command = [str(python_of(folder)), "-m", "pip", "install", "--quiet", *step]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            remove(folder)
            sys.stderr.write(done.stderr)
            print(f"pip could not install {' '.join(step)} into {folder.name}", file=sys.stderr)
            sys.exit(CANNOT_INSTALL)
    stamp.write_text(recipe(name), encoding="utf-8")


def main() -> int:
    """Make it if it is not there, and print where its Python is."""
    if len(sys.argv) != 2 or sys.argv[1] not in RECIPES:
        print(__doc__, file=sys.stderr)
        return 2
    name = sys.argv[1]
    folder = PROJECT / f".venv-{name}"
    stamp = PROJECT / f".venv-{name}.stamp"
    with locked(PROJECT / f".venv-{name}.lock"):
        if not ready(name, folder, stamp):
            started = time.monotonic()
            print(f"making {folder.name} (once, about two minutes) …", file=sys.stderr, flush=True)
            make(name, folder, stamp)
            print(f"{folder.name} is ready ({time.monotonic() - started:.0f} s)", file=sys.stderr)
    print(python_of(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
