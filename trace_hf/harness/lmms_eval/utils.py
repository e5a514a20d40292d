"""The functions that the task files name; each is a thin layer over the neutral rooms.

A row (lmms-eval says doc) is of the ``model_input`` view. Spans and targets are looked up by ``record_id``, by the
driver and at scoring only.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from statistics import median
from typing import Any

from ..evidence import TOLERANCES_S, clip_path, images, polling_times
from ..judge import Judge
from ..proactive import proactive_outcome, score_proactive, view_name
from ..prompts import proactive_prompt, proactive_system, qa_prompt
from ..qa import qa_outcome, score_qa
from . import driver
from .loud import loading_ends_loudly, loud

Row = Mapping[str, Any]
Kwargs = Mapping[str, Any] | None
Messages = list[dict[str, Any]]

loading_ends_loudly()


@loud
def process_docs(dataset: Any) -> Any:
    """Take the loaded rows; give back those that may reach a model."""
    return driver.register(dataset)


# --- QA -------------------------------------------------------------------------------------------------------


@loud
def qa_text(doc: Row, lmms_eval_specific_kwargs: Kwargs = None) -> str:
    """Return the prompt; lmms-eval builds all prompts first, so a missing video ends the run here."""
    driver.request(doc, lmms_eval_specific_kwargs)
    return qa_prompt(doc)


@loud
def qa_visual(doc: Row, lmms_eval_specific_kwargs: Kwargs = None) -> list[Any]:
    """Return the evidence: it ends with the frame of the question time."""
    return _visuals(driver.request(doc, lmms_eval_specific_kwargs), None)


@loud
def qa_messages(doc: Row, lmms_eval_specific_kwargs: Kwargs = None) -> Messages:
    """Return evidence and prompt as chat messages."""
    request = driver.request(doc, lmms_eval_specific_kwargs)
    return [_user(_visuals(request, None), qa_prompt(doc))]


@loud
def _qa_results(config: str, doc: Row, results: Sequence[Any]) -> dict[str, Any]:
    record_id, text = doc["record_id"], _text(results)
    outcome = qa_outcome(driver.population(config).records[record_id], text)
    scores = {"accuracy": "correct", "recoverable_accuracy": "recoverable", "invalid_rate": "invalid"}
    return {
        "record_id": record_id,
        **{name: {"record_id": record_id, "score": float(outcome[column])} for name, column in scores.items()},
        "report": {"record_id": record_id, "config": config, "text": text},
    }


qa_results = partial(_qa_results, "qa")
qa_tiny_results = partial(_qa_results, "qa_tiny")


# --- Proactive ------------------------------------------------------------------------------------------------


@loud
def proactive_text(
    doc: Row,
    lmms_eval_specific_kwargs: Kwargs = None,
    previous_output: list[str] | None = None,
    round_idx: int | None = None,
    previous_round_info: Any = None,
) -> Any:
    """Return the prompt; for a later round all that lmms-eval wants: visuals, prompt, whether it is over, outputs."""
    request = driver.request(doc, lmms_eval_specific_kwargs)
    _judge()  # half of a judge's settings end the run now, not after it
    prompt = proactive_prompt(doc)
    if request.settings.silence == "prompted":
        prompt = f"{proactive_system()}\n\n{prompt}"
    if round_idx is None:
        return prompt
    time = _time(request, round_idx)
    if time is None:
        return None, None, True, previous_output, previous_round_info
    return _visuals(request, time), prompt, False, previous_output, previous_round_info


@loud
def proactive_visual(doc: Row, lmms_eval_specific_kwargs: Kwargs = None) -> list[Any]:
    """Return the evidence of the first request: it ends with the frame of the instruction's time."""
    request = driver.request(doc, lmms_eval_specific_kwargs)
    return _visuals(request, _time(request, 0))


@loud
def proactive_messages(
    doc: Row,
    lmms_eval_specific_kwargs: Kwargs = None,
    previous_output: list[str] | None = None,
    round_idx: int | None = None,
    previous_round_info: Any = None,
) -> Any:
    """Return one request as chat messages; for a later round with whether it is over, and the outputs.

    Requests know nothing of each other: each is asked anew, with the evidence up to its own time.
    """
    request = driver.request(doc, lmms_eval_specific_kwargs)
    time = _time(request, round_idx or 0)
    if time is None:
        return None, True, previous_output, previous_round_info
    messages = [_user(_visuals(request, time), proactive_prompt(doc))]
    if request.settings.silence == "prompted":
        messages.insert(0, {"role": "system", "content": [{"type": "text", "text": proactive_system()}]})
    return messages if round_idx is None else (messages, False, previous_output, previous_round_info)


@loud
def _proactive_results(config: str, doc: Row, results: Sequence[Any]) -> dict[str, Any]:
    record_id = doc["record_id"]
    record = driver.population(config).records[record_id]
    step = driver.settings_of(record_id).step_s
    times = polling_times(record, step)
    # A batch goes on until its longest record is done; what it says after a record's end answers no request of it.
    responses = [{"time_s": time, "text": text} for time, text in zip(times, _rounds(results), strict=False)]
    outcome = proactive_outcome(record, responses, step_s=step, judge=_judge())
    found: dict[str, Any] = {"record_id": record_id}
    for name in map(view_name, TOLERANCES_S):
        view = outcome[name]
        for metric, (above, below) in _POLLING.items():
            found[f"polling_{metric}_{name}"] = {"value": view[above], "of": view[below]}
        found[f"polling_median_delay_s_{name}"] = {"delays_s": view["delays_s"]}
    return {**found, "report": {"config": config, "responses": responses, **outcome}}


_POLLING = {
    "accuracy": ("score", "windows"),
    "ceiling": ("reachable", "windows"),
    "accuracy_reachable": ("score_reachable", "reachable"),
    "miss_rate": ("missed", "windows"),
    "outside_per_100_windows": ("outside", "windows"),
    "redundant_per_100_windows": ("redundant", "windows"),
}

proactive_results = partial(_proactive_results, "proactive")
proactive_standard_results = partial(_proactive_results, "proactive_standard")
proactive_high_frequency_results = partial(_proactive_results, "proactive_high_frequency")
proactive_tiny_results = partial(_proactive_results, "proactive_tiny")


# --- aggregation; items come in any order, from any rank --------------------------------------------------------


def mean(items: Sequence[Mapping[str, Any]]) -> float:
    """Return the mean score of records."""
    return math.fsum(item["score"] for item in items) / len(items)


def count(items: Sequence[Any]) -> int:
    """Return how many records there are."""
    return len(set(items))


def ratio(items: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the ratio of two sums, or None when there is nothing to divide by."""
    below = math.fsum(item["of"] for item in items)
    return math.fsum(item["value"] for item in items) / below if below else None


def per_hundred(items: Sequence[Mapping[str, Any]]) -> float | None:
    """Return a ratio of counts per hundred."""
    share = ratio(items)
    return None if share is None else 100 * share


def median_delay(items: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the median delay in seconds, or None when no window was answered."""
    delays = [delay for item in items for delay in item["delays_s"]]
    return median(delays) if delays else None


class Report(tuple[dict[str, Any]]):
    """A report as the one item of a list: lmms-eval writes that out whole, and its table shows it in few words."""

    __slots__ = ()

    def __str__(self) -> str:
        run = self[0]["run"]
        kind = f"{run['mode']}, " if "mode" in run else ""
        return f"{kind}{run['release_id']}, {run['config']}: {run['mark'] or 'see the results file'}"


@loud
def report(items: Sequence[Mapping[str, Any]]) -> Report:
    """Return all scores of a task, and what its run was made of."""
    by_id = {item["record_id"]: item for item in items}
    population = driver.population(items[0]["config"])
    records = [record for record_id, record in population.records.items() if record_id in by_id]
    settings = driver.settings_of(records[0]["record_id"])
    facts: dict[str, Any] = {"visual": settings.visual, "harness": "lmms-eval"}
    if population.task == "qa":
        scores = score_qa(records, {record_id: item["text"] for record_id, item in by_id.items()})
    else:
        facts.update(mode="polling", step_s=settings.step_s, silence=settings.silence)
        scores = score_proactive(records, by_id, step_s=settings.step_s, judge=_judge())
    return Report([{"run": population.facts(len(records), **facts), **scores}])


# --- inside -----------------------------------------------------------------------------------------------------


def _visuals(request: driver.Request, time_s: float | None) -> list[Any]:
    if request.settings.visual == "frames":
        return images(request.record, request.root, time_s)
    return [clip_path(request.record, request.root, time_s)]


def _user(visuals: list[Any], text: str) -> dict[str, Any]:
    content = [{"type": "video" if isinstance(visual, str) else "image", "url": visual} for visual in visuals]
    return {"role": "user", "content": [*content, {"type": "text", "text": text}]}


def _time(request: driver.Request, number: int) -> float | None:
    times = polling_times(request.record, request.settings.step_s)
    return times[number] if number < len(times) else None


def _text(results: Sequence[Any]) -> str:
    """What a model said to a single request."""
    said = results[0] if results else None
    if isinstance(said, (list, tuple)):
        said = said[0] if said else None
    return "" if said is None else str(said)


def _rounds(results: Sequence[Any]) -> list[str]:
    """What a model said, round by round, however lmms-eval hands it over."""
    said = results[0] if results else None
    if isinstance(said, str) and said.startswith("("):
        # Some adapters give the rounds as a tuple, which lmms-eval turns into its text.
        with suppress(SyntaxError, ValueError):
            parsed = ast.literal_eval(said)
            if isinstance(parsed, tuple) and all(isinstance(text, str) for text in parsed):
                said = parsed
    listed = list(said) if isinstance(said, (list, tuple)) else [said]
    return ["" if text is None else str(text) for text in listed] or [""]


_judges: dict[str, Judge | None] = {}


def _judge() -> Judge | None:
    """The judge of this process; it remembers what it was asked."""
    if "judge" not in _judges:
        _judges["judge"] = Judge.from_environment()
    return _judges["judge"]
