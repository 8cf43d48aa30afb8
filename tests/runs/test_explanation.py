"""Answers about tasks: each is read in a single transaction, so that its parts agree."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from store_helpers import count_transactions, go, hire, url
from swarm_helpers import OWNER, join, post
from weft.model import NewRun, NewTask, Outcome, State
from weft.operations.long_poll import poll
from weft.operations.reading import explain
from weft.runs.explanation import explain_task, read_queue
from weft.runs.task_list import list_run_costs
from weft.store import Store
from weft.store.attempt_end import finish
from weft.store.runs import submit_run

__all__ = ["url"]

CANDIDATE = Outcome(state=State.GATING, candidate="c" * 40, base="b" * 40)
READS: dict[str, Callable[[Store], object]] = {
    "why of a task at the gate": lambda store: explain_task(store, "r/a", now=2),
    "why of a ready task": lambda store: explain_task(store, "r/b", now=2),
    "queue": lambda store: read_queue(store, now=2, most=5),
    "costs": lambda store: list_run_costs(store, None),
    "explain": lambda store: explain(store, OWNER, 1, now=2),
}


@pytest.fixture
def busy(store: Store) -> Store:
    """A store with a task at the gate and a ready task."""
    hire(store)
    submit_run(store, NewRun(id="r", repo="/r"), [NewTask(name="a"), NewTask(name="b")], now=0)
    finish(store, go(store).fence, CANDIDATE, now=1)
    return store


@pytest.mark.parametrize("name", READS)
def test_an_answer_is_read_in_one_transaction(busy: Store, name: str) -> None:
    counted, counts = count_transactions(busy)
    READS[name](counted)
    assert counts == {"read": 1}


def test_a_poll_is_one_transaction(store: Store) -> None:
    join(store)
    post(store)
    counted, counts = count_transactions(store)
    trigger = poll(counted, OWNER, "m", now=2)
    assert trigger is not None
    assert trigger.task is not None
    assert counts == {"write": 1}
