"""Python programs in processes of their own, forked from a process that has imported weft.

The imports are most of the work of a short command: `weft ps` takes 105 ms of a processor in a new
interpreter and 20 ms here. The process is a child of this process, with its own pid, directory,
environment and pipes, as `Popen` would start it. A test about the start of the interpreter itself
uses `subprocess`.
"""

from __future__ import annotations

import atexit
import json
import os
import platform
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, AnyStr, Generic

_FORK_SERVER = Path(__file__).with_name("fork_server.py")
_CAN_FORK = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
_INTERPRETER = ("PYTHON", "LC_", "LANG", "LD_", "TZ")
_IRRELEVANT = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")


class ForkedPython(subprocess.Popen[AnyStr], Generic[AnyStr]):
    """A `Popen` for `python -m module …`, `python -c code …` or `python program …`.

    An environment with other settings of the interpreter gets a new interpreter, and so does every
    program where `fork_server.py` cannot fork.
    """

    def _execute_child(self, *settings: Any) -> None:
        """Fork in the place of `Popen`'s own fork and exec."""
        command = [os.fspath(word) for word in settings[0]]
        directory, environment = settings[5], settings[6]
        variables = dict(os.environ if environment is None else environment)
        same = _interpreter_settings(variables) == _interpreter_settings(os.environ)
        if not (same and _CAN_FORK):
            super()._execute_child(*settings)  # type: ignore[misc]
            return
        assert command[0] == sys.executable
        streams = (settings[10], settings[13], settings[15])
        self.pid = _fork_server.fork(
            {
                "command": command[1:],
                "directory": os.fspath(directory or os.getcwd()),
                "environment": variables,
            },
            [number if stream == -1 else stream for number, stream in enumerate(streams)],
        )
        self._child_created = True
        self._close_pipe_fds(*settings[10:16])  # type: ignore[attr-defined]


def run_forked(
    command: Sequence[str | Path], *, timeout: float | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and capture its text, as `subprocess.run` does."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with ForkedPython[str](command, text=True, **{**pipes, **options}) as process:
        try:
            out, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


def _interpreter_settings(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_INTERPRETER) and name not in _IRRELEVANT
    }


class _ForkServer:
    """This process's side of `fork_server.py`, which starts with the first order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: socket.socket | None = None

    def fork(self, order: dict[str, Any], streams: Sequence[int]) -> int:
        """Fork a process with these standard streams; return its pid."""
        data = json.dumps(order).encode()
        with self._lock:
            orders = self._orders or self._open()
            socket.send_fds(orders, [len(data).to_bytes(4, "big")], streams)
            orders.sendall(data)
            return int.from_bytes(orders.recv(4), "big")

    def _open(self) -> socket.socket:
        self._orders, theirs = socket.socketpair()
        with theirs:
            program = subprocess.Popen(
                [sys.executable, str(_FORK_SERVER), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # a terminal's Ctrl-C is for pytest
            )
        atexit.register(self._close, program, self._orders)
        return self._orders

    def _close(self, program: subprocess.Popen[bytes], orders: socket.socket) -> None:
        orders.close()
        program.wait()


_fork_server = _ForkServer()
