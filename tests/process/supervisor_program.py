"""A supervisor to be killed: starts an agent or attaches to it, and keeps a ledger of its lines.

Usage: BUILD DIRECTORY TOKEN MARKER COUNT. The build `weak` goes on from the end of the output
it finds, as a supervisor does that keeps no offset.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from process.supervision import ENVIRONMENT
from weft.process import attempt_files
from weft.process.agent_process import Running, Spawn, attach, start
from weft.process.launcher import Launcher
from weft.process.output_tail import OutputLine, Tail
from weft.process.process_identity import boottime

PRINTER = Path(__file__).with_name("printer_program.py")


class Ledger:
    """A record per handled line: the offset after it, and the line."""

    def __init__(self, path: Path) -> None:
        whole = path.read_bytes() if path.exists() else b""
        whole = whole[: whole.rfind(b"\n") + 1]  # a record cut short was not made
        self._file = path.open("r+b" if path.exists() else "w+b")
        self._file.truncate(len(whole))
        self._file.seek(len(whole))
        last = whole.rstrip(b"\n").rpartition(b"\n")[2]
        self.offset = int(last.split(b" ", 1)[0]) if last else 0

    def add(self, line: OutputLine) -> None:
        self._file.write(b"%d %b\n" % (line.end, line.text))
        self._file.flush()


def take_up(launcher: Launcher, directory: Path, token: str, marker: str, count: str) -> Running:
    if (directory / attempt_files.ATTEMPT).exists():
        return attach(directory)
    spawn = Spawn(
        argv=(sys.executable, "-S", str(PRINTER), token, count),
        environment=ENVIRONMENT,
        cwd=directory.parent,
        directory=directory,
        marker=marker,
        grace=0.3,
    )
    return start(spawn, launcher, renewed=boottime())


def main(build: str, place: str, token: str, marker: str, count: str) -> None:
    directory = Path(place)
    ledger = Ledger(directory.with_name("ledger"))
    directory.with_name("begun").touch()
    with Launcher() as launcher:
        running = take_up(launcher, directory, token, marker, count)
        tail = Tail(directory / attempt_files.STDOUT, ledger.offset)
        if build == "weak" and ledger.offset:
            tail = Tail(directory / attempt_files.STDOUT, tail.size())
        while running.ended() is None:
            running.renew(boottime())
            for line in tail.lines():
                ledger.add(line)
            time.sleep(0.005)
        for lines in tail.rest():
            for line in lines:
                ledger.add(line)


if __name__ == "__main__":
    main(*sys.argv[1:])
