"""The records that a score is about, and what a result must say about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from .. import __version__
from ..errors import UnknownConfigError
from ..release import Release, config_named
from ..schema import CONFIGS
from .evidence import TOLERANCES_S
from .parsing import PARSER

__all__ = ["SCORER", "Population", "open_population"]

SCORER = "trace-hf-scorer-1"
"""Raised whenever the same answers could score otherwise; part of every result."""

_MARKS = {
    "synthetic": "SYNTHETIC release: no number made on it is a TRACE result",
    "private_provisional": "PRIVATE PROVISIONAL release: its annotations may still change",
}


@dataclass(frozen=True)
class Population:
    """The verified full records of one config.

    Attributes
    ----------
    release : Release
    config : str
    records : dict
        Record ID -> full record as a plain dict, in the config's order. For the driver and the scorer only: what a
        model gets is the ``model_input`` view.
    """

    release: Release
    config: str
    records: Mapping[str, dict[str, Any]]

    @property
    def task(self) -> str:
        """``qa`` or ``proactive``."""
        return "qa" if CONFIGS[self.config].source == "qa" else "proactive"

    def facts(self, scored: int | None = None, **more: Any) -> dict[str, Any]:
        """Return what every result says about its making.

        Parameters
        ----------
        scored : int, optional
            How many records the scores are over, if not over all.
        **more
            Further facts of the run.
        """
        manifest, spec = self.release.manifest, CONFIGS[self.config]
        whole = len(self.records)
        facts: dict[str, Any] = {
            "release_id": self.release.release_id,
            "manifest_sha256": self.release.manifest_sha256,
            "pinned": self.release.pinned,
            "release_status": manifest.status,
            "mark": _MARKS.get(manifest.status),
            "config": self.config,
            "population": spec.description,
            "population_records": whole,
            "complete": scored is None or scored == whole,
            "parser": PARSER,
            "scorer": SCORER,
            "trace_hf": __version__,
        }
        if self.task == "proactive":
            facts["tolerances_s"] = list(TOLERANCES_S)
        return {**facts, **more}


def open_population(config: str, release: Any = None, storage_options: Mapping[str, Any] | None = None) -> Population:
    """Open a config's full records, verified.

    Parameters
    ----------
    config : str
        A QA or Proactive config.
    release : str, path or Release, optional
        As `Release.open` takes it; left out, ``TRACE_RELEASE``.
    storage_options : mapping, optional
        For a remote release.

    Raises
    ------
    UnknownConfigError
        If there is no such config, or it is for audit.
    ReleaseNotFoundError, ManifestError, IntegrityError, SchemaError
        If there is no release, or it does not verify.
    """
    spec = config_named(config)
    if not spec.inputs:
        raise UnknownConfigError(f"config {config!r} is for audit; there is nothing to run or score in it")
    opened = Release.open(release, storage_options)
    records = {record.record_id: msgspec.to_builtins(record) for record in opened.records(spec)}
    return Population(opened, config, records)
