"""What the verbs of `videos` share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from ..release import Release
from ..schema import CONFIGS
from ..videos.root import ENVIRONMENT
from .common import parse_storage_options as json_object

__all__ = ["SUBSETS", "json_object", "root_options", "subset_option", "subset_records"]

_Command = TypeVar("_Command", bound=Callable[..., Any])

SUBSETS = {
    "tiny": ("qa_tiny", "proactive_tiny"),
    "standard": ("qa", "proactive_standard"),
    "full": ("qa", "proactive"),
}
"""What `--subset` means, beside the name of a config."""


def subset_records(release: Release, subset: str) -> Iterator[Any]:
    """Yield the records of a subset: tiny, standard, full, or a config."""
    for config in SUBSETS.get(subset, (subset,)):
        yield from release.records(config)


def subset_option(command: _Command) -> _Command:
    """Add ``--subset``."""
    names = [*SUBSETS, *(name for name, config in CONFIGS.items() if config.inputs)]
    return click.option(
        "--subset",
        type=click.Choice(names),
        metavar="SUBSET",
        default="standard",
        show_default=True,
        help=f"{', '.join(SUBSETS)}, or a config: {', '.join(names[len(SUBSETS) :])}.",
    )(command)


def root_options(command: _Command) -> _Command:
    """Add ``--video-root`` and ``--video-options``."""
    command = click.option(
        "--video-options",
        callback=json_object,
        metavar="JSON",
        help="fsspec options for the video root; by prefix for a mapping.",
    )(command)
    return click.option(
        "--video-root",
        metavar="ROOT",
        help="A folder, an fsspec URL, a JSON mapping of path prefixes, or a JSON file with a mapping or an archive "
        f"index. Without it, {ENVIRONMENT} is used.",
    )(command)
