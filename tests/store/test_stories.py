"""Stories and their subtasks: one holder to everybody else, and never one that waits."""

from __future__ import annotations

import pytest

from store_helpers import drain, go, hire, put, state, url
from weft.model import NewRun, NewTask, Outcome, State
from weft.store import Store
from weft.store.admission import admit
from weft.store.attempt_end import finish
from weft.store.leases import extend, release
from weft.store.probe import probe
from weft.store.runs import submit_run
from weft.store.summaries import list_open_entries
from weft.store.tasks import cancel, list_needs, pause, resume, retry, skip

__all__ = ["url"]

CANDIDATE = Outcome(state=State.GATING)
FAILED = Outcome(state=State.BLOCKED, kind="other")


def story(store: Store, run: str, first: str, second: str) -> dict[str, int]:
    """A story with two subtasks, the second of which builds on the first."""
    tasks = [
        NewTask(name="whole", demand={"worker:@": 1}, needs=("a", "b")),
        NewTask(name="a", files=(first,), demand={"worker:@": 1}, story="whole"),
        NewTask(name="b", files=(second,), demand={"worker:@": 1}, story="whole", needs=("a",)),
    ]
    return submit_run(store, NewRun(id=run, repo="r"), tasks, now=0)


def test_two_stories_that_want_each_others_files_never_wait_for_each_other(store: Store) -> None:
    hire(store)
    mine, theirs = story(store, "one", "f", "g"), story(store, "two", "g", "f")
    first = go(store)
    assert first.task == mine["a"]
    assert not admit(store, "w", now=1)  # the second story would hold the first story's files
    assert {wait.subject for wait in probe(store, theirs["a"], now=1)} == {"f", "g"}
    finish(store, first.fence, CANDIDATE, now=2)
    finish(store, go(store).fence, CANDIDATE, now=2)
    assert not admit(store, "w", now=2)
    for task in (mine["a"], mine["b"]):
        skip(store, task, now=3)
    assert drain(store, now=4) == ["whole", "a"]
    assert state(store, theirs["a"]) == "running"


def test_subtasks_that_share_no_file_run_at_once(store: Store) -> None:
    hire(store)
    tasks = [
        NewTask(name="whole", needs=("a", "b")),
        NewTask(name="a", files=("f",), story="whole"),
        NewTask(name="b", files=("g",), story="whole"),
        NewTask(name="c", files=("f",), story="whole"),
    ]
    submit_run(store, NewRun(id="R", repo="r"), tasks, now=0)
    assert drain(store) == ["a", "b"]


def test_a_story_lets_go_when_its_last_subtask_gives_up(store: Store) -> None:
    hire(store)
    first = story(store, "one", "f", "g")
    outsider = put(store, "outsider", files=("g",))
    finish(store, go(store).fence, FAILED, now=2)
    assert go(store, now=3).task == outsider
    retry(store, first["a"], now=4)
    assert not admit(store, "w", now=4)


def test_a_story_keeps_its_files_while_one_candidate_waits(store: Store) -> None:
    hire(store)
    first = story(store, "one", "f", "g")
    put(store, "outsider", files=("g",))
    finish(store, go(store).fence, CANDIDATE, now=2)
    second = go(store)
    finish(store, second.fence, FAILED, now=2)
    assert not admit(store, "w", now=3)
    cancel(store, first["a"], now=4)
    assert go(store, now=5).name == "outsider"


def test_a_story_that_cannot_have_more_gives_up_what_it_has(store: Store) -> None:
    """It is one holder: what it waits for, it waits for with empty hands."""
    hire(store)
    first = story(store, "one", "f", "g")
    put(store, "outsider", files=("h",))
    finish(store, go(store).fence, CANDIDATE, now=2)
    b, outsider = go(store), go(store)
    assert extend(store, b.fence, ["h"], now=3) == {"h": outsider.task}
    wider = Outcome(state=State.READY, kind="scope", sent_back=True, files=("g", "h"))
    finish(store, b.fence, wider, now=3)
    assert (state(store, first["a"]), state(store, first["b"])) == ("ready", "waiting")
    rival = put(store, "other", files=("f",))
    assert drain(store, now=4) == ["other"]
    assert state(store, rival) == "running"


def test_a_story_gets_more_at_once_if_it_is_free(store: Store) -> None:
    hire(store)
    first = story(store, "one", "f", "g")
    finish(store, go(store).fence, CANDIDATE, now=2)
    wider = Outcome(state=State.READY, kind="scope", sent_back=True, files=("g", "h"))
    finish(store, go(store).fence, wider, now=3)
    put(store, "outsider", files=("h",))
    assert drain(store, now=4) == ["b"]
    assert state(store, first["a"]) == "gating"


def test_a_candidate_whose_story_lost_its_files_is_made_again(store: Store) -> None:
    """A sibling broke the story up while this one ran, and somebody took a file meanwhile."""
    hire(store)
    tasks = [
        NewTask(name="whole", needs=("a", "b", "c")),
        NewTask(name="a", files=("f",), story="whole"),
        NewTask(name="b", files=("g",), story="whole"),
        NewTask(name="c", files=("k",), story="whole"),
    ]
    numbers = submit_run(store, NewRun(id="R", repo="r"), tasks, now=0)
    put(store, "outsider", files=("h",))
    put(store, "late", files=("k",))
    pause(store, numbers["c"], now=1)
    a, b = go(store), go(store)
    assert go(store).name == "outsider"
    wider = Outcome(state=State.READY, kind="scope", sent_back=True, files=("g", "h"))
    finish(store, b.fence, wider, now=3)
    assert go(store, now=3).name == "late"
    assert finish(store, a.fence, CANDIDATE, now=4) is State.READY
    resume(store, numbers["c"], now=5)
    assert not admit(store, "w", now=5)


def test_subtasks_of_a_story_that_ended_are_on_their_own(store: Store) -> None:
    hire(store)
    first = story(store, "one", "f", "g")
    cancel(store, first["whole"], now=1)
    a = go(store)
    put(store, "outsider", files=("f",))
    put(store, "other", files=("g",))
    finish(store, a.fence, CANDIDATE, now=2)
    assert drain(store, now=3) == ["b"]


@pytest.mark.parametrize("verb", [skip, cancel])
def test_subtasks_of_a_story_that_ended_ask_to_land_by_themselves(
    store: Store, verb: object
) -> None:
    """Those that had waited for the others, and those that have their candidate later."""
    hire(store)
    first = story(store, "one", "f", "f")
    made = Outcome(state=State.GATING, candidate="c", base="b")
    finish(store, go(store).fence, made, now=2)
    assert list_open_entries(store) == []
    verb(store, first["whole"], now=3)  # type: ignore[operator]  # two functions of one shape
    assert [entry.tasks for entry in list_open_entries(store)] == [(first["a"],)]
    skip(store, first["a"], now=4)
    finish(store, go(store, now=5).fence, made, now=5)
    assert [entry.tasks for entry in list_open_entries(store)] == [(first["b"],)]


def test_whoever_builds_on_a_candidate_waits_again_when_it_is_gone(store: Store) -> None:
    hire(store)
    first = story(store, "one", "f", "g")
    finish(store, go(store).fence, CANDIDATE, now=2)
    assert state(store, first["b"]) == "ready"
    cancel(store, first["a"], now=3)
    assert state(store, first["b"]) == "waiting"


def test_a_reopened_task_is_waited_for_again(store: Store) -> None:
    first = put(store, "first")
    after = put(store, "after", needs=(str(first),))
    skip(store, first, now=1)
    assert state(store, after) == "ready"
    retry(store, first, now=2)
    assert state(store, after) == "waiting"


def test_a_crash_keeps_the_storys_files(store: Store) -> None:
    hire(store)
    story(store, "one", "f", "g")
    release(store, go(store).fence, now=2)
    put(store, "outsider", files=("g",))
    assert drain(store, now=3) == ["a"]


@pytest.mark.parametrize("verb", [skip, cancel])
def test_ending_every_subtask_frees_the_story(store: Store, verb: object) -> None:
    hire(store)
    first = story(store, "one", "f", "g")
    finish(store, go(store).fence, CANDIDATE, now=2)
    put(store, "outsider", files=("f", "g"))
    for name in ("a", "b"):
        verb(store, first[name], now=3)  # type: ignore[operator]  # two functions of one shape
    assert "outsider" in drain(store, now=4)


def pair(store: Store) -> dict[str, int]:
    """A story whose two subtasks run at once, each with a file of its own."""
    hire(store)
    tasks = [
        NewTask(name="whole", needs=("a", "b")),
        NewTask(name="a", files=("f",), story="whole"),
        NewTask(name="b", files=("g",), story="whole"),
    ]
    return submit_run(store, NewRun(id="R", repo="r"), tasks, now=0)


ASKS = Outcome(state=State.READY, kind="scope", files=("g", "shared"), sent_back=True)


def test_a_subtask_that_made_a_file_of_its_sibling_is_redone_on_its_result(store: Store) -> None:
    tasks = pair(store)
    first, second = go(store), go(store)
    assert extend(store, first.fence, ["shared"], now=2) == {}
    finish(store, first.fence, CANDIDATE, now=2)
    assert extend(store, second.fence, ["shared"], now=3) == {"shared": tasks["a"]}
    assert finish(store, second.fence, ASKS, now=3) is State.READY
    assert [need.id for need, _ in list_needs(store, tasks["b"])] == [tasks["a"]]
    again = go(store, now=4)
    assert again.task == tasks["b"]
    assert extend(store, again.fence, ["shared"], now=5) == {}, "it builds on that work"
    assert finish(store, again.fence, CANDIDATE, now=5) is State.GATING


def test_a_subtask_waits_for_a_sibling_that_still_makes_the_file(store: Store) -> None:
    tasks = pair(store)
    first, second = go(store), go(store)
    assert extend(store, first.fence, ["shared"], now=2) == {}
    assert extend(store, second.fence, ["shared"], now=2) == {"shared": tasks["a"]}
    finish(store, second.fence, ASKS, now=2)
    assert state(store, tasks["b"]) == "waiting"
    assert not admit(store, "w", now=2)
    finish(store, first.fence, CANDIDATE, now=3)
    assert go(store, now=4).task == tasks["b"]


def test_subtasks_that_build_on_each_other_may_change_the_same_file(store: Store) -> None:
    hire(store)
    tasks = story(store, "R", "f", "g")
    finish(store, go(store).fence, CANDIDATE, now=2)
    second = go(store)
    assert second.task == tasks["b"]
    assert extend(store, second.fence, ["f"], now=3) == {}
