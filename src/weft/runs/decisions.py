"""The decisions that wait for a person, each with the work that waits behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from weft.model import TERMINAL, State, Task, TaskKind
from weft.runs.attention import AttentionItem, find_attention, read_attention
from weft.runs.control import find_options
from weft.runs.outlook import list_holdups
from weft.store import Store
from weft.store.overview import read_prospects
from weft.store.store import reads
from weft.store.summaries import milestones
from weft.store.tasks import find_tasks, list_run, list_run_edges


class Decision(Struct, frozen=True, kw_only=True):
    item: AttentionItem
    task: Task | None
    behind: int  # tasks that cannot start before it
    options: tuple[str, ...] = ()  # answers to choose from


@reads
def list_decisions(store: Store, *, now: float) -> list[Decision]:
    """List the decisions, the most work behind them first."""
    items = read_attention(store, now=now).all
    numbers = [item.task for item in items if item.task is not None]
    tasks, _ = find_tasks(store, numbers)
    known = {task.id: task for task in tasks}
    waiting = _count_waiting(store, items)
    decisions = [
        Decision(
            item=item,
            task=known.get(item.task) if item.task is not None else None,
            behind=waiting.tasks.get(item.task, 0) if item.task else waiting.of_runs(item.runs),
            options=_options(store, item),
        )
        for item in items
    ]
    return sorted(decisions, key=lambda decision: -decision.behind)


def _options(store: Store, item: AttentionItem) -> tuple[str, ...]:
    if item.kind != "asked" or item.task is None:
        return ()
    return tuple(find_options(milestones(store, item.task)))


def count_decisions(store: Store, *, now: float) -> int:
    return len(find_attention(read_prospects(store, now=now)).all)


class _Waiting(Struct, frozen=True, kw_only=True):
    tasks: Mapping[int, int]  # number of tasks behind each task that holds tasks up
    runs: Mapping[str, int]  # number of unfinished tasks of each run

    def of_runs(self, runs: frozenset[str]) -> int:
        return sum(self.runs.get(run, 0) for run in runs)


def _count_waiting(store: Store, items: Sequence[AttentionItem]) -> _Waiting:
    behind: dict[int, int] = {}
    unfinished: dict[str, int] = {}
    for run in sorted({run for item in items for run in item.runs if run}):
        tasks = [task for task in list_run(store, run) if task.state not in _PAST]
        work = [task for task in tasks if task.request.kind is TaskKind.WORK]
        unfinished[run] = sum(task.state not in TERMINAL for task in work)
        for holdup in list_holdups(tasks, list_run_edges(store, run)):
            behind[holdup.holder.id] = len(holdup.waiting)
    return _Waiting(tasks=behind, runs=unfinished)


_PAST = frozenset({State.DONE, State.SKIPPED})
