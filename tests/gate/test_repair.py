"""`weft land --repair`: one task completes the merge of a run with a branch, through the gate."""

from __future__ import annotations

import time

import pytest

from gate.gate_run import Stage, candidate, drive, run_git
from gate.land_stage import commit_on_main, finish_run, land, land_context
from weft.errors import Refused
from weft.gate.branch_landing import MoveKind
from weft.gate.proof import verify
from weft.gate.repair import add_repair_task
from weft.gate.run_landing import LandOutcome
from weft.model import BranchMerge, Task
from weft.store.runs import end_finished, get_run
from weft.store.tasks import get_task


def repair(stage: Stage) -> tuple[LandOutcome, Task, BranchMerge]:
    outcome = land(stage.root, stage.store)
    assert not outcome.landed
    with land_context(stage.root, stage.store) as context:
        task = add_repair_task(context, get_run(stage.store, "r1"), outcome)
    stage.numbers[task.name] = task.id
    assert task.request.merge is not None
    return outcome, task, task.request.merge


def finish(stage: Stage, files: dict[str, str], merge: BranchMerge) -> None:
    """Let the repair's agent leave these files, and the gate decide."""
    made = candidate(stage.root, merge.commit, files, "Merge both")
    stage.offer("repair-1", made, base=merge.commit)


def test_a_conflict_becomes_a_task_and_then_the_branch_goes_forward(stage: Stage) -> None:
    ended = finish_run(stage, {"src/a": "a = 2\n", "src/c": "c = 2\n"})
    mine = commit_on_main(stage.root, {"src/a": "a = 3\n", "src/b": "b = 3\n"})
    before = ended.trunk
    _, task, merge = repair(ended)
    assert task.files == ("src/a",)
    assert "a = 2" in task.text
    assert "a = 3" in task.text
    assert get_run(stage.store, "r1").state == "running"
    start = run_git(stage.root, "show", f"{merge.commit}:src/a")
    assert start.index("a = 3") < start.index("=======") < start.index("a = 2")
    finish(ended, {"src/a": "a = 5\n"}, merge)
    drive(ended, lambda: ended.are(**{"repair-1": "done"}))
    end_finished(stage.store, now=time.time())
    parents = run_git(stage.root, "log", "-1", "--format=%P", ended.trunk)
    assert parents == f"{before} {mine}"
    landed = land(stage.root, stage.store)
    assert (landed.kind, landed.new) == (MoveKind.FORWARD, ended.trunk)
    shown = [run_git(stage.root, "show", f"main:src/{name}") for name in "abc"]
    assert shown == ["a = 5", "b = 3", "c = 2"]
    assert verify(stage.store, stage.root, "r1").problems == ()
    assert run_git(stage.root, "for-each-ref", "refs/weft/merges") == ""
    run_git(stage.root, *landed.undo.split()[1:], "--no-edit")
    assert run_git(stage.root, "diff", "--stat", mine, "HEAD") == ""


def test_a_repair_that_leaves_markers_does_not_land(stage: Stage) -> None:
    """Even if the check of the run would let them pass."""
    ended = finish_run(stage, {"src/a": "a = 2\n"})
    commit_on_main(stage.root, {"src/a": "a = 3\n"})
    _, _, merge = repair(ended)
    before = ended.trunk
    finish(ended, {"README": "hello again\n"}, merge)
    drive(ended, lambda: ended.are(**{"repair-1": "ready"}))
    assert "<<<<<<<" in ended.reason("repair-1")
    assert ended.trunk == before


def test_a_merge_that_fails_its_check_becomes_a_task_with_the_output(stage: Stage) -> None:
    ended = finish_run(stage, {"src/a": "a = 2\n"})
    commit_on_main(stage.root, {"src/b": "broken\n"})
    _, task, merge = repair(ended)
    assert "src/b:1:broken" in task.text
    assert set(task.files) == {"src/a", "src/b"}
    finish(ended, {"src/b": "b = 3\n"}, merge)
    drive(ended, lambda: ended.are(**{"repair-1": "done"}))
    end_finished(stage.store, now=time.time())
    assert land(stage.root, stage.store).kind is MoveKind.FORWARD


def test_a_branch_that_moves_during_the_repair_is_merged_again(stage: Stage) -> None:
    ended = finish_run(stage, {"src/a": "a = 2\n"})
    commit_on_main(stage.root, {"src/a": "a = 3\n"})
    _, _, merge = repair(ended)
    finish(ended, {"src/a": "a = 5\n"}, merge)
    drive(ended, lambda: ended.are(**{"repair-1": "done"}))
    end_finished(stage.store, now=time.time())
    commit_on_main(stage.root, {"src/b": "b = 3\n"})
    assert land(stage.root, stage.store).kind is MoveKind.MERGE
    assert (stage.root / "src/a").read_text() == "a = 5\n"


def test_a_run_is_repaired_once_at_a_time(stage: Stage) -> None:
    ended = finish_run(stage, {"src/a": "a = 2\n"})
    commit_on_main(stage.root, {"src/a": "a = 3\n"})
    outcome, task, _ = repair(ended)
    with pytest.raises(Refused, match="has not ended"):
        land(stage.root, stage.store, "r1")
    with (
        land_context(stage.root, stage.store) as context,
        pytest.raises(Refused, match="not ended"),
    ):
        add_repair_task(context, get_run(stage.store, "r1"), outcome)
    assert get_task(stage.store, task.id).state == "ready"


def test_a_rewritten_branch_is_not_repaired_with_its_old_history(stage: Stage) -> None:
    dropped = commit_on_main(stage.root, {"src/a": "a = 0\n"})
    finish_run(stage, {"src/a": "a = 2\n"})
    run_git(stage.root, "reset", "-q", "--hard", f"{dropped}^")
    outcome = land(stage.root, stage.store)
    assert outcome.conflicts
    assert outcome.rewritten
    with (
        land_context(stage.root, stage.store) as context,
        pytest.raises(Refused, match="rewritten"),
    ):
        add_repair_task(context, get_run(stage.store, "r1"), outcome)
