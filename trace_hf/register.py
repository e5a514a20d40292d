"""The name "trace" for `datasets.load_dataset`.

`datasets` looks a name without a slash up on the Hub unless a module factory answers for it, and its registry of
packaged modules wants data files in the working directory. So the one function that turns names into modules is
wrapped: it answers for the exact name "trace" and hands every other name on. The wrapper is installed by a
post-import hook, so that nothing is imported before the user does.
"""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

import wrapt

NAME = "trace"
"""What `load_dataset` takes as its first argument. It wins over a folder of that name: write ``./trace`` for that."""

_FACTORY = "dataset_module_factory"
_hooked = False


def register() -> None:
    """Make `datasets.load_dataset("trace", config, ...)` load TRACE.

    Done by ``import trace_hf``, before or after ``import datasets``. Calling it again changes nothing.
    """
    global _hooked
    if not _hooked:
        _hooked = True
        wrapt.register_post_import_hook(_install, "datasets.load")


def _install(module: ModuleType) -> None:
    original = getattr(module, _FACTORY)
    if getattr(original, "__trace_hf__", False):
        return

    @functools.wraps(original)
    def dataset_module_factory(path: str, *args: Any, **kwargs: Any) -> Any:
        return _trace_module(module, **kwargs) if path == NAME else original(path, *args, **kwargs)

    dataset_module_factory.__trace_hf__ = True  # type: ignore[attr-defined]
    # datasets.inspect and others have imported it by name when datasets came first.
    for name, other in list(sys.modules.items()):
        if name.split(".")[0] == "datasets" and getattr(other, _FACTORY, None) is original:
            setattr(other, _FACTORY, dataset_module_factory)


def _trace_module(
    load: ModuleType, data_dir: str | None = None, data_files: object = None, revision: object = None, **_: Any
) -> Any:
    from .errors import ReleaseNotFoundError
    from .schema import PACKAGE_SCHEMA

    if data_files is not None:
        raise ReleaseNotFoundError(
            'load_dataset("trace", ...) takes no data_files: a release is read as a whole, or not at all',
            do="name the release with data_dir= (or release=)",
        )
    if revision is not None:
        raise ReleaseNotFoundError(
            'load_dataset("trace", ...) takes no revision: a release says itself which one it is',
            do="put the revision into the release's URL, for example hf://datasets/org/name@rev/snapshot",
        )
    return load.DatasetModule("trace_hf.builder", f"s{PACKAGE_SCHEMA}", {"dataset_name": NAME, "data_dir": data_dir})
