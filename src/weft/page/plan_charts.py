"""The graph and the schedule of a checked plan as charts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from weft.formats import count, duration
from weft.graph import Successors
from weft.page.gantt_chart import GanttBar, GanttChart, GanttRow
from weft.page.graph_chart import GraphChart, GraphNode
from weft.plan.plan_records import Compiled, EdgeReason, PlanTask
from weft.runs.plan_check import CheckedPlan


def chart_graph(checked: CheckedPlan) -> GraphChart:
    compiled, critical = checked.compiled, checked.critical_path
    tasks = compiled.plan.tasks
    successors = _bundled(compiled)
    place = {task.id: number for number, task in enumerate(tasks)}
    return GraphChart(
        label="The tasks, and the tasks each of them waits for",
        nodes=tuple(
            _node(task, task.id in critical, checked.seconds.get(task.id, 0.0)) for task in tasks
        ),
        successors=successors,
        critical=_critical_edges(successors, len(tasks), [place[task] for task in critical]),
        overlaps=tuple(
            (
                place[edge.before],
                place[edge.after],
                f"{edge.before} and {edge.after} may both change {', '.join(edge.files)}",
            )
            for edge in compiled.edges
            if edge.why is EdgeReason.OVERLAP
        ),
    )


def _node(task: PlanTask, critical: bool, seconds: float) -> GraphNode:
    state = duration(seconds) if seconds else str(task.status)
    note = "waits for a person" if task.manual else state
    return GraphNode(
        name=task.id,
        text=task.title,
        note=note,
        kind=f"{task.status} person" if task.manual else str(task.status),
        critical=critical,
        hover=(f"{task.id} {task.title} ({note})",),
    )


def _bundled(compiled: Compiled) -> list[list[int]]:
    """Return the graph in which phases meet in a dot, so that not every task of a phase has a line
    to every task of the next."""
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
    barriers = ((barrier.before, barrier.after, barrier.why) for barrier in compiled.barriers)
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


def _critical_edges(
    successors: Successors, tasks: int, path: Sequence[int]
) -> frozenset[tuple[int, int]]:
    """Return the edges of a path; some of them lead through dots."""
    edges: set[tuple[int, int]] = set()
    for a, b in pairwise(path):
        ways = [[a, b]]
        ways += [[a, end, b] for end in successors[a] if end >= tasks]
        ways += [[*way[:2], start, b] for way in ways[1:] for start in successors[way[1]]]
        for way in ways:
            steps = list(pairwise(way))
            if all(after in successors[before] for before, after in steps):
                edges.update(steps)
    return frozenset(edges)


def chart_slots(checked: CheckedPlan) -> GanttChart:
    """Return the predicted schedule with a row for each slot."""
    slots: dict[int, list[GanttBar]] = {}
    for stint, bar in zip(checked.forecast.schedule, _bars(checked), strict=True):
        slots.setdefault(stint.slot, []).append(bar)
    rows = (
        GanttRow(name=f"slot {slot + 1}", bars=tuple(bars), note=count(len(bars), "task"))
        for slot, bars in sorted(slots.items())
    )
    return _chart(checked, tuple(rows))


def chart_tasks(checked: CheckedPlan) -> GanttChart:
    """Return the predicted schedule with a row for each task."""
    rows = (
        GanttRow(name=bar.labels[0], bars=(bar,), note=duration(bar.end - bar.start))
        for bar in _bars(checked)
    )
    return _chart(checked, tuple(rows))


def _chart(checked: CheckedPlan, rows: tuple[GanttRow, ...]) -> GanttChart:
    label = "The predicted times of the tasks, by slot"
    return GanttChart(label=label, seconds=checked.forecast.seconds, groups=(rows,))


def _bars(checked: CheckedPlan) -> list[GanttBar]:
    """Return a bar for each stint of the schedule."""
    texts = {task.id: task.title for task in checked.compiled.plan.tasks}
    critical = set(checked.critical_path)
    bars = []
    for stint in checked.forecast.schedule:
        label = f"{stint.name} {texts[stint.name]}"
        bars.append(
            GanttBar(
                start=stint.start,
                end=stint.end,
                labels=(label, stint.name),
                kind="hot" if stint.name in critical else "",
                hover=(f"{label} ({duration(stint.start)} to {duration(stint.end)})",),
                task=stint.name,
            )
        )
    return bars
