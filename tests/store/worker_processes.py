"""Real processes for the tests: started, killed, stopped and continued, never left behind."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from forked_python import ForkedPython
from wait_until import PATIENCE

_TESTS = Path(__file__).parent.parent
_ELSEWHERE = os.environ.get("PYTHONPATH", "").split(os.pathsep)


class Member:
    """One process of a crew, with what it says line by line."""

    def __init__(self, program: str, settings: dict[str, Any], errors: Path) -> None:
        self.name = f"{program} {settings}"
        self._errors = errors
        self._lines: queue.Queue[str] = queue.Queue()
        with errors.open("w") as stderr:
            self.process = ForkedPython[str](
                [sys.executable, "-m", f"store.{program}", json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_TESTS), *_ELSEWHERE])},
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.strip())

    def line(self) -> str:
        """The next line it prints; if it ends instead, what it complained about."""
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            try:
                return self._lines.get(timeout=0.05)
            except queue.Empty:
                # What it said last may still be on its way when it has ended.
                ended = self.process.poll() is not None and not self._reader.is_alive()
                assert not ended or not self._lines.empty(), self.complaint()
        raise AssertionError(f"{self.name} says nothing")

    def tell(self, *words: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """What a puppet says to the next thing it was told: a value, or an error's name."""
        return json.loads(self.line())

    def ask(self, *words: object) -> Any:
        self.tell(*words)
        return self.answer()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def is_stopped(self) -> bool:
        return psutil.Process(self.pid).status() == psutil.STATUS_STOPPED

    def complaint(self) -> str:
        return f"{self.name} ended with {self.process.poll()}:\n{self._errors.read_text()}"

    def close(self) -> None:
        self.kill()  # SIGKILL ends a stopped process as well
        self._reader.join(10)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # what it was told last and never read
                    pipe.close()


class StoreProcesses:
    """All processes of one test."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._members: list[Member] = []

    def start(self, program: str, **settings: Any) -> Member:
        errors = self._directory / f"{len(self._members)}-{program}.stderr"
        member = Member(program, settings, errors)
        self._members.append(member)
        return member

    def close(self) -> None:
        for member in self._members:
            member.close()
