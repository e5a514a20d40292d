"""What a model said: its choice, or its silence.

The strict parser is the protocol's: hidden reasoning and the wrapper around a label are taken away, and what is left
must be one valid label (``B.``, ``(b)``, ``: C``). A label with prose is invalid. The recoverable parser also takes
one unambiguous label that stands with its own option text or behind an answer introduction; it never takes a label
out of prose, nor the first of two.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from ..errors import SchemaError

__all__ = ["PARSER", "choices", "is_silent", "normalize", "recoverable_choice", "strict_choice", "visible"]

PARSER = "trace-hf-parser-1"
"""Raised whenever the same text could be read otherwise; part of every result."""

_TAGS = "think|thinking|thought|reasoning"
_BLOCK = re.compile(rf"<({_TAGS})>.*?</\1>", re.DOTALL | re.IGNORECASE)
_BLOCK_END = re.compile(rf"</(?:{_TAGS})>", re.IGNORECASE)
_BLOCK_START = re.compile(rf"<(?:{_TAGS})>", re.IGNORECASE)
_NEXT_TURN = re.compile(r"\n\s*(?:user|assistant|system)\s*\n", re.IGNORECASE)

_OPTION = re.compile(r"\s*([A-Za-z])\s*(?:[.):：．、]|(?=\s))\s*(.*)", re.DOTALL)
_LABEL_ONLY = re.compile(r"[\[(【]?\s*([A-Z])\s*[\])】]?\s*[.)。]?")
_LABEL_FIRST = re.compile(r"[\[(【]?([A-Za-z])[\])】]?\s*[.):、]?\s*(.*)", re.DOTALL)
_EXPLICIT = re.compile(r"(?<![A-Za-z])([A-Z])(?![A-Za-z'’])")
_INTRODUCTION = re.compile(
    r"(?:(?i:\b(?:answer|option|choice)\b(?:\s+(?:is|would\s+be|should\s+be))?)|(?:答案|选项|选择|选)(?:应该|应)?(?:是|为)?)"
    r"\s*:?\s*(?i:option\s+)?[\[(【\"'“]?([A-Z])(?![A-Za-z'’])[\])】\"'”]?"
)
_WRAPPERS = (
    re.compile(r"<answer>(.*)</answer>", re.DOTALL | re.IGNORECASE),
    re.compile(r"\$*\\boxed\{(?:\\text\{)?(.*?)\}?\}\$*", re.DOTALL),
    re.compile(r"```\w*\n?(.*?)```", re.DOTALL),
    re.compile(r"\*\*(.*)\*\*\.?", re.DOTALL),
    re.compile(r"[*_`\"'“‘]+(.*?)[*_`\"'”’]+\.?", re.DOTALL),
)
_SILENT = frozenset({"", "wait", "<wait>", "<silent>", "<|silent|>", "<silence>", "</silence>", "<|silence|>"})


def visible(text: str) -> str:
    """Return a text without hidden reasoning, and without a further turn that a chat template leaked.

    A block that only ends was opened by the template, so that all before its end is reasoning; one that never ends was
    cut off, so that nothing was said.
    """
    shown = _BLOCK.sub("", text)
    shown = _BLOCK_END.split(shown)[-1]
    shown = _BLOCK_START.split(shown)[0]
    return _NEXT_TURN.split(shown, maxsplit=1)[0].strip()


def normalize(text: str) -> str:
    """Return a text as it is compared: no hidden reasoning, no leading colon, lower case, single spaces."""
    return " ".join(re.sub(r"^[:：]\s*", "", visible(text)).lower().split())


def is_silent(text: str | None) -> bool:
    """Whether a model said nothing: an empty text, ``WAIT``, or one of the usual native silence marks."""
    return text is None or normalize(text).rstrip(".!… ") in _SILENT


def choices(options: Sequence[str]) -> dict[str, str]:
    """Return the text of each option by its label.

    The text after a label may begin with another label; it stays as it is.

    Raises
    ------
    SchemaError
        If an option has no label, or two have the same.
    """
    found: dict[str, str] = {}
    for option in options:
        match = _OPTION.match(option)
        if match is None or match[1].upper() in found:
            raise SchemaError(
                f"the options {list(options)!r} have no label each",
                json_path="$.options",
                why="An option begins with its own letter, as in 'A. red'.",
                do="Check the release with `trace-hf validate`.",
            )
        found[match[1].upper()] = match[2].strip()
    return found


def strict_choice(text: str | None, options: Sequence[str]) -> str | None:
    """Return the label that a text consists of, or None if it is invalid.

    Parameters
    ----------
    text : str or None
        What the model said, raw.
    options : sequence of str
        The record's options, each with its label.

    Examples
    --------
    >>> strict_choice("(b).", ["A. red", "B. blue"])
    'B'
    >>> strict_choice("B. blue", ["A. red", "B. blue"]) is None
    True
    """
    return None if text is None else _label(_plain(text), choices(options))


def recoverable_choice(text: str | None, options: Sequence[str]) -> str | None:
    """Return the one unambiguous label of a text, or None.

    Beyond `strict_choice` it takes emphasis, quotes, a box or an answer tag away, and accepts a label with its own
    option text, and a label behind an answer introduction as long as no other label stands in the text.

    Examples
    --------
    >>> recoverable_choice("The answer is B. blue", ["A. red", "B. blue"])
    'B'
    >>> recoverable_choice("B. red", ["A. red", "B. blue"]) is None
    True
    """
    if text is None:
        return None
    known = choices(options)
    shown = _unwrapped(_plain(text))
    return _label(shown, known) or _with_text(shown, known) or _introduced(shown, known)


def _plain(text: str) -> str:
    """The visible text with full-width letters and punctuation as their plain counterparts."""
    return re.sub(r"^:\s*", "", unicodedata.normalize("NFKC", visible(text)).strip())


def _label(shown: str, known: dict[str, str]) -> str | None:
    match = _LABEL_ONLY.fullmatch(shown.upper())
    return match[1] if match and match[1] in known else None


def _unwrapped(shown: str) -> str:
    for _ in range(3):  # a box may stand in emphasis, and that in a tag
        for wrapper in _WRAPPERS:
            match = wrapper.fullmatch(shown)
            if match:
                shown = match[1].strip()
    return shown


def _with_text(shown: str, known: dict[str, str]) -> str | None:
    match = _LABEL_FIRST.fullmatch(shown)
    if match is None or match[1].upper() not in known:
        return None
    label = match[1].upper()
    return label if _same(match[2], label, known[label]) else None


def _same(said: str, label: str, own: str) -> bool:
    wanted = {_compared(own)}
    # An option like "A. A. red" may be repeated with one label or with both.
    again = _OPTION.match(own)
    if again is not None and again[1].upper() == label:
        wanted.add(_compared(again[2]))
    return _compared(said) in wanted - {""}


def _compared(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).lower().split()).strip(" .。*_`\"'”")


def _introduced(shown: str, known: dict[str, str]) -> str | None:
    matches = list(_INTRODUCTION.finditer(shown.replace("*", "")))
    labels = {match[1] for match in matches}
    if len(labels) != 1 or not labels <= known.keys():
        return None
    label = labels.pop()
    plain = shown.replace("*", "")
    if _with_text(plain[matches[-1].start(1) :], known) == label:
        plain = plain[: matches[-1].end(1)]  # its own text may hold letters that look like labels
    named = {letter for letter in _EXPLICIT.findall(plain) if letter in known}
    return label if named == {label} else None
