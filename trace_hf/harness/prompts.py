"""What a model is told. Every function takes a row of the ``model_input`` view and can say no more than it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["proactive_prompt", "proactive_system", "qa_prompt"]

_ANSWER = "Answer with the letter of the right option and nothing else."

_SILENCE = (
    "You are watching a video while it is being recorded, up to the present moment.\n"
    "Do what the user asks as soon as what you have seen is enough for it.\n"
    "As long as it is not enough, say only: WAIT\n"
    "Once it is enough, say only a short answer."
)


def qa_prompt(row: Mapping[str, Any]) -> str:
    """Return the user text of a QA record: the question, its options in their order, and how to answer.

    Parameters
    ----------
    row : mapping
        A row of a QA config; only the question and the options are read.

    Returns
    -------
    str
        The same for every model. Question and options stand as they are released, labels included.
    """
    options = "\n".join(row["options"])
    return f"Question: {row['question']}\nOptions:\n{options}\n\n{_ANSWER}"


def proactive_prompt(row: Mapping[str, Any]) -> str:
    """Return the user text of a Proactive record: the instruction as it is released, with nothing around it."""
    return str(row["instruction"])


def proactive_system() -> str:
    """Return the system text for models that have no way of their own to stay silent.

    A model with a native answer-or-silence protocol must not get it.
    """
    return _SILENCE
