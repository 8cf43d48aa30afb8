"""Stories at the gate: subtasks land together or go back together."""

from __future__ import annotations

from typing import Any

import pytest

from gate.gate_run import RUN, Stage, drive, run_git, task
from weft.errors import Refused
from weft.store.gate import read_gate
from weft.store.tasks import cancel, get_task, skip


def tell(stage: Stage) -> None:
    """A story of two subtasks, and a task that is in none."""
    stage.submit(
        [
            task("s", "src/**", text="The whole story"),
            task("a", story="s"),
            task("b", story="s"),
            task("f", "other/f"),
        ]
    )


def test_subtasks_land_together_a_commit_each(stage: Stage) -> None:
    tell(stage)
    stage.bring("a", {"src/a": "a = 2\n"})
    assert read_gate(stage.store, RUN).entries == (), "it waits for its sibling"
    stage.bring("b", {"src/b": "b = 2\n"})
    [entry] = read_gate(stage.store, RUN).entries
    assert entry.tasks == (stage.numbers["a"], stage.numbers["b"])
    drive(stage, lambda: stage.are(s="done", a="done", b="done"))
    assert stage.log() == ["Change a", "Change b"]
    stage.judge()


@pytest.mark.parametrize("how", [{"squash": "story"}, {"every_commit": True}])
def test_a_story_may_be_one_commit(stage: Stage, how: dict[str, Any]) -> None:
    """And is one where every commit of trunk must have passed."""
    tell(stage)
    first = stage.bring("a", {"src/a": "a = 2\n"})
    stage.bring("b", {"src/b": "b = 2\n"}, base=first)
    drive(stage, lambda: stage.are(s="done"), **how)
    assert stage.log() == ["The whole story"]
    assert run_git(stage.root, "diff", "--name-only", stage.base, stage.trunk).split() == [
        "src/a",
        "src/b",
    ]
    stage.judge()


def test_what_a_story_leaves_behind_when_it_is_skipped_lands_by_itself(stage: Stage) -> None:
    tell(stage)
    stage.bring("a", {"src/a": "a = 2\n"})
    skip(stage.store, stage.numbers["s"], now=3)
    drive(stage, lambda: stage.are(a="done"))
    stage.bring("b", {"src/b": "b = 2\n"})
    drive(stage, lambda: stage.are(s="skipped", a="done", b="done"))
    assert stage.log() == ["Change a", "Change b"]
    stage.judge()


def test_a_rejected_story_sends_all_its_subtasks_back(stage: Stage) -> None:
    tell(stage)
    stage.bring("a", {"src/a": "a = 2\n"})
    stage.bring("b", {"src/b": "broken\n"})
    stage.bring("f", {"other/f": "f\n"})
    drive(stage, lambda: stage.are(a="ready", b="ready", f="done"))
    assert "src/b:1:broken" in stage.reason("a")
    assert stage.log() == ["Change f"]
    stage.bring("a", {"src/a": "a = 2\n"})
    stage.bring("b", {"src/b": "b = 2\n"})
    drive(stage, lambda: stage.are(s="done"))
    stage.judge()


def test_a_subtask_cancelled_at_the_gate_lets_the_rest_ask_again(stage: Stage) -> None:
    tell(stage)
    stage.bring("a", {"src/a": "a = 2\n"})
    stage.bring("b", {"src/b": "broken\n"})
    cancel(stage.store, stage.numbers["b"], now=3)
    assert [one.state for one in read_gate(stage.store, RUN).entries] == ["withdrawn", "queued"]
    drive(stage, lambda: stage.are(s="done", a="done", b="cancelled"))
    assert stage.log() == ["Change a"]
    stage.judge()


def test_what_is_cancelled_while_it_is_queued_or_checked_does_not_land(stage: Stage) -> None:
    stage.submit([task("a"), task("b")])
    for name in "ab":
        stage.bring(name, {f"src/{name}": f"{name} = 2\n"})
    cancel(stage.store, stage.numbers["a"], now=3)
    drive(stage, lambda: stage.are(b="done"))
    assert stage.log() == ["Change b"]
    stage.judge()


@pytest.mark.parametrize(
    ("point", "possible"),
    [("checked", True), ("built", True), ("intended", False), ("moved", False)],
)
def test_nothing_is_cancelled_once_its_landing_has_begun(
    stage: Stage, point: str, possible: bool
) -> None:
    stage.submit([task("a"), task("b")])
    for name in "ab":
        stage.bring(name, {f"src/{name}": f"{name} = 2\n"})
    answers: list[bool] = []

    def meddle(now: str) -> None:
        if now == point and not answers:
            try:
                answers.append(cancel(stage.store, stage.numbers["a"], now=3))
            except Refused:
                answers.append(False)

    drive(stage, lambda: stage.are(b="done"), at=meddle)
    assert answers == [possible]
    assert stage.state("a") == ("cancelled" if possible else "done")
    assert stage.log() == (["Change b"] if possible else ["Change a", "Change b"])
    stage.judge()


def test_a_story_is_done_only_with_its_last_subtask(stage: Stage) -> None:
    tell(stage)
    cancel(stage.store, stage.numbers["b"], now=3)
    stage.bring("a", {"src/a": "a = 2\n"})
    drive(stage, lambda: stage.are(a="done", s="done"))
    assert get_task(stage.store, stage.numbers["f"]).state.value == "ready"
