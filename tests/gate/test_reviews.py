"""Candidates that a person reviews: nothing lands unseen, and the accepted tree is landed."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from databases import look
from gate.gate_run import (
    WORKER,
    Stage,
    drive,
    make_project,
    run_git,
    task,
)
from weft.candidate_records import CommentDraft, Review
from weft.errors import InputError, Refused
from weft.gate.review_view import list_in_review, read_review
from weft.model import NewTask, Outcome, State, TaskKind, TaskRequest
from weft.model import Stage as Step
from weft.project.project import get_project
from weft.store import Store
from weft.store.admission import admit_task
from weft.store.attempt_end import finish
from weft.store.leases import list_open
from weft.store.reviews import (
    accept_review,
    add_comment,
    list_open_reviews,
    list_reviews,
    remove_comment,
    send_back_review,
)
from weft.store.tasks import cancel, get_task
from weft.words import IN_REVIEW, task_state


@pytest.fixture
def stage(home: Path, store: Store) -> Stage:
    """On both databases."""
    return Stage(store, make_project(home / "project"))


def reviewed(name: str) -> NewTask:
    return task(name, request=TaskRequest(review=True))


def opened(stage: Stage, name: str) -> Review | None:
    reviews = list_reviews(stage.store, stage.numbers[name])
    return reviews[-1] if reviews and reviews[-1].state == "open" else None


def show(stage: Stage, name: str) -> Review:
    """Let the gate work until a task is in review."""
    drive(stage, lambda: opened(stage, name) is not None)
    review = opened(stage, name)
    assert review is not None
    return review


def send_back(stage: Stage, review: Review, path: str = "src/a") -> Review:
    draft = CommentDraft(text="Not so.", path=path, line=1, quoted="a = 2")
    add_comment(stage.store, review.entry, draft, now=5)
    return send_back_review(stage.store, review.entry, now=6)


def test_a_candidate_waits_for_its_review_and_other_tasks_land(stage: Stage) -> None:
    stage.submit([reviewed("a"), task("b")])
    stage.bring("a", {"src/a": "a = 2\n"})
    stage.bring("b", {"src/b": "b = 2\n"})
    drive(stage, lambda: stage.are(b="done") and opened(stage, "a") is not None)
    waiting = get_task(stage.store, stage.numbers["a"])
    assert (waiting.state, task_state(waiting)) == (State.GATING, IN_REVIEW)
    claims = look(stage.store.url, "SELECT task, pattern FROM claims")
    assert claims == [{"task": waiting.id, "pattern": "src/a"}], "it holds its files"
    assert [lease.kind for lease in list_open(stage.store)] == ["run"], "and no slot"
    assert stage.log() == ["Change b"]


def test_the_accepted_tree_lands_without_another_check(stage: Stage) -> None:
    stage.submit([reviewed("a")])
    stage.bring("a", {"src/a": "a = 2\n"})
    review = show(stage, "a")
    checks = stage.check_runs()
    accept_review(stage.store, review.entry, now=5)
    assert accept_review(stage.store, review.entry, now=6).decided == 5, "twice is once"
    drive(stage, lambda: stage.are(a="done"))
    assert run_git(stage.root, "rev-parse", f"{stage.trunk}^{{tree}}") == review.tree
    assert stage.check_runs() == checks
    stage.judge()


def test_on_a_moved_trunk_an_accepted_candidate_is_checked_again(stage: Stage) -> None:
    """And lands without another review; red together with what landed, it does not."""
    stage.submit([reviewed("a"), reviewed("c"), task("b")])
    stage.bring("a", {"src/a": "a = 2\n"})
    stage.bring("c", {"src/c": "c = 2\n"})
    first, second = show(stage, "a"), show(stage, "c")
    stage.bring("b", {"src/b": "b = 2\n"})
    drive(stage, lambda: stage.are(b="done"))
    checks = stage.check_runs()
    accept_review(stage.store, first.entry, now=5)
    drive(stage, lambda: stage.are(a="done"))
    assert stage.check_runs() == checks + 1
    assert stage.log() == ["Change b", "Change a"]
    accept_review(stage.store, second.entry, now=5)
    together = "! (grep -q 'a = 2' src/a && grep -q 'c = 2' src/c)"
    drive(stage, lambda: stage.are(c="ready"), run=("sh", "-c", together))
    assert stage.log() == ["Change b", "Change a"]


def test_a_conflict_after_the_acceptance_comes_back_for_another_review(stage: Stage) -> None:
    stage.submit([reviewed("a"), task("b")])
    stage.bring("a", {"src/a": "a = 2\n"})
    review = show(stage, "a")
    stage.bring("b", {"src/a": "a = 3\n"})
    drive(stage, lambda: stage.are(b="done"))
    accept_review(stage.store, review.entry, now=5)
    drive(stage, lambda: stage.are(a="ready"))
    assert "a = 2" in stage.reason("a"), "both sides"
    stage.bring("a", {"src/a": "a = 4\n"}, base=stage.trunk)
    assert show(stage, "a").round == 2
    assert stage.show("src/a") == "a = 3"


def test_comments_go_back_without_a_failure_and_with_the_files(stage: Stage) -> None:
    stage.submit([reviewed("a")])
    stage.bring("a", {"src/a": "a = 2\n"})
    review = show(stage, "a")
    with pytest.raises(InputError, match="no comment"):
        send_back_review(stage.store, review.entry, now=5)
    wrong = add_comment(stage.store, review.entry, CommentDraft(text="wrong"), now=4)
    remove_comment(stage.store, review.entry, wrong.id)
    assert send_back(stage, review).state == "sent_back"
    assert stage.are(a="ready")
    assert look(stage.store.url, "SELECT * FROM failures") == []
    assert look(stage.store.url, "SELECT pattern FROM claims") == [{"pattern": "src/a"}]


def test_a_decision_about_another_candidate_is_refused(stage: Stage) -> None:
    stage.submit([reviewed("a")])
    stage.bring("a", {"src/a": "a = 2\n"})
    old = show(stage, "a")
    send_back(stage, old)
    with pytest.raises(Refused, match="was sent back: `weft why r1/a`"):
        accept_review(stage.store, old.entry, now=7)
    stage.bring("a", {"src/a": "a = 3\n"})
    new = show(stage, "a")
    newer = f"now candidate {new.entry} is in review"
    with pytest.raises(Refused, match=newer):
        accept_review(stage.store, old.entry, now=8)
    with pytest.raises(Refused, match=newer):
        send_back(stage, old)
    assert opened(stage, "a") == new
    assert (new.round, new.entry != old.entry) == (2, True)


def test_a_cancelled_task_leaves_its_review(stage: Stage) -> None:
    stage.submit([reviewed("a"), task("b")])
    stage.bring("a", {"src/a": "a = 2\n"})
    review = show(stage, "a")
    cancel(stage.store, stage.numbers["a"], now=5)
    assert list_open_reviews(stage.store) == []
    with pytest.raises(Refused, match="was withdrawn"):
        accept_review(stage.store, review.entry, now=6)


def test_a_story_is_reviewed_as_a_whole(stage: Stage) -> None:
    story = TaskRequest(kind=TaskKind.STORY, title="The story", review=True)
    parts = [task("a", story="s"), task("b", story="s")]
    stage.submit([NewTask(name="s", files=("src/**",), request=story), *parts])
    stage.bring("a", {"src/a": "a = 2\n"})
    stage.bring("b", {"src/b": "b = 2\n"})
    review = show(stage, "s")
    project = get_project(stage.root, {"WEFT_STORE": stage.store.url})
    [item] = list_in_review(project)
    assert (item.task, item.title) == (stage.numbers["s"], "The story")
    shown = read_review(project, "r1/b")
    assert [file.path for file in shown.files] == ["src/a", "src/b"]
    send_back(stage, review, path="src/b")
    assert stage.are(a="gating", b="ready"), "only the subtask with the comment is done again"
    stage.bring("b", {"src/b": "b = 3\n"})
    accept_review(stage.store, show(stage, "s").entry, now=8)
    drive(stage, lambda: stage.are(s="done", a="done", b="done"))
    assert stage.show("src/b") == "b = 3"
    stage.judge()


def test_a_person_reviews_after_the_agents(stage: Stage) -> None:
    steps = tuple(Step(name=name, agent=name) for name in ("implement", "review"))
    request = TaskRequest(review=True, stages=steps)
    stage.submit([replace(task("a"), request=request, agent="implement", stage="implement")])
    made = stage.bring("a", {"src/a": "a = 2\n"})
    drive(stage, lambda: stage.are(a="ready"))
    assert list_open_reviews(stage.store) == []
    [grant] = admit_task(stage.store, WORKER, stage.numbers["a"], now=3)
    passed = Outcome(state=State.GATING, candidate=made, base=stage.base, reason="fine")
    finish(stage.store, grant.fence, passed, now=4)
    review = opened(stage, "a")
    assert review is not None
    accept_review(stage.store, review.entry, now=5)
    drive(stage, lambda: stage.are(a="done"))
    assert stage.check_runs() == 1
    stage.judge()


def test_the_interdiff_leaves_out_work_that_landed_in_between(stage: Stage) -> None:
    stage.submit([reviewed("a"), task("b")])
    stage.bring("a", {"src/a": "a = 2\nkept\n"})
    send_back(stage, show(stage, "a"))
    stage.bring("b", {"src/b": "b = 2\n"})
    drive(stage, lambda: stage.are(b="done"))
    stage.bring("a", {"src/a": "a = 3\nkept\n"})
    show(stage, "a")
    view = read_review(get_project(stage.root, {"WEFT_STORE": stage.store.url}), "r1/a")
    [file] = view.since_last_round
    assert file.path == "src/a"
    lines = [f"{line.sign}{line.text}" for hunk in file.hunks for line in hunk.lines]
    assert lines == ["-a = 2", "+a = 3", " kept"]
    [earlier] = view.earlier
    assert earlier.line is None, "no line has the text of the commented line any more"
