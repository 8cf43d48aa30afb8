"""Work is sent to the pool or to a member, polled, claimed, reported and ended."""

from __future__ import annotations

import pytest

from databases import look
from store_helpers import drain, go, hire, snapshot
from store_helpers import put as put_into_repository
from store_helpers import url as url
from swarm_helpers import ACME, DONE, FAILED, OWNER, done, end, join, post, stop, take, take_all
from weft.errors import (
    AlreadyEnded,
    AtCapacity,
    Forbidden,
    InputError,
    NotFound,
    QueueFull,
    Refused,
)
from weft.model import Class, ErrorClass, Filter, NewRun, NewTask, Priority, State
from weft.operations import long_poll, member_work, membership, reading
from weft.operations.identity import LOCAL, Identity
from weft.operations.inbox import send_message
from weft.operations.member_records import TaskResult
from weft.redaction import Redactor
from weft.store import Store
from weft.store.admission import admit, admit_task
from weft.store.event_log import history
from weft.store.limit_table import set_limit
from weft.store.messages import list_to_task
from weft.store.probe import probe
from weft.store.runs import submit_run
from weft.store.tasks import get_task


def test_a_claimed_task_brings_all_that_is_needed_to_do_it(store: Store) -> None:
    join(store)
    first = post(store, "first")
    end(store, take(store))
    second = post(
        store, "second", text="go on", needs=(first.task,), files=("./a.py",), attached={"k": 1}
    )
    claimed = take(store)
    assert (claimed.task, claimed.name, claimed.text) == (second.task, "second", "go on")
    assert (claimed.files, claimed.details, claimed.attempt) == (("a.py",), {"k": 1}, 1)
    [need] = claimed.needs
    assert (need.name, need.state, need.result) == ("first", State.DONE, "done it")


def test_the_pool_goes_by_class_and_priority(store: Store) -> None:
    join(store, max_tasks=4)
    post(store, "batch", klass=Class.BATCH)
    post(store, "low", priority=Priority.LOW)
    post(store, "normal")
    post(store, "now", klass=Class.INTERACTIVE)
    assert [one.name for one in take_all(store)] == ["now", "normal", "low", "batch"]


def test_a_member_takes_only_what_it_can_do(store: Store) -> None:
    join(store, "plain", max_tasks=9)
    join(store, "tester", max_tasks=9, capabilities=("test", "write"))
    task = post(store, "test it", agent="test").task
    post(store, "anything")
    assert [one.name for one in take_all(store, "plain")] == ["anything"]
    with pytest.raises(Refused, match="plain cannot do test"):
        post(store, agent="test", to="plain", how="assign")
    assert [one.name for one in take_all(store, "tester")] == ["test it"]
    membership.close(store, OWNER, "tester", now=3)
    [wait] = probe(store, task, now=3)
    assert wait.text == "waiting for a member of the swarm that can do test: none is present"


def test_members_and_weft_processes_take_nothing_of_each_other(store: Store) -> None:
    """A run's work needs a workspace and a gate; what members do has neither."""
    join(store, max_tasks=9, capabilities=("coder",))
    hire(store, "w")
    sent = post(store, agent="coder")
    submit_run(store, NewRun(id="R", repo="r"), [NewTask(name="a", agent="coder")], now=1)
    adhoc = put_into_repository(store, "adhoc", agent="coder")
    assert sorted(drain(store, "w")) == ["a", "adhoc"]
    assert not admit_task(store, "w", sent.task, now=2)
    assert [one.task for one in take_all(store)] == [sent.task]
    with pytest.raises(Refused, match="done in a workspace"):
        member_work.claim(store, OWNER, "m", adhoc, now=3)


def test_a_lead_may_send_work_to_wefts_own_agents(store: Store) -> None:
    join(store, max_tasks=9, capabilities=("coder",))
    hire(store, "w")
    sent = post(store, "Fix the typo", agent="coder", repo="r", stage="implement", provider="p")
    assert take_all(store) == []
    grant = go(store, "w")
    assert (grant.task, grant.stage) == (sent.task, "implement")
    assert grant.demand == {
        "worker:w": 1,
        "requests": 1,
        "agent:coder": 1,
        "llm": 1,
        "provider:p": 1,
    }
    with pytest.raises(InputError, match="names its agent"):
        post(store, repo="r")


def test_an_assignment_at_capacity_is_refused_while_an_offer_works(store: Store) -> None:
    join(store, max_tasks=2)
    post(store, "a", to="m", how="assign")
    take(store)
    assigned = post(store, "b", to="m", how="assign")  # not begun, and counts too
    before = snapshot(store.url)
    with pytest.raises(AtCapacity, match=r"m is at capacity \(2/2 tasks\)\. Offer or queue it"):
        post(store, "c", to="m", how="assign")
    assert snapshot(store.url) == before
    assert post(store, "offered", to="m", how="offer").state is State.OFFERED
    assert post(store, "queued", to="m", how="queue").state is State.READY
    member_work.claim(store, OWNER, "m", assigned.task, now=2)
    assert long_poll.poll(store, OWNER, "m", now=2) is None  # no room to accept the offer


def test_after_one_of_two_ends_a_third_may_be_assigned(store: Store) -> None:
    join(store, max_tasks=2)
    first, _ = (post(store, to="m", how="assign") for _ in range(2))
    claimed, _ = take_all(store)
    assert claimed.task == first.task
    with pytest.raises(AtCapacity):
        post(store, to="m", how="assign")
    end(store, claimed)
    third = post(store, to="m", how="assign")
    assert take(store).task == third.task


def test_a_claim_at_capacity_is_refused(store: Store) -> None:
    join(store)
    post(store)
    other = post(store)
    take(store)
    before = snapshot(store.url)
    with pytest.raises(AtCapacity, match=r"You have no capacity \(1/1 tasks\)"):
        member_work.claim(store, OWNER, "m", other.task, now=3)
    assert snapshot(store.url) == before


def test_claiming_what_one_holds_answers_the_same_again(store: Store) -> None:
    join(store)
    sent = post(store)
    first = member_work.claim(store, OWNER, "m", sent.task, now=2)
    before = snapshot(store.url)
    assert member_work.claim(store, OWNER, "m", sent.task, now=3) == first
    assert snapshot(store.url) == before


def test_a_claim_says_why_it_cannot_be_had(store: Store) -> None:
    join(store, max_tasks=5)
    join(store, "other")
    first = post(store, "first", files=("a.py",))
    waits = post(store, "waits", needs=(first.task,))
    shares = post(store, "shares", files=("a.py",))
    pinned = post(store, to="other", how="assign")
    take(store)
    for task, why in (
        (waits, "waiting for task 1, which is (ready|working)"),
        (shares, "waiting for a.py, which task 1 is changing"),
        (first, "it is running"),
        (pinned, "others go first|other"),
    ):
        who = "other" if task is first else "m"
        with pytest.raises(Refused, match=why):
            member_work.claim(store, OWNER, who, task.task, now=3)
    with pytest.raises(NotFound):
        member_work.claim(store, OWNER, "m", 99, now=3)


def test_an_offer_is_told_until_it_is_answered(store: Store) -> None:
    join(store, "m")
    join(store, "other")
    sent = post(store, "maybe", to="m", how="offer")
    found = long_poll.poll(store, OWNER, "m", now=2)
    assert found is not None
    assert found.offer is not None
    assert (found.kind, found.offer.task, found.offer.until) == ("offer", sent.task, 61)
    assert membership.get_member(store, OWNER, "m", now=2).offers == (sent.task,)
    assert long_poll.poll(store, OWNER, "other", now=2) is None
    claimed = done(member_work.accept(store, OWNER, "m", sent.task, now=3))
    assert (claimed.task, get_task(store, sent.task).state) == (sent.task, State.RUNNING)
    with pytest.raises(Refused):
        member_work.accept(store, OWNER, "m", sent.task, now=4)


def test_an_offer_without_room_stands_and_one_that_cannot_start_goes_to_the_pool(
    store: Store,
) -> None:
    join(store)
    offered = post(store, "maybe", to="m", how="offer", uses={"llm": 1})
    post(store, "first")
    first = member_work.claim(store, OWNER, "m", post(store).task, now=2)
    before = snapshot(store.url)
    with pytest.raises(AtCapacity):
        member_work.accept(store, OWNER, "m", offered.task, now=3)
    assert snapshot(store.url) == before
    end(store, first)
    set_limit(store, "llm", 0, now=3)
    refused = member_work.accept(store, OWNER, "m", offered.task, now=4)
    assert str(refused) == (
        f"Task {offered.task} cannot start now: waiting for the limit llm, which is paused; "
        "it is in the pool again."
    )
    assert get_task(store, offered.task).state is State.READY


def test_a_rejected_offer_is_for_everybody(store: Store) -> None:
    join(store)
    join(store, "other")
    sent = post(store, to="m", how="offer")
    member_work.reject(store, OWNER, "m", sent.task, reason="not mine", now=2)
    assert take(store, "other").task == sent.task


def test_what_waits_for_others_cannot_be_offered(store: Store) -> None:
    join(store)
    first = post(store)
    before = snapshot(store.url)
    with pytest.raises(Refused, match=f"needs task {first.task} cannot be offered"):
        post(store, to="m", how="offer", needs=(first.task,))
    assert snapshot(store.url) == before


def test_an_assigned_task_is_its_members_and_stays_so(store: Store) -> None:
    """Pinned for good: neither time, nor silence, nor leaving gives it to another."""
    join(store)
    join(store, "other")
    sent = post(store, to="m", how="assign")
    assert long_poll.poll(store, OWNER, "other", now=2) is None
    assert long_poll.poll(store, OWNER, "other", now=1e6) is None
    membership.close(store, OWNER, "m", now=1e6)
    assert long_poll.poll(store, OWNER, "other", now=2e6) is None
    join(store, now=2e6)
    assert take(store, now=2e6).task == sent.task


def test_a_member_is_found_by_a_name_that_only_one_has(store: Store) -> None:
    join(store, "a1", name="Ada")
    assert get_task(store, post(store, to="Ada", how="assign").task).pinned == "a1"
    join(store, "a2", name="Ada")
    with pytest.raises(InputError, match="Several members are called Ada: a1, a2"):
        post(store, to="Ada", how="assign")
    with pytest.raises(NotFound, match="no member Bob"):
        post(store, to="Bob", how="offer")


def test_released_work_is_for_everybody_whoever_it_was_meant_for(store: Store) -> None:
    join(store)
    join(store, "other")
    for how in ("assign", "prefer"):
        sent = post(store, to="m", how=how)
        claimed = take(store)
        assert member_work.release(store, OWNER, claimed.fence, reason="not for me", now=3)
        assert not member_work.release(store, OWNER, claimed.fence, now=4)
        again = take(store, "other", now=4)
        assert (again.task, again.attempt) == (sent.task, 2)
        end(store, again)


def test_more_files_are_granted_at_once_or_not_at_all(store: Store) -> None:
    join(store, max_tasks=2)
    post(store, files=("a.py",))
    post(store, files=("b.py",))
    first, second = take_all(store)
    assert member_work.claim_files(store, OWNER, first.fence, ["c.py"], now=3) == {}
    before = snapshot(store.url)
    held = member_work.claim_files(store, OWNER, second.fence, ["./c.py", "d.py"], now=4)
    assert held == {"c.py": first.task}
    assert snapshot(store.url) == before
    with pytest.raises(InputError):
        member_work.claim_files(store, OWNER, second.fence, ["../x"], now=4)


def test_progress_is_an_event_and_a_sign_of_life(store: Store) -> None:
    join(store)
    post(store)
    claimed = take(store)
    heard = member_work.progress(store, OWNER, claimed.fence, text="half", data={"n": 1}, now=50)
    assert (heard.task, heard.deadline, heard.messages) == (claimed.task, 110, ())
    [said] = [one.data for one in history(store, claimed.task) if one.kind == "progress"]
    assert said["events"] == [{"type": "text", "text": "half"}]
    assert (said["said"], said["attempt"]) == ({"n": 1}, 1)
    assert membership.get_member(store, OWNER, "m", now=50).seen == 50


def test_a_completed_task_has_its_result_and_what_it_took(store: Store) -> None:
    join(store)
    sent = post(store)
    done = TaskResult(status="completed", text="42", tokens=7, micro_usd=9)
    assert end(store, take(store), done) is State.DONE
    assert get_task(store, sent.task).result == "42"
    [row] = look(store.url, "SELECT tokens, micro_usd FROM attempts")
    assert (row["tokens"], row["micro_usd"]) == (7, 9)


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (ErrorClass.OTHER, State.BLOCKED),
        (ErrorClass.CRASH, State.READY),
        (ErrorClass.RATE_LIMIT, State.PARKED),
        (ErrorClass.AUTH, State.BLOCKED),  # a member's troubles stop nobody else's agent
    ],
)
def test_a_failure_is_retried_by_its_class_and_fails_nobody_else(
    store: Store, kind: ErrorClass, state: State
) -> None:
    join(store)
    sent = post(store)
    dependent = post(store, needs=(sent.task,))
    failed = TaskResult(status="failed", text="no", kind=kind)
    assert end(store, take(store), failed) is state
    assert get_task(store, dependent.task).state is State.WAITING


def test_only_who_sent_a_task_or_an_admin_cancels_it(store: Store) -> None:
    join(store, who=ACME)
    mine, other = post(store, who=ACME), post(store, who=LOCAL, tenant="acme")
    with pytest.raises(Forbidden, match="sent by another identity"):
        stop(store, ACME, other.task, now=3)
    assert stop(store, ACME, mine.task, now=3)
    assert not stop(store, ACME, mine.task, now=4)
    assert stop(store, LOCAL, other.task, now=4)
    by_member = post(store, who=ACME, sender="m")
    assert stop(store, ACME, by_member.task, now=5)


def test_who_reports_a_cancelled_task_is_told_and_its_slot_is_free(store: Store) -> None:
    join(store)
    sent = post(store)
    claimed = take(store)
    stop(store, OWNER, sent.task, now=3)
    [held] = membership.get_member(store, OWNER, "m", now=3).tasks
    assert not held.current
    with pytest.raises(AlreadyEnded, match="cancelled already"):
        end(store, claimed, now=4)
    assert membership.get_member(store, OWNER, "m", now=4).capacity.current == 0
    assert get_task(store, sent.task).state is State.CANCELLED


def test_what_a_lost_answer_claimed_is_told_again_to_who_says_what_it_holds(store: Store) -> None:
    """A server was killed between claiming a task and answering: the member would never know."""
    join(store, max_tasks=2)
    post(store)
    lost = take(store)
    assert long_poll.poll(store, OWNER, "m", holding=[lost.fence], now=3) is None
    found = long_poll.poll(store, OWNER, "m", holding=[], now=3)
    assert found is not None
    assert found.task is not None
    assert found.task.fence == lost.fence
    assert long_poll.poll(store, OWNER, "m", now=3) is None


def test_a_full_queue_refuses_the_newcomer(store: Store) -> None:
    small = Store(store.database, type(store.tuning)(queue=2))
    post(small)
    post(small)
    before = snapshot(store.url)
    with pytest.raises(QueueFull):
        post(small, priority=Priority.LOW)
    assert snapshot(store.url) == before


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"text": " "}, "text is empty"),
        ({"title": "a\nb"}, "title"),
        ({"how": "assign"}, "all other work names a member"),
        ({"to": "m"}, "all other work names a member"),
        ({"uses": {"llm": 0}}, "ask for 1 or more"),
        ({"files": ("/etc/passwd",)}, "passwd"),
    ],
)
def test_odd_work_is_refused_before_anything_is_written(
    store: Store, said: dict[str, object], why: str
) -> None:
    join(store)
    before = snapshot(store.url)
    with pytest.raises(InputError, match=why):
        post(store, **said)  # type: ignore[arg-type]  # whatever the case says
    with pytest.raises(NotFound):
        post(store, needs=(99,))
    assert snapshot(store.url) == before


def test_nobody_but_an_admin_uses_up_what_belongs_to_others(store: Store) -> None:
    join(store)
    for resource in ("worker:m", "host:h/ram_mb", "run:R/usd", "stage:R/test"):
        with pytest.raises(Forbidden, match="belongs to others"):
            post(store, uses={resource: 1})
    post(store, who=LOCAL, uses={"run:R/usd": 1})


def test_tasks_are_listed_by_what_is_asked_for_page_by_page(store: Store) -> None:
    join(store, max_tasks=2)
    for number in range(5):
        post(store, f"t{number}", agent="py" if number % 2 else None)
    post(store, "assigned", to="m", how="queue", klass=Class.BATCH)
    take(store)
    one = reading.list_tasks(store, OWNER, Filter(), most=4)
    two = reading.list_tasks(store, OWNER, Filter(), after=one.after or 0, most=4)
    assert [t.id for t in (*one.tasks, *two.tasks)] == [1, 2, 3, 4, 5, 6]
    assert (one.after, two.after) == (4, None)

    def names(**asked: object) -> list[str]:
        found = reading.list_tasks(store, OWNER, Filter(**asked))  # type: ignore[arg-type]
        return [t.name for t in found.tasks]

    assert names(agent="py") == ["t1", "t3"]
    assert names(state=State.RUNNING) == ["t0"]
    assert names(klass=Class.BATCH) == ["assigned"]
    assert names(klass=Class.INTERACTIVE) == []
    assert names(worker="m") == ["t0", "assigned"]
    assert names(created_by=OWNER.subject, state=State.READY) == [
        "t1",
        "t2",
        "t3",
        "t4",
        "assigned",
    ]
    assert names(tenant="acme") == names(run="R") == []
    with pytest.raises(InputError):
        reading.list_tasks(store, OWNER, Filter(), most=501)


def test_a_member_admitted_nothing_while_weft_is_drained(store: Store) -> None:
    from weft.store.admission import drain as stop_all

    join(store)
    sent = post(store)
    stop_all(store, now=2)
    assert long_poll.poll(store, OWNER, "m", now=3) is None
    with pytest.raises(Refused, match="drained"):
        member_work.claim(store, OWNER, "m", sent.task, now=3)


def test_failing_the_same_way_again_and_again_is_a_pattern(store: Store) -> None:
    join(store)
    post(store)
    crash = TaskResult(status="failed", text="segmentation fault", kind=ErrorClass.CRASH)
    states = [end(store, take(store, now=n), crash, now=n) for n in range(2, 5)]
    assert states == ["ready", "ready", "blocked"]


def test_results_repeat_and_first_ones_stand(store: Store) -> None:
    join(store)
    post(store)
    claimed = take(store)
    assert end(store, claimed, DONE) is end(store, claimed, DONE, now=4) is State.DONE
    before = snapshot(store.url)
    with pytest.raises(AlreadyEnded, match="the first answer counts"):
        end(store, claimed, FAILED, now=5)
    assert snapshot(store.url) == before
    assert not admit(store, "m", now=6)


def test_what_a_member_says_is_kept_without_the_secrets_that_are_known(store: Store) -> None:
    key = 'k3y-"9f8e7d6c5b'
    store.hide_secrets([("MY_KEY", key)])
    join(store)
    post(store)
    claimed = take(store)
    said = {"deep": [key, {"down": f"x{key}"}], "count": 3}
    member_work.progress(store, OWNER, claimed.fence, text=f"have {key}", data=said, now=3)
    send_message(store, OWNER, f"take {key}", task=claimed.task, now=3)
    end(store, claimed, TaskResult(status="completed", text=f"with {key}"))
    [told] = [event.data for event in history(store, claimed.task) if event.kind == "progress"]
    assert told["events"] == [{"type": "text", "text": "have [MY_KEY]"}]
    assert told["said"] == {"deep": ["[MY_KEY]", {"down": "x[MY_KEY]"}], "count": 3}
    assert get_task(store, claimed.task).result == "with [MY_KEY]"
    assert [one.text for one in list_to_task(store, claimed.task)] == ["take [MY_KEY]"]


def test_a_secret_in_an_agents_text_does_not_reach_the_agent_it_sends_work_to(
    store: Store,
) -> None:
    secret = "kD83jfhQ20skLs92jfA7dk3hF9s2"
    store.redactor = Redactor([("KEY", secret)])
    own = post(store, agent="lead").task
    lead = Identity("t-lead", "lead", frozenset({"work"}), fence=7, task=own)
    join(store)
    sent = post(store, f"use {secret}", text=f"the key is {secret}", who=lead)
    claimed = take(store)
    assert claimed.task == sent.task
    assert claimed.text == "the key is [KEY]"
    assert secret not in str(snapshot(store.url))
