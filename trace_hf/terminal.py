"""Text for a terminal: made safe, and timelines drawn in characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Row", "draw_timeline", "seconds", "visible"]

_KEPT = "\n\t"
_LABEL = 12


def visible(text: str) -> str:
    r"""Return text with nothing in it that a terminal acts upon.

    Control characters (an escape sequence could recolour, move or hide what stands around it) and format characters
    (a right-to-left override reorders the line) are written as ``\x1b`` and ``\u202e``.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in _KEPT or unicodedata.category(c)[0] != "C" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def seconds(value: float) -> str:
    """Return seconds in the shortest form: ``5``, ``4.42``."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class Row:
    """One line of a timeline.

    Attributes
    ----------
    label : str
    points : sequence of float
        Moments; seconds.
    bars : sequence of (float, float)
        Intervals; seconds.
    kind : {"point", "bar", "span", "tick"}
        How they are drawn.
    """

    label: str
    points: Sequence[float] = ()
    bars: Sequence[tuple[float, float]] = ()
    kind: str = "bar"


_UNICODE = {"point": "▲", "bars": "█▒", "span": "├─┤", "tick": "·", "axis": "┬─"}
_ASCII = {"point": "^", "bars": "#=", "span": "|-|", "tick": ".", "axis": "+-"}


def draw_timeline(rows: Sequence[Row], width: int, *, unicode: bool = True) -> list[str]:
    """Draw rows over one axis of seconds.

    Parameters
    ----------
    rows
        At least one with a time.
    width
        Columns of the terminal; at least 40 are used.
    unicode
        Whether characters beyond ASCII may be used.

    Returns
    -------
    list of str
        Lines, none longer than `width`; neighbouring bars alternate between two characters.
    """
    signs = _UNICODE if unicode else _ASCII
    times = [time for row in rows for time in (*row.points, *(edge for bar in row.bars for edge in bar))]
    low, high = min(times), max(times)
    columns = max(width, 40) - _LABEL - 1
    scale = (columns - 1) / (high - low) if high > low else 0.0

    def column(time: float) -> int:
        return int((time - low) * scale)

    lines = [f"{row.label[: _LABEL - 1]:<{_LABEL}} {_draw_row(row, column, columns, signs)}".rstrip() for row in rows]
    return [*lines, *_axis(low, high, columns, signs["axis"])]


def _draw_row(row: Row, column: Callable[[float], int], columns: int, signs: dict[str, str]) -> str:
    cells = [" "] * columns
    for number, (start, end) in enumerate(row.bars):
        first, last = column(start), column(end)
        if row.kind == "span":
            left, middle, right = tuple(signs["span"])
            cells[first : last + 1] = [left, *middle * (last - first - 1), right][: max(last - first + 1, 1)]
            continue
        # An end is exclusive, but every window is at least one column wide.
        for place in range(first, max(last, first + 1)):
            cells[place] = signs["bars"][number % 2]
    for time in row.points:
        cells[column(time)] = signs["tick" if row.kind == "tick" else "point"]
    return "".join(cells)


def _axis(low: float, high: float, columns: int, signs: str) -> list[str]:
    mark, line = tuple(signs)
    cells, labels = [line] * columns, [" "] * columns
    places = [(low, 0), ((low + high) / 2, columns // 2), (high, columns - 1)]
    for time, place in places:
        cells[place] = mark
        text = f"{seconds(round(time, 2))} s"
        start = min(max(place - len(text) // 2, 0), columns - len(text))
        labels[start : start + len(text)] = text
    margin = " " * (_LABEL + 1)
    return [margin + "".join(cells), margin + "".join(labels).rstrip()]
