"""A chart of bars over time: a row for each slot or task, and marks on a line below them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from weft.formats import cells, duration
from weft.page.markup import escaped
from weft.page.svg_parts import LETTER, cut, draw_axis, frame, list_ticks, tooltip

_ROW: Final = 28
_TOP: Final = 22
_GAP: Final = 12  # between groups of rows
_LEFT: Final = 84  # for the names of rows
_NARROWEST: Final = 1100
_WIDEST: Final = 16_000
_USUAL: Final = 44  # least width of a bar of usual length
_LEGIBLE: Final = 6  # letters beyond the short label that make a cut label worth showing
_FOLD: Final = 26  # width of a folded time
_IDLE: Final = 0.04  # part of the time axis that an idle time has at least to be folded
_HATCH: Final = (
    '<defs><pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect class="hatch" width="3" height="7"/></pattern></defs>'
)


class GanttBar(Struct, frozen=True, kw_only=True):
    start: float  # seconds
    end: float
    labels: tuple[str, str] = ("", "")  # the label, and a short form where there is little room
    kind: str = ""  # class in the style sheet; "hot" is the critical path
    hover: tuple[str, ...] = ()  # lines of the tooltip
    task: str = ""  # parts of the page with the same task light up together
    address: str = ""  # of the view that a click opens


class GanttRow(Struct, frozen=True, kw_only=True):
    name: str
    bars: tuple[GanttBar, ...]
    note: str = ""  # behind the row, on a terminal


class GanttMark(Struct, frozen=True, kw_only=True):
    at: float
    landed: bool  # False: sent back
    hover: tuple[str, ...]


class GanttChart(Struct, frozen=True, kw_only=True):
    label: str
    seconds: float  # of the time axis
    groups: tuple[tuple[GanttRow, ...], ...]
    line: str = ""  # name of the line that has the marks; empty: no line
    marks: tuple[GanttMark, ...] = ()
    folds: tuple[tuple[float, float], ...] = ()  # idle times that are drawn short
    now: float | None = None  # what is to the right of it is a forecast

    @property
    def rows(self) -> list[GanttRow]:
        return [row for group in self.groups for row in group]


def draw_gantt(chart: GanttChart) -> str:
    """Draw the chart; return an empty text if it has no bars."""
    lengths = sorted(bar.end - bar.start for row in chart.rows for bar in row.bars)
    if not lengths or chart.seconds <= 0:
        return ""
    usual = lengths[len(lengths) // 3] or chart.seconds
    room = min(_WIDEST, max(_NARROWEST - _LEFT, _USUAL * chart.seconds / usual))
    return _Drawing(chart, room).draw()


def find_folds(
    spans: Iterable[tuple[float, float]], seconds: float
) -> tuple[tuple[float, float], ...]:
    """Return the long times without any span, apart from the first and the last."""
    folds: list[tuple[float, float]] = []
    reached: float | None = None
    for start, end in sorted(spans):
        if reached is not None and start - reached > _IDLE * seconds:
            margin = (start - reached) / 20
            folds.append((reached + margin, start - margin))
        reached = end if reached is None else max(reached, end)
    return tuple(folds)


class _Drawing:
    def __init__(self, chart: GanttChart, room: float) -> None:
        self._chart = chart
        self._room = room

    def draw(self) -> str:
        parts: list[str] = []
        y: float = _TOP
        for number, group in enumerate(group for group in self._chart.groups if group):
            if number:
                y += _GAP
                parts.append(f'<path class="lane" d="M0 {y - _GAP / 2:.0f}H{self._right:.0f}"/>')
            for row in group:
                parts.append(_name(row.name, y + 18))
                parts += (self._bar(bar, y + 2) for bar in row.bars)
                y += _ROW
        if self._chart.line:
            y += _GAP + _ROW
            parts[:0] = self._marks(y - _ROW / 2)
        seconds, folds = self._chart.seconds, self._chart.folds
        ticks = [
            (at, self._x(at))
            for at in list_ticks(seconds, int(self._room / 110))
            if not any(start < at < end for start, end in folds)
        ]
        axis = [*self._hatch(), *draw_axis(ticks, y), *self._folds(y), *self._present(y)]
        return frame(self._right + 40, y, [*axis, *parts], self._chart.label)

    @property
    def _right(self) -> float:
        return _LEFT + self._room

    def _x(self, at: float) -> float:
        folded = sum(end - start for start, end in self._chart.folds)
        scale = (self._room - _FOLD * len(self._chart.folds)) / (self._chart.seconds - folded)
        before = 0.0  # width of the folds left of it, less their time
        for start, end in self._chart.folds:
            part = min(max(0.0, at - start), end - start)
            before += part / (end - start) * _FOLD - part * scale
        return _LEFT + at * scale + before

    def _hatch(self) -> Iterator[str]:
        if any("hatched" in bar.kind for row in self._chart.rows for bar in row.bars):
            yield _HATCH

    def _folds(self, bottom: float) -> Iterator[str]:
        for start, end in self._chart.folds:
            x = self._x(start)
            title = tooltip([f"{duration(end - start)} without work"])
            yield f'<rect class="fold" x="{x:.1f}" y="16" width="{_FOLD}" '
            yield f'height="{bottom - 16:.0f}">{title}</rect>'

    def _present(self, bottom: float) -> Iterator[str]:
        if self._chart.now is not None:
            yield f'<path class="now" d="M{self._x(self._chart.now):.1f} 16V{bottom:.0f}"/>'

    def _bar(self, bar: GanttBar, y: float) -> str:
        x = self._x(bar.start)
        wide = max(2.0, self._x(bar.end) - x - 1)
        task = f' data-t="{escaped(bar.task)}"' if bar.task else ""
        drawn = (
            f'<g class="bar {bar.kind}"{task}>{tooltip(bar.hover)}'
            f'<rect x="{x:.1f}" y="{y:.0f}" width="{wide:.1f}" height="{_ROW - 5}" rx="4"/>'
            f'<text x="{x + 5:.1f}" y="{y + 16:.0f}">{_label(bar.labels, wide - 8)}</text></g>'
        )
        return f'<a href="#/{escaped(bar.address)}">{drawn}</a>' if bar.address else drawn

    def _marks(self, y: float) -> Iterator[str]:
        yield _name(self._chart.line, y + 4)
        yield f'<path class="trunk" d="M{_LEFT} {y:.0f}H{self._right:.0f}"/>'
        for mark in self._chart.marks:
            x = self._x(mark.at)
            title = tooltip(mark.hover)
            if mark.landed:
                yield f'<path class="fell" d="M{x:.1f} {_TOP - 4}V{y - 7:.1f}"/>'
                yield f'<circle class="mark landed" cx="{x:.1f}" cy="{y:.1f}" r="5.5">'
                yield f"{title}</circle>"
            else:
                yield f'<path class="mark back" d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z">'
                yield f"{title}</path>"


def _label(labels: tuple[str, str], room: float) -> str:
    whole, short = labels
    letters = int(room / LETTER)
    if cells(whole) <= letters or letters >= cells(short) + _LEGIBLE:
        return cut(whole, letters)
    return escaped(short) if cells(short) <= letters else ""


def _name(name: str, y: float) -> str:
    return f'<text class="dim" x="0" y="{y:.0f}">{escaped(name)}</text>'
