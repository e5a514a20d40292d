"""The verb `score`: answers of any harness against a release."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar

import click

from ..errors import SchemaError, TraceError, UnknownConfigError
from ..harness.population import Population, open_population
from .common import EXIT_USAGE, TraceGroup, emit_json, emit_table, json_option, storage_options_option

_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group(cls=TraceGroup)
def score() -> None:
    """Score answers that any harness wrote, as JSONL; nothing is run."""


def _arguments(config: str) -> Callable[[_Command], _Command]:
    """Add what both commands take."""

    def add(command: _Command) -> _Command:
        for option in (
            json_option,
            storage_options_option,
            click.option("--config", default=config, show_default=True, help="Which records count, answered or not."),
            click.option(
                "--release", metavar="RELEASE", help="A folder, a URL or the word sample; else TRACE_RELEASE."
            ),
            click.argument("answers", type=click.File("rb")),
        ):
            command = option(command)
        return command

    return add


@score.command()
@_arguments("qa")
def qa(
    answers: BinaryIO, release: str | None, config: str, storage_options: dict[str, Any] | None, as_json: bool
) -> None:
    """Score QA answers: one {"record_id", "text"} a line.

    A record without an answer counts as wrong and invalid. "-" reads standard input.

    Example: trace-hf score qa answers.jsonl --release /data/trace/v1.1.0
    """
    from ..harness.answers import read_qa
    from ..harness.qa import score_qa

    population = _population("qa", config, release, storage_options)
    given, ignored = _of_population(population, read_qa(answers, answers.name), answers.name)
    report = {
        "run": population.facts(answers_ignored=ignored),
        **score_qa(population.records.values(), given),
    }
    _tell_unanswered(report, "wrong")
    if as_json:
        emit_json(report)
        return
    _show_run(report)
    _show("scores", report, ("accuracy", "recoverable_accuracy", "invalid_rate"), f"{report['records']} records")


@score.command()
@_arguments("proactive_standard")
@click.option(
    "--polling-step",
    "step_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="The answers come from a polling run that asked this often; adds its ceiling.",
)
def proactive(
    answers: BinaryIO,
    release: str | None,
    config: str,
    storage_options: dict[str, Any] | None,
    as_json: bool,
    step_s: float | None,
) -> None:
    """Score Proactive answers: one {"record_id", "responses": [{"time_s", "text"}]} a line.

    Times are seconds of the original video. A record without a line was silent. "-" reads standard input.

    Example: trace-hf score proactive answers.jsonl --release /data/trace/v1.1.0 --polling-step 5
    """
    from ..harness.answers import read_proactive
    from ..harness.judge import Judge
    from ..harness.proactive import proactive_outcome, score_proactive

    judge = Judge.from_environment()
    population = _population("proactive", config, release, storage_options)
    given, ignored = _of_population(population, read_proactive(answers, answers.name), answers.name)
    outcomes = {
        record_id: proactive_outcome(population.records[record_id], responses, step_s=step_s, judge=judge)
        for record_id, responses in given.items()
    }
    scores = score_proactive(population.records.values(), outcomes, step_s=step_s, judge=judge)
    run = population.facts(mode=scores["mode"], step_s=step_s, answers_ignored=ignored)
    report = {"run": run, "answered": len(given), **scores}
    _tell_unanswered(report, "silent")
    if as_json:
        emit_json(report)
        return
    _show_run(report, answers_compared=report["answers_compared"])
    for name in ("w5", "w10"):
        view = report[name]
        scored = [metric for metric in view if f"{metric}_interval" in view]
        names, of = (*scored, "median_delay_s"), f"{view['windows']} windows, W = {name[1:]} s"
        _show(name, view, names, of, f"{name} ")  # piped, the two tables have no titles that tell their rows apart


def _population(task: str, config: str, release: str | None, storage_options: dict[str, Any] | None) -> Population:
    population = open_population(config, release, storage_options)
    if population.task != task:
        raise UnknownConfigError(
            f"config {config!r} holds no {task} records", do=f"score it with the other command than {task!r}"
        )
    return population


_Given = TypeVar("_Given")


class _NoAnswersError(click.ClickException):
    """A file that holds nothing to score: wrong use, and no result."""

    exit_code = EXIT_USAGE


def _of_population(population: Population, given: dict[str, _Given], name: str) -> tuple[dict[str, _Given], int]:
    """The answers to the population's records, and how many belong to other records of the release.

    An answer to a record that the release does not have shows that it belongs to another release.
    """
    kept = {record_id: answer for record_id, answer in given.items() if record_id in population.records}
    others = given.keys() - kept.keys()
    if others:
        known = {record.record_id for record in population.release.records(population.task)}
        strangers = sorted(others - known)
        if strangers:
            raise SchemaError(
                f"{len(strangers)} answers are to records that {population.release.release_id} does not have",
                record_id=strangers[0],
                why="The answers were made on another release, or for the other task.",
                do="Name the release that the model was run on.",
            )
    if not kept:
        what = f"holds no answers to the records of {population.config!r}" if others else "holds no answers"
        problem = TraceError(
            what,
            file=name,
            why=f"All of its {len(others)} answers are to other records of the release." if others else None,
            do="Name the file that the harness wrote, and the --config that it was run on.",
        )
        raise _NoAnswersError(str(problem))
    return kept, len(others)


def _tell_unanswered(report: dict[str, Any], counts_as: str) -> None:
    whole = report["run"]["population_records"]
    silent = whole - report["answered"]
    if silent:
        have = "has" if silent == 1 else "have"
        click.echo(f"{silent} of {whole} records {have} no answer; each counts as {counts_as}", err=True)


def _show_run(report: dict[str, Any], **more: Any) -> None:
    facts = {**report["run"], **more}
    del facts["complete"]  # that the scores are over all records; beside missing answers it reads as if none were
    facts["answered"] = f"{report['answered']} of {facts['population_records']}"
    emit_table(["what", "value"], [(name, value) for name, value in facts.items() if value is not None], title="run")


def _show(title: str, report: dict[str, Any], names: tuple[str, ...], of: str, prefix: str = "") -> None:
    rows = [(title, "all", *_cells(report, name)) for name in names]
    for dimension, values in report["by"].items():
        rows += [(f"{prefix}{dimension}", value, *_cells(part, names[0])) for value, part in values.items()]
    emit_table(["group", "of", "score", "value", "95% interval"], rows, title=of)


def _cells(report: dict[str, Any], name: str) -> tuple[str, str, str]:
    value, interval = report[name], report.get(f"{name}_interval")
    shown = "n/a" if value is None else f"{value:.4f}"
    return name, shown, "" if interval is None else f"{interval[0]:.4f} … {interval[1]:.4f}"
