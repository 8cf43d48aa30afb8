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

from attempt.attempt_project import AttemptProject, either, project, url
from databases import fresh_database, look, postgres_later
from forked_python import ForkedPython
from observer import Observer, Picture
from stopped_process import stop_harmlessly
from wait_until import PATIENCE, wait_until
from weft.attempt.attempt import RunningAttempt
from weft.model import Lease, NewWorker, State
from weft.process.process_identity import get_place
from weft.store.workers import get_worker, list_workers, register
from weft.worker import engine, reaper

__all__ = ["either", "project", "url"]


class Watch:
    """Looks at processes and leases from outside, and remembers what must never be."""

    def __init__(self, project: AttemptProject) -> None:
        self.project = project
        self.wrong: list[str] = []
        self.most = 0

    def look(self) -> None:
        """The rows of one moment, then the processes as they are after it."""
        with closing(Observer(self.project.url)) as eye:
            picture = Picture(eye.everything())
        living = set(self.project.marked().values())
        self.most = max(self.most, len(living))
        self.wrong += [*picture.broken(), *picture.over(), *picture.unleased(living)]

    def until(self, condition: object, seconds: float = PATIENCE) -> None:
        end = time.monotonic() + seconds
        while not condition():  # type: ignore[operator]
            self.look()
            assert time.monotonic() < end, "it did not happen in time"
            time.sleep(0.01)


def storm(project: AttemptProject, *, tasks: int, engines: int, kills: int, seed: int) -> Watch:
    """Short tasks, several engines, and a hand that kills them."""
    chance = random.Random(seed)
    project.agent(front="max_concurrency: 3\n")
    seen = project.root.parent / "seen"
    numbers = [
        project.submit(
            "say begun",
            f"wait {seen}",
            f"sleep {chance.random() / 4:.2f}",
            "grandchild 600 deaf" if chance.random() < 0.2 else "say on",
            f"write f{n} done",
            files=[f"f{n}"],
        )
        for n in range(tasks)
    ]
    watch = Watch(project)
    running = [project.engine(slots=2) for _ in range(engines)]
    watch.until(lambda: watch.most)
    seen.touch()
    for _ in range(kills):
        pause = time.monotonic() + 0.2 + chance.random() * 0.6
        watch.until(lambda: time.monotonic() > pause)  # noqa: B023
        one = chance.randrange(engines)
        running[one].kill()
        running[one].wait()
        running[one] = project.engine(slots=2)
    watch.until(project.is_settled, seconds=4 * PATIENCE)
    names = [project.root.parent / f"engine-{program.pid}" for program in running]
    wait_until(lambda: all(name.exists() for name in names))
    for program in running:
        program.send_signal(signal.SIGTERM)
    assert [program.wait(PATIENCE) for program in running] == [0] * engines
    watch.look()
    assert {project.state(number) for number in numbers} == {State.DONE}
    for number in numbers:
        project.assert_candidate_once(number)
    assert look(project.url, "SELECT * FROM failures") == []
    # What the last one killed held may be nobody's yet: whoever comes next sees to it.
    project.serve(project.is_clean)
    project.assert_nothing_left()
    return watch


@postgres_later
def test_in_a_storm_no_agent_runs_without_a_lease_and_every_task_is_done_once(
    either: AttemptProject,
) -> None:
    watch = storm(either, tasks=10, engines=2, kills=3, seed=1)
    assert watch.wrong == []
    assert 0 < watch.most <= 3


@pytest.mark.chaos
@pytest.mark.skipif("WEFT_CHAOS" not in os.environ, reason="only by `make chaos`")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.timeout(600)
@pytest.mark.each_store
def test_in_a_long_storm(either: AttemptProject, seed: int) -> None:
    assert storm(either, tasks=24, engines=3, kills=12, seed=seed).wrong == []


def suspended(project: AttemptProject, *, gone_after: float, build: str = "") -> Watch:
    """One engine is stopped beyond all deadlines, another does its work, then it comes back."""
    project.retune(lease=0.5, gone_after=gone_after)
    task = project.submit(
        "attempt 1: write a old",
        "attempt 1: grandchild 600 deaf",
        "attempt 1: hang",
        "say second",
        "sleep 1",
        "write a new",
    )
    first = project.engine()
    wait_until(lambda: len(project.marked()) == 2)
    stop_harmlessly(first, project.url, project.root)
    second = project.engine(build=build)
    watch = Watch(project)
    watch.until(lambda: project.said(task) == ["second"])
    first.send_signal(signal.SIGCONT)
    watch.until(lambda: project.state(task) is State.DONE)
    for program in (first, second):
        program.send_signal(signal.SIGTERM)
        assert program.wait(PATIENCE) == 0
    assert [one.outcome for one in project.attempts(task)] == ["reaped", "success"]
    assert project.content(task, "a") == "new\n"
    assert look(project.url, "SELECT * FROM failures") == []
    return watch


@postgres_later
def test_a_weft_that_was_suspended_changes_nothing_when_it_comes_back(
    either: AttemptProject,
) -> None:
    """suspended-then-resumed, expired-but-running, superseded-process-still-writes and
    late-owner-releases-successor at once."""
    assert suspended(either, gone_after=2.5).wrong == []
    either.assert_nothing_left()


def test_a_build_in_which_time_alone_frees_a_lease_runs_a_task_twice(
    project: AttemptProject,
) -> None:
    wrong = suspended(project, gone_after=20, build="time frees").wrong
    assert any("twice" in one for one in wrong)
    assert any("without a lease" in one for one in wrong)


def test_a_worker_asked_to_stop_hands_its_tasks_back(project: AttemptProject) -> None:
    task = project.submit("grandchild 600 deaf", "use 5 5 0.5", "say ready", "hang")
    program = project.engine(SHUTDOWN_TIMEOUT="100")
    wait_until(lambda: project.said(task) == ["ready"])
    late = project.submit("write dir/b new", files=["dir/b"])
    program.send_signal(signal.SIGTERM)
    assert program.wait(PATIENCE) == 0
    assert project.state(task) is State.READY
    assert project.state(late) in (State.READY, State.DONE)
    assert look(project.url, "SELECT * FROM failures") == []
    assert list_workers(project.store, now=time.time()) == []
    project.assert_nothing_left()


def test_a_worker_asked_to_stop_waits_for_what_runs(project: AttemptProject) -> None:
    task = project.submit("say ready", "sleep 0.5", "write a new", files=["a"])
    program = project.engine(SHUTDOWN_TIMEOUT="30000")
    wait_until(lambda: project.said(task) == ["ready"])
    program.send_signal(signal.SIGINT)
    late = project.submit("write dir/b new", files=["dir/b"])
    assert program.wait(PATIENCE) == 0
    assert (project.state(task), project.state(late)) == (State.DONE, State.READY)
    project.assert_nothing_left()


def test_a_second_signal_does_not_wait(project: AttemptProject) -> None:
    project.retune(kill_grace=600.0)
    task = project.submit("ignore TERM", "say ready", "hang")
    program = project.engine(SHUTDOWN_TIMEOUT="600000")
    wait_until(lambda: project.said(task) == ["ready"])
    program.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    assert program.poll() is None
    program.send_signal(signal.SIGTERM)
    assert program.wait(PATIENCE) == 0
    assert project.state(task) is State.READY
    project.assert_nothing_left()


def test_a_second_signal_ends_a_set_up_too(project: AttemptProject) -> None:
    project.tune('[workspace]\nsetup = "touch here; exec sleep 600"\n')
    task = project.submit("write a new")
    program = project.engine(SHUTDOWN_TIMEOUT="600000")
    wait_until(project.marked)
    program.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    program.send_signal(signal.SIGTERM)
    assert program.wait(PATIENCE) == 0
    assert project.state(task) is State.READY
    # A slow disk may leave the workspace to the next worker.
    project.tune("")
    project.serve(lambda: project.is_settled() and project.is_clean())
    project.assert_nothing_left()


def weft_do(
    project: AttemptProject, *arguments: str, **environment: str
) -> subprocess.Popen[bytes]:
    return ForkedPython[bytes](
        [sys.executable, "-m", "weft", "do", "--agent", "scripted", *arguments],
        cwd=project.root,
        env={
            **project.environment,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "WEFT_STORE": project.url,
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def test_an_interrupted_command_cancels_its_own_task(either: AttemptProject) -> None:
    program = weft_do(either, "script: say ready\nscript: hang", SHUTDOWN_TIMEOUT="100")
    wait_until(lambda: look(either.url, "SELECT id FROM tasks") and either.said(1) == ["ready"])
    program.send_signal(signal.SIGINT)
    output, _ = program.communicate(timeout=PATIENCE)
    assert program.returncode == 130, output
    assert either.state(1) is State.CANCELLED
    either.assert_nothing_left()


def test_a_command_that_was_killed_is_gone_on_with_by_the_next(project: AttemptProject) -> None:
    first = weft_do(project, "script: say one\nscript: sleep 1\nscript: write a new")
    wait_until(lambda: look(project.url, "SELECT id FROM tasks") and project.said(1) == ["one"])
    first.kill()
    first.communicate()
    second = weft_do(project, "script: answer yes", "--files", "none", "--json")
    output, _ = second.communicate(timeout=PATIENCE)
    assert second.returncode == 0, output
    assert (project.state(1), project.state(2)) == (State.DONE, State.DONE)
    assert [one.number for one in project.attempts(1)] == [1]
    assert project.said(1) == ["one"]
    project.assert_candidate_once(1)
    project.assert_nothing_left()


def test_two_engines_share_the_limit_of_an_agent_and_death_frees_it(
    project: AttemptProject,
) -> None:
    """Each takes the full total only in builds whose limits are their own."""
    project.agent(front="max_concurrency: 1\n")
    go = project.root.parent / "go"
    tasks = [
        project.submit("say on", f"wait {go}", f"write f{n} x", files=[f"f{n}"]) for n in range(4)
    ]
    watch = Watch(project)
    engines = [project.engine() for _ in range(2)]
    watch.until(lambda: watch.most and any(project.said(task) for task in tasks))
    go.touch()
    engines[0].kill()
    watch.until(project.is_settled)
    assert watch.wrong == []
    assert watch.most == 1
    assert {project.state(task) for task in tasks} == {State.DONE}


def test_a_neighbour_that_dies_is_noticed_long_before_the_next_heartbeat(
    project: AttemptProject,
) -> None:
    """Its permit comes back by proof: the next heartbeat is not in this test."""
    project.agent(front="max_concurrency: 1\n")
    project.retune(lease=2400.0, heartbeat=600.0, gone_after=4800.0)
    task = project.submit("say on", "attempt 1: sleep 600", "write a x")
    neighbour = project.engine(slots=1)
    wait_until(lambda: project.said(task))
    gone = NewWorker(
        id="~", slots=1, host=get_place().host, boot=get_place().boot, pid=1, pid_start=-1.0
    )
    register(project.store, gone, now=time.time(), stated={})
    project.engine(slots=1)
    wait_until(lambda: get_worker(project.store, "~", now=0).left)  # its first look is over
    neighbour.kill()
    neighbour.wait()
    for pid in project.marked():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(project.is_settled)
    assert project.state(task) is State.DONE


def test_an_attempt_of_ones_own_that_is_late_is_settled_and_not_done_anew(
    project: AttemptProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its agent has ended, so nothing but the guard keeps the reaper from freeing it."""
    project.retune(lease=0.05)  # over before the next renewal
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
    task = project.submit("write a x")
    project.serve()
    assert project.outcomes(task) == ["success"]
    project.assert_candidate_once(task)


def cut_off(project: AttemptProject, *, tasks: int) -> None:
    """Every connection to the database is cut again and again while agents work."""
    numbers = [
        project.submit(
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
            with psycopg.connect(project.url, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )

    project.serve(during=during, seconds=3 * PATIENCE)
    for number in numbers:
        assert project.state(number) is State.DONE
        # An admission whose answer was lost is freed without ever having started.
        assert set(project.outcomes(number)) <= {"reaped", "success"}
        assert project.said(number) == [str(n) for n in range(20)]
        project.assert_candidate_once(number)
    assert look(project.url, "SELECT * FROM failures") == []
    project.assert_nothing_left()


@pytest.fixture
def served(tmp_path: Path, postgres_server: str) -> Iterator[AttemptProject]:
    with fresh_database(postgres_server) as database:
        made = AttemptProject(tmp_path / "project", database)
        yield made
        made.close()


def test_a_database_that_hangs_up_loses_and_doubles_nothing(served: AttemptProject) -> None:
    cut_off(served, tasks=3)


@pytest.mark.chaos
@pytest.mark.skipif("WEFT_CHAOS" not in os.environ, reason="only by `make chaos`")
@pytest.mark.timeout(600)
def test_a_database_that_hangs_up_for_long(served: AttemptProject) -> None:
    cut_off(served, tasks=30)


def test_the_block_that_breaks_takes_its_agents_along(project: AttemptProject) -> None:
    task = project.submit("say ready", "hang")

    def until() -> bool:
        if project.said(task) == ["ready"]:
            raise ZeroDivisionError
        return False

    with pytest.raises(BaseExceptionGroup) as caught:
        project.serve(until)
    assert caught.group_contains(ZeroDivisionError)
    assert project.state(task) is State.READY
    project.assert_nothing_left()


def test_the_store_of_a_worker_that_left_names_it_no_more(
    project: AttemptProject, tmp_path: Path
) -> None:
    program = project.engine()
    name = tmp_path / f"engine-{program.pid}"
    wait_until(lambda: name.exists() and name.read_text())
    assert [one.id for one in list_workers(project.store, now=time.time())] == [name.read_text()]
    program.send_signal(signal.SIGTERM)
    assert program.wait(PATIENCE) == 0
    assert list_workers(project.store, now=time.time()) == []
