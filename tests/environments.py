"""The environment that slow tests with torch run in."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "torch_env.py"


@cache
def _made() -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False)


def torch_python() -> Path:
    """Return the interpreter of the environment of `scripts/torch_env.py`; skip where it cannot be made."""
    made = _made()
    if made.returncode == 3:
        pytest.skip(f"torch and lmms-eval cannot be installed here: {made.stderr[-300:]}")
    assert made.returncode == 0, made.stderr
    return Path(made.stdout.strip())
