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

from attempt.attempt_project import AttemptProject
from databases import look
from stopped_process import stop_harmlessly
from wait_until import wait_until
from weft.errors import Refused
from weft.model import Outcome, State, TaskRequest
from weft.process import attempt_files
from weft.store.attempt_end import finish
from weft.store.attempt_reports import report
from weft.store.leases import list_open
from weft.store.tasks import cancel

LINES = 40
TALK = [part for n in range(LINES) for part in (f"say line {n}", "sleep 0.02")]
SAID = [f"line {n}" for n in range(LINES)]


def started(project: AttemptProject, task: int, attempt: int = 1) -> bool:
    return (project.directory(task, attempt) / attempt_files.WRAPPER).exists()


def kill(program: subprocess.Popen[bytes]) -> None:
    program.kill()
    program.wait()


def outcome_of(project: AttemptProject) -> tuple[object, ...]:
    """What recovery comes to, without the times and numbers of who did it."""
    tasks = look(project.url, "SELECT id, state, reason, result FROM tasks ORDER BY id")
    attempts = look(
        project.url, "SELECT task, number, outcome, candidate FROM attempts ORDER BY task, number"
    )
    leases = look(project.url, "SELECT * FROM leases WHERE state <> 'released'")
    return tasks, attempts, leases


@pytest.mark.parametrize("moment", ["talking", "ended"])
def test_a_killed_weft_is_followed_by_another(project: AttemptProject, moment: str) -> None:
    killed_and_followed(project, moment)


def test_a_weft_that_is_killed_while_it_settles_is_followed_by_another(
    either: AttemptProject,
) -> None:
    killed_and_followed(either, "settling")


def killed_and_followed(either: AttemptProject, moment: str) -> None:
    task = either.submit(*TALK, "write a new", "answer fine")
    first = either.engine()
    wait_until(lambda: len(either.said(task)) > 5)
    if moment != "talking":
        # Stopped, it cannot deal with what its agent does; nothing it holds expires yet.
        stop_harmlessly(first, either.url, either.root)
        wait_until((either.directory(task) / attempt_files.EXIT).exists)
    if moment == "settling":
        first.send_signal(signal.SIGCONT)
        branch = either.root / ".git/refs/weft/work/do/t1/1"
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


def test_one_that_is_killed_again_and_again_loses_and_doubles_no_line(
    project: AttemptProject,
) -> None:
    task = project.submit(*TALK, *TALK, "write a new")
    chance = random.Random(7)
    while project.state(task) is not State.DONE:
        seen = len(project.said(task))
        program = project.engine()
        wait_until(lambda: project.state(task) is State.DONE or len(project.said(task)) > seen)  # noqa: B023
        time.sleep(chance.random() * 0.2)
        kill(program)
    project.serve(lambda: project.is_settled() and project.is_clean())
    assert [one.number for one in project.attempts(task)] == [1]
    assert project.said(task) == SAID + SAID
    adoptions = project.events(task, "attempt_adopted")
    assert len(adoptions) >= 1
    fences = [event.data["fence"] for event in adoptions]
    assert fences == sorted(set(fences))
    project.assert_candidate_once(task)
    project.assert_nothing_left()


@pytest.mark.chaos
@pytest.mark.skipif("WEFT_CHAOS" not in os.environ, reason="only by `make chaos`")
@pytest.mark.timeout(600)
def test_killed_at_any_moment_around_its_agents_end(either: AttemptProject) -> None:
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
def test_weakened_builds_are_caught(project: AttemptProject, build: str, caught: str) -> None:
    project.retune(gone_after=2.0)
    task = project.submit("say one", "say two", "sleep 0.5", "say three", "write a new")
    first = project.engine(build=build)
    wait_until(lambda: project.said(task) == ["one", "two"])
    kill(first)
    second = project.engine(build=build)
    if caught == "stuck":
        wait_until(
            lambda: not project.living() and project.directory(task).joinpath("exit").exists()
        )
        wait_until(lambda: look(project.url, "SELECT * FROM workers WHERE departed IS NOT NULL"))
        assert project.state(task) is State.RUNNING
        assert list_open(project.store)
    else:
        wait_until(lambda: project.state(task) is State.DONE)
        assert project.said(task) != ["one", "two", "three"]
    kill(second)


def test_an_orphan_whose_task_was_cancelled_is_ended_with_all_it_started(
    project: AttemptProject,
) -> None:
    task = project.submit("grandchild 600 deaf", "ignore TERM", "say ready", "hang")
    program = project.engine()
    wait_until(lambda: project.said(task) == ["ready"])
    kill(program)
    assert len(project.living()) == 2
    cancel(project.store, task, now=time.time())
    project.serve(lambda: not list_open(project.store))
    assert project.state(task) is State.CANCELLED
    project.assert_nothing_left()


def test_why_an_agent_was_stopped_is_known_to_whoever_adopts_it(project: AttemptProject) -> None:
    project.retune(kill_grace=2.0, timeout_retries=1)
    task = project.submit(
        "attempt 1: ignore TERM", "attempt 1: hang", "write a new", request=TaskRequest(timeout=1.5)
    )
    program = project.engine()
    wait_until((project.directory(task) / "stop").exists)
    kill(program)
    project.serve()
    assert project.outcomes(task) == ["timeout", "success"]


def test_when_weft_stays_away_its_agents_end_and_that_is_no_failure(
    project: AttemptProject,
) -> None:
    project.retune(gone_after=1.0)
    task = project.submit("attempt 1: grandchild 600 deaf", "attempt 1: hang", "write a new")
    program = project.engine()
    wait_until(lambda: len(project.living()) == 2)
    kill(program)
    wait_until((project.directory(task) / attempt_files.EXIT).exists)
    assert project.living() == []
    record = json.loads((project.directory(task) / attempt_files.EXIT).read_text())
    assert record["why"] == "forsaken"
    project.serve()
    assert look(project.url, "SELECT * FROM failures") == []
    assert [one.outcome for one in project.attempts(task)][1:] == ["success"]
    project.assert_nothing_left()


def test_what_was_only_being_set_up_is_ended_and_freed(project: AttemptProject) -> None:
    seconds = str(600 + os.getpid() / 1e7)
    go = project.root.parent / "go"
    project.tune(
        f'[gate]\nsandbox = "off"\n[workspace]\nsetup = "test -e {go} || exec sleep {seconds}"\n'
    )
    task = project.submit("write a new")
    program = project.engine()

    def sleepers() -> list[psutil.Process]:
        return [one for one in psutil.process_iter() if seconds in _words(one)]

    wait_until(sleepers)
    kill(program)
    assert sleepers()
    go.touch()
    project.serve()
    assert not sleepers()
    assert [one.outcome for one in project.attempts(task)] == ["reaped", "success"]
    assert look(project.url, "SELECT * FROM failures") == []
    project.assert_nothing_left()


def test_an_attempt_whose_workspace_is_gone_is_ended_and_done_anew(project: AttemptProject) -> None:
    task = project.submit("attempt 1: hang", "write a new")
    program = project.engine()
    wait_until(lambda: started(project, task) and project.living())
    kill(program)
    for one in (project.root / ".git/weft/workspaces").glob("[0-9]*"):
        one.rename(project.root.parent / "moved")
    project.serve()
    assert [one.outcome for one in project.attempts(task)] == ["unadoptable", "success"]
    assert project.living() == []


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
