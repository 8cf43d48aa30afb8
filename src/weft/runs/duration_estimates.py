"""Estimates of durations, from recorded attempts of the same agent in the same stage.

Forecasts of plans, the time left of a run and the order of its tasks all use them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from weft import forecast
from weft.forecast import ForecastJob, ForecastWork
from weft.model import TERMINAL, Attempt, State, Task
from weft.plan.plan_json import DEFAULT_SECONDS
from weft.runs.run_figures import list_successors
from weft.store import Store
from weft.store.attempt_history import attempts_per_task, durations
from weft.store.runs import learn_paths
from weft.store.tasks import list_run, list_run_edges

_WORTH: Final = 0.1  # part by which a path must change to be written
_UNSTARTED: Final = frozenset({State.WAITING, State.READY, State.PARKED, State.PAUSED})

PERSON_SECONDS: Final = 600.0
"""A guess: the time until a person has answered."""

CHECK_SECONDS: Final = 60.0
"""A guess: the time of a check that was never run."""

_MOST_TRIES: Final = 3.0  # a worse record says more about its tasks than about the next ones

Records = Callable[[str, str], Sequence[tuple[int, float]]]
"""Reads the recorded (number of files, seconds) of an agent in a stage."""

Rates = Callable[[str, str], float]
"""Reads the attempts per task of an agent in a stage."""


def _once(agent: str, stage: str) -> float:
    return 1.0


class DurationEstimates:
    """Expected seconds of tasks, with set-up and retries at the observed rate.

    The records of each agent and stage are read once.
    """

    def __init__(
        self, records: Records, attempts: Iterable[Attempt] = (), *, rates: Rates = _once
    ) -> None:
        """`attempts` are those of the same run, for stages without records."""
        self._records = records
        self._rates = rates
        self._known: dict[tuple[str, str], tuple[Sequence[tuple[int, float]], float]] = {}
        successes = [
            attempt.ended - attempt.started
            for attempt in attempts
            if attempt.ended is not None and attempt.outcome == "success"
        ]
        self._usual = statistics.median(successes) if successes else None

    def of_stages(self, stages: Iterable[tuple[str, str]], files: int) -> float | None:
        """Estimate stages (agent, stage) in sequence; return None if none is known.

        A stage without records counts as the usual attempt of this run, or as the median of the
        stages that have records.
        """
        estimates = [self._of_stage(agent, stage, files) for agent, stage in stages]
        known = [seconds for seconds in estimates if seconds is not None]
        usual = self._usual or (statistics.median(known) if known else None)
        if usual is None:
            return None
        return sum(usual if seconds is None else seconds for seconds in estimates)

    def of_task(self, task: Task) -> float | None:
        """Estimate all stages of a task."""
        return self.of_stages(_list_stages(task), len(task.files))

    def of_rest(self, task: Task) -> float | None:
        """Estimate the present stage of a task and the stages behind it."""
        stages = _list_stages(task)
        names = [name for _, name in stages]
        here = names.index(task.stage) if task.stage in names else 0
        return self.of_stages(stages[here:], len(task.files))

    def _of_stage(self, agent: str, stage: str, files: int) -> float | None:
        key = (agent, stage)
        if key not in self._known:
            records = self._records(agent, stage)
            tries = min(_MOST_TRIES, self._rates(agent, stage)) if records else 1.0
            self._known[key] = records, tries
        records, tries = self._known[key]
        seconds = forecast.estimate(records, files)
        return None if seconds is None else seconds * tries


def _list_stages(task: Task) -> list[tuple[str, str]]:
    if task.request.stages:
        return [(stage.agent, stage.name) for stage in task.request.stages]
    return [(task.agent or "", task.stage or "")]


def read_estimates(store: Store, attempts: Iterable[Attempt] = ()) -> DurationEstimates:
    """Return estimates from the records of the store."""
    return DurationEstimates(
        lambda agent, stage: durations(store, agent, stage),
        attempts,
        rates=lambda agent, stage: attempts_per_task(store, agent, stage),
    )


def expect_check(seconds: Sequence[float]) -> float | None:
    """Return the usual seconds of a check; None if none was measured."""
    return statistics.median(seconds) if seconds else None


def update_paths(store: Store, run: str) -> int:
    """Compute the longest paths of a run's tasks from present estimates; return how many changed.

    Only paths that change by more than a tenth are written: each change may reorder the queue.
    """
    tasks = list_run(store, run)
    successors = list_successors(tasks, list_run_edges(store, run))
    estimates = read_estimates(store)
    jobs = tuple(_job(task, estimates) for task in tasks)
    paths = forecast.paths(ForecastWork(jobs=jobs, successors=successors))
    changed = {
        task.id: seconds
        for task, seconds in zip(tasks, paths, strict=True)
        if task.state in _UNSTARTED
        and abs(seconds - task.path_seconds) > _WORTH * max(seconds, task.path_seconds)
    }
    if changed:
        learn_paths(store, changed)
    return len(changed)


def _job(task: Task, estimates: DurationEstimates) -> ForecastJob:
    idle = task.agent is None or task.state in TERMINAL
    return ForecastJob(
        name=task.name,
        seconds=0.0 if idle else estimates.of_rest(task) or DEFAULT_SECONDS,
        runs=not idle,
        claims=() if idle else task.files,
        klass=task.klass,
        priority=task.priority,
    )
