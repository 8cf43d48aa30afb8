"""The changes of a task: its landed commit, or else the candidate of its latest attempt."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from weft import git
from weft.errors import Refused
from weft.git.trees import make_patch
from weft.model import State, Task
from weft.project.project import Project
from weft.runs.control import describe_task
from weft.runs.task_names import get_named_task
from weft.store import Store
from weft.store.server_operations import hosted
from weft.store.summaries import milestones
from weft.store.tasks import list_attempts
from weft.words import full_label, task_clause


class TaskDiff(Struct, frozen=True, kw_only=True):
    task: int
    name: str  # as people call it
    attempt: int | None  # None: it has landed
    base: str
    commit: str
    patch: bytes

    @property
    def landed(self) -> bool:
        return self.attempt is None


@hosted("read")
def get_diff(project: Project, name: str) -> TaskDiff:
    with project.open_store() as store:
        return _find(project.root, store, name)


def _find(root: Path, store: Store, name: str) -> TaskDiff:
    task = get_named_task(store, name)
    events = milestones(store, task.id)
    landed = [event.data["commit"] for event in events if event.kind == "task_landed"]
    if landed and task.state is State.DONE:
        commit = git.get_commit(root, landed[-1])
        return _difference(root, task, None, commit.parents[0], commit.id)
    for attempt in reversed(list_attempts(store, task.id)):
        if attempt.candidate and attempt.base:
            return _difference(root, task, attempt.number, attempt.base, attempt.candidate)
    raise Refused(f"{describe_task(task)} {task_clause(task)} and has left no commit yet.")


def _difference(root: Path, task: Task, attempt: int | None, base: str, commit: str) -> TaskDiff:
    old, new = git.get_commit(root, base).id, git.get_commit(root, commit).id
    return TaskDiff(
        task=task.id,
        name=full_label(task),
        attempt=attempt,
        base=old,
        commit=new,
        patch=make_patch(root, old, new),
    )
