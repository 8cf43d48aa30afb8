"""A checked plan as JSON and as sentences, for `weft plan check`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct, to_builtins

from weft import graph
from weft.errors import InputError
from weft.model import State
from weft.plan.plan_records import (
    Compiled,
    Edge,
    EdgeReason,
    ParsedPlan,
    Phase,
    Plan,
    PlanTask,
    Problem,
)
from weft.plan.problems import sort_by_place
from weft.plan.writeback import RUNNING
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


_STATUS: Final = {
    State.WAITING: "pending",
    State.READY: "pending",
    State.OFFERED: "pending",
    **dict.fromkeys(RUNNING, "in_progress"),
    State.DONE: "completed",
    State.BLOCKED: "blocked",
    State.FAILED: "failed",
    State.EVICTED: "failed",
    State.CANCELLED: "cancelled",
    State.SKIPPED: "skipped",
}
_TIMED_OUT: Final = "timed_out"
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")
_SMALL_WORDS: Final = frozenset(
    {"a", "an", "the", "create", "add", "write", "implement", "module", "file", "for", "of", "and"}
)


class TaskProgress(Struct, frozen=True, kw_only=True):
    """A task as its run has it; times are seconds since 1970."""

    state: State
    files: tuple[str, ...]  # it may have claimed more than the plan says
    started: float | None = None  # of its first attempt
    completed: float | None = None  # when it was done
    commit: str | None = None
    timed_out: bool = False  # its last attempt took too long
    error: str = ""  # why it is blocked or failed


NOT_RUN: Final[Mapping[str, TaskProgress]] = MappingProxyType({})


def build_parallel_state(
    plan: Plan, phase: str | None = None, progress: Mapping[str, TaskProgress] = NOT_RUN
) -> dict[str, Any]:
    """Describe a phase; by default the first that is not finished, and all that have begun.

    `progress` has the tasks of the plan's run, by id; the marks of the plan serve for the rest.
    """
    known = {task.id: progress.get(task.id) or _marked(task) for task in plan.tasks}
    chosen = {each.label: each for each in _chosen(plan, phase, known)}
    titles = {label: each.heading or each.title or plan.title for label, each in chosen.items()}
    several = len(chosen) > 1
    tasks = [task for task in plan.tasks if task.phase in chosen]
    workers = _name_workers(plan)
    states = [known[task.id] for task in tasks]
    completed = [each.state in (State.DONE, State.SKIPPED) for each in states]
    parallel = several or any(each.parallel for each in chosen.values())
    state: dict[str, Any] = {
        "phase": next(iter(titles.values()), ""),
        "execution_mode": "parallel" if parallel else "sequential",
    }
    if several:
        state["phases"] = list(titles.values())
    if started := [each.started for each in states if each.started is not None]:
        state["started_at"] = _time(min(started))
    if started and all(completed):
        state["completed_at"] = _time(max(each.completed or 0.0 for each in states))
    state["workers"] = [
        _worker(task, workers[task.id], known[task.id], titles[task.phase] if several else None)
        for task in tasks
    ]
    state["file_locks"] = {
        file: workers[task.id]
        for task in tasks
        if known[task.id].state in RUNNING
        for file in known[task.id].files
    }
    state["completed_workers"] = sum(completed)
    state["total_workers"] = len(tasks)
    return state


def _name_workers(plan: Plan) -> dict[str, str]:
    """Name a worker for each task; the phase is in the name where two would be called the same."""
    names = {task.id: f"{task.label}_{_slug(task)}" for task in plan.tasks}
    used = Counter(names.values())
    return {
        task.id: f"worker_{f'{task.phase}_' if used[names[task.id]] > 1 else ''}{names[task.id]}"
        for task in plan.tasks
    }


def _marked(task: PlanTask) -> TaskProgress:
    return TaskProgress(
        state=task.status, files=task.claims, commit=task.commit, error=task.note or ""
    )


def _chosen(plan: Plan, label: str | None, known: Mapping[str, TaskProgress]) -> Sequence[Phase]:
    if label is not None:
        for phase in plan.phases:
            if phase.label == label:
                return [phase]
        labels = ", ".join(phase.label for phase in plan.phases if phase.label)
        there = f"there are {labels}" if labels else "it has no phases"
        raise InputError(f"There is no phase {label!r} in {plan.name}: {there}.")
    unfinished, begun = set(), set()
    for task in plan.tasks:
        progress = known[task.id]
        if progress.state not in (State.DONE, State.SKIPPED):
            unfinished.add(task.phase)
        if progress.started is not None or progress.state in RUNNING:
            begun.add(task.phase)
    current = [phase for phase in plan.phases if phase.label in unfinished]
    current[1:] = [phase for phase in current[1:] if phase.label in begun]
    return current or plan.phases[-1:]


def _worker(
    task: PlanTask, worker: str, progress: TaskProgress, phase: str | None
) -> dict[str, Any]:
    stopped = progress.state in (State.BLOCKED, State.FAILED, State.EVICTED)
    fields: Iterable[tuple[str, object]] = (
        ("worker_id", worker),
        ("phase", phase),
        ("task", f"Task {task.label}: {task.title}"),
        ("files", list(progress.files)),
        (
            "status",
            _TIMED_OUT if stopped and progress.timed_out else _STATUS[progress.state],
        ),
        ("started_at", _time(progress.started)),
        ("completed_at", _time(progress.completed)),
        ("commit_sha", progress.commit),
        ("error", progress.error or None),
    )
    return {name: value for name, value in fields if value is not None}


def _time(seconds: float | None) -> str | None:
    """Return a time in ISO 8601, as text."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _slug(task: PlanTask) -> str:
    """Return a telling word of the task, to tell workers apart."""
    words = _NOT_IN_A_NAME.sub(" ", task.text.lower()).split()
    telling = [word for word in words if word not in _SMALL_WORDS]
    return (telling or words or ["task"])[0][:30]
