"""The tasks of runs with their attempts, and the costs of runs."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from weft.errors import InputError
from weft.model import TERMINAL, Attempt, Run, State, Task, TaskKind
from weft.runs.task_names import get_named_run
from weft.store import Store
from weft.store.overview import read_prospects
from weft.store.runs import list_runs, page_runs
from weft.store.store import reads
from weft.store.summaries import Cost, RunBudget, get_budget, list_costs
from weft.store.tasks import find_tasks, list_run, list_run_attempts, list_tasks
from weft.words import task_label


class ListedTask(Struct, frozen=True, kw_only=True):
    task: Task
    attempts: int
    tokens: int
    micro_usd: int


def get_run_or_newest(store: Store, name: str | None) -> Run:
    """Return the named run, or the newest run."""
    if name is not None:
        return get_named_run(store, name)
    runs = list_runs(store)
    if not runs:
        raise InputError("There is no run yet; `weft run FILE` makes one.")
    return runs[0]


@reads
def list_listed(store: Store, run: str | None) -> list[ListedTask]:
    """List the tasks of a run; without a run those of all unfinished runs and of no run.

    If no run is unfinished, list those of the newest run.
    """
    if run is not None:
        return _of_run(store, get_named_run(store, run).id)
    runs = list_runs(store)
    unfinished = [listed for listed in runs if listed.state != "ended"]
    chosen = [listed.id for listed in unfinished or runs[:1]]
    single = [task for task in list_tasks(store, set(State) - TERMINAL) if task.run is None]
    _, attempts = find_tasks(store, [task.id for task in single])
    return [*(line for id in chosen for line in _of_run(store, id)), *_join(single, attempts)]


def _of_run(store: Store, run: str) -> list[ListedTask]:
    work = [task for task in list_run(store, run) if task.request.kind is TaskKind.WORK]
    return _join(work, list_run_attempts(store, run))


def _join(tasks: Sequence[Task], attempts: Sequence[Attempt]) -> list[ListedTask]:
    own: dict[int, list[Attempt]] = {}
    for attempt in attempts:
        own.setdefault(attempt.task, []).append(attempt)
    return [
        ListedTask(
            task=task,
            attempts=len(own.get(task.id, ())),
            tokens=sum(attempt.tokens for attempt in own.get(task.id, ())),
            micro_usd=sum(attempt.micro_usd for attempt in own.get(task.id, ())),
        )
        for task in tasks
    ]


class RunCost(Struct, frozen=True, kw_only=True):
    run: str | None  # None: tasks without a run
    budget: RunBudget | None
    costs: tuple[Cost, ...]

    @property
    def tokens(self) -> int:
        return sum(cost.tokens for cost in self.costs)

    @property
    def micro_usd(self) -> int:
        return sum(cost.micro_usd for cost in self.costs)


@reads
def list_run_costs(store: Store, name: str | None) -> list[RunCost]:
    """List the costs of the named run, or of every run and of the tasks without a run."""
    if name is not None:
        return [get_run_cost(store, get_named_run(store, name).id)]
    return [*(get_run_cost(store, run.id) for run in list_runs(store)), *_rest(store)]


def page_run_costs(
    store: Store, *, after: str | None, most: int
) -> tuple[list[RunCost], str | None]:
    """List the costs of a page of runs, newest first; return also the run the next page follows.

    Tasks without a run come last.
    """
    runs, more = page_runs(store, after=after, most=most)
    rest = _rest(store) if more is None else []
    return [*(get_run_cost(store, run.id) for run in runs), *rest], more


def get_run_cost(store: Store, run: str) -> RunCost:
    return RunCost(run=run, budget=get_budget(store, run), costs=tuple(list_costs(store, run)))


def _rest(store: Store) -> list[RunCost]:
    costs = tuple(list_costs(store, None))
    return [RunCost(run=None, budget=None, costs=costs)] if costs else []


def list_stuck(store: Store, run: str | None, *, now: float) -> list[str]:
    """List the tasks that need a person or have failed, of a run or of all."""
    return _list_asked(store, run, ("blocked", "failed", "evicted", "cancelled"), now=now)


def list_questions(store: Store, run: str | None, *, now: float) -> list[str]:
    """List the tasks that ask a person, of a run or of all."""
    return _list_asked(store, run, ("ready",), now=now)


def _list_asked(store: Store, run: str | None, states: Sequence[str], *, now: float) -> list[str]:
    if run is not None:
        get_named_run(store, run)
    return [
        task_label(asked.task, asked.run, asked.name)
        for asked in read_prospects(store, now=now).asked
        if asked.state in states and run in (None, asked.run)
    ]


def list_unfinished(store: Store, run: str | None, *, now: float) -> list[str]:
    """List the run, or every unfinished run and every unfinished task without a run."""
    if run is not None:
        return [get_named_run(store, run).id]
    unended = [listed.id for listed in list_runs(store) if listed.state != "ended"]
    single = list_tasks(store, set(State) - TERMINAL)
    return [*unended, *(str(task.id) for task in single if task.run is None)]
