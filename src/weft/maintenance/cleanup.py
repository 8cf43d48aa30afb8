"""`weft clean`: what earlier work left behind, and what of it can go.

- A workspace goes if nobody uses it and its branch may go, or it has none.
- A branch goes if its work is in the branch you are on, or if its task ended and this is not its
  result: what only it reaches is kept under `refs/weft/archive`. The result of a task done by
  `weft do` stays until you have taken it, and so does what no task of this store knows of, unless
  you say that all may go. What a task that has not ended left always stays.
- The directory of an attempt goes once its task ended long enough ago; see `old_attempts`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft import git, workspace
from weft.attempt.start import AD_HOC
from weft.maintenance import old_attempts
from weft.model import TERMINAL, State, Task
from weft.process.environment import build_environment
from weft.project.project import Project
from weft.runs.single_task import repository
from weft.store import Store
from weft.store.gate import read_gate
from weft.store.server_operations import hosted
from weft.store.tasks import list_attempts, list_tasks
from weft.workspace.names import BRANCHES
from weft.workspace.workspace_records import WorkspacePool

_PAGE: Final = 1_000


class Branches(StrEnum):
    """Which branches of ended tasks may go."""

    TAKEN = "taken"
    ALL = "all"


class CleanupItem(Struct, frozen=True, kw_only=True):
    kind: str  # workspace, branch, attempt, trash
    name: str
    why: str
    bytes: int = 0


class CleanupReport(Struct, frozen=True, kw_only=True):
    freed: tuple[CleanupItem, ...]  # or would be
    kept: tuple[CleanupItem, ...]
    archived: tuple[str, ...] = ()  # references that now keep what was freed

    @property
    def bytes(self) -> int:
        return sum(item.bytes for item in self.freed)


@hosted("read")
def survey(project: Project, *, branches: Branches, older_than: float) -> CleanupReport:
    """What `clean` would free and keep; nothing is changed."""
    plan = _decide(project, branches, older_than)
    living = old_attempts.find_living(plan.old)
    done = workspace.list_leftovers(project.root, _AllBut(plan.going))
    return _report(plan, done, living)


@hosted("write")
def clean(project: Project, *, branches: Branches, older_than: float) -> CleanupReport:
    plan = _decide(project, branches, older_than)
    obstacles = old_attempts.remove(plan.old)
    terms = workspace.Terms(
        rules=project.config.workspace,
        environment=build_environment(project.environment, asked=(), given={}),
    )
    done = workspace.clean(project.root, _AllBut(plan.going), terms=terms, landed=plan.landed)
    return _report(plan, done, obstacles)


class _Plan(Struct, frozen=True, kw_only=True):
    going: frozenset[str]  # branches
    staying: Mapping[str, str]  # branches, and why
    old: tuple[old_attempts.Directory, ...]  # of attempts, that may go unless a process lives
    young: Mapping[old_attempts.Directory, str]  # those that stay, and why
    landed: frozenset[str] = frozenset()  # candidates that have landed on trunk


class _AllBut(Container[str]):
    """Every branch except some: one that comes up while we clean is not ours to judge."""

    def __init__(self, going: Container[str]) -> None:
        self._going = going

    def __contains__(self, branch: object) -> bool:
        return branch is not None and branch not in self._going


def _decide(project: Project, branches: Branches, older_than: float) -> _Plan:
    common = git.common_directory(project.root)
    tips = git.list_refs(common, BRANCHES)
    found = {*tips, *(record.branch for _, record in WorkspacePool(common=common).registered())} - {
        None
    }
    names = sorted(name for name in found if name is not None)
    if not project.has_store:
        staying = {
            name: why
            for name in names
            if (why := _without_task(project.root, tips.get(name), branches)) is not None
        }
        return _Plan(going=frozenset(names) - set(staying), staying=staying, old=(), young={})
    with project.open_store() as store:
        tasks = list(_tasks(store, repository(project)))
        staying = _staying(project.root, store, tasks, names, tips, branches)
        old, young = old_attempts.look(common, store, tasks, older_than)
        landed = _landed(store, {task.run for task in tasks if task.run is not None})
    return _Plan(
        going=frozenset(names) - set(staying),
        staying=staying,
        old=old,
        young=young,
        landed=landed,
    )


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
        task = owners.get(prefix)
        why: str | None
        if task is None:
            why = _without_task(root, tips.get(name), branches)
        elif task.state not in TERMINAL:
            why = f"task {task.id} is {task.state}"
        elif _is_result(store, task, number):
            why = _untaken(root, tips.get(name), branches, f"the result of task {task.id}")
        else:
            why = None
        if why is not None:
            staying[name] = why
    return staying


def _prefix(task: Task) -> str:
    return workspace.branch_ref(task.run or AD_HOC, task.name, 1).rpartition("/")[0]


def _is_result(store: Store, task: Task, number: str) -> bool:
    """Whether this is what `weft do` was asked for; what a run did is in its trunk."""
    if task.run is not None or task.state is not State.DONE:
        return False
    return number == str(list_attempts(store, task.id)[-1].number)


def _without_task(root: Path, tip: str | None, branches: Branches) -> str | None:
    return _untaken(root, tip, branches, "no task of this store knows it, and its work is")


def _untaken(root: Path, tip: str | None, branches: Branches, what: str) -> str | None:
    """Why a branch stays; None if its work is in the branch the user is on, or it may go anyway."""
    if branches is Branches.ALL or tip is None or git.has_changes_of(root, tip):
        return None
    return f"{what}, not in your branch yet"


def _report(
    plan: _Plan, done: workspace.LeftoverReport, obstacles: Mapping[old_attempts.Directory, str]
) -> CleanupReport:
    old = [one for one in plan.old if one not in obstacles]
    stay = {**plan.young, **obstacles}
    return CleanupReport(
        freed=(
            *map(_of_workspace, done.freed),
            *(_of_attempt(one, "the task ended long ago") for one in old),
        ),
        kept=(
            *map(_of_workspace, done.kept),
            *(
                CleanupItem(kind="branch", name=name.removeprefix("refs/heads/"), why=why)
                for name, why in plan.staying.items()
            ),
            *(_of_attempt(one, why) for one, why in stay.items()),
        ),
        archived=done.archived,
    )


def _of_workspace(item: workspace.Leftover) -> CleanupItem:
    if item.name.startswith("refs/heads/"):
        kind, name = "branch", item.name.removeprefix("refs/heads/")
    else:
        kind = "trash" if "trash" in Path(item.name).name else "workspace"
        name = item.name.replace("refs/heads/", "")
    return CleanupItem(kind=kind, name=name, why=item.why, bytes=item.bytes)


def _of_attempt(one: old_attempts.Directory, why: str) -> CleanupItem:
    return CleanupItem(kind="attempt", name=str(one.path), why=why, bytes=one.bytes)
