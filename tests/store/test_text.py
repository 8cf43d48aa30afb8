"""Text that no database keeps alike: names with it are refused, what people said is mended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from store_helpers import first_fence, go, hire, put, snapshot
from store_helpers import url as url
from weft.errors import InputError, Refused
from weft.model import AgentFile, NewRun, NewTask, NewWorker, Outcome, State
from weft.store import Store
from weft.store.admission import admit, admit_task
from weft.store.attempt_end import finish
from weft.store.attempt_reports import durations, report
from weft.store.leases import (
    adopt,
    extend,
    free_proved_dead,
    release,
    reserve,
    suspect_overdue,
    take,
)
from weft.store.limit_table import differences, penalise, set_limit
from weft.store.members import accept, assign, offer, reject
from weft.store.runs import cancel_run, get_run, submit_run
from weft.store.tasks import cancel, find_task, get_task, list_tasks, skip, submit
from weft.store.workers import depart, find_workers, get_worker, heartbeat, register

pytestmark = pytest.mark.each_store

Verb = Callable[[Store, str], object]

BAD = ("a\0b", "a\ud800b")
"""A NUL, and half of a character."""
RUNNING, READY, OFFERED = 1, 2, 3


def worker(**fields: Any) -> Verb:
    def verb(store: Store, _: str) -> None:
        register(
            store, NewWorker(**{"id": "n", "slots": 1, "host": "h", **fields}), now=3, stated={}
        )

    return verb


def new_worker(field: str, wrap: Callable[[str], Any] = str) -> Verb:
    return lambda store, bad: worker(**{field: wrap(bad)})(store, bad)


def new_task(field: str, wrap: Callable[[str], Any] = str) -> Verb:
    return lambda store, bad: put(store, **{field: wrap(bad)})


def new_run(field: str, wrap: Callable[[str], Any] = str) -> Verb:
    def verb(store: Store, bad: str) -> None:
        run = NewRun(**{"id": "R", "repo": "r", field: wrap(bad)})
        submit_run(store, run, [NewTask(name="t")], now=3)

    return verb


def ended(**fields: Any) -> Outcome:
    return Outcome(**{"state": State.DONE, **fields})


def failed(**fields: Any) -> Outcome:
    return Outcome(**{"state": State.READY, "kind": "crash", **fields})


def reap(store: Store, proof: str) -> bool:
    suspect_overdue(store, now=10**6)
    return free_proved_dead(store, first_fence(store), now=10**6, proof=proof)


def again(store: Store, bad: str) -> None:
    """A pattern of failures is recognised by what was kept of it."""
    for now in range(10, 13):
        task = put(store, f"t{now}", now=now)
        [grant] = admit_task(store, "w", task, now=now)
        finish(store, grant.fence, failed(signature=bad, reason=bad), now=now)


REFUSED: dict[str, Verb] = {
    "a task's name": new_task("name"),
    "a task's files": new_task("files", lambda bad: (bad,)),
    "a task's demand": new_task("demand", lambda bad: {bad: 1}),
    "a task's needs": new_task("needs", lambda bad: (bad,)),
    "a task's agent": new_task("agent"),
    "a task's stage": new_task("stage"),
    "a task's gang": new_task("gang"),
    "a task's story": new_task("story"),
    "a task's pin": new_task("pinned"),
    "a task's repository": lambda store, bad: submit(store, NewTask(name="t"), repo=bad, now=3),
    "a task's tenant": lambda store, bad: put(store, tenant=bad),
    "a run's id": new_run("id"),
    "a run's repository": new_run("repo"),
    "a run's tenant": new_run("tenant"),
    "a run's plan": new_run("plan"),
    "a run's base": new_run("base"),
    "a run's limits": new_run("limits", lambda bad: {bad: 1}),
    "a run that is cancelled": lambda store, bad: cancel_run(store, bad, now=3),
    "a run looked for": get_run,
    "a task looked for": lambda store, bad: find_task(store, "R", bad),
    "a task looked for in a run": lambda store, bad: find_task(store, bad, "t"),
    "a worker's id": new_worker("id"),
    "a worker's name": new_worker("name"),
    "a worker's host": new_worker("host"),
    "a worker's boot": new_worker("boot"),
    "a worker's host limits": new_worker("host_limits", lambda bad: {bad: 1}),
    "an agent's name": new_worker("agents", lambda bad: (AgentFile(name=bad, source="s"),)),
    "an agent's file": new_worker("agents", lambda bad: (AgentFile(name="n", source=bad),)),
    "a heartbeat": lambda store, bad: heartbeat(store, bad, now=3),
    "a worker that leaves": lambda store, bad: depart(store, bad, now=3),
    "a worker looked for": lambda store, bad: get_worker(store, bad, now=3),
    "workers looked for": lambda store, bad: find_workers(store, [bad], now=3),
    "who admits": lambda store, bad: admit(store, bad, now=3),
    "who admits a task": lambda store, bad: admit_task(store, bad, READY, now=3),
    "who is offered": lambda store, bad: offer(store, READY, bad, now=3),
    "who accepts": lambda store, bad: accept(store, OFFERED, bad, now=3),
    "who is assigned": lambda store, bad: assign(store, READY, bad, now=3),
    "who adopts": lambda store, bad: adopt(store, first_fence(store), bad, now=3),
    "how it ended": lambda store, bad: finish(store, first_fence(store), failed(kind=bad), now=3),
    "what was spent": lambda store, bad: finish(
        store, first_fence(store), ended(spent={f"run:{bad}/usd": 1}), now=3
    ),
    "a larger claim": lambda store, bad: finish(
        store, first_fence(store), failed(files=(bad,)), now=3
    ),
    "more files": lambda store, bad: extend(store, first_fence(store), [bad], now=3),
    "more amounts": lambda store, bad: reserve(store, first_fence(store), {bad: 1}, now=3),
    "a check's holder": lambda store, bad: take(store, "check", bad, {}, worker="w", now=3),
    "a check's demand": lambda store, bad: take(store, "check", "c", {bad: 1}, worker="w", now=3),
    "who checks": lambda store, bad: take(store, "check", "c", {}, worker=bad, now=3),
    "a limit": lambda store, bad: set_limit(store, f"provider:{bad}", 1, now=3),
    "a provider": lambda store, bad: store.write(lambda tx: penalise(tx, bad, now=3)),
    "whose durations": lambda store, bad: durations(store, bad, "s"),
    "durations of a stage": lambda store, bad: durations(store, "a", bad),
}
KEPT: dict[str, Verb] = {
    "a task's text": new_task("text"),
    "why it was cancelled": lambda store, bad: cancel(store, READY, now=3, reason=bad),
    "why it was skipped": lambda store, bad: skip(store, READY, now=3, reason=bad),
    "why an offer was rejected": lambda store, bad: reject(store, OFFERED, "w", now=3, reason=bad),
    "why a lease was released": lambda store, bad: release(
        store, first_fence(store), now=3, reason=bad
    ),
    "a result": lambda store, bad: finish(store, first_fence(store), ended(result=bad), now=3),
    "a reason": lambda store, bad: finish(store, first_fence(store), failed(reason=bad), now=3),
    "a signature": lambda store, bad: finish(
        store, first_fence(store), failed(signature=bad), now=3
    ),
    "a pattern of failures": again,
    "progress": lambda store, bad: report(store, first_fence(store), {bad: bad}, now=3),
    "a proof": reap,
}


def make_busy(store: Store) -> None:
    """A running, a ready and an offered task."""
    hire(store)
    assert put(store, "running", files=("held",)) == RUNNING
    go(store)
    assert put(store, "ready") == READY
    assert put(store, "offered") == OFFERED
    offer(store, OFFERED, "w", now=2)


def test_a_name_that_cannot_be_kept_is_refused(store: Store) -> None:
    make_busy(store)
    before = snapshot(store.url)
    for name, verb in REFUSED.items():
        for bad in BAD:
            assert is_refused(verb, store, bad), f"{name} may hold {bad!r}"
            assert snapshot(store.url) == before, name


def is_refused(verb: Verb, store: Store, bad: str) -> bool:
    try:
        verb(store, bad)
    except (InputError, Refused):
        return True
    return False


@pytest.mark.parametrize("verb", KEPT.values(), ids=KEPT)
def test_what_somebody_said_is_kept_as_far_as_it_can_be(store: Store, verb: Verb) -> None:
    make_busy(store)
    verb(store, "".join(BAD))
    tasks = list_tasks(store)
    assert [get_task(store, task.id) for task in tasks] == tasks
    kept = str(snapshot(store.url))
    assert "\0" not in kept
    assert "\\x00" not in kept


def test_other_characters_are_nobodys_business(store: Store) -> None:
    name = "naïve \N{PILE OF POO} \\u0000"
    hire(store, name)
    task = put(store, name, files=(f"src/{name}",), tenant=name, demand={name: 1})
    [grant] = admit(store, name, now=1)
    assert (grant.task, grant.name, grant.files) == (task, name, (f"src/{name}",))
    assert differences(store, {}) == []
