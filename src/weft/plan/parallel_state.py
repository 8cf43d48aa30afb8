"""`parallel_state.json`, a format that other tools use to follow the current phase.

The file describes a single phase: a worker for each of its tasks, and the locked files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from weft.errors import InputError
from weft.model import State
from weft.plan.plan_records import Phase, Plan, PlanTask
from weft.plan.task_status import RUNNING

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
    """Describe a phase, by default the first that is not finished.

    `progress` has the tasks of the plan's run, by id; the marks of the plan serve for the rest.
    """
    known = {task.id: progress.get(task.id) or _marked(task) for task in plan.tasks}
    chosen = _chosen(plan, phase, known)
    tasks = [task for task in plan.tasks if chosen and task.phase == chosen.label]
    workers = {task.id: f"worker_{task.label}_{_slug(task)}" for task in tasks}
    states = [known[task.id] for task in tasks]
    completed = [each.state in (State.DONE, State.SKIPPED) for each in states]
    state: dict[str, Any] = {
        "phase": (chosen.heading or chosen.title or plan.title) if chosen else "",
        "execution_mode": "parallel" if chosen and chosen.parallel else "sequential",
    }
    if started := [each.started for each in states if each.started is not None]:
        state["started_at"] = _time(min(started))
    if started and all(completed):
        state["completed_at"] = _time(max(each.completed or 0.0 for each in states))
    state["workers"] = [_worker(task, workers[task.id], known[task.id]) for task in tasks]
    state["file_locks"] = {
        file: workers[task.id]
        for task in tasks
        if known[task.id].state in RUNNING
        for file in known[task.id].files
    }
    state["completed_workers"] = sum(completed)
    state["total_workers"] = len(tasks)
    return state


def _marked(task: PlanTask) -> TaskProgress:
    return TaskProgress(
        state=task.status, files=task.claims, commit=task.commit, error=task.note or ""
    )


def _chosen(plan: Plan, label: str | None, known: Mapping[str, TaskProgress]) -> Phase | None:
    if label is not None:
        for phase in plan.phases:
            if phase.label == label:
                return phase
        labels = ", ".join(phase.label for phase in plan.phases if phase.label)
        there = f"there are {labels}" if labels else "it has no phases"
        raise InputError(f"There is no phase {label!r} in {plan.name}: {there}.")
    unfinished = {
        task.phase for task in plan.tasks if known[task.id].state not in (State.DONE, State.SKIPPED)
    }
    waiting = [phase for phase in plan.phases if phase.label in unfinished]
    return next(iter([*waiting, *reversed(plan.phases)]), None)


def _worker(task: PlanTask, worker: str, progress: TaskProgress) -> dict[str, Any]:
    stopped = progress.state in (State.BLOCKED, State.FAILED, State.EVICTED)
    fields: Iterable[tuple[str, object]] = (
        ("worker_id", worker),
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
