"""What a run has learned: how long its remaining tasks will take, and so which comes first.

Durations of what has ended, in this run and in earlier ones, replace the guesses a run starts
with; the longest remaining paths over its own graph are worked out anew. Only what moves by more
than a little is written, since each change may reorder a line of ready tasks.
"""

from __future__ import annotations

from typing import Final

from weft import forecast
from weft.forecast import ForecastJob, ForecastWork
from weft.model import TERMINAL, State, Task
from weft.plan.plan_json import DEFAULT_SECONDS
from weft.store import Store
from weft.store.leases import durations
from weft.store.runs import learn_paths
from weft.store.tasks import list_run, list_run_edges

_WORTH: Final = 0.1  # a path that changes by less than this part stays as it is
_UNSTARTED: Final = frozenset({State.WAITING, State.READY, State.PARKED, State.PAUSED})


def learn(store: Store, run: str) -> int:
    """Bring the order of a run's tasks up to date; returns how many of them moved."""
    tasks = list_run(store, run)
    place = {task.id: number for number, task in enumerate(tasks)}
    successors: list[list[int]] = [[] for _ in tasks]
    for task, needed in list_run_edges(store, run):
        if task in place and needed in place:
            successors[place[needed]].append(place[task])
    estimates = _Estimates(store)
    jobs = tuple(_job(task, estimates) for task in tasks)
    longest = forecast.paths(ForecastWork(jobs=jobs, successors=tuple(map(tuple, successors))))
    moved = {
        task.id: seconds
        for task, seconds in zip(tasks, longest, strict=True)
        if task.state in _UNSTARTED
        and abs(seconds - task.path_seconds) > _WORTH * max(seconds, task.path_seconds)
    }
    if moved:
        learn_paths(store, moved)
    return len(moved)


def _job(task: Task, estimates: _Estimates) -> ForecastJob:
    idle = task.agent is None or task.state in TERMINAL
    return ForecastJob(
        name=task.name,
        seconds=0.0 if idle else estimates.of(task),
        runs=not idle,
        claims=() if idle else task.files,
        klass=task.klass,
        priority=task.priority,
    )


class _Estimates:
    """How long tasks like these took, each kind asked for once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[str, str], list[tuple[int, float]]] = {}

    def of(self, task: Task) -> float:
        kind = (task.agent or "", task.stage or "")
        if kind not in self._known:
            self._known[kind] = durations(self._store, *kind)
        return forecast.estimate(self._known[kind], len(task.files)) or DEFAULT_SECONDS
