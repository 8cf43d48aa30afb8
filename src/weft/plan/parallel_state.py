"""`parallel_state.json`, a format that other tools use to follow the current phase.

The file describes a single phase: a worker for each of its tasks, and the locked files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from weft.errors import InputError
from weft.model import State
from weft.plan.plan_records import Phase, Plan, PlanTask

_STATUS: Final = {
    State.WAITING: "pending",
    State.RUNNING: "in_progress",
    State.DONE: "completed",
    State.BLOCKED: "blocked",
    State.SKIPPED: "skipped",
}
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")
_SMALL_WORDS: Final = frozenset(
    {"a", "an", "the", "create", "add", "write", "implement", "module", "file", "for", "of", "and"}
)


class Times(Struct, frozen=True, kw_only=True):
    """Start and end of a task, as text in ISO 8601."""

    started: str | None = None
    completed: str | None = None


def build_parallel_state(
    plan: Plan, phase: str | None = None, times: Mapping[str, Times] | None = None
) -> dict[str, Any]:
    """Describe a phase, by default the first that is not finished."""
    times = times or {}
    chosen = _chosen(plan, phase)
    tasks = [task for task in plan.tasks if chosen and task.phase == chosen.label]
    workers = {task.id: f"worker_{task.label}_{_slug(task)}" for task in tasks}
    started = [when.started for task in tasks if (when := times.get(task.id)) and when.started]
    state: dict[str, Any] = {
        "phase": chosen.heading or chosen.title if chosen else "",
        "execution_mode": "parallel" if chosen and chosen.parallel else "sequential",
    }
    if started:
        state["started_at"] = min(started)
    state["workers"] = [_worker(task, workers[task.id], times.get(task.id)) for task in tasks]
    state["file_locks"] = {
        file: workers[task.id]
        for task in tasks
        if task.status is State.RUNNING
        for file in task.claims
    }
    state["completed_workers"] = sum(task.settled for task in tasks)
    state["total_workers"] = len(tasks)
    return state


def _chosen(plan: Plan, label: str | None) -> Phase | None:
    if label is not None:
        for phase in plan.phases:
            if phase.label == label:
                return phase
        raise InputError(f"There is no phase {label!r} in {plan.name}.")
    unfinished = {task.phase for task in plan.tasks if not task.settled}
    waiting = [phase for phase in plan.phases if phase.label in unfinished]
    return next(iter([*waiting, *reversed(plan.phases)]), None)


def _worker(task: PlanTask, worker: str, when: Times | None) -> dict[str, Any]:
    worker_state: dict[str, Any] = {
        "worker_id": worker,
        "task": f"Task {task.label}: {task.text}",
        "files": list(task.claims),
        "status": _STATUS[task.status],
    }
    if when and when.started:
        worker_state["started_at"] = when.started
    if when and when.completed:
        worker_state["completed_at"] = when.completed
    if task.commit:
        worker_state["commit_sha"] = task.commit
    return worker_state


def _slug(task: PlanTask) -> str:
    """Return a telling word of the task, to tell workers apart."""
    words = _NOT_IN_A_NAME.sub(" ", task.text.lower()).split()
    telling = [word for word in words if word not in _SMALL_WORDS]
    return (telling or words or ["task"])[0][:30]
