"""The rows of the page on both databases: codes, present work, reports, messages, claims."""

from __future__ import annotations

import pytest

from store_helpers import go, hire, put, url
from weft.errors import Unauthenticated
from weft.model import HUMAN, NewRun, NewTask, Outcome, State
from weft.runs.attention import count_decisions, list_decisions
from weft.store import Store
from weft.store.attempt_end import finish
from weft.store.attempt_reports import report
from weft.store.messages import confirm_to_task, list_sent_to_task, post_to_task, retry_with_note
from weft.store.overview import list_latest_reports
from weft.store.runs import submit_run
from weft.store.summaries import list_held_files, list_unmet_needs, list_work, view_work
from weft.store.tasks import get_task, submit
from weft.store.tokens import create_page_code, identify, is_page_code, redeem_page_code

pytestmark = pytest.mark.each_store

__all__ = ["url"]


def test_a_page_code_becomes_one_token_and_ends_in_time(store: Store) -> None:
    code = create_page_code(store, scopes=("read",), seconds=60, now=100.0)
    assert is_page_code(store, code, now=159.0)
    assert not is_page_code(store, code, now=160.0)
    with pytest.raises(Unauthenticated):
        redeem_page_code(store, code, now=160.0)
    text = redeem_page_code(store, code, now=110.0)
    assert identify(store, text, now=120.0).scopes == {"read"}
    with pytest.raises(Unauthenticated):
        redeem_page_code(store, code, now=111.0)
    with pytest.raises(Unauthenticated):
        identify(store, text, now=120.0 + 8 * 86_400)


def make_run(store: Store, run: str) -> None:
    tasks = [
        NewTask(name="1.1", text="Paint the 100% door", agent="a", files=("door.py",)),
        NewTask(name="1.2", text="Decide", agent=HUMAN),
        NewTask(name="1.3", text="Open", agent="a", needs=("1.2",)),
        NewTask(name="1.4", text="Close", agent="a", needs=("1.3",)),
    ]
    submit_run(store, NewRun(id=run, repo="r"), tasks, now=10.0)


def test_present_work_is_listed_for_a_run_and_words(store: Store) -> None:
    make_run(store, "mine")
    make_run(store, "other")
    submit(store, NewTask(name="alone", text="By itself"), repo="r", now=20.0)
    assert len(list_work(store)) == 9
    assert {key.run for key in list_work(store, run="other")} == {"other"}
    [door] = list_work(store, run="mine", words="100% DOOR")
    assert [view.title for view in view_work(store, [door.id])] == ["Paint the 100% door"]
    assert list_work(store, words="100_ door") == []
    waiting = [key.id for key in list_work(store, run="mine") if key.state == "waiting"]
    assert list(list_unmet_needs(store, waiting).values()) == [["1.2"], ["1.3"]]


def test_decisions_count_the_tasks_behind_them(store: Store) -> None:
    make_run(store, "mine")
    make_run(store, "other")
    assert count_decisions(store, now=30.0) == 2
    decisions = list_decisions(store, now=30.0)
    assert {decision.item.subject for decision in decisions} == {"mine/1.2", "other/1.2"}
    for decision in decisions:
        assert decision.item.kind == "question"
        assert decision.behind == 2
        assert decision.item.since == 10.0


def test_reports_messages_and_claims_of_a_task_at_work(store: Store) -> None:
    hire(store)
    task = put(store, name="1", files=("door.py",))
    post_to_task(store, task, sender="ann", text="first", now=2.0)
    grant = go(store, now=3.0)
    report(store, grant.fence, {"attempt": 1, "events": []}, now=4.0)
    [held] = list_held_files(store)
    assert (held.task, held.pattern) == (task, "door.py")
    [message] = list_sent_to_task(store, task)
    assert (message.delivered, message.heard) == (None, None)
    confirm_to_task(store, task, message.id, now=5.0)
    report(store, grant.fence, {"attempt": 1, "events": [{"type": "text"}]}, now=6.0)
    [message] = list_sent_to_task(store, task)
    assert (message.delivered, message.heard) == (5.0, 6.0)
    latest = list_latest_reports(store, [task])[task]
    assert (latest.at, latest.data["events"]) == (6.0, [{"type": "text"}])


def test_a_retry_grants_files_besides_its_own(store: Store) -> None:
    hire(store)
    task = put(store, name="1", files=("door.py",))
    grant = go(store)
    finish(store, grant.fence, Outcome(state=State.BLOCKED, kind="scope", reason="x"), now=2.0)
    assert retry_with_note(store, task, "", files=("sign.py", "door.py"), now=3.0)
    assert get_task(store, task).files == ("door.py", "sign.py")
    assert {held.pattern for held in list_held_files(store)} <= {"door.py", "sign.py"}
    assert set(go(store, now=4.0).files) == {"door.py", "sign.py"}
