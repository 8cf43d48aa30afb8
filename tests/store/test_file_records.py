"""The files of attempts, as predictions learn from them, and claims beside files that may pass."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from store_helpers import AGAIN, DONE, drain, go, hire, put, url
from weft.model import NewRun, NewTask, Outcome, PredictedFile, State, TaskRequest
from weft.store import open_store
from weft.store.attempt_end import finish
from weft.store.attempt_reports import (
    list_attempt_files,
    list_held_patterns,
    measure_attempts,
)
from weft.store.leases import extend
from weft.store.runs import submit_run

__all__ = ["url"]

GUESS = PredictedFile(
    path="a.py", probability=0.7, reason="the text names it", clues={"path": 0.9}, claimed=True
)


def test_predicted_declared_asked_and_changed_files_of_every_attempt_are_kept(url: str) -> None:
    with open_store(url) as store:
        hire(store)
        put(store, files=("a.py",), request=TaskRequest(predicted=(GUESS,)))
        first = go(store)
        extend(store, first.fence, ["b.py"], now=2)
        failed = replace(AGAIN, changed=(), kind="crash")
        finish(store, first.fence, failed, now=3)
        second = go(store, now=4)
        done = replace(DONE, changed=("a.py", "b.py"), asked=("b.py",))
        finish(store, second.fence, done, now=8)
        finish(store, second.fence, done, now=9)
        put(store, "named", files=("lib/**",), now=9)
        third = go(store, now=10)
        finish(store, third.fence, replace(DONE, changed=("lib/x",)), now=11)
        newest, later, earlier = list_attempt_files(store, "r")
        assert (earlier.attempt, earlier.changed, earlier.predicted) == (1, (), (GUESS,))
        assert (later.attempt, later.changed, later.asked) == (2, ("a.py", "b.py"), ("b.py",))
        assert (later.declared, later.predicted) == ((), (GUESS,))
        assert (newest.declared, newest.predicted) == (("lib/**",), ())
        assert list_attempt_files(store, "another") == []


def test_an_outcome_that_does_not_know_its_files_keeps_none(url: str) -> None:
    with open_store(url) as store:
        hire(store)
        put(store, files=("a.py",))
        finish(store, go(store).fence, DONE, now=2)
        assert list_attempt_files(store, "r") == []


def test_the_cost_of_a_redo_is_the_mean_of_attempts_that_were_sent_back(url: str) -> None:
    with open_store(url) as store:
        hire(store)
        for number, (seconds, kind) in enumerate([(10, "scope"), (30, "scope"), (20, "success")]):
            put(store, f"t{number}", files=(f"f{number}",))
            grant = go(store, now=100)
            outcome = replace(DONE if kind == "success" else AGAIN, kind=kind, changed=("x",))
            finish(store, grant.fence, outcome, now=100 + seconds)
        measured = measure_attempts(store, "r", now=200)
        assert measured.redone == pytest.approx(20)
        assert measured.usual == pytest.approx(20)
        assert measure_attempts(store, "another", now=200).usual is None


def test_a_file_that_may_pass_is_not_claimed_and_must_not_be_held(url: str) -> None:
    with open_store(url) as store:
        hire(store)
        put(store, "one", files=("a.py",))
        put(store, "two", files=("log.md",))
        one = go(store)
        assert extend(store, one.fence, ["b.py"], free=["other.md"], now=2) == {}
        assert extend(store, one.fence, [], free=["other.md"], now=2) == {}
        patterns = {pattern for pattern, _ in list_held_patterns(store, "r")}
        assert patterns == {"a.py", "b.py"}
        two = go(store, now=3)
        held = extend(store, one.fence, ["c.py"], free=["log.md"], now=4)
        assert held == {"log.md": two.task}
        patterns = {pattern for pattern, _ in list_held_patterns(store, "r")}
        assert patterns == {"a.py", "b.py", "log.md"}


def test_claims_that_a_predicted_task_did_not_need_end_with_its_attempt(url: str) -> None:
    with open_store(url) as store:
        hire(store)
        request = TaskRequest(predicted=(GUESS,))
        tasks = [
            NewTask(name="predicted", files=("a.py", "b.py"), request=request),
            NewTask(name="declared", files=("c.py", "d.py")),
            NewTask(name="waiting", files=("b.py",)),
        ]
        submit_run(store, NewRun(id="R", repo="r"), tasks, now=0)
        first, second = go(store), go(store)
        assert drain(store) == []
        for grant, changed in ((first, "a.py"), (second, "c.py")):
            made = Outcome(state=State.GATING, candidate="c", base="b", changed=(changed, "x"))
            finish(store, grant.fence, made, now=2)
        held = {pattern for pattern, _ in list_held_patterns(store, "r")}
        assert held == {"a.py", "c.py", "d.py"}
        assert drain(store, now=3) == ["waiting"]
