"""Short commands: their end, their output, and limits on a clock that stops with weft."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from wait_until import wait_until
from weft.errors import WeftError
from weft.process import Breaker, BrokenOff, run

PROGRAM = """
import os, sys
from pathlib import Path
from weft.process import run, run_logged
here, how = Path(sys.argv[1]), sys.argv[2]
command = ["sh", "-c", sys.argv[3]]
if how == "run":
    print(run(command, directory=here, environment=os.environ, input=b"word", seconds=2).output)
else:
    log = here / "log"
    print(run_logged(command, directory=here, environment=os.environ, log=log, seconds=2))
"""
LIMIT = 2  # the seconds of these calls
ONCE_ASKED = "while [ ! -e go ]; do sleep 0.05; done"


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("how", "command", "answer", "early"),
    [
        ("run", f"cat; touch begun; {ONCE_ASKED}; touch ended", "word", False),
        ("run", f"cat; touch begun; {ONCE_ASKED}; touch ended", "word", True),
        ("logged", f"touch begun; {ONCE_ASKED}; touch ended; sleep 0.2", "0", False),
    ],
)
def test_a_command_that_answers_while_weft_is_stopped_has_answered_in_time(
    tmp_path: Path, how: str, command: str, answer: str, *, early: bool
) -> None:
    """Weakened, `subprocess.run(timeout=…)` looks at the clock before it looks at the command."""
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), how, command],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until((tmp_path / "begun").exists)
        program.send_signal(signal.SIGSTOP)
        wait_until(lambda: is_stopped(program.pid))
        if early:
            (tmp_path / "go").touch()
            wait_until((tmp_path / "ended").exists)
        time.sleep(LIMIT + 0.1)
        (tmp_path / "go").touch()
        wait_until((tmp_path / "ended").exists)
        program.send_signal(signal.SIGCONT)
        output, _ = program.communicate()
    finally:
        program.kill()
    assert output.strip() == answer
    assert program.returncode == 0


def test_a_command_that_does_not_answer_is_ended(tmp_path: Path) -> None:
    with pytest.raises(WeftError, match="sleep did not answer within 1 s"):
        run(("sleep", "600"), directory=tmp_path, environment=os.environ, seconds=1)


def test_a_slow_reader_gets_the_whole_of_a_long_input(tmp_path: Path) -> None:
    """Without the file, the rest of the input above 64 kB is lost at the first time-out."""
    given = b"line of a log\n" * 20_000
    command = ("sh", "-c", "sleep 0.6; cat")
    done = run(command, directory=tmp_path, environment=os.environ, input=given, seconds=20)
    assert done.output.encode() == given


def test_a_command_that_is_broken_off_ends_and_no_other_starts(tmp_path: Path) -> None:
    breaker = Breaker(Breaker())

    def sleep(command: str) -> None:
        arguments = ("sh", "-c", command)
        run(arguments, directory=tmp_path, environment=os.environ, seconds=10, breaker=breaker)

    def break_off() -> None:
        wait_until((tmp_path / "begun").exists)
        breaker.break_off()

    breaking = threading.Thread(target=break_off)
    breaking.start()
    with pytest.raises(BrokenOff):
        sleep("touch begun; sleep 600 & echo $! > child; wait")
    breaking.join()
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not is_alive(child))
    with pytest.raises(BrokenOff):
        sleep("touch another")
    assert not (tmp_path / "another").exists()
