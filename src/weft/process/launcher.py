"""The launcher: a small process that only forks wrappers.

weft sends it a socket per wrapper. The fork reads its order from there, so neither an order's
secrets nor a slow order reach the launcher itself, and an order cut short by a crash is ignored.
The launcher ends with weft; its wrappers go on.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

import weft
from weft.errors import WeftError
from weft.process import wrapper
from weft.process.attempt_files import Record
from weft.process.process_table import Process

_PROGRAM = """\
import sys
sys.path.append(sys.argv[1])
from weft.process.launcher import serve
serve(int(sys.argv[2]), sys.argv[3] or None)
"""
# The standard library is enough on Linux; elsewhere the process table needs psutil.
_FLAGS = "-IS" if sys.platform == "linux" else "-I"
_TAKEN = b"!"
_SECONDS = 60.0  # a wrapper that has not answered by then is not going to


class LaunchFailed(WeftError):
    """The agent's wrapper did not start; its directory may say why in the file `fault`."""


class Launcher:
    """weft's side of the launcher: keeps its process running and orders wrappers from it."""

    def __init__(self, groups: str | None = None) -> None:
        """Put each agent into a new control group below `groups`, if given."""
        self._groups = groups or ""
        self._lock = threading.Lock()
        self._program: subprocess.Popen[bytes] | None = None
        self._orders: socket.socket | None = None

    def __enter__(self) -> Self:
        """Start the launcher, so that it is ready when needed; a failure is tried again then."""
        with self._lock, contextlib.suppress(OSError):
            self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The id of the launcher's process; None while there is none."""
        return None if self._program is None else self._program.pid

    def launch(self, order: Record) -> Process:
        """Start a wrapper; returns once it holds the attempt's lock."""
        data = json.dumps(order).encode()
        answer = self.ask(data)
        if not answer:
            # The launcher was killed, and may not look dead yet. A second order is safe: a wrapper
            # refuses an attempt that has begun.
            self.close()
            answer = self.ask(data)
        if not answer or answer == wrapper.REFUSED:
            raise LaunchFailed
        pid, start = answer.split()
        return Process(int(pid), int(start))

    def close(self) -> None:
        """End the launcher after its pending orders; a later order restarts it."""
        with self._lock:
            self._close()

    def ask(self, data: bytes) -> bytes:
        """Send an order; return the wrapper's answer, b"" if the launcher died before it."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.settimeout(_SECONDS)
            self.hand_over(theirs)
            theirs.close()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                ours.sendall(data)
                ours.shutdown(socket.SHUT_WR)
                return ours.recv(64)
        return b""

    def hand_over(self, theirs: socket.socket) -> None:
        """Give a wrapper its end of the socket on which it reads its order and answers."""
        with self._lock:
            if self._program is None or self._program.poll() is not None:
                self._close()
                self._open()
            assert self._orders is not None
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # asked again anew
                socket.send_fds(self._orders, [_TAKEN], [theirs.fileno()])

    def _open(self) -> None:
        self._orders, theirs = socket.socketpair()
        root = Path(weft.__file__).parent.parent
        with theirs:
            handle = str(theirs.fileno())
            self._program = subprocess.Popen(
                [sys.executable, _FLAGS, "-c", _PROGRAM, str(root), handle, self._groups],
                env={},  # no secret of weft's to read in /proc
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # or wrappers would keep weft's open after its end
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # a terminal's Ctrl-C is weft's to answer
            )

    def _close(self) -> None:
        if self._orders is not None:
            self._orders.close()
        if self._program is not None:
            try:
                self._program.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                self._program.kill()
                self._program.wait()
        self._orders = self._program = None


def serve(handle: int, groups: str | None) -> None:
    """Run the launcher process: keep a spare wrapper waiting for an order; end with weft."""
    _reset_signals()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # wrappers leave records instead
    gc.disable()  # a collection would write to pages that all forks share
    gc.freeze()
    with socket.socket(fileno=handle) as orders:
        while _is_taken(_fork_spare(orders, groups)):
            pass


def _fork_spare(orders: socket.socket, groups: str | None) -> int:
    """Fork ahead of need, since the fork is most of the cost of a start."""
    taken, take = os.pipe()
    if os.fork() == 0:
        try:
            os.close(taken)
            _wait_for_order(orders, take, groups)
        finally:
            # No traceback here: the wrapper writes its own, and half an order, left by a dying
            # weft, is ignored.
            os._exit(0)
    os.close(take)
    return taken


def _is_taken(taken: int) -> bool:
    """Wait until the spare has an order; False if there will be none."""
    try:
        return os.read(taken, 1) == _TAKEN
    finally:
        os.close(taken)


def _wait_for_order(orders: socket.socket, take: int, groups: str | None) -> None:
    group = wrapper.prepare(groups)
    _, handles, _, _ = socket.recv_fds(orders, 1, 1)
    if not handles:
        wrapper.leave_group(group)
        return
    os.write(take, _TAKEN)
    os.close(take)
    orders.close()
    [handle] = handles
    os.set_inheritable(handle, False)  # descriptors from a socket are inheritable
    data = b"".join(iter(lambda: os.read(handle, 1 << 16), b""))
    wrapper.main(json.loads(data), handle, group)


def _reset_signals() -> None:
    """Undo ignored and blocked signals of weft's caller, which every agent would inherit."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
