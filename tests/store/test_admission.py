"""Admission: what is granted, to whom, and what is refused."""

from __future__ import annotations

import pytest

from databases import look
from weft.admission.capacity import attempt_demand
from weft.errors import InputError, NeverFits, Refused
from weft.model import NewRun, NewTask, NewWorker, Outcome, State
from weft.store import Store
from weft.store.admission import admit
from weft.store.attempt_end import finish
from weft.store.leases import adopt
from weft.store.runs import submit_run
from weft.store.tasks import submit
from weft.store.workers import depart, heartbeat, register

DEMAND = attempt_demand(run=None, stage=None, agent="a", provider="p")


def test_a_task_gets_every_amount_and_claim_in_one_grant(store: Store) -> None:
    register(store, NewWorker(id="w", slots=2, host="h"), now=0, stated={})
    task = submit(store, NewTask(name="t", files=("a.py", "b/**"), demand=DEMAND), repo="r", now=1)
    [grant] = admit(store, "w", now=2)
    assert (grant.task, grant.attempt, grant.files) == (task, 1, ("a.py", "b/**"))
    assert grant.demand == {"worker:w": 1, "agent:a": 1, "requests": 1, "llm": 1, "provider:p": 1}
    held = look(store.url, "SELECT resource, amount FROM lease_costs WHERE fence = ?", grant.fence)
    assert {row["resource"]: row["amount"] for row in held} == grant.demand
    assert not admit(store, "w", now=3)


def test_a_heartbeat_of_nobody_is_refused(store: Store) -> None:
    assert not heartbeat(store, "w", now=0)
    register(store, NewWorker(id="w", slots=2, host="h"), now=0, stated={})
    assert heartbeat(store, "w", now=0)


def test_a_task_that_can_never_fit_is_refused_at_submission(store: Store) -> None:
    register(store, NewWorker(id="w", slots=2, host="h"), now=0, stated={})
    with pytest.raises(NeverFits, match=r"asks for 13 of llm, whose limit is 12"):
        submit(store, NewTask(name="t", demand={"llm": 13}), repo="r", now=1)
    with pytest.raises(NeverFits, match=r"asks for 3 of worker:@, whose limit is 2"):
        submit(store, NewTask(name="t", demand={"worker:@": 3}), repo="r", now=1)


def test_tasks_that_need_each_other_in_a_circle_are_refused(store: Store) -> None:
    tasks = [NewTask(name="a", needs=("b",)), NewTask(name="b", needs=("a",)), NewTask(name="c")]
    with pytest.raises(InputError, match=r"in a circle: (a → b → a|b → a → b)"):
        submit_run(store, NewRun(id="r", repo="r"), tasks, now=0)
    with pytest.raises(InputError, match=r"in a circle: a → a"):
        submit_run(store, NewRun(id="r", repo="r"), [NewTask(name="a", needs=("a",))], now=0)
    assert look(store.url, "SELECT id FROM runs") == []


def test_an_attempt_is_adopted_only_where_its_process_is(store: Store) -> None:
    for worker, host in (("here", "h"), ("heir", "h"), ("far", "elsewhere")):
        register(store, NewWorker(id=worker, slots=1, host=host), now=0, stated={})
    submit(store, NewTask(name="t", demand=DEMAND), repo="r", now=1)
    [grant] = admit(store, "here", now=2)
    depart(store, "here", now=3)
    with pytest.raises(Refused, match="not where"):
        adopt(store, grant.fence, "far", now=4)
    assert adopt(store, grant.fence, "heir", now=4) > grant.fence


def test_rate_limits_are_no_pattern_however_often(store: Store) -> None:
    register(store, NewWorker(id="w", slots=1, host="h"), now=0, stated={})
    submit(store, NewTask(name="t", demand=DEMAND), repo="r", now=1)
    for now in range(10, 100, 10):
        [grant] = admit(store, "w", now=now)
        parked = Outcome(state=State.PARKED, kind="rate_limit", signature="429", until=now + 5)
        assert finish(store, grant.fence, parked, now=now + 1) is State.PARKED


def test_what_needs_a_task_starts_when_it_is_done(store: Store) -> None:
    register(store, NewWorker(id="w", slots=2, host="h"), now=0, stated={})
    tasks = [NewTask(name="a"), NewTask(name="b", needs=("a",))]
    numbers = submit_run(store, NewRun(id="r", repo="r"), tasks, now=0)
    [grant] = admit(store, "w", now=1)
    assert grant.task == numbers["a"]
    assert not admit(store, "w", now=2)
    assert finish(store, grant.fence, Outcome(state=State.DONE), now=3) is State.DONE
    [grant] = admit(store, "w", now=4)
    assert grant.task == numbers["b"]
