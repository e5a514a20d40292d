"""The figure of the timeline browser: empty rows, which the page's script fills when a record is chosen.

The script finds the parts by their names: the figure ``timeline``, and the sources ``bars``, ``points``, ``ticks``,
``lines`` and ``images``.
"""

from __future__ import annotations

import math
from typing import Any

from bokeh.models import ColumnDataSource, FactorRange, HoverTool, PanTool, Range1d

from .charts import new_figure

__all__ = ["THUMBNAIL_PX", "timeline_figure"]

THUMBNAIL_PX = (80, 45)
"""Width and height that a frame is drawn in; screen pixels."""

# The text is escaped by Bokeh. `dir` and the style keep a right-to-left or very long text inside its own box.
_TOOLTIP = (
    '<div dir="auto" style="max-width: 320px; white-space: pre-line; overflow-wrap: anywhere; '
    'unicode-bidi: isolate; color: #14171a">@label</div>'
)


def timeline_figure() -> Any:
    """Return the empty figure."""
    plot = new_figure(
        name="timeline",
        height=380,
        x_range=Range1d(start=0, end=10),
        y_range=FactorRange(factors=["–"]),
        tools=[PanTool(dimensions="width")],
    )
    plot.xaxis.axis_label = "seconds of the original video"
    plot.ygrid.grid_line_color = None
    plot.yaxis.major_tick_line_color = None
    plot.yaxis.axis_line_color = None
    lines = plot.vspan(
        x="x", source=_source("lines", "x", "colour", "label"), line_color="colour", line_dash="dashed", line_width=2
    )
    # The outline keeps a window of a few hundredths of a second visible when the whole video is in view.
    bars = plot.hbar(
        y="row",
        left="left",
        right="right",
        height=0.62,
        source=_source("bars", "row", "left", "right", "colour", "alpha", "label"),
        fill_color="colour",
        fill_alpha="alpha",
        line_color="colour",
        line_alpha="alpha",
        line_width=1,
    )
    ticks = plot.scatter(
        x="x",
        y="row",
        source=_source("ticks", "x", "row", "label"),
        marker="dash",
        angle=math.pi / 2,
        size=14,
        color="#7f8790",
    )
    points = plot.scatter(
        x="x",
        y="row",
        source=_source("points", "x", "row", "marker", "colour", "label"),
        marker="marker",
        size=15,
        color="colour",
    )
    width, height = THUMBNAIL_PX
    plot.image_url(
        url="url",
        x="x",
        y="row",
        source=_source("images", "x", "row", "url"),
        w={"value": width, "units": "screen"},
        h={"value": height, "units": "screen"},
        anchor="center",
    )
    plot.add_tools(HoverTool(renderers=[bars, points, ticks, lines], tooltips=_TOOLTIP, attachment="below"))
    return plot


def _source(name: str, *columns: str) -> ColumnDataSource:
    return ColumnDataSource({column: [] for column in columns}, name=name)
