"""A checked plan as JSON and as sentences, for `weft plan check`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import to_builtins

from weft import graph
from weft.plan.plan_records import Compiled, Edge, EdgeReason, ParsedPlan, PlanTask, Problem
from weft.plan.problems import sort_by_place
from weft.teams.team_text import describe_team

DEFAULT_SECONDS: Final = 300.0
"""The assumed duration of a task without any estimate."""

_HIDDEN: Final = frozenset(
    {"column", "last_line", "details", "criteria", "named", "klass", "parallel"}
)
_WHERE_ANY: Final = ("new", "predicted", "needs_labels")  # fields that most tasks do not have
_MOST_WRITTEN_OUT: Final = 200_000


def as_json(
    reading: ParsedPlan, compiled: Compiled, seconds: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Render a plan for tools; `seconds` are estimates by task, where there are any."""
    left = _MOST_WRITTEN_OUT
    edges = [_edge(edge) for edge in compiled.edges]
    barriers = []
    for barrier in compiled.barriers:
        pairs = len(barrier.before) * len(barrier.after)
        if pairs <= left:
            left -= pairs
            edges.extend(
                _edge(Edge(before=a, after=b, why=barrier.why, lines=barrier.lines))
                for a in barrier.before
                for b in barrier.after
            )
        else:
            barriers.append(
                {"before": barrier.before, "after": barrier.after, "why": str(barrier.why)}
            )
    return {
        "problems": [_problem(problem) for problem in list_problems(reading, compiled)],
        "tasks": [_task(task) for task in compiled.plan.tasks],
        "edges": edges,
        "barriers": barriers,
        "groups": [list(group) for group in compiled.groups],
        "critical_path": find_critical_path(compiled, seconds),
        "width": compiled.width,
    }


def list_problems(reading: ParsedPlan, compiled: Compiled) -> tuple[Problem, ...]:
    return sort_by_place((*reading.problems, *compiled.problems))


def find_critical_path(compiled: Compiled, seconds: Mapping[str, float] | None = None) -> list[str]:
    """Return the chain of unfinished tasks that takes longest."""
    seconds = seconds or {}
    tasks = compiled.plan.tasks
    weights = [0.0 if task.settled else seconds.get(task.id, DEFAULT_SECONDS) for task in tasks]
    weights += [0.0] * len(compiled.barriers)
    path = graph.heaviest_path(compiled.successors, weights)
    return [tasks[node].id for node in path if node < len(tasks) and not tasks[node].settled]


def explain_edge(edge: Edge) -> str:
    """Return the reason for an edge, as a clause."""
    lines = " and ".join(str(line) for line in dict.fromkeys(edge.lines))
    where = f" (line {lines})" if lines else ""
    match edge.why:
        case EdgeReason.EXPLICIT:
            return f"{edge.after} depends on {edge.before}{where}"
        case EdgeReason.PHASE:
            return f"the phase of {edge.after} comes after that of {edge.before}{where}"
        case EdgeReason.SEQUENTIAL:
            return f"their phase runs one task after the other{where}"
        case EdgeReason.MANUAL:
            return f"a person looks at {edge.after} when {edge.before} is done{where}"
        case EdgeReason.PART:
            return f"{edge.before} is a part of {edge.after}{where}"
        case EdgeReason.OVERLAP:
            return f"both may change {', '.join(edge.files)}{where}"


def _edge(edge: Edge) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "from": edge.before,
        "to": edge.after,
        "why": str(edge.why),
        "reason": explain_edge(edge),
        "lines": list(edge.lines),
    }
    if edge.files:
        shown["files"] = list(edge.files)
    return shown


def _task(task: PlanTask) -> dict[str, Any]:
    """Render the fields of a task, with claims for files, names for numbers and ids for needs."""
    fields = {name: getattr(task, name) for name in task.__struct_fields__ if name not in _HIDDEN}
    rendered = {name: to_builtins(value, enc_hook=dict) for name, value in fields.items()}
    if task.team is not None:
        rendered["team"] = describe_team(task.team)
    for name in _WHERE_ANY:
        if not fields[name]:
            del rendered[name]
    return {
        **{name: list(v) if isinstance(v, tuple) else v for name, v in rendered.items()},
        "files": list(task.claims),
        "depends": [reference.to for reference in task.depends],
        "depends_phases": [reference.to for reference in task.depends_phases],
        "priority": task.priority.name.lower(),
        "class": task.klass.name.lower(),
    }


def _problem(problem: Problem) -> dict[str, Any]:
    return {key: value for key, value in to_builtins(problem).items() if value is not None}
