"""A Gantt chart in lines of text: bars, or the load of each row where bars are too many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from weft.formats import cells, count, duration, fit, plain
from weft.page.gantt_chart import GanttChart, GanttRow
from weft.page.svg_parts import list_ticks

MOST_LINES: Final = 60
_NARROWEST: Final = 40
_FILL: Final = " ▁▂▃▄▅▆▇█"
_FULL: Final = frozenset({"hot", "landed"})  # kinds of bars drawn as full blocks


def draw_bars(chart: GanttChart, width: int) -> Iterator[str]:
    """Draw each row's bars: full blocks on the critical path or for success, else shaded."""

    def bar(row: GanttRow, room: int) -> str:
        line = [" "] * room
        for bar in row.bars:
            start = min(room - 1, round(_part(bar.start, chart) * room))
            end = max(start + 1, round(_part(bar.end, chart) * room))
            line[start:end] = ("█" if bar.kind in _FULL else "▒") * (end - start)
        return "".join(line[:room])

    return _draw(chart, width, bar)


def draw_load(chart: GanttChart, width: int) -> Iterator[str]:
    """Draw how busy each row is: a column is full if its row was busy throughout."""

    def load(row: GanttRow, room: int) -> str:
        busy = [0.0] * room
        for bar in row.bars:
            start, end = _part(bar.start, chart) * room, _part(bar.end, chart) * room
            for column in range(int(start), min(room, int(end) + 1)):
                busy[column] += max(0.0, min(end, column + 1) - max(start, column))
        return "".join(_FILL[round(8 * min(1.0, part))] for part in busy)

    return _draw(chart, width, load)


def _draw(chart: GanttChart, width: int, fill: Callable[[GanttRow, int], str]) -> Iterator[str]:
    rows = chart.rows[:MOST_LINES]
    if not rows:
        return
    width = max(_NARROWEST, width)
    left = min(max(cells(plain(row.name)) for row in rows), width // 3)
    right = max(len(row.note) for row in rows)
    room = width - left - right - 4
    yield f"{' ' * left}  {_axis(chart, room)}"
    for row in rows:
        yield f"{fit(plain(row.name), left)} │{fill(row, room)}│ {row.note:>{right}}"
    if len(chart.rows) > len(rows):
        yield f"… and {count(len(chart.rows) - len(rows), 'more row')}"


def _axis(chart: GanttChart, room: int) -> str:
    line = ""
    for at in list_ticks(chart.seconds, room // 12):
        column = int(_part(at, chart) * room)
        label = duration(at)
        if column + len(label) <= room:
            line = line.ljust(column) + label
    return line


def _part(at: float, chart: GanttChart) -> float:
    return at / chart.seconds if chart.seconds > 0 else 0.0
