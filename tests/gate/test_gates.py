"""Several gates at once, what the engine does with them, and what it costs to look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
from anyio.to_thread import run_sync

from databases import change
from gate.gate_run import (
    RUN,
    WORKER,
    GateProcesses,
    Stage,
    drive,
    gate_site,
    leave,
    make_project,
    run_git,
    task,
)
from wait_until import PATIENCE, wait_until
from weft.gate.gate_loop import Gate
from weft.store.gate import read_gate, read_open
from weft.store.leases import list_open
from weft.store.runs import end_finished, get_run
from weft.worker.engine import guard


def test_gates_of_several_runs_on_one_repository_land_side_by_side(
    stage: Stage, processes: GateProcesses
) -> None:
    runs = [replace(stage, run=f"r{number}") for number in (1, 2, 3)]
    for one in runs:
        one.submit([task(name, f"src/{one.run}{name}") for name in "ab"])
        for name in "ab":
            bad = (one.run, name) == ("r2", "a")
            one.bring(name, {f"src/{one.run}{name}": "broken\n" if bad else "fine\n"})
    gate = {"run": ("sh", "-c", "! grep -rn broken src")}
    crowd = [processes.start(stage, runs=["r1", "r2", "r3"], gate=gate) for _ in range(2)]
    wait_until(lambda: all(set(one.states().values()) <= {"done", "ready"} for one in runs))
    leave(*crowd)
    assert [one.state("a") for one in runs] == ["done", "ready", "done"]
    assert [one.state("b") for one in runs] == ["done", "done", "done"]
    for one in runs:
        one.judge()
        assert one.show(f"src/{one.run}b") == "fine"
        assert len(one.log()) == sum(state == "done" for state in one.states().values())


async def _guard_until(stage: Stage, until: Callable[[], bool], **how: object) -> None:
    with gate_site(stage, **how) as site, anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(guard, site, WORKER)
            while not await run_sync(until):
                await anyio.sleep(0.02)
            group.cancel_scope.cancel()


def test_the_engine_serves_every_running_run_of_its_repository(stage: Stage, home: Path) -> None:
    other = replace(stage, run="r2")
    elsewhere = Stage(stage.store, make_project(home / "elsewhere"), run="r3")
    for one in (stage, other, elsewhere):
        one.submit([task("a", f"src/{one.run}")])
        one.bring("a", {f"src/{one.run}": "a = 2\n"})

    def are_done() -> bool:
        return stage.are(a="done") and other.are(a="done")

    anyio.run(_guard_until, stage, are_done)
    assert elsewhere.are(a="gating")


def test_a_gate_that_fails_keeps_no_other_from_landing(stage: Stage) -> None:
    stage.submit([task("a")])
    stage.offer("a", "0123456789" * 4)
    other = replace(stage, run="r2")
    other.submit([task("a", "src/b")])
    other.bring("a", {"src/b": "b = 2\n"})
    anyio.run(_guard_until, stage, lambda: other.are(a="done") and blocked(stage) != "")


def blocked(stage: Stage) -> str:
    return get_run(stage.store, stage.run).blocked


def test_the_gate_of_a_run_that_has_ended_is_left(stage: Stage) -> None:
    stage.submit([task("a")])
    stage.bring("a", {"src/a": "a = 2\n"})

    async def main() -> None:
        with gate_site(stage) as site, stage.store.listen("work") as listener:
            with anyio.fail_after(PATIENCE):
                async with anyio.create_task_group() as group:
                    group.start_soon(Gate(site, WORKER, RUN).serve, listener)
                    while not await run_sync(lambda: stage.are(a="done")):
                        await anyio.sleep(0.02)
                    await run_sync(lambda: end_finished(stage.store, now=9))
                # The group is left when serving has come to its end.

    anyio.run(main)
    assert list_open(stage.store) == []


def test_a_store_that_is_away_for_a_while_ends_nothing(stage: Stage) -> None:
    """Weakened, the first StoreError leaves the task group, and every other gate with it."""
    stage.submit([task("a")])
    stage.bring("a", {"src/a": "a = 2\n"})
    change(stage.store.url, "ALTER TABLE verdicts RENAME TO hidden")

    async def main() -> None:
        with gate_site(stage) as site, stage.store.listen("work") as listener:
            with anyio.fail_after(PATIENCE):
                async with anyio.create_task_group() as group:
                    group.start_soon(Gate(site, WORKER, RUN).serve, listener)
                    await anyio.sleep(0.3)
                    change(stage.store.url, "ALTER TABLE hidden RENAME TO verdicts")
                    while not await run_sync(lambda: stage.are(a="done")):
                        await anyio.sleep(0.02)
                    group.cancel_scope.cancel()

    anyio.run(main)
    stage.judge()


def test_what_matters_to_the_gate_does_not_grow_with_what_has_landed(stage: Stage) -> None:
    stage.submit([task(f"t{number}", f"src/t{number}") for number in range(6)])
    for number in range(5):
        stage.bring(f"t{number}", {f"src/t{number}": "x\n"}, base=stage.base)
        name = f"t{number}"
        drive(stage, lambda name=name: stage.are(**{name: "done"}), run=None)  # type: ignore[misc]  # bound now
    stage.bring("t5", {"src/t5": "x\n"})
    everything, open_ = read_gate(stage.store, RUN), read_open(stage.store, RUN)
    assert (len(everything.landings), len(everything.verdicts)) == (5, 5)
    assert (len(open_.landings), len(open_.verdicts), len(open_.entries)) == (1, 1, 2)
    drive(stage, lambda: stage.are(t5="done"), run=None)
    stage.judge()


def test_conflicts_of_every_kind_reach_the_next_attempt_by_name(stage: Stage) -> None:
    run_git(stage.root, "config", "core.ignorecase", "true")
    kinds = ("case", "delete", "submodule", "symlink")
    names = [f"{kind}{number}" for kind in kinds for number in (1, 2)]
    stage.submit([task(name, f"src/{name}") for name in names])
    stage.bring("case1", {"New": "1\n"})
    stage.bring("case2", {"new": "2\n"})
    stage.bring("delete1", {"src/a": None})
    stage.bring("delete2", {"src/a": "a = 2\n"})
    for kind, mode in (("submodule", "160000"), ("symlink", "120000")):
        for number in "12":
            stage.offer(f"{kind}{number}", odd(stage, mode, kind, number))
    ends = {name: "done" if name.endswith("1") else "ready" for name in names}
    drive(stage, lambda: stage.are(**ends), run=None)
    for kind in kinds:
        assert kind in stage.reason(f"{kind}2")
    stage.judge()


def odd(stage: Stage, mode: str, name: str, text: str) -> str:
    """A commit that has a submodule or a symlink at a name."""
    blob = run_git(stage.root, "hash-object", "-w", "--stdin", stdin=text)
    id = text * 40 if mode == "160000" else blob
    ref = f"refs/weft/work/test/{name}{text}/1"
    told = f"commit {ref}\ncommitter A <a@b> 1700000000 +0000\n"
    told += f"data {len(name)}\n{name}\nfrom {stage.base}\n"
    run_git(stage.root, "fast-import", "--quiet", stdin=f"{told}M {mode} {id} {name}\n")
    return run_git(stage.root, "rev-parse", ref)


def test_a_flaky_check_costs_a_retry_and_is_told(stage: Stage, home: Path) -> None:
    stage.submit([task("a")])
    stage.bring("a", {"src/a": "a = 2\n"})
    once = f"mkdir {home}/once 2>/dev/null && exit 1 || exit 0"
    drive(stage, lambda: stage.are(a="done"), run=("sh", "-c", once))
    assert [e.data["flaked"] for e in stage.events("checked")] == [False, True]
    stage.judge()


def test_what_is_sent_back_three_times_alike_waits_for_a_person(stage: Stage) -> None:
    stage.submit([task("a"), task("b")])
    for number in range(2):
        stage.bring("a", {"src/a": f"broken {number}\n"})
        drive(stage, lambda: stage.are(a="ready"))
    assert [one.alone for one in read_gate(stage.store, "r1").entries] == [False, True]
    stage.bring("b", {"src/b": "b = 2\n"})
    stage.bring("a", {"src/a": "broken 2\n"})
    drive(stage, lambda: stage.are(a="blocked", b="done"))
    [*_, entry] = read_gate(stage.store, "r1").entries
    assert entry.alone
    combinations = {one.combination for one in read_gate(stage.store, "r1").verdicts}
    assert {len(one) for one in combinations if entry.id in one} == {1}, "in no batch with others"
    stage.judge()
