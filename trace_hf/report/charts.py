"""The charts of a report, as Bokeh figures.

Their colours have enough contrast on a light and on a dark page; text, axes and grid follow the page's theme, which
the page's script sets. Every chart has a table beside it that says the same.
"""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bokeh.models import BasicTicker, ColumnDataSource, FactorRange, HoverTool, LogTicker, NumeralTickFormatter
from bokeh.plotting import figure

from ..hub.numbers import ConfigNumbers
from .gather import Gathered

__all__ = ["COLOURS", "Chart", "population_charts", "time_charts", "videos_chart"]

COLOURS = ("#3b82c4", "#c9711f", "#2e9b6a", "#9a6fc9", "#d4555a", "#8a8f2a", "#7f8790", "#2a97a8", "#b3667f", "#a3744a")
"""Each has a contrast of 3 and more both on white and on the dark page."""

BINS = 30


@dataclass(frozen=True)
class Chart:
    """A figure with what the page says beside it.

    Attributes
    ----------
    key : str
        Its name in the page.
    title, caption : str
    words : str
        The chart in words, for those who cannot see it; the caption where it says enough.
    columns, rows : sequence
        The same as a table.
    figure : bokeh figure or None
        None where there is nothing to draw.
    legend : tuple of (str, str)
        Labels and colours.
    """

    key: str
    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    figure: Any = field(default=None, compare=False)
    words: str = ""
    legend: tuple[tuple[str, str], ...] = ()


def new_figure(**options: Any) -> Any:
    """Return an empty figure in the style of the page."""
    plot = figure(
        sizing_mode="stretch_width",
        toolbar_location=None,
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_color=None,
        min_border_right=12,
        **{"tools": "", "height": 260, **options},
    )
    plot.axis.axis_label_text_font_style = "normal"
    plot.axis.minor_tick_line_color = None
    plot.grid.grid_line_alpha = 0.35
    return plot


# --- populations -----------------------------------------------------------------------------------------------


def population_charts(found: Gathered) -> list[Chart]:
    """Return the charts of the configs by source, validation tier and task type."""
    shown = {name: p for name, p in found.populations.items() if p.records}
    return [
        _stacked("by-source", "Records by source", shown, "sources"),
        _stacked("by-tier", "Records by validation tier", shown, "tiers"),
        _stacked("by-type", "Records by task type", shown, "task_types"),
    ]


def _stacked(key: str, title: str, shown: Mapping[str, ConfigNumbers], group: str) -> Chart:
    counts = {name: dict(getattr(population, group)) for name, population in shown.items()}
    kinds = sorted({kind for row in counts.values() for kind in row})
    rows = [(name, *(row.get(kind, 0) for kind in kinds)) for name, row in counts.items()]
    words = "; ".join(f"{name}: " + ", ".join(f"{n} {kind}" for kind, n in row.items()) for name, row in counts.items())
    if not rows:
        return Chart(key, title, "There are no records.", ["config"], [])
    names = list(shown)
    plot = new_figure(y_range=FactorRange(factors=names[::-1]), height=60 + 30 * len(names))
    plot.x_range.start = 0
    plot.xaxis.axis_label = "records"
    plot.ygrid.grid_line_color = None
    left = [0] * len(names)
    legend = []
    for colour, (label, part) in zip(COLOURS, _few(kinds, counts), strict=False):
        n = [sum(counts[name].get(kind, 0) for kind in part) for name in names]
        right = [a + b for a, b in zip(left, n, strict=True)]
        data: dict[str, Any] = {"config": names, "left": left, "right": right, "n": n, "kind": [label] * len(names)}
        bars = {"y": "config", "left": "left", "right": "right", "height": 0.7, "line_color": None}
        plot.hbar(**bars, color=colour, source=ColumnDataSource(data))
        legend.append((label, colour))
        left = right
    plot.add_tools(HoverTool(tooltips=[("config", "@config"), ("kind", "@kind"), ("records", "@n")]))
    return Chart(key, title, "", ["config", *kinds], rows, plot, words, tuple(legend))


def _few(kinds: Sequence[str], counts: Mapping[str, Mapping[str, int]]) -> list[tuple[str, frozenset[str]]]:
    """The parts that are drawn, each with its kinds; where there are many, the rarest are one part."""
    if len(kinds) <= len(COLOURS):
        return [(kind, frozenset([kind])) for kind in kinds]
    by_size = sorted(kinds, key=lambda kind: -sum(row.get(kind, 0) for row in counts.values()))
    drawn, rest = by_size[: len(COLOURS) - 1], by_size[len(COLOURS) - 1 :]
    return [*((kind, frozenset([kind])) for kind in drawn), (f"{len(rest)} others", frozenset(rest))]


# --- times -----------------------------------------------------------------------------------------------------


def time_charts(found: Gathered, threshold_s: float) -> list[Chart]:
    """Return the distributions of times.

    Parameters
    ----------
    found
        The records.
    threshold_s
        The window length of the sampling-stress criterion, which is marked; seconds.
    """
    times = found.times
    seconds = "seconds of the original video"
    return [
        _histogram("question-times", "QA: when questions are asked", times.question_times, seconds),
        _histogram("qa-spans", "QA: length of the evidence span", times.qa_spans, "seconds"),
        _histogram(
            "proactive-spans", "Proactive: length of the evidence span (W = 5)", times.proactive_spans, "seconds"
        ),
        _histogram("leads", "Proactive: from the instruction to the first trigger", times.leads, "seconds"),
        *(
            _histogram(
                f"lengths-{kind.replace(' = ', '')}",
                f"Proactive: length of the {'stored' if kind == 'stored' else 'evaluation'} windows"
                + ("" if kind == "stored" else f" at {kind}"),
                lengths,
                "seconds (logarithmic)",
                log=True,
                mark=threshold_s,
            )
            for kind, lengths in times.lengths.items()
        ),
        _histogram(
            "gaps",
            "Proactive: from a trigger to the next one",
            times.gaps,
            "seconds (logarithmic)",
            log=True,
            mark=threshold_s,
        ),
        _counts("windows-per-record", "Proactive: windows per record", times.windows_per_record, "windows", "records"),
    ]


def _histogram(
    key: str, title: str, values: Sequence[float], label: str, *, log: bool = False, mark: float | None = None
) -> Chart:
    usable = [value for value in values if value > 0] if log else list(values)
    if not usable:
        return Chart(key, title, "There is nothing to show.", ["from", "to", "count"], [])
    edges = _edges(usable, mark, log=log)
    counts = [0] * (len(edges) - 1)
    for value in usable:
        counts[min(max(bisect.bisect_right(edges, value) - 1, 0), len(counts) - 1)] += 1
    caption = _summary(usable, "s")
    if mark is not None:
        caption += f" {sum(value <= mark for value in usable)} last {mark:g} s or less (the dashed line)."
    if len(usable) < len(values):
        caption += f" {len(values) - len(usable)} of length 0 are not drawn."
    data: dict[str, Any] = {"left": edges[:-1], "right": edges[1:], "top": counts}
    options = {"x_axis_type": "log", "x_range": (edges[0], edges[-1])} if log else {}
    plot = new_figure(**options)
    plot.y_range.start = 0
    plot.xaxis.axis_label, plot.yaxis.axis_label = label, "count"
    plot.xgrid.grid_line_color = None
    plot.xaxis.ticker = LogTicker(desired_num_ticks=5) if log else BasicTicker(desired_num_ticks=6)
    plot.xaxis.formatter = NumeralTickFormatter(format="0[.][000]")
    bottom = {"bottom": 0, "line_color": None, "fill_color": COLOURS[0], "fill_alpha": 0.9}
    plot.quad(left="left", right="right", top="top", source=ColumnDataSource(data), **bottom)
    plot.add_tools(HoverTool(tooltips=[("from", "@left{0.00} s"), ("to", "@right{0.00} s"), ("count", "@top")]))
    if mark is not None and edges[0] <= mark <= edges[-1]:
        plot.vspan(x=mark, line_color=COLOURS[4], line_dash="dashed", line_width=2)
    rows = [(f"{a:.2f}", f"{b:.2f}", n) for a, b, n in zip(edges, edges[1:], counts, strict=False) if n]
    return Chart(key, title, caption, ["from (s)", "to (s)", "count"], rows, plot)


def _edges(values: Sequence[float], mark: float | None, *, log: bool) -> list[float]:
    low, high = min(values), max(values)
    if not log:
        low = min(low, 0.0)
        high = high if high > low else low + 1.0
        return [low + (high - low) * step / BINS for step in range(BINS + 1)]
    low, high = min(low, mark or low) * 0.95, max(high, mark or high) * 1.05
    ratio = high / low
    return [low * ratio ** (step / BINS) for step in range(BINS + 1)]


def _counts(key: str, title: str, values: Sequence[int], label: str, count_label: str) -> Chart:
    if not values:
        return Chart(key, title, "There is nothing to show.", [label, count_label], [])
    rows = [(n, values.count(n)) for n in sorted(set(values))]
    plot = new_figure()
    plot.y_range.start = 0
    plot.xaxis.axis_label, plot.yaxis.axis_label = label, count_label
    plot.xgrid.grid_line_color = None
    source = ColumnDataSource({"x": [n for n, _ in rows], "top": [n for _, n in rows]})
    plot.vbar(x="x", top="top", width=0.8, source=source, fill_color=COLOURS[0], fill_alpha=0.9, line_color=None)
    plot.add_tools(HoverTool(tooltips=[(label, "@x"), (count_label, "@top")]))
    return Chart(key, title, _summary(values, ""), [label, count_label], rows, plot)


def _summary(values: Sequence[float], unit: str) -> str:
    unit = f" {unit}" if unit else ""
    ordered = sorted(values)
    late = ordered[min(len(ordered) - 1, math.ceil(len(ordered) * 0.9) - 1)]
    return (
        f"{len(values)} values from {ordered[0]:g} to {ordered[-1]:g}{unit}; "
        f"half are at most {statistics.median(ordered):g}{unit}, nine in ten at most {late:g}{unit}."
    )


# --- videos ----------------------------------------------------------------------------------------------------


def videos_chart(records_by_video: Mapping[str, Sequence[str]]) -> Chart:
    """Return the chart of how many records share a video."""
    counts = [len(ids) for ids in records_by_video.values()]
    return _counts("records-per-video", "Records per video", counts, "records", "videos")
