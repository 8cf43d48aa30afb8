"""The rule of admission: may a ready task start, and if not, why?

A worker takes the first task in order (`admission.order`) that has no obstacle. The obstacles:

    gang    tasks of its gang are not ready
    worker  no worker may take it: its agents, labels, repository or pin exclude them
    limit   a limit has no room for its demand
    file    another task holds one of its files, or a file is kept free for another task
    order   an earlier ready task of its run wants one of its files

Two rules keep the order fair. After `in_a_row` admissions in a row, a tenant goes only if no other
tenant can. And a task that `bypasses` admissions have passed over gets a *reservation*: its amounts
and files are kept free until it starts, as long as that can help it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from weft.admission import capacity
from weft.admission.capacity import Shortage
from weft.admission.order import Rank, Urgency
from weft.config import Tuning
from weft.model import HERE, SWARM, State
from weft.paths import conflicts


class ReadyTask(Struct, frozen=True, kw_only=True):
    """A ready task, or all tasks of a gang, which start together."""

    rows: Sequence[dict[str, Any]]  # the first in order first; several only for a gang
    demand: Mapping[str, int]  # of all of them; `@` stands for the worker
    files: tuple[str, ...]
    agents: frozenset[str]  # that its worker must be able to run
    labels: frozenset[str]  # that its worker must have
    pinned: str | None  # the only worker that may take it
    rank: Rank  # its place in the order
    turn: tuple[Urgency, int]  # its place among the tasks of its run that share a file
    complete: bool = True  # False: tasks of its gang are not ready
    in_team: bool = False  # an entrant of a team at work, which never gets a reservation

    @property
    def id(self) -> int:
        return int(self.rows[0]["id"])

    @property
    def repo(self) -> str:
        return str(self.rows[0]["repo"])

    @property
    def run(self) -> str | None:
        run: str | None = self.rows[0]["run"]
        return run

    @property
    def ids(self) -> set[int]:
        return {row["id"] for row in self.rows}

    @property
    def stories(self) -> set[int]:
        return {row["story"] for row in self.rows if row["story"] is not None}

    def demand_at(self, worker: PresentWorker) -> dict[str, int]:
        return capacity.resolve(self.demand, worker.id, worker.host)


class PresentWorker(Struct, frozen=True, kw_only=True):
    id: str
    host: str
    agents: frozenset[str] | None  # the agents it can run; None: any
    repos: frozenset[str] | None = None  # the repositories it can work on; None: any
    labels: frozenset[str] = frozenset()
    member: bool = False  # of the swarm: takes only tasks that need no workspace

    def can_run(
        self, agents: frozenset[str], repo: str, labels: frozenset[str] = frozenset()
    ) -> bool:
        if self.member != repo.startswith(SWARM):
            return False
        if self.repos is not None and repo not in self.repos:
            return False
        return labels <= self.labels and (self.agents is None or agents <= self.agents)

    def may_take(self, task: ReadyTask) -> bool:
        """Tell whether this worker may ever take a task."""
        able = self.can_run(task.agents, task.repo, task.labels)
        return able and task.pinned in (None, self.id)


NO_WORKER = PresentWorker(id=HERE, host=HERE, agents=None)
"""No worker in particular: limits of workers and hosts do not count."""


class Rows(Protocol):
    """The rows that the rule reads."""

    nominal: dict[str, int]  # limits, as they are set
    effective: dict[str, int]  # limits in force: after penalties, stops and untested bases
    used: dict[str, int]  # by open leases, and spent
    workers: dict[str, PresentWorker]
    kept: ReadyTask | None  # the task with the reservation
    room: dict[str, bool]  # a memory: by bucket, whether a worker could start a task of it now

    def find_holders(self, repo: str, files: Iterable[str], own: Collection[int]) -> dict[str, int]:
        """Map the held patterns that conflict with these files to tasks other than `own`."""
        ...

    def holds(self, repo: str, tasks: Iterable[int]) -> bool:
        """Tell whether one of these tasks holds files."""
        ...

    def family(self, story: int) -> tuple[set[int], Sequence[str]]:
        """Return a story and its subtasks, and the files that they want together."""
        ...

    def earlier(
        self, task: ReadyTask, files: Sequence[str]
    ) -> Iterator[tuple[ReadyTask, Sequence[str]]]:
        """List ready tasks of the run with an earlier turn that may want one of these files, each
        with its own files, without those of its gang."""
        ...

    def states(self, tasks: Iterable[int]) -> set[str]: ...


class Obstacle(Struct, frozen=True, kw_only=True):
    """A reason why a task cannot start now."""

    kind: Literal["gang", "worker", "limit", "file", "order"]
    subject: str = ""  # a resource or a pattern
    task: int = 0  # that holds the file, or comes earlier
    shortage: Shortage | None = None  # of a limit


def find_obstacles(
    task: ReadyTask, workers: Iterable[PresentWorker], rows: Rows
) -> Iterator[Obstacle]:
    """Yield the obstacles of a task at the best of some workers; none means that it may start."""
    if not task.complete:
        yield Obstacle(kind="gang")
        return
    yield from find_missing_room(task, workers, rows)
    for pattern, holder in sorted(find_held(task, rows).items()):
        yield Obstacle(kind="file", subject=pattern, task=holder)
    for pattern, earlier in find_earlier(task, rows):
        yield Obstacle(kind="order", subject=pattern, task=earlier)


def find_missing_room(
    task: ReadyTask, workers: Iterable[PresentWorker], rows: Rows
) -> Iterator[Obstacle]:
    """Yield the worker or the limits that a task lacks, at the worker with the fewest."""
    able = [worker for worker in workers if worker.may_take(task)]
    if not able:
        yield Obstacle(kind="worker")
    else:
        for short in min((find_shortages(task, worker, rows) for worker in able), key=len):
            yield Obstacle(kind="limit", subject=short.resource, shortage=short)


def find_shortages(task: ReadyTask, worker: PresentWorker, rows: Rows) -> list[Shortage]:
    """List the limits without room for a task; room kept free for another task counts as used."""
    used = rows.used
    if rows.kept is not None and not _may_use_kept(task, rows.kept, rows):
        used = capacity.add(used, kept_amounts(rows.kept, worker, rows))
    return capacity.shortages(task.demand_at(worker), rows.effective, used)


def _may_use_kept(task: ReadyTask, kept: ReadyTask, rows: Rows) -> bool:
    """Tell whether a task may use the room kept free for another task.

    So may a task that continues with files it or its story holds, and an earlier task of the same
    run: the other task may be waiting for just these, and neither would ever start.
    """
    own = task.ids | task.stories
    same_run = task.run is not None and task.run == kept.run
    return kept.id in own or rows.holds(task.repo, own) or (same_run and task.turn < kept.turn)


def kept_amounts(kept: ReadyTask, worker: PresentWorker, rows: Rows) -> Mapping[str, int]:
    """Return the amounts kept free for a task: of a worker only where the task could ever run."""
    home = rows.workers.get(kept.pinned, worker) if kept.pinned else worker
    demand = kept.demand_at(home)
    able = home.can_run(kept.agents, kept.repo, kept.labels)
    fits = able and not capacity.shortages(demand, rows.nominal, {})
    return demand if fits else capacity.shared(kept.demand)


def find_held(task: ReadyTask, rows: Rows) -> dict[str, int]:
    """Map the patterns that exclude a task to the tasks that hold them or keep them free."""
    held = find_claimed(task, rows)
    if rows.kept is None or _may_use_kept(task, rows.kept, rows):
        return held
    return find_kept_files(task.repo, _wanted(task, rows), rows) | held


def find_claimed(task: ReadyTask, rows: Rows) -> dict[str, int]:
    held = rows.find_holders(task.repo, task.files, task.ids | task.stories)
    for story in task.stories:
        if not rows.holds(task.repo, [story]):  # a story claims the files of all its subtasks
            kin, files = rows.family(story)
            held |= rows.find_holders(task.repo, files, kin)
    return held


def find_kept_files(repo: str, files: Sequence[str], rows: Rows) -> dict[str, int]:
    """Map the patterns that are kept free for a task and conflict with these files to it."""
    kept = rows.kept
    if kept is None or kept.repo != repo:
        return {}
    return {
        pattern: kept.id
        for pattern in _wanted(kept, rows)
        if any(conflicts(pattern, file) for file in files)
    }


def _wanted(task: ReadyTask, rows: Rows) -> list[str]:
    """List the files of a task, and those that its stories would claim with them."""
    return [*task.files, *(file for story in task.stories for file in rows.family(story)[1])]


def find_earlier(task: ReadyTask, rows: Rows) -> Iterator[tuple[str, int]]:
    """Yield the patterns of the first ready task that goes before this one by plan order.

    A task that lacks more than files, or waits for a parked or paused task, holds none back. A task
    that goes on with its files waits for none.
    """
    if task.run is None or rows.holds(task.repo, task.ids):
        return
    among_kin = rows.holds(task.repo, task.stories)
    files = task.files if among_kin else _wanted(task, rows)
    for earlier, theirs in rows.earlier(task, files) if files else ():
        kin = earlier.rows[0]["story"] in task.stories
        wanted = task.files if kin else files
        shared = [pattern for pattern in theirs if any(conflicts(pattern, file) for file in wanted)]
        if shared and (kin or not among_kin) and _holds_back(earlier, rows):
            yield from ((pattern, earlier.id) for pattern in shared)
            return


def _holds_back(task: ReadyTask, rows: Rows) -> bool:
    bucket = task.rows[0]["bucket"]
    if bucket not in rows.room:
        missing = next(find_missing_room(task, rows.workers.values(), rows), None)
        rows.room[bucket] = task.complete and missing is None
    stalled = {State.PARKED, State.PAUSED}
    return rows.room[bucket] and not stalled & rows.states(find_claimed(task, rows).values())


class OrderedTasks(Protocol):
    """The ready tasks in order."""

    def __iter__(self) -> Iterator[ReadyTask]: ...
    def pass_over(self, task: ReadyTask, obstacle: Obstacle) -> None: ...


def choose(
    queue: OrderedTasks, worker: PresentWorker, rows: Rows
) -> tuple[ReadyTask | None, ReadyTask | None]:
    """Return the first task that a worker may start, and the first before it that a reservation
    would help."""
    passed = None
    for task in queue:
        home = rows.workers.get(task.pinned, worker) if task.pinned else worker
        obstacle = next(find_obstacles(task, [home], rows), None)
        if obstacle is None and home is worker:
            return task, passed
        if obstacle is None:
            continue  # its own worker can take it at once
        if obstacle.kind in ("limit", "file") and (passed is None or task.rank < passed.rank):
            passed = task if may_reserve(task, home, rows) else passed
        queue.pass_over(task, obstacle)
    return None, passed


def may_reserve(task: ReadyTask, worker: PresentWorker, rows: Rows) -> bool:
    """Tell whether room kept free would ever help a task; if not, the room would only stay idle.

    A person or other tasks decide when the files of a paused or waiting task come free.
    """
    fits_empty = any(
        place.may_take(task) and not capacity.shortages(task.demand_at(place), rows.nominal, {})
        for place in rows.workers.values()
    )
    if task.in_team or not fits_empty:
        return False
    if {State.PAUSED, State.WAITING} & rows.states(find_claimed(task, rows).values()):
        return False
    short = capacity.shortages(task.demand_at(worker), rows.effective, rows.used)
    return all(can_be_freed(shortage, rows.nominal, task.run) for shortage in short)


def can_be_freed(short: Shortage, nominal: Mapping[str, int], run: str | None) -> bool:
    """Tell whether other tasks can make room: not in a paused limit, a penalised provider or the
    run's own budget."""
    lowered = short.capacity < nominal.get(short.resource, short.capacity)
    return short.capacity > 0 and not lowered and short.resource != f"run:{run}/usd"


def must_yield(recent: Sequence[str], tuning: Tuning) -> str | None:
    """Return the tenant of the last admissions in a row, if it has had its turns.

    `recent` are the tenants of the latest admissions, newest first.
    """
    latest = recent[: tuning.in_a_row]
    return latest[0] if len(latest) == tuning.in_a_row and len(set(latest)) == 1 else None


class Bypassed(Struct, frozen=True, kw_only=True):
    """The first task in order that could not be admitted, and the fence since when."""

    task: int
    since: int
    reserved: bool = False


def bypassed(previous: Bypassed | None, first: int | None, fence: int) -> Bypassed | None:
    """Return the first task in order that is held up, after an admission under `fence`.

    `first` is the first task that this admission passed over. Without one the previous task stays
    first. A reservation lasts until its task is admitted.
    """
    if previous is not None and (previous.reserved or first in (None, previous.task)):
        return previous
    return None if first is None else Bypassed(task=first, since=fence - 1)
