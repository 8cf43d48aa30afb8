"""Following by events sees exactly what reading everything would see."""

from __future__ import annotations

import random

from weft.errors import WeftError
from weft.model import NewRun, NewTask, NewWorker, Outcome, State
from weft.runs.progress import read_progress
from weft.runs.tracker import EventReader, RunTracker
from weft.store import Store
from weft.store.admission import admit
from weft.store.attempt_end import finish
from weft.store.attempt_reports import report_all
from weft.store.leases import take
from weft.store.limit_table import resume_agent
from weft.store.runs import submit_run
from weft.store.tasks import cancel, pause, resume, retry, skip
from weft.store.workers import register

TASKS = 30
OUTCOMES = (
    Outcome(state=State.DONE),
    Outcome(state=State.DONE),
    Outcome(state=State.BLOCKED, kind="other", reason="no"),
    Outcome(state=State.READY, kind="crash", reason="died"),
    Outcome(state=State.PARKED, kind="rate_limit", until=1.0),
    Outcome(state=State.BLOCKED, kind="auth", stops_agent="a", reason="log in"),
    Outcome(state=State.GATING, candidate="c" * 40, base="b" * 40),
)


def submitted(store: Store, seed: int) -> random.Random:
    chance = random.Random(seed)
    tasks = [
        NewTask(
            name=f"t{number}",
            files=(f"f{number % 11}",),
            agent="a",
            stage="implement",
            needs=(f"t{chance.randrange(number)}",) if number and chance.random() < 0.7 else (),
        )
        for number in range(TASKS)
    ]
    submit_run(store, NewRun(id="r", repo="/r"), tasks, now=1.0)
    register(store, NewWorker(id="w", slots=5, host="h"), now=1.0, stated={})
    return chance


def happen(store: Store, chance: random.Random, held: list[int], now: float) -> None:
    """One thing that workers or people do."""
    held += [grant.fence for grant in admit(store, "w", now=now)]
    verb = chance.choice(["finish", "finish", "finish", "talk", "cancel", "retry", "skip", "pause"])
    task = chance.randrange(1, TASKS + 1)
    try:
        if verb == "finish" and held:
            fence = held.pop(chance.randrange(len(held)))
            finish(store, fence, chance.choice(OUTCOMES), now=now)
        elif verb == "talk":
            report_all(store, [(fence, {"attempt": 1}) for fence in held], now=now)
        elif verb == "pause":
            chance.choice([pause, resume])(store, task, now=now)
        elif verb == "retry":
            retry(store, task, now=now)
        elif verb in ("cancel", "skip"):
            {"cancel": cancel, "skip": skip}[verb](store, task, now=now)
        resume_agent(store, "a", now=now)
    except WeftError:
        pass  # what cannot be done changes nothing


def follows(store: Store, track: RunTracker, seed: int) -> bool:
    """Whether a track stays equal to the whole truth all along."""
    chance = random.Random(seed)
    events = EventReader(store, after=0)
    held: list[int] = []
    for step in range(80):
        happen(store, chance, held, now=10.0 + step)
        track.take_in(events.fresh(), now=10.0)
        if track.progress != read_progress(store, "r"):
            return False
    return True


def test_a_followed_run_is_always_the_one_in_the_store(store: Store) -> None:
    submitted(store, 1)
    assert follows(store, RunTracker(store, "r", now=10.0), 1)
    assert {task.state for task in read_progress(store, "r").tasks} >= {State.DONE, State.READY}


def test_what_agents_do_now_and_what_is_checked_is_heard(store: Store) -> None:
    submitted(store, 2)
    [grant, *_] = admit(store, "w", now=2.0)
    track = RunTracker(store, "r", now=2.0)
    events = EventReader(store, after=0)
    said = {
        "attempt": 1,
        "events": [
            {"type": "tool", "name": "Edit", "detail": "a.py"},
            {"type": "text", "text": "First line\n\nThe last line\n"},
            {"type": "result", "ok": True, "text": "not this"},
        ],
        "micro_usd": 250_000,
    }
    report_all(store, [(grant.fence, said)], now=3.0)
    fence = take(store, "check", "r", {}, worker="w", now=4.0, entries=["1.1", "2.1"])
    assert fence is not None
    track.take_in(events.fresh(), now=4.0)
    [(task, attempt)] = track.running
    assert (task.id, attempt.number) == (grant.task, 1)
    assert track.doing_of(task, attempt).text == "The last line"
    assert track.micro_usd == 250_000
    assert [(one.since, one.entries) for one in track.checks] == [(4.0, ("1.1", "2.1"))]
    late = RunTracker(store, "r", now=5.0)
    assert late.doing_of(task, attempt) == track.doing_of(task, attempt), "who comes later, too"
    assert late.checks == track.checks
