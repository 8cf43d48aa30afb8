"""`weft clean`: remove the leftovers of earlier work.

- A workspace goes if it is unused and its branch may go, or it has no branch.
- A branch goes if its work is in the user's branch, or if its task ended with another result; its
  unreachable commits are kept under `refs/weft/archive`. The result of `weft do` stays until the
  user has taken it, and so do branches of tasks unknown to this store, unless all may go. Branches
  of unfinished tasks always stay.
- The trunk of an ended run (`weft/<run>`) goes if your branch contains it.
- The directory of an attempt goes some time after its task ended; see `old_attempts`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft import git, workspace
from weft.attempt.start import AD_HOC
from weft.git import Update
from weft.git.repository import find_repository_id
from weft.maintenance import old_attempts
from weft.model import TERMINAL, State, Task
from weft.process.environment import build_environment
from weft.project.project import Project
from weft.store import Store
from weft.store.gate import read_gate
from weft.store.runs import list_runs
from weft.store.server_operations import hosted
from weft.store.tasks import list_attempts, list_tasks
from weft.words import full_label, task_clause
from weft.workspace.names import BRANCHES, OLD_BRANCHES, TRUNKS, trunk_ref
from weft.workspace.release import Leftover, LeftoverReport
from weft.workspace.workspace_records import WorkspacePool
from weft.workspace.worktree import list_checkouts

_PAGE: Final = 1_000


class Branches(StrEnum):
    """Rule for the branches of ended tasks."""

    TAKEN = "taken"
    ALL = "all"


@hosted("read")
def survey(project: Project, *, branches: Branches, older_than: float) -> LeftoverReport:
    """List the items that `clean` would free and keep, without changing them."""
    plan = _decide(project, branches, older_than)
    living = old_attempts.find_living(plan.old)
    done = workspace.list_leftovers(project.root, _AllBut(plan.going))
    return _report(plan, done, living)


@hosted("write")
def clean(project: Project, *, branches: Branches, older_than: float) -> LeftoverReport:
    plan = _decide(project, branches, older_than)
    obstacles = old_attempts.remove(plan.old)
    terms = workspace.Terms(
        rules=project.config.workspace,
        environment=build_environment(project.environment, asked=(), given={}),
    )
    done = workspace.clean(project.root, _AllBut(plan.going), terms=terms, landed=plan.landed)
    common = git.common_directory(project.root)
    gone = [Update(ref=trunk, old=tip, new=None) for trunk, tip in plan.merged.items()]
    git.update_refs(common, gone, why="weft: taken")
    return _report(plan, done, obstacles)


class _Plan(Struct, frozen=True, kw_only=True):
    going: frozenset[str]  # branches
    staying: Mapping[str, str]  # branches, and why
    old: tuple[old_attempts.Directory, ...]  # of attempts, that may go unless a process lives
    young: Mapping[old_attempts.Directory, str]  # those that stay, and why
    landed: frozenset[str] = frozenset()  # candidates that have landed on trunk
    merged: Mapping[str, str] = {}  # trunks of ended runs that the user's branch contains, tips


class _AllBut(Container[str]):
    """Match every branch except those kept; a branch made during the clean-up is kept too."""

    def __init__(self, going: Container[str]) -> None:
        self._going = going

    def __contains__(self, branch: object) -> bool:
        return branch is not None and branch not in self._going


def _decide(project: Project, branches: Branches, older_than: float) -> _Plan:
    common = git.common_directory(project.root)
    tips = git.list_refs(common, BRANCHES, OLD_BRANCHES)
    known = {
        *tips,
        *(record.branch for _, record in WorkspacePool(common=common).registered()),
    } - {None}
    names = sorted(name for name in known if name is not None)
    if not project.has_store:
        staying = {
            name: why
            for name in names
            if (why := _without_task(project.root, tips.get(name), branches)) is not None
        }
        return _Plan(going=frozenset(names) - set(staying), staying=staying, old=(), young={})
    with project.open_store() as store:
        repository = find_repository_id(common) or ""
        tasks = list(_tasks(store, repository))
        staying = _staying(project.root, store, tasks, names, tips, branches)
        old, young = old_attempts.look(common, store, tasks, older_than)
        landed = _landed(store, {task.run for task in tasks if task.run is not None})
        merged = _merged(project.root, store, repository)
    return _Plan(
        going=frozenset(names) - set(staying),
        staying=staying,
        old=old,
        young=young,
        landed=landed,
        merged=merged,
    )


def _merged(root: Path, store: Store, repository: str) -> dict[str, str]:
    """Return the trunks of ended runs that the checked-out branch contains, with their tips."""
    runs = [run for run in list_runs(store) if run.repo == repository]
    ended = {trunk_ref(run.id) for run in runs if run.state == "ended"}
    tips = git.list_refs(root, TRUNKS)
    return {
        ref: tips[ref]
        for ref in sorted(ended & tips.keys() & git.list_merged(root, TRUNKS))
        if not list_checkouts(root, ref)
    }


def _landed(store: Store, runs: Iterable[str]) -> frozenset[str]:
    """Return the candidates of entries that landed."""
    entries = [entry for run in runs for entry in read_gate(store, run).entries]
    return frozenset(
        commit for entry in entries if entry.state == "landed" for commit, _ in entry.work
    )


def _tasks(store: Store, repository: str) -> Iterator[Task]:
    after = 0
    while page := list_tasks(store, after=after, most=_PAGE):
        yield from (task for task in page if task.repo == repository)
        after = page[-1].id


def _staying(
    root: Path,
    store: Store,
    tasks: Sequence[Task],
    names: Sequence[str],
    tips: Mapping[str, str],
    branches: Branches,
) -> dict[str, str]:
    owners = {_prefix(task): task for task in tasks}
    staying = {}
    for name in names:
        prefix, _, number = name.rpartition("/")
        task = owners.get(prefix.replace(OLD_BRANCHES, BRANCHES, 1))
        why: str | None
        if task is None:
            why = _without_task(root, tips.get(name), branches)
        elif task.state not in TERMINAL:
            why = f"task {full_label(task)} {task_clause(task)}"
        elif _is_result(store, task, number):
            why = _untaken(root, tips.get(name), branches, f"the result of task {full_label(task)}")
        else:
            why = None
        if why is not None:
            staying[name] = why
    return staying


def _prefix(task: Task) -> str:
    return workspace.branch_ref(task.run or AD_HOC, task.name, 1).rpartition("/")[0]


def _is_result(store: Store, task: Task, number: str) -> bool:
    """Tell whether this branch is the result of `weft do`; results of runs are in their trunks."""
    if task.run is not None or task.state is not State.DONE:
        return False
    return number == str(list_attempts(store, task.id)[-1].number)


def _without_task(root: Path, tip: str | None, branches: Branches) -> str | None:
    return _untaken(root, tip, branches, "no task of this store knows it, and its work is")


def _untaken(root: Path, tip: str | None, branches: Branches, what: str) -> str | None:
    """Return the reason to keep a branch; None if it may go."""
    if branches is Branches.ALL or tip is None or git.has_changes_of(root, tip):
        return None
    return f"{what}, not in your branch yet"


def _report(
    plan: _Plan, done: LeftoverReport, obstacles: Mapping[old_attempts.Directory, str]
) -> LeftoverReport:
    old = [directory for directory in plan.old if directory not in obstacles]
    stay = {**plan.young, **obstacles}
    return LeftoverReport(
        freed=(
            *map(_shorten, done.freed),
            *(
                _shorten(Leftover(kind="branch", name=trunk, why="your branch contains it"))
                for trunk in plan.merged
            ),
            *(_of_attempt(directory, "the task ended long ago") for directory in old),
        ),
        kept=(
            *map(_shorten, done.kept),
            *(
                _shorten(Leftover(kind="branch", name=name, why=why))
                for name, why in plan.staying.items()
            ),
            *(_of_attempt(directory, why) for directory, why in stay.items()),
        ),
        archived=done.archived,
    )


def _shorten(item: Leftover) -> Leftover:
    return replace(item, name=item.name.replace("refs/heads/", ""))


def _of_attempt(directory: old_attempts.Directory, why: str) -> Leftover:
    return Leftover(kind="attempt", name=str(directory.path), why=why, bytes=directory.bytes)
