"""Whole engines, several at once: asked to stop, suspended, killed, and watched from outside."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from attempt.attempt_project import Ground, either, ground, url
from databases import fresh_database, look, postgres_later
from observer import Observer, Picture
from wait_until import PATIENCE, wait_until
from weft.attempt.attempt import RunningAttempt
from weft.model import Lease, NewWorker, State
from weft.process.process_identity import get_place
from weft.store.workers import get_worker, list_workers, register
from weft.worker import engine, reaper

__all__ = ["either", "ground", "url"]


class Watch:
    """Looks at processes and leases from outside, and remembers what must never be."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.wrong: list[str] = []
        self.most = 0

    def look(self) -> None:
        """The rows of one moment, then the processes as they are after it."""
        with closing(Observer(self.ground.url)) as eye:
            picture = Picture(eye.everything())
        living = set(self.ground.marked().values())
        self.most = max(self.most, len(living))
        self.wrong += [*picture.broken(), *picture.over(), *picture.unleased(living)]

    def until(self, condition: object, seconds: float = PATIENCE) -> None:
        end = time.monotonic() + seconds
        while not condition():  # type: ignore[operator]
            self.look()
            assert time.monotonic() < end, "it did not happen in time"
            time.sleep(0.01)


def storm(ground: Ground, *, tasks: int, engines: int, kills: int, seed: int) -> Watch:
    """Short tasks, several engines, and a hand that kills them."""
    chance = random.Random(seed)
    ground.agent(front="max_concurrency: 3\n")
    seen = ground.root.parent / "seen"
    numbers = [
        ground.submit(
            "say begun",
            f"wait {seen}",
            f"sleep {chance.random() / 4:.2f}",
            "grandchild 600 deaf" if chance.random() < 0.2 else "say on",
            f"write f{n} done",
            files=[f"f{n}"],
        )
        for n in range(tasks)
    ]
    watch = Watch(ground)
    running = [ground.engine(slots=2) for _ in range(engines)]
    watch.until(lambda: watch.most)
    seen.touch()
    for _ in range(kills):
        pause = time.monotonic() + 0.2 + chance.random() * 0.6
        watch.until(lambda: time.monotonic() > pause)  # noqa: B023
        one = chance.randrange(engines)
        running[one].kill()
        running[one].wait()
        running[one] = ground.engine(slots=2)
    watch.until(ground.is_settled, seconds=4 * PATIENCE)
    names = [ground.root.parent / f"engine-{program.pid}" for program in running]
    wait_until(lambda: all(name.exists() for name in names))
    for program in running:
        program.send_signal(signal.SIGTERM)
    assert [program.wait(PATIENCE) for program in running] == [0] * engines
    watch.look()
    assert {ground.state(number) for number in numbers} == {State.DONE}
    for number in numbers:
        ground.assert_candidate_once(number)
    assert look(ground.url, "SELECT * FROM failures") == []
    # What the last one killed held may be nobody's yet: whoever comes next sees to it.
    ground.serve(ground.is_clean)
    ground.assert_nothing_left()
    return watch


@postgres_later
def test_in_a_storm_no_agent_runs_without_a_lease_and_every_task_is_done_once(
    either: Ground,
) -> None:
    watch = storm(either, tasks=10, engines=2, kills=3, seed=1)
    assert watch.wrong == []
    assert 0 < watch.most <= 3


@pytest.mark.chaos
@pytest.mark.skipif("WEFT_CHAOS" not in os.environ, reason="only by `make chaos`")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.timeout(600)
def test_in_a_long_storm(either: Ground, seed: int) -> None:
    assert storm(either, tasks=24, engines=3, kills=12, seed=seed).wrong == []


def suspended(ground: Ground, *, gone_after: float, build: str = "") -> Watch:
    """One engine is stopped beyond all deadlines, another does its work, then it comes back."""
    ground.retune(lease=0.5, gone_after=gone_after)
    task = ground.submit(
        "attempt 1: write a old",
        "attempt 1: grandchild 600 deaf",
        "attempt 1: hang",
        "say second",
        "sleep 1",
        "write a new",
    )
    first = ground.engine()
    wait_until(lambda: len(ground.marked()) == 2)
    ground.suspend(first)
    second = ground.engine(build=build)
    watch = Watch(ground)
    watch.until(lambda: ground.said(task) == ["second"])
    first.send_signal(signal.SIGCONT)
    watch.until(lambda: ground.state(task) is State.DONE)
    for program in (first, second):
        program.send_signal(signal.SIGTERM)
        assert program.wait(PATIENCE) == 0
    assert [one.outcome for one in ground.attempts(task)] == ["reaped", "success"]
    assert ground.content(task, "a") == "new\n"
    assert look(ground.url, "SELECT * FROM failures") == []
    return watch


@postgres_later
def test_a_weft_that_was_suspended_changes_nothing_when_it_comes_back(either: Ground) -> None:
    """suspended-then-resumed, expired-but-running, superseded-process-still-writes and
    late-owner-releases-successor at once."""
    assert suspended(either, gone_after=2.5).wrong == []
    either.assert_nothing_left()


def test_a_build_in_which_time_alone_frees_a_lease_runs_a_task_twice(ground: Ground) -> None:
    wrong = suspended(ground, gone_after=20, build="time frees").wrong
    assert any("twice" in one for one in wrong)
    assert any("without a lease" in one for one in wrong)


def test_a_worker_asked_to_stop_hands_its_tasks_back(ground: Ground) -> None:
    task = ground.submit("grandchild 600 deaf", "use 5 5 0.5", "say ready", "hang")
    program = ground.engine(SHUTDOWN_TIMEOUT="100")
    wait_until(lambda: ground.said(task) == ["ready"])
    late = ground.submit("write dir/b new", files=["dir/b"])
    program.send_signal(signal.SIGTERM)
    assert program.wait(PATIENCE) == 0
    assert ground.state(task) is State.READY
    assert ground.state(late) in (State.READY, State.DONE)
    assert look(ground.url, "SELECT * FROM failures") == []
    assert list_workers(ground.store, now=time.time()) == []
    ground.assert_nothing_left()


def test_a_worker_asked_to_stop_waits_for_what_runs(ground: Ground) -> None:
    task = ground.submit("say ready", "sleep 0.5", "write a new", files=["a"])
    program = ground.engine(SHUTDOWN_TIMEOUT="30000")
    wait_until(lambda: ground.said(task) == ["ready"])
    program.send_signal(signal.SIGINT)
    late = ground.submit("write dir/b new", files=["dir/b"])
    assert program.wait(PATIENCE) == 0
    assert (ground.state(task), ground.state(late)) == (State.DONE, State.READY)
    ground.assert_nothing_left()


def test_a_second_signal_does_not_wait(ground: Ground) -> None:
    ground.retune(kill_grace=600.0)
    task = ground.submit("ignore TERM", "say ready", "hang")
    program = ground.engine(SHUTDOWN_TIMEOUT="600000")
    wait_until(lambda: ground.said(task) == ["ready"])
    program.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    assert program.poll() is None
    program.send_signal(signal.SIGTERM)
    assert program.wait(PATIENCE) == 0
    assert ground.state(task) is State.READY
    ground.assert_nothing_left()


def test_a_second_signal_ends_a_set_up_too(ground: Ground) -> None:
    ground.tune('[workspace]\nsetup = "touch here; exec sleep 600"\n')
    task = ground.submit("write a new")
    program = ground.engine(SHUTDOWN_TIMEOUT="600000")
    wait_until(ground.marked)
    program.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    program.send_signal(signal.SIGTERM)
    assert program.wait(PATIENCE) == 0
    assert ground.state(task) is State.READY
    # A slow disk may leave the workspace to the next worker.
    ground.tune("")
    ground.serve(lambda: ground.is_settled() and ground.is_clean())
    ground.assert_nothing_left()


def weft_do(ground: Ground, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "weft", "do", "--agent", "scripted", *arguments],
        cwd=ground.root,
        env={
            **ground.environment,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "WEFT_STORE": ground.url,
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def test_an_interrupted_command_cancels_its_own_task(either: Ground) -> None:
    program = weft_do(either, "script: say ready\nscript: hang", SHUTDOWN_TIMEOUT="100")
    wait_until(lambda: look(either.url, "SELECT id FROM tasks") and either.said(1) == ["ready"])
    program.send_signal(signal.SIGINT)
    output, _ = program.communicate(timeout=PATIENCE)
    assert program.returncode == 130, output
    assert either.state(1) is State.CANCELLED
    either.assert_nothing_left()


def test_a_command_that_was_killed_is_gone_on_with_by_the_next(ground: Ground) -> None:
    first = weft_do(ground, "script: say one\nscript: sleep 1\nscript: write a new")
    wait_until(lambda: look(ground.url, "SELECT id FROM tasks") and ground.said(1) == ["one"])
    first.kill()
    first.communicate()
    second = weft_do(ground, "script: answer yes", "--files", "none", "--json")
    output, _ = second.communicate(timeout=PATIENCE)
    assert second.returncode == 0, output
    assert (ground.state(1), ground.state(2)) == (State.DONE, State.DONE)
    assert [one.number for one in ground.attempts(1)] == [1]
    assert ground.said(1) == ["one"]
    ground.assert_candidate_once(1)
    ground.assert_nothing_left()


def test_two_engines_share_the_limit_of_an_agent_and_death_frees_it(ground: Ground) -> None:
    """Each takes the full total only in builds whose limits are their own."""
    ground.agent(front="max_concurrency: 1\n")
    go = ground.root.parent / "go"
    tasks = [
        ground.submit("say on", f"wait {go}", f"write f{n} x", files=[f"f{n}"]) for n in range(4)
    ]
    watch = Watch(ground)
    engines = [ground.engine() for _ in range(2)]
    watch.until(lambda: watch.most and any(ground.said(task) for task in tasks))
    go.touch()
    engines[0].kill()
    watch.until(ground.is_settled)
    assert watch.wrong == []
    assert watch.most == 1
    assert {ground.state(task) for task in tasks} == {State.DONE}


def test_a_neighbour_that_dies_is_noticed_long_before_the_next_heartbeat(ground: Ground) -> None:
    """Its permit comes back by proof: the next heartbeat is not in this test."""
    ground.agent(front="max_concurrency: 1\n")
    ground.retune(lease=2400.0, heartbeat=600.0, gone_after=4800.0)
    task = ground.submit("say on", "attempt 1: sleep 600", "write a x")
    neighbour = ground.engine(slots=1)
    wait_until(lambda: ground.said(task))
    gone = NewWorker(
        id="~", slots=1, host=get_place().host, boot=get_place().boot, pid=1, pid_start=-1.0
    )
    register(ground.store, gone, now=time.time(), stated={})
    ground.engine(slots=1)
    wait_until(lambda: get_worker(ground.store, "~", now=0).left)  # its first look is over
    neighbour.kill()
    neighbour.wait()
    for pid in ground.marked():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(ground.is_settled)
    assert ground.state(task) is State.DONE


def test_an_attempt_of_ones_own_that_is_late_is_settled_and_not_done_anew(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its agent has ended, so nothing but the guard keeps the reaper from freeing it."""
    ground.retune(lease=0.05)  # over before the next renewal
    judged: list[str | None] = []
    swept, settle = reaper.sweep, RunningAttempt.settle

    def sweep(*arguments: Any, prove_dead: Callable[[Lease], str | None], **facts: Any) -> Any:
        def prove(lease: Lease) -> str | None:
            judged.append(prove_dead(lease))
            return judged[-1]

        return swept(*arguments, prove_dead=prove, **facts)

    def settle_late(attempt: RunningAttempt) -> State | None:
        before = len(judged)
        wait_until(lambda: len(judged) > before + 1)
        return settle(attempt)

    monkeypatch.setattr(engine, "sweep", sweep)
    monkeypatch.setattr(RunningAttempt, "settle", settle_late)
    task = ground.submit("write a x")
    ground.serve()
    assert ground.outcomes(task) == ["success"]
    ground.assert_candidate_once(task)


def cut_off(ground: Ground, *, tasks: int) -> None:
    """Every connection to the database is cut again and again while agents work."""
    numbers = [
        ground.submit(
            *(part for n in range(20) for part in (f"say {n}", "sleep 0.02")),
            f"write f{one} x",
            files=[f"f{one}"],
        )
        for one in range(tasks)
    ]
    chance = random.Random(tasks)
    cut = 0.0

    def during(_: object) -> None:
        nonlocal cut
        if time.monotonic() > cut:
            cut = time.monotonic() + chance.random() * 0.3
            with psycopg.connect(ground.url, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )

    ground.serve(during=during, seconds=3 * PATIENCE)
    for number in numbers:
        assert ground.state(number) is State.DONE
        # An admission whose answer was lost is freed without ever having started.
        assert set(ground.outcomes(number)) <= {"reaped", "success"}
        assert ground.said(number) == [str(n) for n in range(20)]
        ground.assert_candidate_once(number)
    assert look(ground.url, "SELECT * FROM failures") == []
    ground.assert_nothing_left()


@pytest.fixture
def served(tmp_path: Path, postgres_server: str) -> Iterator[Ground]:
    with fresh_database(postgres_server) as database:
        made = Ground(tmp_path / "project", database)
        yield made
        made.close()


def test_a_database_that_hangs_up_loses_and_doubles_nothing(served: Ground) -> None:
    cut_off(served, tasks=3)


@pytest.mark.chaos
@pytest.mark.skipif("WEFT_CHAOS" not in os.environ, reason="only by `make chaos`")
@pytest.mark.timeout(600)
def test_a_database_that_hangs_up_for_long(served: Ground) -> None:
    cut_off(served, tasks=30)


def test_the_block_that_breaks_takes_its_agents_along(ground: Ground) -> None:
    task = ground.submit("say ready", "hang")

    def until() -> bool:
        if ground.said(task) == ["ready"]:
            raise ZeroDivisionError
        return False

    with pytest.raises(BaseExceptionGroup) as caught:
        ground.serve(until)
    assert caught.group_contains(ZeroDivisionError)
    assert ground.state(task) is State.READY
    ground.assert_nothing_left()


def test_the_store_of_a_worker_that_left_names_it_no_more(ground: Ground, tmp_path: Path) -> None:
    program = ground.engine()
    name = tmp_path / f"engine-{program.pid}"
    wait_until(lambda: name.exists() and name.read_text())
    assert [one.id for one in list_workers(ground.store, now=time.time())] == [name.read_text()]
    program.send_signal(signal.SIGTERM)
    assert program.wait(PATIENCE) == 0
    assert list_workers(ground.store, now=time.time()) == []
