"""Environments of their own that slow tests run in."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "envs.py"


@cache
def _made(name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), name], capture_output=True, text=True, check=False)


def python_of(name: str) -> str:
    """Return the interpreter of an environment of `scripts/envs.py`; skip where its packages cannot be installed."""
    made = _made(name)
    if made.returncode == 3:
        pytest.skip(f"the packages of the environment {name!r} cannot be installed here: {made.stderr[-300:]}")
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()
