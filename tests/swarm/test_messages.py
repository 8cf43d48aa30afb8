"""What members are told: messages, and ends of tasks, again until they confirm them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from store_helpers import hire, snapshot
from store_helpers import url as url
from swarm_helpers import ACME, FAILED, OWNER, end, join, post, take
from weft.errors import AlreadyEnded, InputError, QueueFull
from weft.model import NewRun, NewTask
from weft.operations import inbox, long_poll, member_work
from weft.operations.identity import LOCAL
from weft.operations.member_records import Trigger
from weft.store import Store
from weft.store.runs import submit_run
from weft.store.tasks import cancel, skip


def told(store: Store, member: str, *, ack: str | None = None, now: float = 5) -> Trigger:
    found = long_poll.poll(store, OWNER, member, ack=ack, now=now)
    assert found is not None
    return found


def test_who_sent_a_task_is_told_of_its_end_until_it_confirms(store: Store) -> None:
    join(store, "sender")
    join(store, "m")
    sent = post(store, "work", sender="sender")
    end(store, take(store))
    first, again = told(store, "sender"), told(store, "sender")
    assert first == again
    [notice] = first.finished
    assert (first.kind, notice.task, notice.state, notice.result) == (
        "finished",
        sent.task,
        "done",
        "done it",
    )
    assert long_poll.poll(store, OWNER, "sender", ack=first.ack, now=6) is None
    assert long_poll.poll(store, OWNER, "m", now=6) is None


def test_a_lead_is_told_of_all_ends_but_not_of_its_own_work(store: Store) -> None:
    join(store, "lead", is_lead=True, who=ACME)
    join(store, "m", max_tasks=9)
    post(store, "theirs", tenant="globex")
    end(store, take(store))
    post(store, "its own", tenant="acme")
    submit_run(
        store,
        NewRun(id="R", repo="r", tenant="acme"),
        [NewTask(name="a"), NewTask(name="b")],
        now=4,
    )
    skip(store, 3, now=5)
    cancel(store, 4, now=5)
    found = long_poll.poll(store, ACME, "lead", now=6)
    assert found is not None
    assert [(one.name, one.state) for one in found.finished] == [
        ("theirs", "done"),
        ("a", "skipped"),
        ("b", "cancelled"),
    ]
    own = long_poll.poll(store, ACME, "lead", ack=found.ack, now=7)
    assert own is not None
    assert own.task is not None
    end(store, own.task, who=ACME, now=8)
    assert long_poll.poll(store, ACME, "lead", now=9) is None


def test_a_failure_that_is_tried_again_is_no_end(store: Store) -> None:
    join(store, "lead", is_lead=True)
    join(store, "m")
    post(store, "work", to="m", how="assign")
    end(store, take(store), FAILED)  # blocked: a person is needed, and it may still be done
    assert long_poll.poll(store, OWNER, "lead", now=5) is None


def test_a_member_is_not_told_what_ended_before_it_joined(store: Store) -> None:
    join(store, "m")
    post(store)
    end(store, take(store))
    join(store, "lead", is_lead=True)
    assert long_poll.poll(store, OWNER, "lead", now=5) is None
    post(store)
    end(store, take(store))
    assert len(told(store, "lead").finished) == 1
    join(store, "lead", is_lead=True, now=6)
    assert len(told(store, "lead").finished) == 1  # joining again confirms nothing


def test_many_ends_are_told_in_pages_without_a_gap(store: Store) -> None:
    join(store, "lead", is_lead=True)
    join(store, "m", max_tasks=20)
    sent = []
    for _ in range(60):
        sent.append(post(store).task)
        end(store, take(store))
    seen: list[int] = []
    ack = None
    while (found := long_poll.poll(store, OWNER, "lead", ack=ack, now=5)) is not None:
        seen += [one.task for one in found.finished]
        ack = found.ack
    assert seen == sent


def test_a_forged_confirmation_skips_nothing_that_is_still_to_come(store: Store) -> None:
    join(store, "lead", is_lead=True)
    join(store, "m")
    assert long_poll.poll(store, OWNER, "lead", ack="e999999999999", now=2) is None
    post(store)
    end(store, take(store))
    assert told(store, "lead").kind == "finished"
    for odd in ("", "x1", "e", "e-1", "m1 ", "e" + "9" * 19):
        with pytest.raises(InputError, match="not an `ack`"):
            long_poll.poll(store, OWNER, "lead", ack=odd, now=5)


def test_a_message_to_a_member_is_told_until_it_confirms_and_goes_before_work(
    store: Store,
) -> None:
    join(store, "lead", is_lead=True)
    join(store, "m")
    inbox.send_message(store, OWNER, "stop after this one", member="m", sender="lead", now=3)
    post(store)
    first = told(store, "m")
    [message] = first.messages
    assert (first.kind, message.text, message.sender) == (
        "messages",
        "stop after this one",
        "member lead",
    )
    assert told(store, "m") == first
    assert told(store, "m", ack=first.ack).kind == "task"


def test_a_message_to_a_running_task_reaches_who_works_on_it(store: Store) -> None:
    join(store)
    sent = post(store)
    inbox.send_message(store, OWNER, "use tabs", task=sent.task, now=1)
    claimed = take(store)
    assert [one.text for one in claimed.messages] == ["use tabs"]
    heard = member_work.progress(store, OWNER, claimed.fence, now=3)
    assert [one.text for one in heard.messages] == ["use tabs"]
    assert member_work.progress(store, OWNER, claimed.fence, ack=heard.ack, now=4).messages == ()
    inbox.send_message(store, OWNER, "no, spaces", task=sent.task, now=5)
    assert [one.text for one in told(store, "m").messages] == ["no, spaces"]
    read, ack = inbox.read_messages(store, OWNER, member="m", now=6)
    assert [one.text for one in read] == ["no, spaces"]
    assert inbox.read_messages(store, OWNER, member="m", ack=ack, now=7) == ((), None)
    assert long_poll.poll(store, OWNER, "m", now=8) is None


def test_an_unconfirmed_message_goes_to_the_next_who_works_on_the_task(store: Store) -> None:
    join(store)
    sent = post(store)
    claimed = take(store)
    inbox.send_message(store, OWNER, "careful", task=sent.task, now=3)
    member_work.release(store, OWNER, claimed.fence, now=4)
    assert [one.text for one in take(store, now=5).messages] == ["careful"]


def test_messages_are_bounded_and_not_for_the_dead(store: Store) -> None:
    small = Store(store.database, replace(store.tuning, inbox=2))
    join(small)
    sent = post(small)
    wheres: list[dict[str, Any]] = [{"member": "m"}, {"task": sent.task}]
    for where in wheres:
        for _ in range(2):
            inbox.send_message(small, OWNER, "hey", now=3, **where)
        before = snapshot(store.url)
        with pytest.raises(QueueFull, match="2 messages wait"):
            inbox.send_message(small, OWNER, "hey", now=3, **where)
        assert snapshot(store.url) == before
    cancel(store, sent.task, now=4)
    with pytest.raises(AlreadyEnded, match="no agent would read the message"):
        inbox.send_message(store, OWNER, "hey", task=sent.task, now=5)
    for odd in ("  ", "x" * 100_001):
        with pytest.raises(InputError):
            inbox.send_message(store, OWNER, odd, member="m", now=5)
    nowheres: list[dict[str, Any]] = [{}, {"task": 1, "member": "m"}]
    for nowhere in nowheres:
        with pytest.raises(InputError, match="task or to a member"):
            inbox.send_message(store, OWNER, "hey", now=5, **nowhere)


def test_a_person_says_something_to_an_agent_that_weft_started(store: Store) -> None:
    hire(store, "w")
    [task] = submit_run(store, NewRun(id="R", repo="r"), [NewTask(name="a")], now=1).values()
    sent = inbox.send_message(store, LOCAL, "faster", task=task, now=2)
    assert (sent.to_task, sent.sender) == (task, "local")
