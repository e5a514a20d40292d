"""What a model said: the strict choice, the recoverable one, and silence."""

from __future__ import annotations

import pytest

from trace_hf.errors import SchemaError
from trace_hf.harness.parsing import choices, is_silent, normalize, recoverable_choice, strict_choice

OPTIONS = ["A. gum", "B. a sweet", "C. Vitamin C", "D. nothing"]


@pytest.mark.parametrize(
    "text",
    [
        "B",
        "b",
        " B.\n",
        ": B",
        "：B",
        "(B)",
        "[b].",
        "B)",
        "（B）",
        "Ｂ．",
        "<think>A or C? Not A.</think>\nB",
        "so, not A</think>B",
    ],
)
def test_one_label_in_its_wrapper_is_a_strict_choice(text: str) -> None:
    assert strict_choice(text, OPTIONS) == "B"
    assert recoverable_choice(text, OPTIONS) == "B"


@pytest.mark.parametrize(
    "text",
    [
        "B. a sweet",
        "B) A sweet.",
        "The answer is B",
        "Answer: B",
        "Answer: B. a sweet",
        "The correct option is (B).",
        "So he took one, and the answer is **B**.",
        "The answer is B because he unwraps it.",
        "Option B",
        "答案是B",
        "答案：B",
        "**B**",
        '"B"',
        "`B`",
        "\\boxed{B}",
        "$\\boxed{\\text{B}}$",
        "<answer>B</answer>",
        "<answer>**B. a sweet**</answer>",
        "```\nB\n```",
    ],
)
def test_a_label_with_its_own_text_or_an_introduction_is_recoverable_but_not_strict(text: str) -> None:
    assert strict_choice(text, OPTIONS) is None
    assert recoverable_choice(text, OPTIONS) == "B"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "E",
        "A or B",
        "A, B",
        "AB",
        "a sweet",
        "B. gum",
        "B because he unwraps a sweet",
        "He took B and then gum",
        "The answer is A or B",
        "The answer is A. No, the answer is B.",
        "It is not A; the answer is B",
        "The answer is E",
        "To answer a question one needs more.",
        "<think>The answer is B",
        "<think>B</think>",
    ],
)
def test_two_labels_or_a_label_in_prose_are_neither(text: str | None) -> None:
    assert strict_choice(text, OPTIONS) is None
    assert recoverable_choice(text, OPTIONS) is None


def test_own_text_that_looks_like_a_label_does_not_confuse() -> None:
    assert recoverable_choice("C. Vitamin C", OPTIONS) == "C"
    assert recoverable_choice("The answer is C. Vitamin C", OPTIONS) == "C"


def test_option_text_that_begins_with_a_second_label_keeps_its_first() -> None:
    options = ["A. A.The man sits", "B. C.The dog runs", "C. The cat", "D. .", "E. ."]
    assert choices(options) == {"A": "A.The man sits", "B": "C.The dog runs", "C": "The cat", "D": ".", "E": "."}
    assert recoverable_choice("A. A.The man sits", options) == "A"
    assert recoverable_choice("A. The man sits", options) == "A"
    assert recoverable_choice("B. C.The dog runs", options) == "B"
    # The label says C, the text is B's: ambiguous.
    assert recoverable_choice("C. The dog runs", options) is None
    assert strict_choice("E.", options) == "E"


def test_the_labels_are_those_of_the_record() -> None:
    assert strict_choice("C", ["A. yes", "B. no"]) is None
    assert strict_choice("F", [f"{label}. {label * 3}" for label in "ABCDEF"]) == "F"
    assert strict_choice("b", ["A. 是", "B. 否"]) == "B"


def test_options_without_labels_are_an_error_and_no_guess() -> None:
    with pytest.raises(SchemaError, match="no label each"):
        strict_choice("A", ["red", "blue"])
    with pytest.raises(SchemaError, match="no label each"):
        strict_choice("A", ["A. red", "A. blue"])


@pytest.mark.parametrize(
    "text", [None, "", "  ", "WAIT", "wait.", ": WAIT", "<silent>", "<|silent|>", "</silence>", "<think>no</think>WAIT"]
)
def test_silence(text: str | None) -> None:
    assert is_silent(text)


@pytest.mark.parametrize("text", ["Wait for it", "no", "0", "silent"])
def test_words_are_no_silence(text: str) -> None:
    assert not is_silent(text)


def test_texts_are_compared_without_case_spaces_or_reasoning_but_with_their_punctuation() -> None:
    assert normalize("<think>hm</think> : The  RED\nkite ") == "the red kite"
    assert normalize("red.") != normalize("red")
    assert normalize("red\nuser\nand blue?") == "red"
