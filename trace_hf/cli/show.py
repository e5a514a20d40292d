"""The verb `show`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import click
import msgspec
from click.shell_completion import CompletionItem
from msgspec import UNSET
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ..errors import TraceError
from ..lookup import Found, find_record, record_ids
from ..release import Release
from ..schema import CONFIGS, ProactiveRecord, QARecord
from ..terminal import Row, draw_timeline, seconds, visible
from ..windows import effective_windows, evidence_span
from .common import emit_json, interactive, json_option, release_argument

TOLERANCES_S = (5.0, 10.0)


def _complete_ids(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The record IDs that begin so, from the release that the environment names; none where it cannot be opened."""
    try:
        ids = record_ids(Release.open(ctx.params.get("release"), unknown="keep"))
    except TraceError:
        return []
    return [CompletionItem(one) for one in ids if one.startswith(incomplete)]


@click.command()
@click.argument("record_id", shell_complete=_complete_ids)
@release_argument
@click.option("--inputs-only", is_flag=True, help="Only what a model may see.")
@json_option
@click.pass_context
def show(
    ctx: click.Context,
    record_id: str,
    release: str | None,
    storage_options: dict[str, Any] | None,
    inputs_only: bool,
    as_json: bool,
) -> None:
    """Show one record of RELEASE with a text timeline. Its answers are shown, too.

    --inputs-only shows the fields of the view `model_input` and nothing else.

    Example: trace-hf show streambench_proactive:21 sample
    """
    opened = Release.open(release, storage_options, unknown="keep")
    found = find_record(opened, record_id)
    inputs = CONFIGS[found.configs[0]].inputs
    if as_json:
        emit_json({name: getattr(found.record, name) for name in inputs} if inputs_only else _as_json(opened, found))
        return
    page = _Page()
    if inputs_only:
        for name in inputs:
            page.field(name, getattr(found.record, name))
        return
    _show_record(page, opened, found)


class _Page:
    """Prints to a terminal in its width and with colours, to a pipe in plain long lines."""

    def __init__(self) -> None:
        self.person = interactive()
        self.console = Console(highlight=False, markup=False, emoji=False, soft_wrap=not self.person)
        encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
        self.unicode = encoding.startswith("utf")

    @property
    def width(self) -> int:
        return self.console.width if self.person else 80

    def line(self, text: str = "", style: str = "") -> None:
        self.console.print(Text(text, style=style))

    def indented(self, text: str, style: str = "") -> None:
        body = Text(visible(text), style=style)
        self.console.print(Padding(body, (0, 0, 0, 2)) if self.person else Text("  ") + body)

    def field(self, name: str, value: Any) -> None:
        if isinstance(value, list):
            self.line(name, "bold")
            for item in value:
                self.indented(str(item))
            return
        self.console.print(Text(f"{name:<16} ", style="bold") + Text(visible(str(value))))


def _show_record(page: _Page, release: Release, found: Found) -> None:
    record = found.record
    meta = record.metadata
    origin = "pinned" if release.pinned else "not a known release"
    page.line(visible(record.record_id), "bold")
    page.field("release", f"{release.release_id}, verified, {origin}")
    page.field("configs", ", ".join(found.configs))
    page.field("task type", f"{record.task_type}, {meta.dataset}, {meta.validation_tier}")
    page.field("video", record.video_path)
    if meta.media_boundary_adjustments is not UNSET:
        for moved in meta.media_boundary_adjustments:
            page.field(
                "adjusted",
                f"{moved.field}: {seconds(moved.source_value_s)} s to "
                f"{seconds(moved.effective_value_s)} s, {moved.reason}",
            )
    page.line()
    if isinstance(record, QARecord):
        _show_qa(page, record)
    else:
        _show_proactive(page, record)


def _show_qa(page: _Page, record: QARecord) -> None:
    page.line(f"question at {seconds(record.question_time_s)} s", "bold")
    page.indented(record.question)
    for option in record.options:
        right = option.startswith(f"{record.answer}.")
        page.indented(f"{option}{'   <- answer' if right else ''}", "green" if right else "")
    page.line()
    span = evidence_span(record)
    spans = record.metadata.evidence_spans
    reviewed = [] if spans is UNSET else spans
    rows = [Row("question", [record.question_time_s], kind="point"), Row("anchor", [record.evidence_anchor_s])]
    if reviewed:
        rows.append(Row("evidence", bars=[(one.start_s, one.end_s) for one in reviewed]))
    rows += [Row("span", bars=[span], kind="span"), Row("1 FPS", span.sampling_times(), kind="tick")]
    _draw(page, rows)
    for one in reviewed:
        page.line()
        page.line(f"evidence {seconds(one.start_s)} ... {seconds(one.end_s)} s", "bold")
        page.indented(one.description)


def _show_proactive(page: _Page, record: ProactiveRecord) -> None:
    page.line(f"instruction at {seconds(record.instruction_time_s)} s", "bold")
    page.indented(record.instruction)
    page.line()
    by_tolerance = {tolerance: effective_windows(record, tolerance) for tolerance in TOLERANCES_S}
    span = evidence_span(record)
    _draw(page, list(_proactive_rows(record, by_tolerance, span)))
    if record.deadline_s is not None:
        page.line(f"deadline {seconds(record.deadline_s)} s: provenance, it bounds nothing", "dim")
    page.line()
    for number, (window, trigger) in enumerate(zip(record.windows, record.metadata.trigger_annotations, strict=True)):
        effective = "".join(
            f", W = {tolerance:g} [{seconds(windows[number].start_s)}, {seconds(windows[number].end_s)})"
            for tolerance, windows in by_tolerance.items()
        )
        stored = f"[{seconds(window.start_s)}, {seconds(window.end_s)})"
        page.line(f"window {number + 1}: stored {stored}{effective}, {visible(trigger.trigger_type)}", "bold")
        page.indented(window.expected_answer, "green")


def _proactive_rows(record: ProactiveRecord, by_tolerance: Mapping[float, list[Any]], span: Any) -> Iterator[Row]:
    triggers = record.metadata.trigger_annotations
    points = [trigger.point_trigger_s for trigger in triggers if trigger.point_trigger_s is not None]
    states = [
        (trigger.interval_start_s, trigger.interval_end_s)
        for trigger in triggers
        if trigger.interval_start_s is not None and trigger.interval_end_s is not None
    ]
    evidence = [
        (trigger.evidence_start_s, trigger.evidence_end_s)
        for trigger in triggers
        if trigger.evidence_start_s is not UNSET and trigger.evidence_end_s is not UNSET
    ]
    yield Row("instruction", [record.instruction_time_s])
    yield Row("triggers", points, states)
    if evidence:
        yield Row("evidence", bars=evidence)
    yield Row("stored", bars=[(window.start_s, window.end_s) for window in record.windows])
    for tolerance, windows in by_tolerance.items():
        yield Row(f"W = {tolerance:g}", bars=[(window.start_s, window.end_s) for window in windows])
    yield Row("span", bars=[span], kind="span")
    yield Row("1 FPS", span.sampling_times(), kind="tick")


def _draw(page: _Page, rows: list[Row]) -> None:
    for line in draw_timeline(rows, page.width, unicode=page.unicode):
        page.line(line)


def _as_json(release: Release, found: Found) -> dict[str, Any]:
    record = found.record
    value: dict[str, Any] = {
        "release_id": release.release_id,
        "configs": list(found.configs),
        "record": msgspec.to_builtins(record),
        "evidence_span": evidence_span(record)._asdict(),
    }
    if isinstance(record, ProactiveRecord):
        value["effective_windows"] = {
            f"{tolerance:g}": [window._asdict() for window in effective_windows(record, tolerance)]
            for tolerance in TOLERANCES_S
        }
    return value
