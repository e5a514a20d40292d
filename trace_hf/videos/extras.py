"""Packages that only some verbs need, imported when they are."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..errors import TraceError

__all__ = ["need"]


def need(module: str, extra: str) -> Any:
    """Import a module of an optional extra, or say how to install it.

    Parameters
    ----------
    module : str
        What to import, for example ``av``.
    extra : str
        The extra of trace-hf that brings it, for example ``video``.

    Raises
    ------
    TraceError
        If it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise TraceError(
            f"{module.partition('.')[0]} is not installed: {error}",
            why="It is needed for this only, so trace-hf does not bring it by itself.",
            do=f"Run: pip install 'trace-hf[{extra}]'",
        ) from error
