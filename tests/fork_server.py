"""A process that has imported all of weft and forks Python programs for `forked_python.py`.

Orders come over a socket, with the three standard streams of the process to be forked. With
CLONE_PARENT the forked process becomes a child of the process that ordered it, which alone waits
for it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import platform
import runpy
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

import weft

_CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]
_CLONE_PARENT = 0x8000
_STREAMS = 3


def import_all() -> None:
    for module in pkgutil.walk_packages(weft.__path__, "weft."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def serve(orders: socket.socket) -> dict[str, Any] | None:
    """Fork for each order; return the order in the forked process, None when orders end."""
    while True:
        head, streams, _, _ = socket.recv_fds(orders, 4, _STREAMS)
        if not head:
            return None
        data = bytearray()
        while missing := int.from_bytes(head, "big") - len(data):
            data += orders.recv(missing)
        pid = fork()
        if pid == 0:
            orders.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
        for stream in streams:
            os.close(stream)
        if pid == 0:
            order: dict[str, Any] = json.loads(data)
            return order
        orders.sendall(pid.to_bytes(4, "big"))


def fork() -> int:
    """Fork a sibling of this process, as `os.fork` forks a child."""
    ctypes.pythonapi.PyOS_BeforeFork()
    system = ctypes.PyDLL(None)  # unlike CDLL it keeps the interpreter's lock
    pid = int(system.syscall(_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    assert pid >= 0
    return pid


def carry_out(order: dict[str, Any]) -> None:
    """Run the program. The interpreter then ends its threads; freeing modules would be slow."""
    code = 0

    def leave() -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)

    atexit.register(leave)
    try:
        _prepare(order)
        _run(order["command"])
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else bool(error.code)
        if isinstance(error.code, str):
            sys.stderr.write(f"{error.code}\n")
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        code = 1


def _prepare(order: dict[str, Any]) -> None:
    """Set what a new interpreter finds."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(order["directory"])
    os.environ.clear()
    os.environ.update(order["environment"])
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [place for place in places if place and place not in sys.path[1:]]
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0)))
    sys.stdout = _open_text(1, "strict")
    sys.stderr = _open_text(2, "backslashreplace")


def _open_text(number: int, errors: str) -> io.TextIOWrapper:
    lines = number == 2 or os.isatty(number)
    stream = io.BufferedWriter(io.FileIO(number, "w"))
    return io.TextIOWrapper(stream, errors=errors, line_buffering=lines)


def _run(command: list[str]) -> None:
    first, *rest = command
    if first == "-m":
        sys.argv = rest
        sys.path[0] = os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path[0] = ""
        exec(rest[0], {"__name__": "__main__"})
    else:
        sys.argv = command
        sys.path[0] = str(Path(first).parent)
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    import_all()
    gc.freeze()
    order = serve(socket.socket(fileno=int(sys.argv[1])))
    if order is not None:
        carry_out(order)
