"""The predicted schedule as text: a line for each task, or, if they are many, for each slot."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from weft.cli.plan.plan_text import cells, count, duration, fit, plain
from weft.forecast import Forecast, Stint

MOST_LINES: Final = 60
_NARROWEST: Final = 40
_STEPS: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3600 * hours for hours in (1, 2, 3, 6, 12, 24, 48, 168)),
)
_FILL: Final = " ▁▂▃▄▅▆▇█"


def draw(
    forecast: Forecast, names: Mapping[str, str], critical: Collection[str], width: int
) -> Iterator[str]:
    """Draw the schedule; `names` are the labels by task, `width` the columns there are."""
    if not forecast.schedule:
        return
    width = max(_NARROWEST, width)
    if len(forecast.schedule) <= MOST_LINES:
        yield from _by_task(forecast, names, critical, width)
    else:
        yield from _by_slot(forecast, width)


def _by_task(
    forecast: Forecast, names: Mapping[str, str], critical: Collection[str], width: int
) -> Iterator[str]:
    labels = {stint.name: plain(names.get(stint.name, stint.name)) for stint in forecast.schedule}
    times = {stint: duration(stint.end - stint.start) for stint in forecast.schedule}
    left = min(max(cells(label) for label in labels.values()), width // 3)
    right = max(len(time) for time in times.values())
    room = width - left - right - 4
    yield from _axis(forecast.seconds, left, room)
    for stint in forecast.schedule:
        block = "█" if stint.name in critical else "▒"
        bar = _bar(stint, forecast.seconds, room, block)
        yield f"{fit(labels[stint.name], left)} │{bar}│ {times[stint]:>{right}}"
    yield f"{' ' * left}  █ critical path  ▒ others"


def _bar(stint: Stint, total: float, room: int, block: str) -> str:
    start = min(room - 1, round(_part(stint.start, total) * room))
    end = max(start + 1, round(_part(stint.end, total) * room))
    return (" " * start + block * (end - start)).ljust(room)


def _by_slot(forecast: Forecast, width: int) -> Iterator[str]:
    """How busy each slot is over time: a column is full when it worked throughout."""
    lanes: dict[int, list[Stint]] = {}
    for stint in forecast.schedule:
        lanes.setdefault(stint.slot, []).append(stint)
    shown = sorted(lanes)[:MOST_LINES]
    left = len(f"slot {shown[-1] + 1}")
    numbers = {slot: count(len(lanes[slot]), "task") for slot in shown}
    right = max(len(number) for number in numbers.values())
    room = width - left - right - 4
    yield from _axis(forecast.seconds, left, room)
    for slot in shown:
        busy = _busy(lanes[slot], forecast.seconds, room)
        bar = "".join(_FILL[round(8 * part)] for part in busy)
        yield f"{fit(f'slot {slot + 1}', left)} │{bar}│ {numbers[slot]:>{right}}"
    if len(lanes) > len(shown):
        yield f"… and {count(len(lanes) - len(shown), 'more slot')}"


def _busy(stints: Sequence[Stint], total: float, room: int) -> list[float]:
    """For each column the part of its time that something ran."""
    busy = [0.0] * room
    for stint in stints:
        start, end = _part(stint.start, total) * room, _part(stint.end, total) * room
        for column in range(int(start), min(room, int(end) + 1)):
            busy[column] += max(0.0, min(end, column + 1) - max(start, column))
    return [min(1.0, part) for part in busy]


def _axis(total: float, left: int, room: int) -> Iterator[str]:
    """Times over the columns they belong to."""
    line = ""
    for at in ticks(total, room // 12):
        column = int(_part(at, total) * room)
        label = duration(at)
        if column + len(label) <= room:
            line = line.ljust(column) + label
    yield f"{' ' * left}  {line}"


def ticks(total: float, most: int) -> list[float]:
    """Round times from 0 on, at most so many and one."""
    step: float = next((step for step in _STEPS if step * max(1, most) >= total), total)
    return [step * number for number in range(int(total / step) + 1)] if step > 0 else [0.0]


def _part(at: float, total: float) -> float:
    return at / total if total > 0 else 0.0
