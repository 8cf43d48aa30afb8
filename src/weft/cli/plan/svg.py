"""The graph and the schedule of a plan as SVG, coloured by the style sheet of the page."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise

from weft.cli.plan.gantt import ticks
from weft.cli.plan.layout import HEIGHT, Place, layout
from weft.cli.plan.texts import cells, duration, fit, plain
from weft.forecast import Forecast
from weft.graph import Successors
from weft.plan.records import Compiled, PlanTask, Why

_LETTER = 6.6  # the width of one, about
_MARGIN = 12
_LANE = 30
_LEFT = 60  # for the names of the slots
_SHORTEST = 48  # a task of usual length is drawn at least so wide
_WIDEST = 16_000


def graph(compiled: Compiled, critical: Sequence[str], seconds: Mapping[str, float]) -> str:
    """Tasks in columns, each behind what it waits for; overlaps are dashed."""
    tasks = compiled.plan.tasks
    successors = _bundled(compiled)
    found = layout(successors, len(tasks))
    hot = _hot_lines(successors, [task.id for task in tasks], critical)
    at = {task.id: found.places[place] for place, task in enumerate(tasks)}
    parts = []
    for ends, route in sorted(found.lines, key=lambda line: line[0] in hot):  # hot ones on top
        parts.append(_line(route, "line hot" if ends in hot else "line"))
    for edge in compiled.edges:
        if edge.why is Why.OVERLAP:
            title = f"{edge.before} and {edge.after} may both change {', '.join(edge.files)}"
            parts.append(_line((at[edge.before], at[edge.after]), "line turns", title))
    for place, task in zip(found.places, tasks, strict=False):
        parts.append(_task(task, place, task.id in critical, seconds.get(task.id, 0.0)))
    parts.extend(
        f'<path class="line" d="M{dot.x:.0f} {dot.y:.0f}H{dot.x + dot.width:.0f}"/>'
        f'<circle class="dot" cx="{dot.x:.0f}" cy="{dot.y:.0f}" r="4"/>'
        for dot in found.places[len(tasks) :]
    )
    return _svg(found.width, found.height, parts, "The tasks, and what each of them waits for")


def _bundled(compiled: Compiled) -> list[list[int]]:
    """The graph with a dot behind each phase and one before it, instead of lines in all pairs."""
    node = {task.id: place for place, task in enumerate(compiled.plan.tasks)}
    phase_of = [task.phase for task in compiled.plan.tasks]
    successors: list[list[int]] = [[] for _ in node]
    dots: dict[tuple[str, str], int] = {}

    def dot(phase: str, side: str) -> int:
        if (phase, side) not in dots:
            dots[phase, side] = len(successors)
            successors.append([])
        return dots[phase, side]

    edges = (((edge.before,), (edge.after,), edge.why) for edge in compiled.edges)
    barriers = ((each.before, each.after, each.why) for each in compiled.barriers)
    for befores, afters, why in (*edges, *barriers):
        if why is Why.OVERLAP:
            continue
        if why is not Why.PHASE:
            for before in befores:
                successors[node[before]].extend(node[after] for after in afters)
            continue
        left = dot(phase_of[node[befores[0]]], "end")
        entered = dot(phase_of[node[afters[0]]], "start")
        for before in befores:
            successors[node[before]].append(left)
        successors[left].append(entered)
        successors[entered].extend(node[after] for after in afters)
    return [sorted(set(following)) for following in successors]


def _hot_lines(
    successors: Successors, ids: Sequence[str], critical: Sequence[str]
) -> set[tuple[int, int]]:
    """The steps of the critical path, by node; some of them lead through dots."""
    node = {id: place for place, id in enumerate(ids)}
    found = set()
    for a, b in ((node[a], node[b]) for a, b in pairwise(critical)):
        ways = [[a, b]]
        ways += [[a, end, b] for end in successors[a] if end >= len(ids)]
        ways += [[*way[:2], start, b] for way in ways[1:] for start in successors[way[1]]]
        for way in ways:
            steps = list(pairwise(way))
            if all(after in successors[before] for before, after in steps):
                found.update(steps)
    return found


def _line(route: Sequence[Place], kind: str, title: str = "") -> str:
    """A curve through the places of a route, straight where it crosses a column."""
    said = f"<title>{_text(title)}</title>" if title else ""
    first, last = route[0], route[-1]
    if first.x == last.x:
        # Both in one column, one above the other: round the outside of it.
        x, out = first.x + first.width, first.x + first.width + 26
        curve = f"M{x:.0f} {first.y:.0f}C{out:.0f} {first.y:.0f} {out:.0f} {last.y:.0f} "
        return f'<path class="{kind}" d="{curve}{x:.0f} {last.y:.0f}">{said}</path>'
    if last.x < first.x:
        route = route[::-1]
    curve = f"M{route[0].x + route[0].width:.0f} {route[0].y:.0f}"
    for start, end in pairwise(route):
        x1, x2 = start.x + start.width, end.x
        bend = (x2 - x1) / 2
        curve += f"C{x1 + bend:.0f} {start.y:.0f} {x2 - bend:.0f} {end.y:.0f} "
        curve += f"{x2:.0f} {end.y:.0f}"
        if end is not route[-1]:
            curve += f"H{end.x + end.width:.0f}"
    return f'<path class="{kind}" d="{curve}">{said}</path>'


def _task(task: PlanTask, place: Place, critical: bool, seconds: float) -> str:
    room = int((place.width - 14) / _LETTER)
    top = place.y - HEIGHT / 2
    kind = " ".join(
        ["task", str(task.status), *(["hot"] if critical else []), *(["manual"] * task.manual)]
    )
    what = "waits for a person" if task.manual else duration(seconds) if seconds else task.status
    return (
        f'<g class="{kind}"><title>{_text(f"{task.id} {task.text} ({what})")}</title>'
        f'<rect x="{place.x:.0f}" y="{top:.0f}" width="{place.width:.0f}" height="{HEIGHT}" '
        f'rx="6"/><text x="{place.x + 7:.0f}" y="{top + 15:.0f}">'
        f'<tspan class="id">{_cut(task.id, room - 9)}</tspan> <tspan class="dim">{_text(what)}'
        f'</tspan></text><text x="{place.x + 7:.0f}" y="{top + 31:.0f}">'
        f"{_cut(task.text, room)}</text></g>"
    )


def gantt(forecast: Forecast, names: Mapping[str, str], critical: Collection[str]) -> str:
    """A lane for each slot, the tasks on it from left to right."""
    total = forecast.seconds
    if total <= 0:
        return ""
    lengths = sorted(stint.end - stint.start for stint in forecast.schedule)
    usual = lengths[len(lengths) // 4] or total
    room = min(_WIDEST, max(960.0, _SHORTEST * total / usual))
    lanes = sorted({stint.slot for stint in forecast.schedule})
    row = {slot: number for number, slot in enumerate(lanes)}
    bottom = 22 + _LANE * len(lanes)
    parts = list(_axis(total, room, bottom))
    parts.extend(
        f'<text class="dim" x="0" y="{22 + _LANE * number + 19}">slot {slot + 1}</text>'
        for slot, number in row.items()
    )
    for stint in forecast.schedule:
        x, end = (_LEFT + at / total * room for at in (stint.start, stint.end))
        y = 22 + _LANE * row[stint.slot] + 2
        wide = max(1.0, end - x - 1)
        name = names.get(stint.name, stint.name)
        when = f"{duration(stint.start)} to {duration(stint.end)}"
        fits = int((wide - 8) / _LETTER)
        label = _cut(name if fits > len(stint.name) + 6 else stint.name, fits)
        kind = "task hot" if stint.name in critical else "task"
        parts.append(
            f'<g class="{kind}"><title>{_text(f"{name} ({when})")}</title>'
            f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{_LANE - 4}" rx="4"/>'
            f'<text x="{x + 5:.1f}" y="{y + 17}">{label}</text></g>'
        )
    return _svg(_LEFT + room + 70, bottom, parts, "What would run when, on which slot")


def _axis(total: float, room: float, bottom: float) -> Iterator[str]:
    for at in ticks(total, int(room / 110)):
        x = _LEFT + at / total * room
        yield f'<path class="grid" d="M{x:.0f} 16V{bottom:.0f}"/>'
        yield f'<text class="dim" x="{x + 3:.0f}" y="12">{duration(at)}</text>'


def _svg(width: float, height: float, parts: list[str], label: str) -> str:
    wide, high = width + 2 * _MARGIN, height + 2 * _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" '
        f'width="{wide:.0f}" height="{high:.0f}" '
        f'viewBox="{-_MARGIN} {-_MARGIN} {wide:.0f} {high:.0f}">\n' + "\n".join(parts) + "\n</svg>"
    )


def _cut(text: str, room: int) -> str:
    """As much of a text as there is room for; nothing rather than a letter or two of it."""
    text = plain(text)
    if cells(text) <= room:
        return _text(text)
    return _text(fit(text, room).rstrip()) if room > 2 else ""


def _text(text: str) -> str:
    return escape(plain(text))
