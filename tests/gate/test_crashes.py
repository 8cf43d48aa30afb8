"""Processes that hold a gate and are killed or stopped: another goes on, and all lands once."""

from __future__ import annotations

import os
import random
import time
from itertools import pairwise
from pathlib import Path

import pytest

from databases import look
from gate.gate_run import HASTY, NOBODY_BROKEN, GateProcesses, Stage, drive, leave, run_git, task
from wait_until import wait_until
from weft import git
from weft.model import TaskRequest
from weft.store.gate import read_gate
from weft.store.leases import list_open
from weft.store.reviews import accept_review, list_open_reviews, list_reviews
from weft.workspace.names import trunk_ref

POINTS = ("checked", "built", "intended", "moving", "moved", "completed", "rejecting")
KILLS = 60 if os.environ.get("WEFT_CHAOS") else 4
GATE = {"run": NOBODY_BROKEN, "slots": 2}
SLOW = {"run": ("sh", "-c", "sleep 0.15; ! grep -rn broken src"), "slots": 2}


def fill(stage: Stage) -> None:
    """Three good ones and a bad one."""
    stage.submit([task(name) for name in "abcd"])
    for name in "abcd":
        stage.bring(name, {f"src/{name}": "broken\n" if name == "c" else f"{name} = 2\n"})


def is_settled(stage: Stage) -> bool:
    return stage.are(a="done", b="done", c="ready", d="done")


def judge_settled(stage: Stage) -> None:
    wait_until(lambda: [one for one in list_open(stage.store) if one.kind != "run"] == [])
    stage.judge()
    assert sorted(stage.log()) == ["Change a", "Change b", "Change d"]
    assert "src/c:1:broken" in stage.reason("c")
    assert len(stage.events("entry_rejected")) == 1


def facts(stage: Stage) -> tuple[object, ...]:
    tables = ("tasks", "entries", "landings", "verdicts", "conflicts", "claims", "failures")
    rows = [look(stage.store.url, f"SELECT * FROM {name} ORDER BY 1, 2") for name in tables]
    refs = git.list_refs(stage.root)
    return (rows, {ref: at for ref, at in refs.items() if "%check" not in ref})


def test_killed_at_every_point_in_turn_the_next_one_goes_on(
    stage: Stage, processes: GateProcesses
) -> None:
    fill(stage)
    for point in POINTS:
        processes.start(stage, point=point, action="kill", gate=GATE).wait_for_grief()
    last = processes.start(stage, gate=GATE)
    wait_until(lambda: is_settled(stage) and stage.is_tidy())
    last.leave()
    judge_settled(stage)
    once = facts(stage)
    again = processes.start(stage, gate=GATE)
    wait_until(lambda: any(one.kind == "gate" for one in list_open(stage.store)))
    again.leave()
    assert facts(stage) == once, "recovering twice is recovering once"


@pytest.mark.parametrize("point", ["intended", "moved"])
def test_killed_in_the_middle_of_its_only_landing(
    stage: Stage, processes: GateProcesses, point: str
) -> None:
    stage.submit([task("a")])
    made = stage.bring("a", {"src/a": "a = 2\n"})
    processes.start(stage, point=point, action="kill", gate=GATE).wait_for_grief()
    [landing] = read_gate(stage.store, "r1").landings
    assert landing.state == "intended"
    assert stage.trunk == (landing.new if point == "moved" else landing.old)
    assert stage.state("a") == "gating"
    processes.start(stage, gate=GATE)
    wait_until(lambda: stage.are(a="done"))
    assert run_git(stage.root, "diff", "--stat", made, stage.trunk) == ""
    assert len(read_gate(stage.store, "r1").landings) == 1


def test_stopped_past_its_deadline_the_next_one_takes_over_and_the_first_changes_nothing(
    stage: Stage, processes: GateProcesses
) -> None:
    """Before the intent, between intent and ref, between ref and rows; then all go on at once.

    One slot: a process that is stopped while it makes a workspace keeps others from making one.
    """
    fill(stage)
    gate = {**GATE, "slots": 1}
    stopped = []
    for point in ("built", "intended", "moved"):
        stopped.append(processes.start(stage, point=point, action="stop", gate=gate))
        stopped[-1].wait_for_grief()
    leases = [one for one in list_open(stage.store) if one.kind == "gate"]
    assert len(leases) == 1, "the others have been taken over from"
    last = processes.start(stage, gate=gate)
    wait_until(lambda: is_settled(stage))
    taken = [e for e in stage.events("lease_taken") if e.data["lease"] == "gate"]
    [held] = [one for one in list_open(stage.store) if one.kind == "gate"]
    assert len(taken) == 4
    assert all(later.at - sooner.at >= HASTY.lease for sooner, later in pairwise(taken))
    before = facts(stage)
    for one in stopped:
        one.go_on()
    wait_until(lambda: {one.worker for one in list_open(stage.store)} <= {None, held.worker})
    assert facts(stage) == before
    wait_until(stage.is_tidy)
    leave(*stopped, last)
    judge_settled(stage)


@pytest.mark.chaos
def test_killed_at_random_all_lands_once(stage: Stage, processes: GateProcesses) -> None:
    chance = random.Random(5)
    fill(stage)
    for _ in range(KILLS):
        victim = processes.start(stage, gate=SLOW)
        time.sleep(chance.random())
        victim.kill()
    last = processes.start(stage, gate=SLOW)
    wait_until(lambda: is_settled(stage) and stage.is_tidy())
    last.leave()
    judge_settled(stage)
    run_git(stage.root, "fsck", "--connectivity-only")


def test_a_check_that_outlives_its_worker_is_ended_before_its_lease_is_freed(
    stage: Stage, processes: GateProcesses, home: Path
) -> None:
    """Weakened, a lease without a task is freed as soon as its worker is gone."""
    stage.submit([task("a")])
    stage.bring("a", {"src/a": "a = 2\n"})
    stubborn = (
        f"trap '' TERM; echo $$ >> {home}/alive; while [ ! -e {home}/go ]; do sleep 0.05; done"
    )
    gate = {"run": ("sh", "-c", f"setsid sh -c '{stubborn}' & wait")}
    first = processes.start(stage, gate=gate)
    wait_until((home / "alive").exists)
    child = int((home / "alive").read_text())
    [lease] = [one for one in list_open(stage.store) if one.kind == "check"]
    first.kill()
    assert Path(f"/proc/{child}").exists()
    second = processes.start(stage, gate={**GATE, "slots": 1})
    freed = False
    while not freed:
        alive = Path(f"/proc/{child}").exists()
        freed = lease.fence not in [one.fence for one in list_open(stage.store)]
        assert not freed or not alive or not Path(f"/proc/{child}").exists()
    wait_until(lambda: stage.are(a="done") and stage.is_tidy())
    second.leave()
    stage.judge()


def test_a_check_does_not_run_out_of_time_while_its_gate_is_stopped(
    stage: Stage, processes: GateProcesses, home: Path
) -> None:
    """Weakened, the limit is one long wait: it is over when the gate goes on, whatever happened."""
    stage.submit([task("a")])
    stage.bring("a", {"src/a": "a = 2\n"})
    command = f"touch {home}/begun; while [ ! -e {home}/go ]; do sleep 0.05; done; sleep 0.3"
    gate = {"run": ("sh", "-c", command), "timeout": 3.0, "slots": 1}
    member = processes.start(stage, gate=gate)
    wait_until((home / "begun").exists)
    member.suspend()
    time.sleep(3.1)  # longer than the limit
    (home / "go").touch()
    member.go_on()
    wait_until(lambda: stage.are(a="done"))
    member.leave()
    assert [one.passed for one in read_gate(stage.store, "r1").verdicts] == [True]


def test_two_that_both_believe_they_hold_the_gate_land_once(
    stage: Stage, processes: GateProcesses
) -> None:
    """Both go on from the same moment, in the middle of the same landing."""
    stage.submit([task("a"), task("b")])
    stage.bring("a", {"src/a": "a = 2\n"})
    first = processes.start(stage, point="intended", action="stop", gate=GATE)
    first.wait_for_grief()
    second = processes.start(stage, point="moved", action="stop", gate=GATE)
    second.wait_for_grief()
    assert git.find_ref(stage.root, trunk_ref("r1")) != stage.base
    first.go_on()
    second.go_on()
    wait_until(lambda: stage.are(a="done"))
    stage.bring("b", {"src/b": "b = 2\n"})
    wait_until(lambda: stage.are(b="done") and stage.is_tidy())
    leave(first, second)
    assert stage.log() == ["Change a", "Change b"]
    stage.judge()


def test_a_gate_moves_on_when_its_holder_leaves(stage: Stage, processes: GateProcesses) -> None:
    stage.submit([task("a"), task("b")])
    first = processes.start(stage, gate=GATE)
    stage.bring("a", {"src/a": "a = 2\n"})
    wait_until(lambda: stage.are(a="done"))
    second = processes.start(stage, gate=GATE)
    first.leave()
    stage.bring("b", {"src/b": "b = 2\n"})
    wait_until(lambda: stage.are(b="done"))
    second.leave()
    stage.judge()


def test_an_exception_at_any_point_blocks_this_gate_and_nothing_else(stage: Stage) -> None:
    fill(stage)

    def fail(point: str) -> None:
        raise RuntimeError(f"at {point}")

    drive(stage, lambda: "at merged" in blocked(stage), at=fail)
    assert stage.are(a="gating", b="gating", c="gating", d="gating")


def blocked(stage: Stage) -> str:
    return read_gate(stage.store, "r1").blocked


def test_killed_before_and_after_the_acceptance_a_candidate_lands_once(
    stage: Stage, processes: GateProcesses
) -> None:
    stage.submit([task("a", request=TaskRequest(review=True))])
    stage.bring("a", {"src/a": "a = 2\n"})
    processes.start(stage, point="checked", action="kill", gate=GATE).wait_for_grief()
    gate = processes.start(stage, gate=GATE)
    wait_until(lambda: list_open_reviews(stage.store) != [])
    gate.leave()
    [review] = list_reviews(stage.store, stage.numbers["a"])
    accept_review(stage.store, review.entry, now=5)
    for point in ("intended", "moved"):
        processes.start(stage, point=point, action="kill", gate=GATE).wait_for_grief()
    last = processes.start(stage, gate=GATE)
    wait_until(lambda: stage.are(a="done") and stage.is_tidy())
    last.leave()
    assert stage.log() == ["Change a"]
    assert run_git(stage.root, "rev-parse", f"{stage.trunk}^{{tree}}") == review.tree
    stage.judge()
