"""Shared parts of the supervision tests: agents to start, and an observer from outside.

The observer goes by a token on the command line, which weft itself never uses as evidence.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import uuid
from pathlib import Path

import psutil

from wait_until import wait_until
from weft.process import attempt_files
from weft.process.agent_process import Running, Spawn, start
from weft.process.launcher import Launcher
from weft.process.process_identity import boottime

TREE = Path(__file__).with_name("tree_program.py")
ENVIRONMENT = {"PATH": os.environ["PATH"]}


class Stage:
    """The directory of an attempt, its agents, and their living processes."""

    def __init__(self, directory: Path, launcher: Launcher) -> None:
        self.directory = directory
        self.launcher = launcher
        self.token = f"weft-test-{uuid.uuid4().hex}"
        self.marker = uuid.uuid4().hex

    def spawn(self, *argv: str) -> Spawn:
        return Spawn(
            argv=argv,
            environment=ENVIRONMENT,
            cwd=self.directory.parent,
            directory=self.directory,
            marker=self.marker,
            grace=0.2,
        )

    def tree(self, own: str, *kinds: str) -> Spawn:
        return self.spawn(sys.executable, "-S", str(TREE), self.token, own, *kinds)

    def start(self, spawn: Spawn) -> Running:
        return start(spawn, self.launcher, renewed=boottime())

    def start_ready(self, spawn: Spawn) -> Running:
        running = self.start(spawn)
        wait_until(lambda: "ready" in self.output())
        return running

    def output(self) -> str:
        return (self.directory / attempt_files.STDOUT).read_text(errors="replace")

    def living(self) -> list[psutil.Process]:
        processes = []
        for process in psutil.process_iter():
            try:
                if self.token in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                    processes.append(process)
            except psutil.Error:
                continue
        return processes

    def wrapper(self) -> psutil.Process:
        record = attempt_files.find_record(str(self.directory / attempt_files.WRAPPER))
        assert record is not None
        return psutil.Process(record["pid"])

    def agent(self) -> psutil.Process:
        record = attempt_files.find_record(str(self.directory / attempt_files.AGENT))
        assert record is not None
        return psutil.Process(record["pid"])

    def nudge(self) -> None:
        """Let the wrapper look now rather than at its next tick; it may have ended already."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.wrapper().send_signal(signal.SIGCHLD)

    def clear(self) -> None:
        for process in self.living():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
