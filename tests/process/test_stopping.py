"""A stop leaves no process (invariant 26), and neither does an agent's own end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import psutil
import pytest

from process.supervision import Stage
from wait_until import PATIENCE, wait_until
from weft.process import attempt_files, cgroup
from weft.process.agent_process import Running, StopReason
from weft.process.death_proof import is_proved_dead
from weft.process.launcher import Launcher

FAMILY = ("child", "stubborn", "daemon", "closed", "cleared")


@pytest.fixture(params=["stage", "grouped"])
def either(request: pytest.FixtureRequest) -> Stage:
    stage: Stage = request.getfixturevalue(request.param)
    return stage


def group_of(stage: Stage) -> str | None:
    record = attempt_files.find_record(str(stage.directory / attempt_files.WRAPPER))
    assert record is not None
    group: str | None = record["cgroup"]
    return group


@pytest.mark.parametrize("own", ["stay", "ignore"])
def test_a_stop_leaves_nobody_of_the_whole_family(either: Stage, own: str) -> None:
    stage = either
    running = stage.start_ready(stage.tree(own, *FAMILY))
    group = group_of(stage)
    assert len(stage.living()) > len(FAMILY)
    ended = anyio.run(running.stop)
    assert stage.living() == []
    assert ended.why is StopReason.ASKED
    assert ended.signal == (signal.SIGKILL if own == "ignore" else signal.SIGTERM)
    assert ended.swept >= len(FAMILY) - 1
    assert is_proved_dead(stage.directory, stage.marker)
    assert group is None or not os.path.exists(group)


def test_in_a_group_is_the_agent_with_its_family_and_nobody_else(grouped: Stage) -> None:
    running = grouped.start_ready(grouped.tree("stay", *FAMILY))
    group = group_of(grouped)
    assert group is not None
    wait_until(lambda: grouped.wrapper().pid not in cgroup.list_members(group))
    assert cgroup.list_members(group) == {process.pid for process in grouped.living()}
    anyio.run(running.stop)


def test_a_launcher_that_ends_leaves_no_group(tmp_path: Path) -> None:
    parent = cgroup.find_parent()
    if parent is None:
        pytest.skip("no control group can be made here")
    with Launcher(parent) as launcher:
        stage = Stage(tmp_path / "one", launcher)
        stage.start(stage.tree("leave"))
        program = psutil.Process(launcher.pid)

        def spares() -> list[str]:
            pids = [child.pid for child in program.children()]
            names = [f"weft-{pid}-" for pid in pids]
            return [name for name in os.listdir(parent) if name.startswith(tuple(names))]

        wait_until(spares)
        before = spares()
    wait_until(lambda: not set(before) & set(os.listdir(parent)))


def test_leftovers_are_asked_to_end_before_they_are_killed(either: Stage) -> None:
    running = either.start(replace(either.tree("leave", "obedient"), grace=PATIENCE))
    anyio.run(running.wait_ended)
    assert either.output() == "ready\nheard TERM\n"


def test_the_exit_is_told_only_when_the_control_group_is_empty(grouped: Stage) -> None:
    """A process that entered the group from elsewhere is no descendant, and ends all the same."""
    running = grouped.start_ready(grouped.tree("stay"))
    group = group_of(grouped)
    assert group is not None
    with subprocess.Popen(["sleep", "1000"]) as stranger:
        Path(group, "cgroup.procs").write_text(str(stranger.pid))
        anyio.run(running.stop)
        alive = stranger.poll() is None
        stranger.kill()
    assert not alive


def test_what_an_agent_leaves_behind_at_its_own_end_is_swept_before_the_exit_is_told(
    either: Stage,
) -> None:
    stage = either
    running = stage.start(stage.tree("leave", *FAMILY))
    ended = anyio.run(running.wait_ended)
    assert stage.living() == []
    assert (ended.why, ended.code) == (StopReason.ENDED, 7)
    assert ended.swept >= len(FAMILY)


def test_a_stopped_tree_can_still_be_ended(stage: Stage) -> None:
    running = stage.start_ready(stage.tree("stay", "child", "daemon"))
    for process in stage.living():
        process.send_signal(signal.SIGSTOP)
    ended = anyio.run(running.stop)
    assert stage.living() == []
    # It was woken to hear the first signal rather than killed in its sleep.
    assert ended.signal == signal.SIGTERM


def test_a_stopped_wrapper_is_woken_and_does_its_work(stage: Stage) -> None:
    running = stage.start_ready(stage.tree("stay", "daemon"))
    stage.wrapper().suspend()
    assert anyio.run(running.stop).why is StopReason.ASKED
    assert stage.living() == []


def test_a_kill_or_a_second_request_skips_the_grace(stage: Stage) -> None:
    running = stage.start_ready(replace(stage.tree("ignore", "stubborn"), grace=1000.0))
    running.ask_to_stop()
    time.sleep(0.2)
    assert running.ended() is None
    assert stage.living()
    running.ask_to_stop()
    assert anyio.run(running.wait_ended).signal == signal.SIGKILL
    assert stage.living() == []


def test_a_kill_needs_no_request_before(stage: Stage) -> None:
    running = stage.start_ready(replace(stage.tree("ignore", "stubborn"), grace=1000.0))
    running.kill()
    assert anyio.run(running.wait_ended).why is StopReason.ASKED
    assert stage.living() == []


def test_the_first_signal_is_the_agents_own(stage: Stage) -> None:
    program = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, lambda *_: sys.exit(5))\n"
        "print('ready', flush=True)\n"
        "time.sleep(1000)\n"
    )
    spawn = stage.spawn(sys.executable, "-S", "-c", program, stage.token)
    running = stage.start_ready(replace(spawn, first=signal.SIGINT, grace=1000.0))
    assert anyio.run(running.stop).code == 5


def test_a_wait_that_is_cancelled_leaves_the_agent_running_and_a_stop_goes_to_its_end(
    stage: Stage,
) -> None:
    running = stage.start_ready(stage.tree("stay", "stubborn"))

    async def give_up() -> None:
        with anyio.move_on_after(0.05):
            await running.wait_ended()
        assert stage.living()
        with anyio.move_on_after(0.05):
            await running.stop()
        assert not stage.living()

    anyio.run(give_up)


# Weakened builds: the ways of earlier systems, under the same judge.


def signal_the_group_only(running: Running, stage: Stage) -> None:
    group = stage.agent().pid
    os.killpg(group, signal.SIGTERM)
    time.sleep(0.3)
    os.killpg(group, signal.SIGKILL)


def never_send_kill(running: Running, stage: Stage) -> None:
    killed = set()
    for process in stage.living():
        process.send_signal(signal.SIGTERM)
        killed.add(process)  # as if a signal that was sent had worked
    time.sleep(0.2)
    for process in stage.living():
        if process not in killed:
            process.kill()


@pytest.mark.parametrize("weak", [signal_the_group_only, never_send_kill])
def test_weakened_stops_are_caught_by_the_observer(
    stage: Stage, weak: Callable[[Running, Stage], None]
) -> None:
    """sigkill-never-sent, and the process group that is not enough."""
    running = stage.start_ready(stage.tree("ignore", *FAMILY))
    stage.wrapper().kill()  # it would make up for the weakness
    weak(running, stage)
    with pytest.raises(AssertionError):
        wait_until(lambda: not stage.living(), seconds=0.5)
    # The real build, even without its wrapper, ends all that left a trace.
    anyio.run(running.stop)
    assert len(stage.living()) <= 1  # `cleared` leaves none: see below


def test_without_wrapper_only_a_control_group_finds_who_left_no_trace(grouped: Stage) -> None:
    stage = grouped
    running = stage.start_ready(stage.tree("ignore", *FAMILY))
    group = group_of(stage)
    assert group is not None
    wait_until(lambda: stage.wrapper().pid not in cgroup.list_members(group))
    stage.wrapper().kill()
    ended = anyio.run(running.stop)
    assert ended.why is StopReason.LOST
    assert stage.living() == []
    assert not os.path.exists(group)
