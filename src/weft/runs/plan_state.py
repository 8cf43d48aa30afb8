"""The state of a plan's run as `parallel_state.json`, printed and kept in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from weft.errors import InputError
from weft.formats import first_line, json_text
from weft.model import ErrorClass, State
from weft.plan.plan_json import TaskProgress, build_parallel_state
from weft.plan.plan_records import Plan
from weft.plan.task_line import COMMIT_LENGTH
from weft.runs import plan_file
from weft.runs.progress import RunProgress

_KIND: Final = "parallel state"
_LONGEST_ERROR: Final = 500
_STOPPED: Final = (State.BLOCKED, State.FAILED, State.EVICTED)


def encode_state(
    plan: Plan, phase: str | None = None, progress: RunProgress | None = None
) -> bytes:
    """Return the state of a phase, as the bytes of the file."""
    tasks = {} if progress is None else list_progress(progress)
    return (json_text(build_parallel_state(plan, phase, tasks)) + "\n").encode()


def list_progress(progress: RunProgress) -> dict[str, TaskProgress]:
    """Return the tasks of a run by their ids in the plan."""
    first: dict[int, float] = {}
    last: dict[int, str | None] = {}
    for attempt in sorted(progress.attempts, key=lambda attempt: attempt.number):
        first.setdefault(attempt.task, attempt.started)
        last[attempt.task] = attempt.outcome
    landed = progress.landed
    return {
        task.name: TaskProgress(
            state=task.state,
            files=task.files,
            started=first.get(task.id),
            completed=task.since if task.state is State.DONE else None,
            commit=landed[task.id][:COMMIT_LENGTH] if task.id in landed else None,
            timed_out=last.get(task.id) == ErrorClass.TIMEOUT,
            error=first_line(task.reason)[:_LONGEST_ERROR] if task.state in _STOPPED else "",
        )
        for task in progress.tasks
    }


def require_state_file(path: Path) -> None:
    """Raise InputError if the state cannot be written to this file."""
    if path.exists():
        if not path.is_file() or not _is_state(plan_file.read(path)):
            raise InputError(f"{path} is there already and is no {_KIND}; name another file.")
    elif not path.parent.is_dir():
        raise InputError(f"Cannot write {path}: there is no directory {path.parent}.")


def write_state(path: Path, data: bytes) -> None:
    """Create the file or replace an earlier state; leave it alone if it has these bytes."""
    if not (path.is_file() and plan_file.read(path) == data):
        plan_file.write_over(path, data, ours=_is_state, kind=_KIND)


def _is_state(data: bytes) -> bool:
    try:
        state = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(state, dict) and "workers" in state
