"""What following a run of a thousand tasks with chatty agents costs."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from bench.figures import figure
from bench.stores import sqlite_url
from weft.cli.view.draw import draw
from weft.cli.view.picture import Picture
from weft.cli.view.picture_builder import Scenery
from weft.model import NewRun, NewTask, NewWorker, Outcome, Stage, State, TaskRequest
from weft.runs.progress import read_progress
from weft.runs.tracker import EventReader, RunTracker
from weft.store import Store, open_store
from weft.store.admission import admit
from weft.store.attempt_end import finish
from weft.store.attempt_reports import report_all
from weft.store.runs import submit_run
from weft.store.workers import register

_TASKS = 1000
_RUNNING = 16
_STEPS = 60
_SECONDS = 10.0
_LOOKS = 4  # per second, each with a picture
_TALK = {"attempt": 1, "events": [{"type": "text", "text": "word " * 50}] * 5}


class _Workload:
    """A run under way: at each step agents talk, one ends and another starts."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._running: deque[int] = deque()
        tasks = [
            NewTask(
                name=f"t{number}",
                text="What is to be done.\n" * 20,
                request=TaskRequest(title="A task", stages=(Stage(name="implement", agent="a"),)),
                files=(f"f{number}", f"g{number % 300}"),
                agent="a",
                stage="implement",
                needs=(f"t{number // 2}",) if number > 60 else (),
            )
            for number in range(_TASKS)
        ]
        new = NewRun(id="r", repo="/r", limits={"agents": 99, "implement": 99})
        submit_run(store, new, tasks, now=time.time())
        register(store, NewWorker(id="w", slots=_RUNNING, host="h"), now=time.time(), stated={})

    def step(self) -> None:
        store, running = self._store, self._running
        running += [grant.fence for grant in admit(store, "w", now=time.time())]
        report_all(store, [(fence, _TALK) for fence in running], now=time.time())
        if len(running) > _RUNNING // 2:
            finish(store, running.popleft(), Outcome(state=State.DONE), now=time.time())


@contextmanager
def _followed() -> Iterator[tuple[Store, _Workload, RunTracker, EventReader]]:
    with sqlite_url() as url, open_store(url) as store:
        workload = _Workload(store)
        events = EventReader(store, after=0)
        events.fresh()
        yield store, workload, RunTracker(store, "r", now=time.time()), events


@figure("follow_ratio", "ratio", at_most=0.2)
def follow_ratio() -> float:
    """A look at what has changed ÷ reading the whole run, processor time."""
    with _followed() as (store, workload, track, events):
        ratios = []
        for _ in range(_STEPS):
            workload.step()
            start = time.thread_time()
            track.take_in(events.fresh(), now=time.time())
            between = time.thread_time()
            read_progress(store, "r")
            ratios.append((between - start) / (time.thread_time() - between))
        return statistics.median(ratios)


@figure("view_cpu_percent", "%")
def view_cpu_percent() -> float:
    """Of one processor, for looks and pictures at their usual pace."""
    with _followed() as (store, workload, track, events):
        scenery = Scenery(store=store)
        spent, looks, begun = 0.0, 0, time.monotonic()
        while (passed := time.monotonic() - begun) < _SECONDS:
            workload.step()
            start = time.thread_time()
            track.take_in(events.fresh(), now=time.time())
            scenery.look([track])
            draw(Picture(runs=(scenery.picture(track),), limits=scenery.limits), 120, 40)
            spent += time.thread_time() - start
            looks += 1
            time.sleep(max(0.0, looks / _LOOKS - passed))
        return 100 * spent / passed
