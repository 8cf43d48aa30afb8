"""weft is killed, and another one goes on: the same attempt, every line once, one outcome."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time

import psutil
import pytest

from attempt.attempt_project import Ground
from databases import look
from wait_until import wait_until
from weft.errors import Refused
from weft.model import Outcome, State, TaskRequest
from weft.process import attempt_files
from weft.store.leases import finish, list_open, report
from weft.store.tasks import cancel

LINES = 40
TALK = [part for n in range(LINES) for part in (f"say line {n}", "sleep 0.02")]
SAID = [f"line {n}" for n in range(LINES)]


def started(ground: Ground, task: int, attempt: int = 1) -> bool:
    return (ground.directory(task, attempt) / attempt_files.WRAPPER).exists()


def kill(program: subprocess.Popen[bytes]) -> None:
    program.kill()
    program.wait()


def outcome_of(ground: Ground) -> tuple[object, ...]:
    """What recovery comes to, without the times and numbers of who did it."""
    tasks = look(ground.url, "SELECT id, state, reason, result FROM tasks ORDER BY id")
    attempts = look(
        ground.url, "SELECT task, number, outcome, candidate FROM attempts ORDER BY task, number"
    )
    leases = look(ground.url, "SELECT * FROM leases WHERE state <> 'released'")
    return tasks, attempts, leases


@pytest.mark.parametrize("moment", ["talking", "ended"])
def test_a_killed_weft_is_followed_by_another(ground: Ground, moment: str) -> None:
    killed_and_followed(ground, moment)


def test_a_weft_that_is_killed_while_it_settles_is_followed_by_another(either: Ground) -> None:
    killed_and_followed(either, "settling")


def killed_and_followed(either: Ground, moment: str) -> None:
    task = either.submit(*TALK, "write a new", "answer fine")
    first = either.engine()
    wait_until(lambda: len(either.said(task)) > 5)
    if moment != "talking":
        # Stopped, it cannot deal with what its agent does; nothing it holds expires yet.
        either.suspend(first)
        wait_until((either.directory(task) / attempt_files.EXIT).exists)
    if moment == "settling":
        first.send_signal(signal.SIGCONT)
        branch = either.root / ".git/refs/heads/weft-work/do/t1/1"
        before = branch.read_text()
        while first.poll() is None and branch.read_text() == before:
            time.sleep(0.0005)
    lease = next(iter(list_open(either.store)), None)
    kill(first)
    either.serve()
    [attempt] = either.attempts(task)
    assert (attempt.number, attempt.outcome) == (1, "success")
    assert either.state(task) is State.DONE
    assert either.said(task) == SAID
    assert either.content(task, "a") == "new\n"
    either.assert_candidate_once(task)
    if lease is not None and attempt.fence != lease.fence:
        assert attempt.fence > lease.fence
        with pytest.raises(Refused):
            report(either.store, lease.fence, {"late": True}, now=time.time())
        with pytest.raises(Refused):
            finish(either.store, lease.fence, Outcome(state=State.FAILED, kind="crash"), now=1.0)
    else:
        assert moment == "settling"  # the outcome was in the store already
    after = outcome_of(either)
    either.serve(either.is_clean)
    either.serve(lambda: True)
    assert outcome_of(either) == after
    either.assert_nothing_left()


def test_one_that_is_killed_again_and_again_loses_and_doubles_no_line(ground: Ground) -> None:
    task = ground.submit(*TALK, *TALK, "write a new")
    chance = random.Random(7)
    while ground.state(task) is not State.DONE:
        seen = len(ground.said(task))
        program = ground.engine()
        wait_until(lambda: ground.state(task) is State.DONE or len(ground.said(task)) > seen)  # noqa: B023
        time.sleep(chance.random() * 0.2)
        kill(program)
    ground.serve(lambda: ground.is_settled() and ground.is_clean())
    assert [one.number for one in ground.attempts(task)] == [1]
    assert ground.said(task) == SAID + SAID
    adoptions = ground.events(task, "attempt_adopted")
    assert len(adoptions) >= 1
    fences = [event.data["fence"] for event in adoptions]
    assert fences == sorted(set(fences))
    ground.assert_candidate_once(task)
    ground.assert_nothing_left()


@pytest.mark.chaos
@pytest.mark.skipif("WEFT_CHAOS" not in os.environ, reason="only by `make chaos`")
@pytest.mark.timeout(600)
def test_killed_at_any_moment_around_its_agents_end(either: Ground) -> None:
    chance = random.Random(3)
    for number in range(1, 21):
        task = either.submit("say one", "sleep 0.1", "say two", f"write f{number} x")
        program = either.engine()
        wait_until((either.directory(task) / attempt_files.EXIT).exists)
        time.sleep(chance.random() * 0.25)
        kill(program)
        either.serve()
        assert [one.outcome for one in either.attempts(task)] == ["success"]
        assert either.said(task) == ["one", "two"]
        either.assert_candidate_once(task)
        either.serve(either.is_clean)
        either.assert_nothing_left()


@pytest.mark.parametrize(
    ("build", "caught"), [("no offset", "lines are doubled"), ("forget", "stuck")]
)
def test_weakened_builds_are_caught(ground: Ground, build: str, caught: str) -> None:
    ground.retune(gone_after=2.0)
    task = ground.submit("say one", "say two", "sleep 0.5", "say three", "write a new")
    first = ground.engine(build=build)
    wait_until(lambda: ground.said(task) == ["one", "two"])
    kill(first)
    second = ground.engine(build=build)
    if caught == "stuck":
        wait_until(lambda: not ground.living() and ground.directory(task).joinpath("exit").exists())
        wait_until(lambda: look(ground.url, "SELECT * FROM workers WHERE departed IS NOT NULL"))
        assert ground.state(task) is State.RUNNING
        assert list_open(ground.store)
    else:
        wait_until(lambda: ground.state(task) is State.DONE)
        assert ground.said(task) != ["one", "two", "three"]
    kill(second)


def test_an_orphan_whose_task_was_cancelled_is_ended_with_all_it_started(ground: Ground) -> None:
    task = ground.submit("grandchild 600 deaf", "ignore TERM", "say ready", "hang")
    program = ground.engine()
    wait_until(lambda: ground.said(task) == ["ready"])
    kill(program)
    assert len(ground.living()) == 2
    cancel(ground.store, task, now=time.time())
    ground.serve(lambda: not list_open(ground.store))
    assert ground.state(task) is State.CANCELLED
    ground.assert_nothing_left()


def test_why_an_agent_was_stopped_is_known_to_whoever_adopts_it(ground: Ground) -> None:
    ground.retune(kill_grace=2.0, timeout_retries=1)
    task = ground.submit(
        "attempt 1: ignore TERM", "attempt 1: hang", "write a new", request=TaskRequest(timeout=1.5)
    )
    program = ground.engine()
    wait_until((ground.directory(task) / "stop").exists)
    kill(program)
    ground.serve()
    assert ground.outcomes(task) == ["timeout", "success"]


def test_when_weft_stays_away_its_agents_end_and_that_is_no_failure(ground: Ground) -> None:
    ground.retune(gone_after=1.0)
    task = ground.submit("attempt 1: grandchild 600 deaf", "attempt 1: hang", "write a new")
    program = ground.engine()
    wait_until(lambda: len(ground.living()) == 2)
    kill(program)
    wait_until((ground.directory(task) / attempt_files.EXIT).exists)
    assert ground.living() == []
    record = json.loads((ground.directory(task) / attempt_files.EXIT).read_text())
    assert record["why"] == "forsaken"
    ground.serve()
    assert look(ground.url, "SELECT * FROM failures") == []
    assert [one.outcome for one in ground.attempts(task)][1:] == ["success"]
    ground.assert_nothing_left()


def test_what_was_only_being_set_up_is_ended_and_freed(ground: Ground) -> None:
    seconds = str(600 + os.getpid() / 1e7)
    go = ground.root.parent / "go"
    ground.tune(f'[workspace]\nsetup = "test -e {go} || exec sleep {seconds}"\n')
    task = ground.submit("write a new")
    program = ground.engine()

    def sleepers() -> list[psutil.Process]:
        return [one for one in psutil.process_iter() if seconds in _words(one)]

    wait_until(sleepers)
    kill(program)
    assert sleepers()
    go.touch()
    ground.serve()
    assert not sleepers()
    assert [one.outcome for one in ground.attempts(task)] == ["reaped", "success"]
    assert look(ground.url, "SELECT * FROM failures") == []
    ground.assert_nothing_left()


def test_an_attempt_whose_workspace_is_gone_is_ended_and_done_anew(ground: Ground) -> None:
    task = ground.submit("attempt 1: hang", "write a new")
    program = ground.engine()
    wait_until(lambda: started(ground, task) and ground.living())
    kill(program)
    for one in (ground.root / ".git/weft/workspaces").glob("[0-9]*"):
        one.rename(ground.root.parent / "moved")
    ground.serve()
    assert [one.outcome for one in ground.attempts(task)] == ["unadoptable", "success"]
    assert ground.living() == []


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
