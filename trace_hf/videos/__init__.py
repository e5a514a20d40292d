"""Videos: any root, found, checked, fetched, cut. Names load their module on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .archive import ArchiveIndex
    from .clips import Clip, Frame, clip, frames, save_frames
    from .fetch import FetchReport, fetch_videos, plan_fetch
    from .indexing import build_index
    from .inventory import Inventory, check_videos
    from .probe import ProbeReport, probe_videos
    from .root import VideoRoot
    from .rules import BUILT_IN_RULES, Rule

__all__ = [
    "BUILT_IN_RULES",
    "ArchiveIndex",
    "Clip",
    "FetchReport",
    "Frame",
    "Inventory",
    "ProbeReport",
    "Rule",
    "VideoRoot",
    "build_index",
    "check_videos",
    "clip",
    "fetch_videos",
    "frames",
    "plan_fetch",
    "probe_videos",
    "save_frames",
]

_MODULES = {
    **dict.fromkeys(("ArchiveIndex",), "archive"),
    **dict.fromkeys(("Clip", "Frame", "clip", "frames", "save_frames"), "clips"),
    **dict.fromkeys(("FetchReport", "fetch_videos", "plan_fetch"), "fetch"),
    **dict.fromkeys(("build_index",), "indexing"),
    **dict.fromkeys(("Inventory", "check_videos"), "inventory"),
    **dict.fromkeys(("ProbeReport", "probe_videos"), "probe"),
    **dict.fromkeys(("VideoRoot",), "root"),
    **dict.fromkeys(("BUILT_IN_RULES", "Rule"), "rules"),
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
