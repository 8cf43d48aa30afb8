"""The time at which a run is expected to end, from the rows of its tasks, attempts and checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from weft.admission.capacity import list_labels
from weft.model import TERMINAL, State
from weft.runs.duration_estimates import expect_check, read_estimates
from weft.runs.labelled_slots import count_labelled_slots
from weft.runs.outlook import CheckTimes, Outlook, predict_rest
from weft.runs.progress import RunProgress, read_progress
from weft.store import Store
from weft.store.gate import list_check_seconds
from weft.store.limit_table import list_limits
from weft.store.open_checks import OpenCheck, list_checks
from weft.store.tasks import list_run_edges

_MOST: Final = 500  # unfinished tasks of a run whose end is simulated at each look


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
    run = progress.run.id
    return predict_rest(
        progress.tasks,
        list_run_edges(store, run),
        {task: at for task, at in started.items() if task in at_work},
        read_estimates(store, progress.attempts),
        slots=slots,
        checks=time_checks(store, progress, list_checks(store, run)),
        rooms=find_rooms(store, progress, now),
        now=now,
    )


def time_checks(store: Store, progress: RunProgress, checks: Sequence[OpenCheck]) -> CheckTimes:
    """Return the usual length of a check, from this run or earlier ones, and the running checks."""
    own = [verdict.seconds for verdict in progress.gate.verdicts if verdict.seconds > 0]
    usual = expect_check(own or list_check_seconds(store, progress.run.repo))
    configured = progress.run.check or any(task.request.check for task in progress.tasks)
    entries = {entry.id: entry.tasks for entry in progress.gate.entries}
    since = {
        task: check.since
        for check in checks
        for entry in check.entries
        for task in entries.get(entry, ())
    }
    return CheckTimes(usual=usual if configured else 0.0, since=since)


def find_rooms(store: Store, progress: RunProgress, now: float) -> dict[frozenset[str], int]:
    """Map the sets of labels that unended tasks of a run need to the slots that have them."""
    needs = (list_labels(task.demand) for task in progress.tasks if task.state not in TERMINAL)
    return count_labelled_slots(store, needs, now=now)


def find_slots(run: str, limits: Mapping[str, int]) -> int:
    """Return the number of tasks of a run that can be at work at a time."""
    workers = sum(amount for name, amount in limits.items() if name.startswith("worker:"))
    bounds = [limits.get(f"run:{run}/agents"), limits.get(f"stage:{run}/implement")]
    return max(1, min([workers, *(bound for bound in bounds if bound is not None)]))
