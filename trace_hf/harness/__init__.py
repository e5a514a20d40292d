"""What any harness needs to run TRACE: prompts, evidence, parsing and scoring, over plain dicts.

Nothing here knows a harness. A driver gives a model the ``model_input`` row, looks spans and targets up by
``record_id`` in the full records, and hands what the model said to the scorer. Names load their module on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .answers import read_proactive, read_qa
    from .evidence import clip_path, images, polling_times, request_span
    from .judge import Judge
    from .parsing import is_silent, normalize, recoverable_choice, strict_choice
    from .population import Population, open_population
    from .proactive import proactive_outcome, score_proactive
    from .prompts import proactive_prompt, proactive_system, qa_prompt
    from .qa import qa_outcome, score_qa

__all__ = [
    "Judge",
    "Population",
    "clip_path",
    "images",
    "is_silent",
    "normalize",
    "open_population",
    "polling_times",
    "proactive_outcome",
    "proactive_prompt",
    "proactive_system",
    "qa_outcome",
    "qa_prompt",
    "read_proactive",
    "read_qa",
    "recoverable_choice",
    "request_span",
    "score_proactive",
    "score_qa",
    "strict_choice",
]

_HOMES = {
    **dict.fromkeys(("read_proactive", "read_qa"), "answers"),
    **dict.fromkeys(("clip_path", "images", "polling_times", "request_span"), "evidence"),
    "Judge": "judge",
    **dict.fromkeys(("is_silent", "normalize", "recoverable_choice", "strict_choice"), "parsing"),
    **dict.fromkeys(("Population", "open_population"), "population"),
    **dict.fromkeys(("proactive_outcome", "score_proactive"), "proactive"),
    **dict.fromkeys(("proactive_prompt", "proactive_system", "qa_prompt"), "prompts"),
    **dict.fromkeys(("qa_outcome", "score_qa"), "qa"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
