"""The work of a task: its diff, the candidates of its team, its workspace on this machine."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from weft import git
from weft.attempt import start_record
from weft.errors import Refused
from weft.git.trees import compare_trees, make_patch
from weft.model import State, Task
from weft.project.project import Project
from weft.project.site import home
from weft.runs.task_names import get_named_task
from weft.store import Store
from weft.store.limit_table import identity
from weft.store.server_operations import hosted
from weft.store.summaries import milestones
from weft.store.tasks import list_attempts
from weft.store.team_rows import EntrantView, TeamView, find_team
from weft.words import describe_task, full_label, task_clause, task_state
from weft.workspace.handout import list_handed_out


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


class ComparedEntrant(Struct, frozen=True, kw_only=True):
    entrant: EntrantView
    files: tuple[str, ...]  # paths that its candidate changes
    patch: str


class TeamComparison(Struct, frozen=True, kw_only=True):
    name: str  # of the task
    title: str
    reason: str  # of the task's state
    team: TeamView
    entrants: tuple[ComparedEntrant, ...]


@hosted("read")
def compare_team(project: Project, name: str) -> TeamComparison:
    """Return the entrants of a task's team, each with its diff."""
    with project.open_store() as store:
        task, team = get_team(store, name)
    return TeamComparison(
        name=full_label(task),
        title=task.request.title,
        reason=task.reason,
        team=team,
        entrants=tuple(_compared(project.root, entrant) for entrant in team.entrants),
    )


def get_team(store: Store, name: str) -> tuple[Task, TeamView]:
    """Return a task and its team; raise `Refused` if it has none."""
    task = get_named_task(store, name)
    team = find_team(store, task.id)
    if team is None:
        label = full_label(task)
        raise Refused(f"Task {label} has no team; `weft diff {label}` shows its change.")
    return task, team


def _compared(root: Path, entrant: EntrantView) -> ComparedEntrant:
    if not entrant.commit:
        return ComparedEntrant(entrant=entrant, files=(), patch="")
    changes = compare_trees(root, entrant.base, entrant.commit)
    return ComparedEntrant(
        entrant=entrant,
        files=tuple(sorted({path for change in changes for path in change.paths})),
        patch=make_patch(root, entrant.base, entrant.commit).decode(errors="replace"),
    )


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
