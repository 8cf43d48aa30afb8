"""The estimator: expected seconds of tasks, and the outlook of a run.

Estimates come from recorded attempts of the same agent in the same stage. Forecasts of plans, the
order of tasks, the time left of a run and its end all use them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from weft.admission.capacity import list_labels
from weft.model import HUMAN, TERMINAL, Attempt, Class, Priority, State, Task, TaskKind, WorkerKind
from weft.plan.plan_json import DEFAULT_SECONDS
from weft.planning import forecast
from weft.planning.forecast import ForecastJob, ForecastWork, Stint
from weft.runs.progress import RunProgress, read_progress
from weft.runs.run_figures import list_reachable, list_successors
from weft.store import Store
from weft.store.attempt_reports import attempts_per_task, durations
from weft.store.check_orders import list_checks
from weft.store.gate import list_check_seconds
from weft.store.limit_table import list_limits
from weft.store.runs import learn_paths
from weft.store.tasks import list_run, list_run_edges
from weft.store.workers import list_workers

_OVERDUE: Final = 0.1  # rest of an overdue attempt, as a part of its time so far
_STUCK: Final = frozenset(
    {State.BLOCKED, State.PAUSED, State.FAILED, State.CANCELLED, State.EVICTED}
)
_TO_START: Final = frozenset({State.WAITING, State.READY, State.OFFERED, State.PARKED})
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

_MOST: Final = 500  # unfinished tasks of a run whose end is simulated at each look


class Outlook(Struct, frozen=True, kw_only=True):
    share: float  # part of the work that is done, weighted by time
    seconds: float  # until no task can go on without a person; no step of a person is in it
    people: bool  # something waits for a person, or will
    guess: bool  # some of it has no record
    schedule: tuple[Stint, ...] = ()  # of the tasks that will run, in seconds from now


class CheckTimes(Struct, frozen=True, kw_only=True):
    """The usual length of a check, and the checks under way."""

    usual: float | None  # None: a check is configured and none was measured
    since: Mapping[int, float] = {}  # when the check of a task began


def predict_rest(
    tasks: Sequence[Task],
    edges: Sequence[tuple[int, int]],
    started: Mapping[int, float],
    estimates: DurationEstimates,
    *,
    slots: int,
    checks: CheckTimes,
    rooms: Mapping[frozenset[str], int] | None = None,
    now: float,
) -> Outlook:
    """Simulate the rest of a run; `started` has the start of each running attempt by task.

    `rooms` has the slots of present workers with the labels that tasks need.
    """
    work = [task for task in tasks if task.request.kind is TaskKind.WORK]
    whole = {task.id: _whole(task, estimates) for task in work}
    left = {task.id: _left(task, started, estimates, now) for task in work}
    ahead = _rest(tasks, edges, left, checks, rooms or {}, now)
    going = [task for task in work if task.state not in TERMINAL]
    predicted = forecast.forecast(ahead, max(1, slots)) if ahead.jobs else None
    return Outlook(
        share=_share(work, {task: seconds or DEFAULT_SECONDS for task, seconds in whole.items()}),
        seconds=0.0 if predicted is None else predicted.seconds,
        schedule=() if predicted is None else tuple(predicted.schedule),
        people=any(task.agent == HUMAN or task.state in _STUCK for task in going),
        guess=any(whole[task.id] is None for task in going)
        or (checks.usual is None and bool(going)),
    )


def _share(work: Sequence[Task], whole: Mapping[int, float]) -> float:
    """Return the part of the work that has landed; an attempt that was sent back is no part."""
    asked = [task for task in work if task.state is not State.SKIPPED]
    total = sum(whole[task.id] for task in asked)
    done = sum(whole[task.id] for task in asked if task.state is State.DONE)
    return done / total if total else 1.0


def _whole(task: Task, estimates: DurationEstimates) -> float | None:
    return PERSON_SECONDS if task.agent == HUMAN else estimates.of_task(task)


def _left(
    task: Task, started: Mapping[int, float], estimates: DurationEstimates, now: float
) -> float:
    if task.state in TERMINAL or task.state is State.GATING or task.agent == HUMAN:
        return 0.0
    expected = estimates.of_rest(task) or DEFAULT_SECONDS
    if task.id not in started:
        return expected
    spent = max(0.0, now - started[task.id])
    return max(expected - spent, _OVERDUE * spent)


def _rest(
    tasks: Sequence[Task],
    edges: Sequence[tuple[int, int]],
    left: Mapping[int, float],
    checks: CheckTimes,
    rooms: Mapping[frozenset[str], int],
    now: float,
) -> ForecastWork:
    """Return the work that goes on: no task that needs a decision or a worker with labels that no
    present worker has, and no task behind it."""
    stuck = {
        task.id
        for task in tasks
        if task.state in _STUCK
        or (task.state in _TO_START and rooms.get(list_labels(task.demand)) == 0)
    }
    needed_by: dict[int, list[int]] = {}
    for after, before in edges:
        needed_by.setdefault(before, []).append(after)
    for task in list(stuck):
        stuck.update(list_reachable(task, needed_by))
    going = [task for task in tasks if task.state not in TERMINAL and task.id not in stuck]
    return ForecastWork(
        jobs=tuple(_job(task, left, _check(task, checks, now)) for task in going),
        successors=list_successors(going, edges),
        rooms={labels: slots for labels, slots in rooms.items() if slots},
    )


def _check(task: Task, checks: CheckTimes, now: float) -> float:
    """Return the seconds until a task's check has ended, which may be under way."""
    usual = CHECK_SECONDS if checks.usual is None else checks.usual
    if task.id not in checks.since:
        return usual
    spent = max(0.0, now - checks.since[task.id])
    return max(usual - spent, _OVERDUE * spent)


def _job(task: Task, left: Mapping[int, float], check: float) -> ForecastJob:
    if task.state is State.GATING:
        return ForecastJob(name=task.name, seconds=check, runs=False)
    if task.id not in left or task.agent == HUMAN:
        return ForecastJob(name=task.name, seconds=left.get(task.id, 0.0), runs=False)
    runs = task.state is State.RUNNING  # it has its slot and its files, so it goes first
    return ForecastJob(
        name=task.name,
        seconds=left[task.id],
        tail=check if task.files else 0.0,
        claims=task.files,
        klass=Class.INTERACTIVE if runs else task.klass,
        priority=Priority.CRITICAL if runs else task.priority,
        labels=list_labels(task.demand),
    )


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
    jobs = tuple(_path_job(task, estimates) for task in tasks)
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


def _path_job(task: Task, estimates: DurationEstimates) -> ForecastJob:
    idle = task.agent is None or task.state in TERMINAL
    return ForecastJob(
        name=task.name,
        seconds=0.0 if idle else estimates.of_rest(task) or DEFAULT_SECONDS,
        runs=not idle,
        claims=() if idle else task.files,
        klass=task.klass,
        priority=task.priority,
    )


def predict_ends(store: Store, runs: Iterable[str], *, now: float) -> dict[str, float]:
    """Map runs to the seconds until they end; runs that are stuck or too large are left out."""
    capacities = {limit.resource: limit.effective for limit in list_limits(store, now=now)}
    ends = {}
    for run in runs:
        progress = read_progress(store, run)
        unfinished = sum(task.state not in TERMINAL for task in progress.work)
        if not progress.stuck and unfinished <= _MOST:
            slots = find_slots(run, capacities)
            ends[run] = predict_run(store, progress, slots=slots, now=now).seconds
    return ends


def predict_run(store: Store, progress: RunProgress, *, slots: int, now: float) -> Outlook:
    started = {
        attempt.task: attempt.started for attempt in progress.attempts if attempt.ended is None
    }
    at_work = {task.id for task in progress.tasks if task.state in (State.RUNNING, State.PAUSED)}
    needs = (list_labels(task.demand) for task in progress.tasks if task.state not in TERMINAL)
    return predict_rest(
        progress.tasks,
        list_run_edges(store, progress.run.id),
        {task: at for task, at in started.items() if task in at_work},
        read_estimates(store, progress.attempts),
        slots=slots,
        checks=_time_checks(store, progress),
        rooms=count_labelled_slots(store, needs, now=now),
        now=now,
    )


def _time_checks(store: Store, progress: RunProgress) -> CheckTimes:
    """Return the usual length of a check, from this run or earlier ones, and the running checks."""
    own = [verdict.seconds for verdict in progress.gate.verdicts if verdict.seconds > 0]
    usual = expect_check(own or list_check_seconds(store, progress.run.repo))
    configured = progress.run.check or any(task.request.check for task in progress.tasks)
    entries = {entry.id: entry.tasks for entry in progress.gate.entries}
    since = {
        task: check.since
        for check in list_checks(store, progress.run.id)
        for entry in check.entries
        for task in entries.get(entry, ())
    }
    return CheckTimes(usual=usual if configured else 0.0, since=since)


def find_slots(run: str, limits: Mapping[str, int]) -> int:
    """Return the number of tasks of a run that can be at work at a time."""
    workers = sum(amount for name, amount in limits.items() if name.startswith("worker:"))
    bounds = [limits.get(f"run:{run}/agents"), limits.get(f"stage:{run}/implement")]
    return max(1, min([workers, *(bound for bound in bounds if bound is not None)]))


def count_labelled_slots(
    store: Store, needs: Iterable[frozenset[str]], *, now: float
) -> dict[frozenset[str], int]:
    """Map each set of labels but the empty set to the slots of the workers that have them all."""
    asked = set(needs) - {frozenset()}
    if not asked:
        return {}
    workers = [
        worker for worker in list_workers(store, now=now) if worker.kind is WorkerKind.PROCESS
    ]
    return {
        labels: sum(worker.capacity.max for worker in workers if labels <= set(worker.labels))
        for labels in asked
    }
