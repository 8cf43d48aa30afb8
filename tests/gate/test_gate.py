"""The gate of a run: everything good lands once, nothing bad does, and the tip is always green."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate.gate_run import Stage, drive, make_project, run_git, task
from weft.attempt.briefing import refusal
from weft.store import Store
from weft.store.event_log import history


@pytest.fixture
def stage(home: Path, store: Store) -> Stage:
    """On both databases."""
    return Stage(store, make_project(home / "project"))


def test_what_passes_lands_as_one_commit_per_task(stage: Stage) -> None:
    stage.submit([task("a"), task("b")])
    for name in "ab":
        stage.bring(name, {f"src/{name}": f"{name} = 2\n"})
    drive(stage, lambda: stage.are(a="done", b="done"))
    assert stage.log() == ["Change a", "Change b"]
    assert stage.show("src/a") == "a = 2"
    told = run_git(stage.root, "log", "-1", "--format=%an %(trailers)", stage.trunk)
    assert told == "Ann Weft-Run: r1"
    stage.judge()


def test_what_fails_goes_back_with_the_output_and_the_rest_lands(stage: Stage) -> None:
    stage.submit([task("a"), task("b")])
    stage.bring("a", {"src/a": "broken\n"})
    stage.bring("b", {"src/b": "b = 2\n"})
    drive(stage, lambda: stage.are(a="ready", b="done"))
    assert "src/a:1:broken" in refusal(history(stage.store, stage.numbers["a"]))
    assert stage.others("a") == []
    assert stage.log() == ["Change b"]
    stage.judge()


def test_green_alone_and_red_together_sends_the_later_back(stage: Stage) -> None:
    stage.submit([task("a"), task("b"), task("c")])
    for name in "abc":
        stage.bring(name, {f"src/{name}": f"{name} = 2\n"})
    together = "! (grep -q 'a = 2' src/a && grep -q 'c = 2' src/c) || { echo a and c; exit 1; }"
    drive(stage, lambda: stage.are(a="done", b="done", c="ready"), run=("sh", "-c", together))
    assert stage.others("c") == ["a"], "the smallest combination that fails"
    assert "together with a, which came first" in stage.reason("c")
    assert "a and c" in stage.reason("c")
    stage.judge()


def test_a_conflict_sends_the_later_back_with_the_reason(stage: Stage) -> None:
    stage.submit([task("a"), task("b"), task("c")])
    stage.bring("a", {"src/a": "a = 2\n"})
    stage.bring("b", {"src/b": "b = 2\n"})
    stage.bring("c", {"src/a": "a = 3\n"})
    drive(stage, lambda: stage.are(a="done", b="done", c="ready"))
    assert stage.show("src/a") == "a = 2"
    assert stage.others("c") == ["a"]
    assert "does not merge after a" in stage.reason("c")
    assert "a = 3" in stage.reason("c"), "the contested lines"
    stage.judge()
