"""Where this package keeps what it can make or fetch again."""

from __future__ import annotations

import os
from pathlib import Path

ENV_CACHE = "TRACE_CACHE"
"""Names the cache folder; empty counts as unset."""


def cache_dir() -> Path:
    """Return the cache folder, which need not exist yet.

    It is ``$TRACE_CACHE``, else ``$XDG_CACHE_HOME/trace-hf``, else ``~/.cache/trace-hf``. Everything in it can be
    removed at any time: it is made or fetched again.
    """
    named = os.environ.get(ENV_CACHE)
    if not named:
        named = str(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "trace-hf"))
    return Path(named).expanduser().absolute()
