"""kill -9 of weft and of wrappers: no agent and no line is lost (invariants 5, 28, 29)."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from forked_python import ForkedPython
from process.supervision import Stage
from wait_until import PATIENCE, wait_until
from weft.process import attempt_files, process_table
from weft.process.agent_process import StopReason, attach, make_order
from weft.process.death_proof import find_strays, is_proved_dead, prove_dead
from weft.process.process_identity import boottime, get_place
from weft.process.process_table import Process

SUPERVISOR = Path(__file__).with_name("supervisor_program.py")
PATHS = os.pathsep.join([str(SUPERVISOR.parent.parent), *filter(None, sys.path)])


def supervise(stage: Stage, build: str, count: int) -> subprocess.Popen[bytes]:
    stage.directory.with_name("begun").unlink(missing_ok=True)
    words = (build, str(stage.directory), stage.token, stage.marker, str(count))
    return ForkedPython[bytes](
        [sys.executable, str(SUPERVISOR), *words],
        env={**os.environ, "PYTHONPATH": PATHS},
    )


def kill_again_and_again(stage: Stage, build: str, count: int, seed: int) -> int:
    """Supervise to the end through kills at random moments; returns how many there were."""
    chance = random.Random(seed)
    kills = 0
    while True:
        supervisor = supervise(stage, build, count)
        # The supervisor lives until its agent does: a start that is cut off is another test.
        wait_until(lambda: (stage.directory / attempt_files.STDOUT).exists() and stage.output())
        try:
            supervisor.wait(chance.random() * 0.3 if kills < 6 else 60)
        except subprocess.TimeoutExpired:
            supervisor.kill()
            supervisor.wait()
            kills += 1
        else:
            assert supervisor.returncode == 0
            return kills


def ledger(stage: Stage) -> list[str]:
    text = stage.directory.with_name("ledger").read_text()
    return [record.split(" ", 1)[1] for record in text.splitlines()]


LONGER = pytest.param(
    8,
    marks=[
        pytest.mark.chaos,
        pytest.mark.skipif("WEFT_CHAOS" not in os.environ, reason="the longer version: make chaos"),
    ],
)


@pytest.mark.parametrize("times", [1, LONGER])
def test_no_line_is_lost_or_doubled_however_often_weft_is_killed(
    tmp_path: Path, stage: Stage, times: int
) -> None:
    for number in range(times):
        (tmp_path / str(number)).mkdir()
        check_kills(Stage(tmp_path / str(number) / "attempt", stage.launcher), seed=29 + number)


def check_kills(stage: Stage, seed: int) -> None:
    kills = kill_again_and_again(stage, "real", 4000, seed)
    assert kills >= 1
    printed = stage.output().split("\n")
    assert printed[-1] == "the end"
    assert len(printed) == 4001
    assert ledger(stage) == printed
    ended = attach(stage.directory).ended()
    assert ended is not None
    assert (ended.why, ended.code) == (StopReason.ENDED, 0)


def test_a_weakened_supervisor_that_keeps_no_offset_is_caught(stage: Stage) -> None:
    supervisor = supervise(stage, "weak", 2000)
    wait_until(lambda: stage.directory.with_name("ledger").exists() and len(ledger(stage)) > 10)
    supervisor.kill()
    supervisor.wait()
    seen = len(stage.output())
    wait_until(lambda: len(stage.output()) > seen + 10_000)  # printed while no weft ran
    supervisor = supervise(stage, "weak", 2000)
    assert supervisor.wait(PATIENCE) == 0
    assert ledger(stage) != stage.output().split("\n")


def test_killed_at_any_moment_of_a_start_weft_leaves_what_can_be_found_and_ended(
    tmp_path: Path, stage: Stage
) -> None:
    """create-then-write-window: from the first file to the running agent."""
    chance = random.Random(28)
    for number in range(4):
        place = tmp_path / str(number)
        place.mkdir()
        attempt = Stage(place / "attempt", stage.launcher)
        supervisor = supervise(attempt, "real", 10**9)
        wait_until((place / "begun").exists)
        time.sleep(chance.random() * 0.15)
        supervisor.kill()
        supervisor.wait()
        if (attempt.directory / attempt_files.ATTEMPT).exists():
            anyio.run(attach(attempt.directory).stop)
        # An order that comes too late has the lock for as long as it takes to be refused.
        wait_until(lambda: is_proved_dead(attempt.directory, attempt.marker))  # noqa: B023
        assert attempt.living() == []
        # A second recovery changes no record, and a late order starts no agent.
        assert is_proved_dead(attempt.directory, attempt.marker)
        assert attempt.living() == []


Proof = Callable[[Path, str], bool]


def orphan(stage: Stage) -> Process:
    """Return the agent at work of an orchestrator that was killed."""
    supervisor = supervise(stage, "real", 10**9)
    wait_until(
        lambda: (stage.directory / attempt_files.STDOUT).exists() and len(stage.output()) > 100
    )
    orchestrator = process_table.find_process(supervisor.pid)
    assert orchestrator is not None
    supervisor.kill()
    supervisor.wait()
    return orchestrator


def check_orphan(stage: Stage, is_dead: Proof) -> None:
    """Assert that a living agent is not taken for dead, and an ended agent is."""
    taken_for_dead = is_dead(stage.directory, stage.marker)
    alive = bool(stage.living())
    running = attach(stage.directory)
    ended = running.ended()
    assert anyio.run(running.stop).why is StopReason.ASKED
    assert stage.living() == []
    assert (alive, ended) == (True, None)
    assert not taken_for_dead
    assert is_dead(stage.directory, stage.marker)


def test_children_of_a_killed_orchestrator_are_found_alive_and_then_ended(
    stage: Stage, tmp_path: Path
) -> None:
    """orchestrator-killed-children-live.

    Weakened: a build that takes the death of the parent for that of its children.
    """
    orphan(stage)
    check_orphan(stage, is_proved_dead)
    (tmp_path / "weak").mkdir()
    weak = Stage(tmp_path / "weak" / "attempt", stage.launcher)
    orchestrator = orphan(weak)
    with pytest.raises(AssertionError, match="not True"):
        check_orphan(weak, lambda *_: not process_table.is_alive(orchestrator))


@pytest.mark.parametrize("own", ["stay", "ignore"])
def test_an_agent_whose_wrapper_was_killed_is_alive_until_weft_ends_it(
    stage: Stage, own: str
) -> None:
    running = stage.start_ready(stage.tree(own, "child", "stubborn", "daemon", "closed"))
    stage.wrapper().kill()
    assert running.ended() is None
    assert not is_proved_dead(stage.directory, stage.marker)
    ended = anyio.run(running.wait_ended)
    assert (ended.why, ended.code, ended.signal) == (StopReason.LOST, None, None)
    assert stage.living() == []
    assert is_proved_dead(stage.directory, stage.marker)


@pytest.mark.parametrize("kind", ["child", "daemon", "closed"])
def test_one_survivor_is_enough_to_be_alive(stage: Stage, kind: str) -> None:
    """Each sort of evidence by itself: the lock, which `closed` has let go, and the marker."""
    stage.start_ready(stage.tree("stay", kind))
    wrapper, agent = stage.wrapper(), stage.agent()
    wrapper.kill()
    agent.kill()
    wait_until(lambda: len(stage.living()) == 1)
    assert not is_proved_dead(stage.directory, stage.marker)
    assert [process.pid for process in find_strays(stage.directory, stage.marker)] == [
        process.pid for process in stage.living()
    ]
    stage.clear()
    wait_until(lambda: is_proved_dead(stage.directory, stage.marker))


def test_a_stray_known_only_by_its_session_is_found(stage: Stage) -> None:
    """It has no marker and no lock, and its wrapper is dead; the agent still leads its session."""
    stage.start_ready(stage.tree("stay", "unmarked"))
    stage.wrapper().kill()
    strays = {process.pid for process in find_strays(stage.directory, stage.marker)}
    assert {process.pid for process in stage.living()} <= strays
    assert len(stage.living()) == 2


def is_dead_by_lock_alone(directory: Path) -> bool:
    """A weakened proof, as if every program kept the descriptors it inherits."""
    lock = attempt_files.take_lock(str(directory))
    if lock is not None:
        os.close(lock)
    return lock is not None


def test_a_proof_by_the_lock_alone_is_caught(stage: Stage) -> None:
    stage.start_ready(stage.tree("stay", "closed"))
    stage.wrapper().kill()
    stage.agent().kill()
    wait_until(lambda: is_dead_by_lock_alone(stage.directory))
    assert stage.living()  # which the weakened proof calls dead
    assert not is_proved_dead(stage.directory, stage.marker)


def test_many_are_proved_by_one_look(tmp_path: Path, stage: Stage) -> None:
    alive = stage.start_ready(stage.tree("stay"))
    never = {tmp_path / f"never-{number}": f"never-{number}" for number in range(5)}
    assert prove_dead({stage.directory: stage.marker, **never}) == set(never)
    alive.kill()
    anyio.run(alive.wait_ended)
    # Its wrapper writes the record of the end last, and is gone a moment later.
    wait_until(lambda: prove_dead({stage.directory: stage.marker}) == {stage.directory})


def test_what_was_proved_dead_never_starts_afterwards(stage: Stage) -> None:
    """An order may be under way while its sender is dead and proved so."""
    assert is_proved_dead(stage.directory, stage.marker)
    with pytest.raises(Exception, match="did not start"):
        stage.start(stage.tree("stay"))
    assert stage.living() == []
    ended = attach(stage.directory).ended()
    assert ended is not None
    assert ended.why is StopReason.LOST


def test_nothing_is_proved_about_processes_that_cannot_be_seen_from_here(stage: Stage) -> None:
    running = stage.start_ready(stage.tree("stay"))
    anyio.run(running.stop)
    path = str(stage.directory / attempt_files.ATTEMPT)
    record = attempt_files.find_record(path)
    assert record is not None
    attempt_files.write_record(path, {**record, "boot": "another boot"})
    assert not is_proved_dead(stage.directory, stage.marker)


def test_a_pid_that_is_used_again_is_neither_taken_for_the_agent_nor_signalled(
    stage: Stage,
) -> None:
    """pid-reuse: the record names a pid that belongs to another process by now."""
    running = stage.start_ready(stage.tree("stay"))
    anyio.run(running.stop)
    innocent = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        now = process_table.find_process(innocent.pid)
        assert now is not None
        earlier = {"pid": innocent.pid, "start": now.start - 1}
        attempt_files.write_record(
            str(stage.directory / attempt_files.WRAPPER), {**earlier, "cgroup": None}
        )
        attempt_files.write_record(str(stage.directory / attempt_files.AGENT), earlier)
        (stage.directory / attempt_files.EXIT).unlink()
        again = attach(stage.directory)
        again.renew(boottime())
        again.ask_to_stop()
        again.kill()
        assert find_strays(stage.directory, stage.marker) == []
        assert anyio.run(again.stop).why is StopReason.LOST
        assert not process_table.send_signal(Process(innocent.pid, now.start - 1), signal.SIGKILL)
        assert innocent.poll() is None
        # The weakened build goes by the pid alone.
        os.kill(earlier["pid"], signal.SIGTERM)
        assert innocent.wait() == -signal.SIGTERM
    finally:
        innocent.kill()
        innocent.wait()


def test_who_only_looks_for_the_dead_is_not_taken_for_one_of_them(stage: Stage) -> None:
    """Two wefts may prove a death at once: neither may end the other for having the lock."""
    stage.directory.mkdir()
    code = (
        "import sys; from weft.process import attempt_files\n"
        "while attempt_files.{0}(sys.argv[1]) is None: pass\n"
        "input()"
    )
    for verb, belongs in (("try_lock", False), ("take_lock", True)):
        child = subprocess.Popen(
            [sys.executable, "-c", code.format(verb), str(stage.directory)],
            stdin=subprocess.PIPE,
            env={"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        with child:
            wait_until(lambda: not is_proved_dead(stage.directory, stage.marker))
            strays = [process.pid for process in find_strays(stage.directory, stage.marker)]
            assert (child.pid in strays) is belongs
            child.kill()


def test_an_agent_whose_weft_dies_before_the_answer_keeps_its_wrapper(stage: Stage) -> None:
    """Answering the dead is a broken pipe, which would end the wrapper and not the agent."""
    spawn = stage.tree("idle")
    stage.directory.mkdir()
    attempt_files.create_record(
        str(stage.directory / attempt_files.ATTEMPT),
        {"marker": stage.marker, "boot": get_place().boot, "grace": spawn.grace},
    )
    for name in (attempt_files.STDIN, attempt_files.STDOUT, attempt_files.STDERR):
        (stage.directory / name).touch()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stage.launcher.hand_over(theirs)
        ours.sendall(json.dumps(make_order(spawn, boottime())).encode())
    wait_until(lambda: "ready" in stage.output())
    ended = anyio.run(attach(stage.directory).stop)
    assert ended.why is StopReason.ASKED
