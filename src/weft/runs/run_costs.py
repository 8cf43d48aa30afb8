"""Tokens and dollars of runs, by agent, stage and model."""

from __future__ import annotations

from msgspec import Struct

from weft.runs.task_names import get_named_run
from weft.store import Store
from weft.store.runs import list_runs, page_runs
from weft.store.store import reads
from weft.store.summaries import Cost, RunBudget, get_budget, list_costs


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
