"""What waited for what, and the chain that decided when the run ended."""

from __future__ import annotations

from weft.cli.plan.graph_layout import HEIGHT, NodePosition, layout
from weft.cli.report import report_text
from weft.cli.svg_parts import LETTER, cut, escaped, frame, line
from weft.runs.report.report_records import RunReport, TaskReport


def draw(report: RunReport) -> str:
    tasks = [one for one in report.tasks if not one.barrier]
    nodes = [*tasks, *(one for one in report.tasks if one.barrier)]
    place = {one.name: number for number, one in enumerate(nodes)}
    successors: list[list[int]] = [[] for _ in nodes]
    for one in nodes:
        for need in one.needs:
            successors[place[need]].append(place[one.name])
    found = layout(successors, len(tasks))
    hot = {
        (place[need], place[one.name])
        for one in nodes
        for need in one.needs
        if one.critical and nodes[place[need]].critical
    }
    parts = [
        line(route, "line hot" if ends in hot else "line")
        for ends, route in sorted(found.lines, key=lambda one: one[0] in hot)  # hot ones on top
    ]
    parts += map(_task, tasks, found.places)
    parts += (
        f'<circle class="dot" cx="{dot.x:.0f}" cy="{dot.y:.0f}" r="4"/>'
        f'<path class="line" d="M{dot.x:.0f} {dot.y:.0f}H{dot.x + dot.width:.0f}"/>'
        for dot in found.places[len(tasks) :]
    )
    return frame(found.width, found.height, parts, "The tasks, and what each of them waited for")


def _task(task: TaskReport, place: NodePosition) -> str:
    room = int((place.width - 14) / LETTER)
    top = place.y - HEIGHT / 2
    kind = " ".join(["node", task.state, *(["hot"] * task.critical), *(["person"] * task.person)])
    what = report_text.length(task.seconds) if task.seconds else task.state
    said = [
        f"{task.name} {task.title}",
        f"{task.state}, {report_text.length(task.seconds)} of agents",
    ]
    if task.end is not None:
        said.append(f"ended at {report_text.length(task.end)}")
    if task.reason:
        said.append(report_text.first_line(task.reason))
    title = "\n".join(map(escaped, said))
    return (
        f'<g class="{kind}" data-t="{escaped(task.name)}"><title>{title}</title>'
        f'<rect x="{place.x:.0f}" y="{top:.0f}" width="{place.width:.0f}" height="{HEIGHT}" '
        f'rx="6"/><text x="{place.x + 8:.0f}" y="{top + 15:.0f}"><tspan class="id">'
        f'{cut(task.name, room - 9)}</tspan> <tspan class="dim">{escaped(what)}</tspan></text>'
        f'<text x="{place.x + 8:.0f}" y="{top + 31:.0f}">{cut(task.title, room)}</text></g>'
    )
