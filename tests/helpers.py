"""Damage to a snapshot; `conftest.rewrite_manifest` makes its manifest agree."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def edit_manifest(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change a snapshot's manifest in place."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    edit(manifest)
    path.write_text(json.dumps(manifest, ensure_ascii=False, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def edit_line(path: Path, index: int, edit: Callable[[bytes], bytes]) -> None:
    """Change one line (from 0) of a line file."""
    lines = path.read_bytes().split(b"\n")
    lines[index] = edit(lines[index])
    path.write_bytes(b"\n".join(lines))
