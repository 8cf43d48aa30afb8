"""The workspace of a task's latest attempt on this machine."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from weft import git
from weft.attempt import start_record
from weft.errors import Refused
from weft.project.project import Project
from weft.project.site import home
from weft.runs.control import describe_task
from weft.runs.task_names import get_named_task
from weft.store import Store
from weft.store.limit_table import identity
from weft.store.tasks import list_attempts
from weft.words import task_state
from weft.workspace.handout import list_handed_out


class TaskWorkspace(Struct, frozen=True, kw_only=True):
    task: int
    attempt: int
    path: Path
    running: bool  # an agent works there now


def get_workspace(project: Project, store: Store, name: str) -> TaskWorkspace:
    """Return the workspace that still holds the work of a task, or raise the way to its commit."""
    task = get_named_task(store, name)
    attempts = list_attempts(store, task.id)
    if not attempts:
        raise Refused(f"{describe_task(task)} is {task_state(task)}: it has no workspace yet.")
    last = attempts[-1]
    place = home(git.common_directory(project.root), identity(store))
    order = start_record.find(place / f"{task.id}.{last.number}")
    handed_out = {branch for _, branch in list_handed_out(project.root)}
    if order is not None and order.branch in handed_out and Path(order.workspace).is_dir():
        return TaskWorkspace(
            task=task.id,
            attempt=last.number,
            path=Path(order.workspace),
            running=last.ended is None,
        )
    text = f"{describe_task(task)} has no workspace here any more."
    for attempt in reversed(attempts):
        if attempt.candidate:
            add = f"git worktree add --detach DIRECTORY {attempt.candidate[:12]}"
            raise Refused(f"{text} `{add}` checks its work out.")
    raise Refused(text)
