"""The streams and signals that a wrapper gives its agent, and the record of its end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import anyio
import psutil
import pytest

from process.supervision import Stage
from wait_until import wait_until
from weft.process import attempt_files
from weft.process.agent_process import AlreadyStarted, NoSuchAttempt, StopReason, attach
from weft.process.process_identity import boottime
from weft.process.process_table import MARK


def run_python(stage: Stage, program: str, **changes: object) -> dict[str, object]:
    spawn = stage.spawn(sys.executable, "-S", "-c", program, stage.token)
    running = stage.start(replace(spawn, **changes))  # type: ignore[arg-type]  # fields of Spawn
    ended = anyio.run(running.wait_ended)
    assert ended.code == 0, (stage.directory / attempt_files.STDERR).read_text()
    answer: dict[str, object] = json.loads(stage.output())
    return answer


@pytest.mark.parametrize(
    ("script", "code", "number"),
    [
        ("exit 0", 0, None),
        ("exit 42", 42, None),
        ("kill -9 $$", None, signal.SIGKILL),
        ("kill -15 $$", None, signal.SIGTERM),
    ],
)
def test_the_exit_is_told_as_it_was(
    stage: Stage, script: str, code: int | None, number: int | None
) -> None:
    ended = anyio.run(stage.start(stage.spawn("sh", "-c", script)).wait_ended)
    assert (ended.code, ended.signal, ended.why) == (code, number, StopReason.ENDED)
    assert attach(stage.directory).ended() == ended
    assert not (stage.directory / attempt_files.FAULT).exists()


@pytest.mark.parametrize("program", ["/no/such/program", "no-such-program"])
def test_a_program_that_cannot_be_executed_is_told_apart(stage: Stage, program: str) -> None:
    ended = anyio.run(stage.start(stage.spawn(program)).wait_ended)
    assert "No such file" in ended.unstarted


def test_a_working_directory_that_is_not_there_is_told_too(stage: Stage) -> None:
    spawn = replace(stage.spawn("true"), cwd=stage.directory / "missing")
    assert "missing" in anyio.run(stage.start(spawn).wait_ended).unstarted


def test_an_agent_sees_its_environment_and_the_marker_and_nothing_else(stage: Stage) -> None:
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    given = {"PATH": os.environ["PATH"], "ODD": "a\nb \udcff ü", "LC_CTYPE": "C.UTF-8"}
    seen = run_python(stage, program, environment=given)
    assert seen == {**given, MARK: stage.marker}


def test_standard_input_is_what_was_given_and_then_ends(stage: Stage) -> None:
    program = "import json, sys; print(json.dumps({'read': len(sys.stdin.buffer.read())}))"
    assert run_python(stage, program, stdin=b"p" * 3_000_000) == {"read": 3_000_000}


def test_signals_are_as_if_freshly_booted(stage: Stage) -> None:
    """An inherited ignored INT would stay ignored in all that the agent starts."""
    program = (
        "import json\n"
        "lines = open('/proc/self/status').read().splitlines()\n"
        "print(json.dumps({l[:6]: int(l[7:], 16) for l in lines if l[:6] in "
        "('SigBlk', 'SigIgn')}))"
    )
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        seen = run_python(stage, program)
    finally:
        signal.signal(signal.SIGINT, before)
    # Python itself ignores PIPE and XFSZ in every program.
    ignored = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
    # The C library keeps 32 and 33 for itself.
    ours = sum(1 << int(number) - 1 for number in signal.valid_signals())
    masks = {name: int(str(mask)) & ours for name, mask in seen.items()}
    assert masks == {"SigBlk": 0, "SigIgn": ignored}


def test_an_agent_leads_a_session_of_its_own_and_inherits_only_streams_and_lock(
    stage: Stage,
) -> None:
    program = (
        "import json, os\n"
        "links = {os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')"
        " if os.path.exists(f'/proc/self/fd/{n}')}\n"
        "print(json.dumps({'leads': os.getsid(0) == os.getpid(), 'files': sorted(links)}))"
    )
    seen = run_python(stage, program)
    names = (attempt_files.LOCK, attempt_files.STDERR, attempt_files.STDIN, attempt_files.STDOUT)
    assert seen == {"leads": True, "files": [str(stage.directory / name) for name in names]}


def test_a_wrapper_knows_no_secret_of_wefts(stage: Stage) -> None:
    os.environ["WEFT_SECRET_OF_TEST"] = "hush"
    try:
        stage.start_ready(stage.tree("stay"))
    finally:
        del os.environ["WEFT_SECRET_OF_TEST"]
    for process in (stage.wrapper(), stage.agent()):
        assert "WEFT_SECRET_OF_TEST" not in process.environ()
    on_disk = (path.read_bytes() for path in stage.directory.iterdir())
    assert not any(b"hush" in data for data in on_disk)


def test_a_flood_of_output_is_ended(stage: Stage) -> None:
    spawn = replace(stage.spawn("yes", stage.token), output_limit=100_000)
    ended = anyio.run(stage.start(spawn).wait_ended)
    assert ended.why is StopReason.OUTPUT
    assert stage.living() == []


T1 = 3600.0
"""Long, so that only the renewals of a test decide, never how fast the machine is."""


def test_an_agent_whose_weft_is_gone_is_ended_after_t1(stage: Stage) -> None:
    """expired-but-running: the lease is over, so the wrapper ends the whole tree unasked."""
    spawn = replace(stage.tree("ignore", "stubborn", "daemon"), gone_after=T1)
    running = stage.start_ready(spawn)
    renewed = boottime() - T1 + 1.0
    running.renew(renewed)
    assert anyio.run(running.wait_ended).why is StopReason.FORSAKEN
    assert boottime() - renewed >= T1
    assert stage.living() == []


def test_a_renewal_keeps_an_agent_alive_beyond_t1(stage: Stage) -> None:
    running = stage.start_ready(replace(stage.tree("stay"), gone_after=T1))
    running.renew(boottime() - T1 + 2.0)
    running.renew(boottime())
    time.sleep(2.1)
    stage.nudge()
    time.sleep(0.2)
    assert running.ended() is None
    running.kill()


def test_a_machine_that_slept_past_t1_and_grace_kills_at_once(stage: Stage) -> None:
    """suspended-then-resumed: time passed for the lease while no process could run."""
    running = stage.start_ready(replace(stage.tree("ignore"), gone_after=T1, grace=T1))
    for process in (stage.wrapper(), stage.agent()):
        process.suspend()
    running.renew(boottime() - 3 * T1)
    for process in (stage.agent(), stage.wrapper()):
        process.resume()
    stage.nudge()
    ended = anyio.run(running.wait_ended)
    assert (ended.why, ended.signal) == (StopReason.FORSAKEN, signal.SIGKILL)


def test_an_agent_whose_directory_was_removed_is_ended(stage: Stage) -> None:
    """weft would never find it again."""
    stage.start_ready(replace(stage.tree("ignore", "daemon"), gone_after=T1, grace=T1))
    wrapper = stage.wrapper()
    shutil.rmtree(stage.directory)
    wrapper.send_signal(signal.SIGCHLD)  # look now
    wait_until(lambda: not stage.living())
    wait_until(lambda: not wrapper.is_running())


def test_many_start_at_once_from_many_threads(stage: Stage, tmp_path: Path) -> None:
    stages = [Stage(tmp_path / str(number), stage.launcher) for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        all_running = list(
            pool.map(
                lambda stage: stage.start(stage.spawn("sh", "-c", f"exit {stages.index(stage)}")),
                stages,
            )
        )
    codes = [anyio.run(running.wait_ended).code for running in all_running]
    assert codes == list(range(24))


def test_a_second_start_is_refused_and_the_first_goes_on(stage: Stage) -> None:
    """second-spawn-overwrites-first."""
    running = stage.start_ready(stage.tree("stay"))
    first = stage.agent()
    with pytest.raises(AlreadyStarted):
        stage.start(stage.tree("stay"))
    # A repeated order, as after a lost answer, starts no agent either.
    order = {"directory": str(stage.directory)}
    assert stage.launcher.ask(json.dumps(order).encode()) == b"refused"
    assert stage.agent() == first
    assert stage.living() == [first]
    running.kill()
    anyio.run(running.wait_ended)
    with pytest.raises(AlreadyStarted):
        stage.start(stage.tree("stay"))


def test_nothing_is_found_where_nothing_was_started(stage: Stage) -> None:
    with pytest.raises(NoSuchAttempt):
        attach(stage.directory)


def test_a_launcher_that_was_killed_is_replaced_and_its_wrappers_go_on(stage: Stage) -> None:
    first = stage.start_ready(stage.tree("stay"))
    assert stage.launcher.pid is not None
    psutil.Process(stage.launcher.pid).kill()
    neighbour = Stage(stage.directory.with_name("other"), stage.launcher)
    second = neighbour.start_ready(neighbour.tree("stay"))
    assert first.ended() is None
    for running in (first, second):
        anyio.run(running.stop)
    assert stage.living() == neighbour.living() == []
