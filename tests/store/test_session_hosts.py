"""A task that goes on waits a while for the host of its session, and no longer."""

from __future__ import annotations

import pytest

from store_helpers import go, hire, put
from store_helpers import url as url
from weft.config import Tuning
from weft.model import SLEPT, Outcome, State
from weft.store import Store, open_store
from weft.store.admission import admit
from weft.store.attempt_end import finish
from weft.store.tasks import get_task
from weft.store.workers import depart

PARKED = Outcome(state=State.PARKED, kind="rate_limit", until=100, session="s")
PREFER = 30.0  # seconds, the default of `tuning.prefer`


def park(store: Store, outcome: Outcome = PARKED, *others: str) -> int:
    """Park a task whose session is on the host `h`, where the worker `w` is."""
    hire(store)
    for host in others:
        hire(store, host, host=host)
    task = put(store)
    finish(store, go(store).fence, outcome, now=2)
    return task


def test_the_host_of_a_session_goes_first_and_any_other_after_a_while(store: Store) -> None:
    task = park(store, PARKED, "b")
    assert not admit(store, "b", now=101), "its own host may take it at once"
    assert [grant.task for grant in admit(store, "b", now=101 + PREFER + 1)] == [task]


def test_without_work_stealing_only_the_end_of_the_host_gives_its_task_away(url: str) -> None:
    with open_store(url, tuning=Tuning(work_stealing=False)) as store:
        task = park(store, PARKED, "b")
        assert not admit(store, "b", now=101 + 100 * PREFER)
        depart(store, "w", now=101 + 100 * PREFER)
        assert [grant.task for grant in admit(store, "b", now=102 + 100 * PREFER)] == [task]


def test_the_host_of_a_session_takes_it_at_once(store: Store) -> None:
    task = park(store, PARKED, "b")
    grant = go(store, now=101)
    finish(store, grant.fence, Outcome(state=State.READY, kind="crash"), now=102)
    assert [grant.task for grant in admit(store, "b", now=200)] == [task], "no session goes on"


def test_a_worker_that_leaves_keeps_no_task_waiting(store: Store) -> None:
    task = park(store, PARKED, "b")
    depart(store, "w", now=50)
    assert [grant.task for grant in admit(store, "b", now=101)] == [task]


@pytest.mark.parametrize(
    ("outcome", "others"),
    [
        (PARKED, ()),
        (Outcome(state=State.PARKED, kind="rate_limit", until=100), ("b",)),
        (Outcome(state=State.PARKED, kind="timeout", until=100, session="s"), ("b",)),
    ],
)
def test_a_task_without_a_session_or_another_host_prefers_none(
    store: Store, outcome: Outcome, others: tuple[str, ...]
) -> None:
    task = park(store, outcome, *others)
    assert get_task(store, task).pinned is None


def test_a_sleeping_task_prefers_the_host_of_its_session(store: Store) -> None:
    asleep = Outcome(state=State.PARKED, kind=SLEPT, until=100, session="s")
    assert get_task(store, park(store, asleep, "b")).pinned == "w"
