"""The comparison of a team's candidates, for a person who chooses."""

from __future__ import annotations

import time
from pathlib import Path

from msgspec import Struct

from weft.errors import Refused
from weft.git.trees import compare_trees, make_patch
from weft.model import Task
from weft.project.project import Project
from weft.runs.task_names import get_named_task
from weft.store import Store
from weft.store.server_operations import hosted
from weft.store.team_verbs import choose_entrant
from weft.store.team_views import EntrantView, TeamView, find_team
from weft.words import full_label


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
        task, team = _get_team(store, name)
    return TeamComparison(
        name=full_label(task),
        title=task.request.title,
        reason=task.reason,
        team=team,
        entrants=tuple(_compared(project.root, entrant) for entrant in team.entrants),
    )


def choose_candidate(store: Store, name: str, number: int) -> str:
    """Choose an entrant for a person; return the name of the task."""
    task, _ = _get_team(store, name)
    choose_entrant(store, task.id, number, now=time.time())
    return full_label(task)


def _get_team(store: Store, name: str) -> tuple[Task, TeamView]:
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
