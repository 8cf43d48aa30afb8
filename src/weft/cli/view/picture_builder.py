"""The builder of pictures from followed runs: agents at work, waits and the time left.

Costly parts (the reasons of waits, the simulation of the rest) are done every few seconds at most,
and less often where they cost more.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct, field

from weft.cli.view.picture import AgentLine, RunPicture
from weft.formats import count, duration
from weft.model import HUMAN, TERMINAL, State, Task
from weft.runs.outlook import find_slots, predict_run
from weft.runs.run_figures import list_holdups
from weft.runs.tracker import RunTracker
from weft.store import Store
from weft.store.limit_table import list_limits
from weft.store.probe import probe
from weft.words import count_states, task_state

_PAUSE: Final = 1.0  # seconds between two costly looks
_SHARE: Final = 50  # and at least so many times as long as the last look took
_ASKED: Final = 8  # ready tasks whose waits are read
_GROUPS: Final = 6
_NAMES: Final = 6
_TREND: Final = 0.3  # how far a new estimate moves the one that is shown


class _Known(Struct, kw_only=True):
    """The results of the last costly look at a run."""

    share: float = 0.0
    guess: bool = False
    people: bool = False
    ends: float | None = None  # time, estimated
    waits: tuple[str, ...] = ()


class Scenery(Struct, kw_only=True):
    store: Store
    limits: tuple[str, ...] = ()
    _known: dict[str, _Known] = field(default_factory=dict)
    _next: float = 0.0

    def look(self, tracks: Sequence[RunTracker]) -> None:
        """Do the costly look, unless the last is too young."""
        if time.monotonic() < self._next and all(track.run in self._known for track in tracks):
            return
        now, begun = time.time(), time.thread_time()
        capacities = {}
        lowered = []
        for limit in list_limits(self.store, now=now):
            capacities[limit.resource] = limit.effective
            provider = limit.resource.removeprefix("provider:")
            if provider != limit.resource and limit.effective < limit.capacity:
                lowered.append(
                    f"{provider} is rate limited: {limit.effective} at a time instead of "
                    f"{limit.capacity}, {limit.used} at work"
                )
        self.limits = tuple(lowered)
        for track in tracks:
            track.read_checks()
            known = self._known.setdefault(track.run, _Known())
            known.waits = tuple(_waits(self.store, track, now))
            self._foresee(track, known, find_slots(track.run, capacities), now)
        took = time.thread_time() - begun
        self._next = time.monotonic() + max(_PAUSE, _SHARE * took)

    def _foresee(self, track: RunTracker, known: _Known, slots: int, now: float) -> None:
        ahead = predict_run(self.store, track.progress, slots=slots, now=now)
        known.share, known.guess, known.people = ahead.share, ahead.guess, ahead.people
        if known.ends is None:
            known.ends = now + ahead.seconds
        else:
            known.ends += _TREND * (now + ahead.seconds - known.ends)

    def picture(self, track: RunTracker) -> RunPicture:
        now = time.time()
        progress = track.progress
        known = self._known.get(track.run, _Known())
        counts = progress.counts
        ended = all(task.state in TERMINAL for task in progress.work)
        unknown = ended or progress.stuck or known.ends is None
        return RunPicture(
            run=track.run,
            state=progress.run.state,
            seconds=max(0.0, now - progress.run.submitted),
            share=1.0 if ended else min(known.share, 0.99),
            left=None if unknown else max(0.0, (known.ends or now) - now),
            guess=known.guess,
            people=known.people or bool(progress.questions),
            checking=bool(track.checks),
            done=counts[State.DONE],
            all=len(progress.work),
            counts=count_states({state: n for state, n in counts.items() if state != "done"}),
            micro_usd=track.micro_usd,
            needs=tuple(str(need) for need in progress.questions),
            agents=tuple(
                AgentLine(
                    task=task.name,
                    stage=attempt.stage or "",
                    attempt=attempt.number,
                    seconds=max(0.0, now - attempt.started),
                    micro_usd=track.doing_of(task, attempt).micro_usd,
                    doing=track.doing_of(task, attempt).text,
                    title=task.request.title,
                )
                for task, attempt in track.running
                if task.agent is not None
            ),
            gate=tuple(_gate(track, now)),
            waits=known.waits,
        )


def _gate(track: RunTracker, now: float) -> Iterable[str]:
    names = {task.id: task.name for task in track.progress.tasks}

    def called(entries: Iterable[str]) -> str:
        known = {entry.id: entry.tasks for entry in track.progress.gate.entries}
        tasks = [names.get(task, str(task)) for entry in entries for task in known.get(entry, ())]
        return _some(tasks) or "a candidate"

    under = {entry for check in track.checks for entry in check.entries}
    for check in track.checks:
        seconds = duration(max(0.0, now - check.since))
        yield f"testing {called(check.entries)}, for {seconds}"
    queue = [
        entry.id
        for entry in track.progress.gate.entries
        if entry.state == "queued" and entry.id not in under
    ]
    landing = [entry.id for entry in track.progress.gate.entries if entry.state == "landing"]
    if landing:
        yield f"landing {called(landing)}"
    if queue:
        yield f"waiting: {called(queue)}"


def _waits(store: Store, track: RunTracker, now: float) -> Iterable[str]:
    """Yield the waiting tasks in groups, the largest group first."""
    progress = track.progress
    if progress.run.state == "waiting":
        yield "the run is waiting for a place among the runs (`weft limits`: runs)"
        return
    behind: dict[tuple[str, ...], list[str]] = {}
    for holdup in list_holdups(progress.tasks, track.edges):
        names = tuple(task.name for task in holdup.waiting)
        behind.setdefault(names, []).append(f"{holdup.holder.name} ({task_state(holdup.holder)})")
    for names, holders in list(behind.items())[:_GROUPS]:
        yield f"{_some(names)}: waiting for {_some(holders)}"
    for task in progress.tasks:
        if task.state is State.PARKED:
            yield f"{task.name}: {task_state(task)}: {task.reason or 'backing off'}"
    yield from _ready(store, progress.work, now)


def _ready(store: Store, tasks: Sequence[Task], now: float) -> Iterable[str]:
    """Yield the first ready tasks, grouped by the reason of their wait; the rest as a number."""
    due = [task for task in tasks if task.state is State.READY and task.agent != HUMAN]
    due.sort(key=lambda task: (task.klass, task.priority, -task.path_seconds, task.id))
    groups: dict[str, list[str]] = {}
    for task in due[:_ASKED]:
        reasons = "; ".join(wait.text for wait in probe(store, task.id, now=now))
        groups.setdefault(reasons or "about to start", []).append(task.name)
    for reason, names in groups.items():
        yield f"{_some(names)}: {reason}"
    if len(due) > _ASKED:
        more = len(due) - _ASKED
        yield f"and {count(more, 'more task')} {'is' if more == 1 else 'are'} ready"


def _some(names: Sequence[str]) -> str:
    """Join the first names of many."""
    more = f", … {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more
