"""How answers are judged: what a good refusal is, and what right rows are."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from trace_hf.errors import TraceError
from trace_hf.schema import CONFIGS, fields_of

from .reference import Refused, Snapshot, Unjudged, same

MESSAGE = 8_000
"""A longer message helps nobody."""

CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Fault(Exception):  # noqa: N818 - of the package, not of this script
    """The package did what it must not."""


@dataclass
class Scene:
    """A damaged snapshot and what belongs to it."""

    folder: Path
    release: Path
    scratch: Path
    random: Random
    config: str

    @property
    def due(self) -> Snapshot:
        """The damaged snapshot, as the slow reader sees it."""
        return Snapshot(self.folder)


class Expected(Exception):  # noqa: N818
    """The package refused, and said so as it should."""


@contextmanager
def judged() -> Iterator[None]:
    """Let through what is a good refusal, and turn any other exception into a fault."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except TraceError as error:
            check_message(error)
            raise Expected from error


def check_message(error: TraceError) -> None:
    """A refusal says where, is of a bearable length and cannot act on a terminal."""
    text = str(error)
    if not error.where and not re.search(r"[\w.-]+\.jsonl?\b|pinned|manifest|release|config", text):
        raise Fault(f"no place in: {text[:200]!r}")
    if len(text) > MESSAGE:
        raise Fault(f"a message of {len(text)} characters: {text[:100]!r}")
    found = CONTROL.search(text)
    if found:
        raise Fault(f"{found[0]!r} in a message: {text[:300]!r}")


def check_rows(scene: Scene, config: str, rows: list[Any], *, verified: bool = True, at: Path | None = None) -> None:
    """Rows are those that the slow reader gives."""
    try:
        due = Snapshot(at or scene.folder).rows(config, verified=verified)
    except Unjudged:
        return
    except Refused as problem:
        raise Fault(f"{len(rows)} rows of {config} where there are none: {problem}") from None
    fields = fields_of(CONFIGS[config].record)
    if len(rows) != len(due):
        raise Fault(f"{len(rows)} rows of {config} instead of {len(due)}")
    for row, right in zip(rows, due, strict=True):
        if not same(row, right, fields):
            raise Fault(f"{config}: {str(row)[:300]} instead of {str(right)[:300]}")
