"""The graph and the schedule of a plan as SVG, coloured by the style sheet of the page."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from weft.cli.plan.graph_layout import HEIGHT, NodePosition, layout
from weft.cli.plan.plan_text import duration
from weft.cli.svg_parts import LETTER, WIDEST, axis, cut, escaped, frame, line
from weft.forecast import Forecast
from weft.graph import Successors
from weft.plan.plan_records import Compiled, EdgeReason, PlanTask

_LANE = 30
_LEFT = 60  # for the names of the slots
_SHORTEST = 48  # a task of usual length is drawn at least so wide


def graph(compiled: Compiled, critical: Sequence[str], seconds: Mapping[str, float]) -> str:
    """Tasks in columns, each behind what it waits for; overlaps are dashed."""
    tasks = compiled.plan.tasks
    successors = _bundled(compiled)
    found = layout(successors, len(tasks))
    hot = _hot_lines(successors, [task.id for task in tasks], critical)
    at = {task.id: found.places[place] for place, task in enumerate(tasks)}
    parts = []
    for ends, route in sorted(found.lines, key=lambda one: one[0] in hot):  # hot ones on top
        parts.append(line(route, "line hot" if ends in hot else "line"))
    for edge in compiled.edges:
        if edge.why is EdgeReason.OVERLAP:
            title = f"{edge.before} and {edge.after} may both change {', '.join(edge.files)}"
            parts.append(line((at[edge.before], at[edge.after]), "line turns", title))
    for place, task in zip(found.places, tasks, strict=False):
        parts.append(_task(task, place, task.id in critical, seconds.get(task.id, 0.0)))
    parts.extend(
        f'<path class="line" d="M{dot.x:.0f} {dot.y:.0f}H{dot.x + dot.width:.0f}"/>'
        f'<circle class="dot" cx="{dot.x:.0f}" cy="{dot.y:.0f}" r="4"/>'
        for dot in found.places[len(tasks) :]
    )
    return frame(found.width, found.height, parts, "The tasks, and what each of them waits for")


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
        if why is EdgeReason.OVERLAP:
            continue
        if why is not EdgeReason.PHASE:
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


def _task(task: PlanTask, place: NodePosition, critical: bool, seconds: float) -> str:
    room = int((place.width - 14) / LETTER)
    top = place.y - HEIGHT / 2
    kind = " ".join(
        ["task", str(task.status), *(["hot"] if critical else []), *(["manual"] * task.manual)]
    )
    what = "waits for a person" if task.manual else duration(seconds) if seconds else task.status
    return (
        f'<g class="{kind}"><title>{escaped(f"{task.id} {task.text} ({what})")}</title>'
        f'<rect x="{place.x:.0f}" y="{top:.0f}" width="{place.width:.0f}" height="{HEIGHT}" '
        f'rx="6"/><text x="{place.x + 7:.0f}" y="{top + 15:.0f}">'
        f'<tspan class="id">{cut(task.id, room - 9)}</tspan> <tspan class="dim">{escaped(what)}'
        f'</tspan></text><text x="{place.x + 7:.0f}" y="{top + 31:.0f}">'
        f"{cut(task.text, room)}</text></g>"
    )


def gantt(forecast: Forecast, names: Mapping[str, str], critical: Collection[str]) -> str:
    """A lane for each slot, the tasks on it from left to right."""
    total = forecast.seconds
    if total <= 0:
        return ""
    lengths = sorted(stint.end - stint.start for stint in forecast.schedule)
    usual = lengths[len(lengths) // 4] or total
    room = min(WIDEST, max(960.0, _SHORTEST * total / usual))
    lanes = sorted({stint.slot for stint in forecast.schedule})
    row = {slot: number for number, slot in enumerate(lanes)}
    bottom = 22 + _LANE * len(lanes)
    parts = list(axis(total, room, bottom, _LEFT))
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
        fits = int((wide - 8) / LETTER)
        label = cut(name if fits > len(stint.name) + 6 else stint.name, fits)
        kind = "task hot" if stint.name in critical else "task"
        parts.append(
            f'<g class="{kind}"><title>{escaped(f"{name} ({when})")}</title>'
            f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{_LANE - 4}" rx="4"/>'
            f'<text x="{x + 5:.1f}" y="{y + 17}">{label}</text></g>'
        )
    return frame(_LEFT + room + 70, bottom, parts, "What would run when, on which slot")
