"""Leads of weft's own: what they sent, how it ended, and when a message keeps them going."""

from __future__ import annotations

import pytest

from store_helpers import DONE, go, hire, put, state, tuned, url, weaken
from weft.model import LEAD, Outcome, State
from weft.store import Store
from weft.store.attempt_end import finish
from weft.store.messages import (
    confirm_to_task,
    find_open_lead,
    list_ends,
    list_sent,
    list_to_task,
    post_to_task,
)
from weft.store.tasks import cancel, retry

pytestmark = pytest.mark.each_store

__all__ = ["url"]


def start(store: Store, name: str = "lead") -> int:
    hire(store)
    return put(store, name, agent="lead", stage=LEAD)


def send(store: Store, lead: int, name: str) -> int:
    return put(store, name, created_by=f"task {lead}")


def test_a_lead_hears_how_each_of_its_tasks_ended_and_of_no_other(store: Store) -> None:
    lead = start(store)
    go(store)
    mine, stopped = send(store, lead, "a"), send(store, lead, "b")
    put(store, "c", created_by="task 99")
    assert [sent.id for sent in list_sent(store, lead)] == [mine, stopped]
    assert list_ends(store, lead, after=0) == []
    cancel(store, stopped, now=2)
    grant = go(store, now=3)
    assert grant.task == mine
    finish(store, grant.fence, Outcome(state=State.READY, kind="crash"), now=4)
    finish(store, go(store, now=5).fence, Outcome(state=State.DONE, result="so"), now=6)
    ends = list_ends(store, lead, after=0)
    assert [(end.task, end.state) for end in ends] == [
        (stopped, State.CANCELLED),
        (mine, State.DONE),
    ]
    assert ends[1].result == "so"
    assert list_ends(store, lead, after=ends[0].event) == ends[1:]
    assert list_ends(store, lead, after=ends[1].event) == []


def test_a_lead_that_was_written_to_goes_on_before_it_is_done(store: Store) -> None:
    lead = start(store)
    grant = go(store)
    post_to_task(store, lead, sender="ann", text="wait", now=2)
    assert finish(store, grant.fence, DONE, now=3) is State.READY
    again = go(store, now=4)
    assert (again.task, again.attempt) == (lead, 2)
    [word] = list_to_task(store, lead)
    confirm_to_task(store, lead, word.id, now=5)
    assert finish(store, again.fence, DONE, now=6) is State.DONE
    assert finish(store, grant.fence, DONE, now=7) is State.READY  # asked again, said again


def test_nobody_else_goes_on_for_a_message(store: Store) -> None:
    hire(store)
    task = put(store, "a", agent="x", stage="implement")
    grant = go(store)
    post_to_task(store, task, sender="ann", text="wait", now=2)
    assert finish(store, grant.fence, DONE, now=3) is State.DONE


def test_messages_keep_a_lead_going_so_often_and_no_more(store: Store) -> None:
    bounded = tuned(store, lead_turns=3)
    lead = start(bounded)
    post_to_task(bounded, lead, sender="ann", text="again", now=1)
    states = []
    while state(bounded, lead) == "ready":
        states.append(finish(bounded, go(bounded, now=2).fence, DONE, now=3))
    assert states == [State.READY, State.READY, State.DONE]


def test_a_failed_lead_is_no_different_for_being_written_to(store: Store) -> None:
    lead = start(store)
    post_to_task(store, lead, sender="ann", text="wait", now=1)
    blocked = Outcome(state=State.BLOCKED, kind="other", reason="no")
    assert finish(store, go(store, now=2).fence, blocked, now=3) is State.BLOCKED
    assert state(store, lead) == "blocked"


def test_the_open_task_of_a_lead_is_found_until_it_has_ended(store: Store) -> None:
    lead = start(store)
    repo = "r"
    assert find_open_lead(store, repo, "lead") == lead
    assert find_open_lead(store, repo, "other") is None
    assert find_open_lead(store, "elsewhere", "lead") is None
    cancel(store, lead, now=2)
    assert find_open_lead(store, repo, "lead") is None
    retry(store, lead, now=3)
    assert find_open_lead(store, repo, "lead") == lead


def test_a_store_that_forgets_whom_a_message_is_for_is_caught(store: Store) -> None:
    """Weakened: whoever reads messages takes any task's for its own."""
    lead = start(store)
    second = put(store, "other")
    post_to_task(store, second, sender="ann", text="wait", now=1)
    weak = weaken(store, "messages_to_task", ("AND to_task = :to", "AND :to = :to"))
    assert list_to_task(weak, lead) != []
    assert list_to_task(store, lead) == []
    assert finish(store, go(store, now=2).fence, DONE, now=3) is State.DONE
