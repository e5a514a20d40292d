"""The user's cache, shared by all that can be made again."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder(name: str) -> Path:
    """Return the folder of a kind of cached thing; it may not exist yet.

    The cache is ``$TRACE_CACHE``, else ``$XDG_CACHE_HOME/trace-hf``, else ``~/.cache/trace-hf``.
    """
    cache = os.environ.get("TRACE_CACHE")
    base = Path(cache) if cache else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trace-hf"
    return base.expanduser().absolute() / name
