"""Projections in the store: one holder at a time, and only the holder moves the number."""

from __future__ import annotations

import pytest

from store_helpers import hire, snapshot
from store_helpers import url as url
from weft.errors import NotFound, StaleFence
from weft.model import HUMAN, NewRun, NewTask
from weft.store import Store
from weft.store.leases import find_lost, free_proved_dead, release, renew, suspect_overdue
from weft.store.projections import (
    ISSUE_TRACKER,
    NOTIFICATIONS,
    PLAN_MARKS,
    TARGET_BRANCH,
    NewProjection,
    ProjectionState,
    advance_projection,
    fail_projection,
    list_open_projections,
    list_projections,
    request_projections,
    skip_projection,
    take_projection,
)
from weft.store.runs import set_target, submit_run
from weft.store.workers import depart

pytestmark = pytest.mark.each_store

MARKS = NewProjection(name=PLAN_MARKS, host="h", path="/plan.md")


@pytest.fixture
def run(store: Store) -> str:
    submit_run(
        store,
        NewRun(id="r1", repo="r"),
        [NewTask(name="a", agent=HUMAN)],
        projections=[MARKS],
        now=0,
    )
    hire(store, "w1")
    hire(store, "w2")
    return "r1"


def take(store: Store, worker: str, *, now: float = 1) -> int:
    taken = take_projection(store, "r1", PLAN_MARKS, worker=worker, now=now)
    assert taken is not None
    return taken[0]


def marks(store: Store) -> ProjectionState:
    [state] = list_projections(store, "r1")
    return state


def test_a_projection_has_one_holder_until_its_lease_is_given_back(store: Store, run: str) -> None:
    fence = take(store, "w1")
    assert marks(store).worker == "w1"
    assert take_projection(store, run, PLAN_MARKS, worker="w2", now=2) is None
    release(store, fence, now=2)
    assert take(store, "w2", now=3) > fence


def test_a_silent_holder_loses_its_lease_and_can_no_longer_move_the_number(
    store: Store, run: str
) -> None:
    lease = store.tuning.lease
    late = take(store, "w1", now=0)
    renew(store, [late], now=10)
    assert take_projection(store, run, PLAN_MARKS, worker="w2", now=lease + 5) is None
    fence = take(store, "w2", now=lease + 11)
    advance_projection(store, fence, run, PLAN_MARKS, handled=7, memory=["x"], ended=False, now=1)
    before = snapshot(store.url)
    with pytest.raises(StaleFence):
        advance_projection(store, late, run, PLAN_MARKS, handled=3, memory=[], ended=True, now=1)
    with pytest.raises(StaleFence):
        fail_projection(store, late, run, PLAN_MARKS, failure="late", give_up=True, now=1)
    with pytest.raises(StaleFence):
        fail_projection(store, fence, run, TARGET_BRANCH, failure="other", give_up=True, now=1)
    assert find_lost(store, [late, fence]) == [late]
    assert snapshot(store.url) == before
    assert (marks(store).handled, marks(store).memory) == (7, ("x",))


def test_the_lease_of_a_dead_worker_is_freed_on_proof(store: Store, run: str) -> None:
    fence = take(store, "w1")
    depart(store, "w1", now=2)
    assert [lease.fence for lease in suspect_overdue(store, now=2)] == [fence]
    assert free_proved_dead(store, fence, now=2, proof="gone")
    assert take(store, "w2", now=3) > fence


def test_a_projection_closes_with_its_run_and_resuming_the_run_opens_it_again(
    store: Store, run: str
) -> None:
    assert [state.name for state in list_open_projections(store, "r", now=1)] == [PLAN_MARKS]
    assert list_open_projections(store, "elsewhere", now=1) == []
    fence = take(store, "w1")
    advance_projection(store, fence, run, PLAN_MARKS, handled=9, memory=[], ended=True, now=1)
    assert list_open_projections(store, "r", now=1) == []
    assert take_projection(store, run, PLAN_MARKS, worker="w2", now=999) is None
    request_projections(store, run, [MARKS])
    assert [state.handled for state in list_open_projections(store, "r", now=1)] == [9]
    request_projections(store, run, [], unwanted=[PLAN_MARKS, ISSUE_TRACKER])
    assert list_projections(store, run) == []
    with pytest.raises(NotFound):
        request_projections(store, "r2", [MARKS])


def test_failures_and_skips_are_kept_until_the_run_is_resumed(store: Store, run: str) -> None:
    fence = take(store, "w1")
    fail_projection(store, fence, run, PLAN_MARKS, failure="full", give_up=False, now=1)
    fail_projection(store, fence, run, PLAN_MARKS, failure="fuller\0", give_up=True, now=1)
    skip_projection(store, run, PLAN_MARKS, host="h2", reason="no file")
    skip_projection(store, run, NOTIFICATIONS, host="h2", reason="nobody asked")
    state = marks(store)
    assert (state.tries, state.open, state.skipped) == (2, False, {"h2": "no file"})
    assert state.failure.startswith("fuller")
    request_projections(store, run, [MARKS])
    state = marks(store)
    assert (state.tries, state.failure, state.open, state.skipped) == (0, "", True, {})


def test_a_branch_to_move_is_a_projection_of_its_run(store: Store, run: str) -> None:
    set_target(store, run, "release")
    submit_run(store, NewRun(id="r2", repo="r", target="x"), [NewTask(name="a")], now=0)
    assert [state.name for state in list_projections(store, run)] == [PLAN_MARKS, TARGET_BRANCH]
    assert [state.name for state in list_projections(store, "r2")] == [TARGET_BRANCH]
