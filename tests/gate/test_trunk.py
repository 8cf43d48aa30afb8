"""Trunk moves by the gate's hand alone: whatever else moves it is told of, and left as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from databases import change
from gate.gate_run import RUN, GateProcesses, Stage, candidate, drive, run_git, task
from repositories import prepare
from weft.store.gate import read_gate, unblock_gate
from weft.store.runs import get_run
from weft.workspace import release


def blocked(stage: Stage) -> str:
    return get_run(stage.store, RUN).blocked


def foreign(stage: Stage) -> str:
    return candidate(stage.root, stage.base, {"x": "x\n"}, "Somebody's own")


def test_a_trunk_that_was_there_before_is_left_alone(stage: Stage) -> None:
    stage.submit([task("a")])
    theirs = foreign(stage)
    run_git(stage.root, "branch", "weft/r1", theirs)
    stage.bring("a", {"src/a": "a = 2\n"})
    drive(stage, lambda: blocked(stage) != "")
    assert stage.trunk == theirs
    assert stage.are(a="gating")


@pytest.mark.parametrize("point", ["checked", "moving"])
def test_a_trunk_that_somebody_moves_is_not_overwritten(stage: Stage, point: str) -> None:
    """Weakened, trunk moves from wherever it is now instead of the recorded old commit."""
    stage.submit([task("a")])
    theirs = foreign(stage)
    stage.bring("a", {"src/a": "a = 2\n"})

    def meddle(now: str) -> None:
        if now == point:
            run_git(stage.root, "update-ref", "refs/heads/weft/r1", theirs)

    drive(stage, lambda: blocked(stage) != "", at=meddle)
    assert stage.trunk == theirs
    assert stage.are(a="gating")
    assert f"not at {stage.base[:12]} where weft left it: another program moved it" in blocked(
        stage
    )
    assert f"git branch -f weft/r1 {stage.base[:12]}" in blocked(stage)
    assert "weft resume r1" in blocked(stage)
    drive(stage, lambda: True)
    assert stage.trunk == theirs, "not before a person has looked"
    run_git(stage.root, "branch", "-f", "weft/r1", stage.base)
    unblock_gate(stage.store, RUN, now=0)
    drive(stage, lambda: stage.are(a="done"))
    stage.judge()


def test_commits_that_somebody_adds_after_a_landing_are_kept(stage: Stage) -> None:
    """Moved in the moment between ref and rows: the landing is completed, and no more."""
    stage.submit([task("a"), task("b")])
    stage.bring("a", {"src/a": "a = 2\n"})
    added = ""

    def meddle(now: str) -> None:
        nonlocal added
        if now == "moved" and not added:
            added = candidate(stage.root, stage.trunk, {"x": "x\n"}, "More")
            run_git(stage.root, "update-ref", "refs/heads/weft/r1", added)

    drive(stage, lambda: stage.are(a="done"), at=meddle)
    stage.bring("b", {"src/b": "b = 2\n"})
    drive(stage, lambda: blocked(stage) != "")
    assert stage.trunk == added
    assert stage.are(b="gating")


def test_a_trunk_that_is_deleted_is_not_made_anew(stage: Stage) -> None:
    stage.submit([task("a"), task("b")])
    stage.bring("a", {"src/a": "a = 2\n"})
    drive(stage, lambda: stage.are(a="done"))
    landed = stage.trunk
    run_git(stage.root, "branch", "-q", "-D", "weft/r1")
    stage.bring("b", {"src/b": "b = 2\n"})
    drive(stage, lambda: "is at nothing" in blocked(stage))
    run_git(stage.root, "branch", "-f", "weft/r1", landed)
    unblock_gate(stage.store, RUN, now=0)
    drive(stage, lambda: stage.are(b="done"))
    stage.judge()


@pytest.mark.parametrize("point", ["", "intended"])
def test_trunk_does_not_move_under_somebodys_checkout(stage: Stage, home: Path, point: str) -> None:
    stage.submit([task("a")])
    place = home / "checkout"
    run_git(stage.root, "branch", "weft/r1", stage.base)

    def check_out(now: str) -> None:
        if now == point:
            run_git(stage.root, "worktree", "add", "-q", str(place), "weft/r1")

    check_out("")
    stage.bring("a", {"src/a": "a = 2\n"})
    drive(stage, lambda: f"checked out in {place}" in blocked(stage), at=check_out)
    assert run_git(place, "status", "--porcelain") == ""
    assert stage.trunk == stage.base
    run_git(place, "switch", "-q", "--detach")
    unblock_gate(stage.store, RUN, now=0)
    drive(stage, lambda: stage.are(a="done"))
    run_git(stage.root, "worktree", "remove", str(place))
    stage.judge()


def test_an_agent_that_checks_trunk_out_in_its_workspace_does_not_stop_the_gate(
    stage: Stage,
) -> None:
    stage.submit([task("a")])
    run_git(stage.root, "branch", "weft/r1", stage.base)
    with prepare(stage.root) as place:
        run_git(place.path, "switch", "-q", "weft/r1")
        stage.bring("a", {"src/a": "a = 2\n"})
        drive(stage, lambda: stage.are(a="done"))
        release(place)
    stage.judge()


def test_a_reference_that_git_cannot_lock_is_told(stage: Stage) -> None:
    """As a git that was killed leaves it behind; whose lock it is, weft cannot know."""
    stage.submit([task("a")])
    lock = stage.root / ".git/refs/heads/weft/r1.lock"

    def hold(now: str) -> None:
        if now == "intended":
            lock.touch()

    stage.bring("a", {"src/a": "a = 2\n"})
    drive(stage, lambda: "r1.lock" in blocked(stage), at=hold)
    assert stage.trunk == stage.base
    lock.unlink()
    unblock_gate(stage.store, RUN, now=0)
    drive(stage, lambda: stage.are(a="done"))
    assert len(read_gate(stage.store, RUN).landings) == 1
    stage.judge()


def test_a_branch_in_trunks_way_is_told(stage: Stage) -> None:
    stage.submit([task("a")])
    run_git(stage.root, "branch", "weft")
    drive(stage, lambda: "refs/heads/weft" in blocked(stage))
    run_git(stage.root, "branch", "-q", "-D", "weft")
    unblock_gate(stage.store, RUN, now=0)
    stage.bring("a", {"src/a": "a = 2\n"})
    drive(stage, lambda: stage.are(a="done"))


def test_a_candidate_that_is_not_there_blocks_with_its_name(stage: Stage) -> None:
    stage.submit([task("a")])
    stage.offer("a", "0123456789" * 4)
    drive(stage, lambda: "0123456789" * 4 in blocked(stage))


PRUNE = ("-c", "gc.reflogExpire=now", "-c", "gc.reflogExpireUnreachable=now", "gc", "-q", "--force")


@pytest.mark.parametrize("point", ["merged", "checked", "intended", "moving"])
def test_a_garbage_collection_by_the_user_stops_no_landing(stage: Stage, point: str) -> None:
    """Weakened, merges that were made before it, or the landing itself, are `bad object`s."""
    stage.submit([task("a"), task("b")])
    for name in "ab":  # two candidates: what lands is a merge, and not one of them
        stage.bring(name, {f"src/{name}": f"{name} = 2\n"})
    collected: list[str] = []

    def collect(now: str) -> None:
        if now == point and not collected:
            collected.append(now)
            run_git(stage.root, *PRUNE, "--prune=now")

    drive(stage, lambda: stage.are(a="done", b="done"), at=collect)
    assert collected
    stage.judge()
    run_git(stage.root, "fsck", "--connectivity-only")
    assert run_git(stage.root, "for-each-ref", "refs/weft/landing") == ""


@pytest.mark.parametrize("point", ["built", "moved"])
def test_a_landing_that_was_cut_short_survives_a_garbage_collection(
    stage: Stage, processes: GateProcesses, point: str
) -> None:
    stage.submit([task("a"), task("b")])
    for name in "ab":
        stage.bring(name, {f"src/{name}": f"{name} = 2\n"})
    processes.start(stage, point=point, action="kill").wait_for_grief()
    run_git(stage.root, *PRUNE, "--prune=now")
    drive(stage, lambda: stage.are(a="done", b="done"))
    run_git(stage.root, "fsck", "--connectivity-only")
    assert run_git(stage.root, "for-each-ref", "refs/weft/landing") == ""


def test_a_trunk_whose_landings_the_store_has_lost_blocks_the_gate(stage: Stage) -> None:
    """The database was restored from a backup that is older than the last landing."""
    stage.submit([task("a"), task("b")])
    stage.bring("a", {"src/a": "a = 2\n"})
    drive(stage, lambda: stage.are(a="done"))
    landed = stage.trunk
    change(stage.store.url, "DELETE FROM landings")
    stage.bring("b", {"src/b": "b = 2\n"})
    drive(stage, lambda: blocked(stage) != "")
    assert stage.trunk == landed
    assert "the store has lost rows" in blocked(stage)
    assert f"git branch kept-r1 {landed[:12]}" in blocked(stage)
    assert f"git branch -f weft/r1 {stage.base[:12]}" in blocked(stage)
    assert "weft resume r1" in blocked(stage)
