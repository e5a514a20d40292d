"""TRACE for the Hugging Face ecosystem: typed rows that are proven to be the released ones.

Importing this package registers the name "trace" with `datasets` (whichever of the two is imported first) and
loads nothing heavy: every name below is loaded when it is first used.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .register import register

__version__ = "0.1.0"

_HOMES = {
    "Attestation": "attest",
    "Release": "release",
    "ValidationReport": "checks",
    "VerificationReport": "integrity",
    "VideoRoot": "videos.root",
    "attest": "attest",
    "attest_export": "hub.proof",
    "effective_windows": "windows",
    "errors": "errors",
    "export": "hub.export",
    "evidence_span": "windows",
    "load": "loading",
    "provenance": "loading",
    "validate": "checks",
    "verify": "release",
    "write_report": "report",
    "write_sample": "sample",
}

__all__ = ["__version__", "register", *sorted(_HOMES)]

if TYPE_CHECKING:
    from . import errors as errors
    from .attest import Attestation as Attestation
    from .attest import attest as attest
    from .checks import ValidationReport as ValidationReport
    from .checks import validate as validate
    from .hub.export import export as export
    from .hub.proof import attest_export as attest_export
    from .integrity import VerificationReport as VerificationReport
    from .loading import load as load
    from .loading import provenance as provenance
    from .release import Release as Release
    from .release import verify as verify
    from .report import write_report as write_report
    from .sample import write_sample as write_sample
    from .videos.root import VideoRoot as VideoRoot
    from .windows import effective_windows as effective_windows
    from .windows import evidence_span as evidence_span


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f".{home}", __name__)
    value = module if home == name == "errors" else getattr(module, name)
    globals()[name] = value  # also undoes that importing a submodule binds its name here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """Keeps `trace_hf.attest` the function when the module of that name is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and name != "errors" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
register()
