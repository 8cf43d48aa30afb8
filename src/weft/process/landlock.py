"""Landlock: a process gives up writing outside some directories, for itself and its descendants.

Three system calls without a wrapper in libc, made through ctypes. What is to be writable is
decided in `sandbox`; this only carries it out, in the agent's process before it executes.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Iterable

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on every architecture
_ASK_VERSION = 1
_BENEATH = 1
_NO_NEW_PRIVILEGES = 38

_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
# remove directory and file; make device, directory, file, socket, fifo, block device, link
_CHANGE_DIRECTORY = sum(1 << bit for bit in range(4, 13))
_MOVE = 1 << 13

ANY_NETWORK = 0
NO_TCP = 1 << 0 | 1 << 1  # neither bind nor connect; other protocols are beyond Landlock

MOVE_VERSION, TRUNCATE_VERSION, NETWORK_VERSION = 2, 3, 4


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """The version of Landlock this kernel has, 0 for none."""
    if sys.platform != "linux":
        return 0
    try:
        return _call(_CREATE, None, 0, _ASK_VERSION)
    except OSError:
        return 0


def restrict(writable: Iterable[str], denied: int) -> None:
    """Let this process write below these paths only, and deny it a kind of network.

    Paths that do not exist are passed over.
    """
    known = version()
    files = _WRITE_FILE | _CHANGE_DIRECTORY
    files |= _MOVE if known >= MOVE_VERSION else 0
    files |= _TRUNCATE if known >= TRUNCATE_VERSION else 0
    wanted = _Ruleset(files=files, network=denied if known >= NETWORK_VERSION else ANY_NETWORK)
    # Older kernels know a shorter structure.
    size = ctypes.sizeof(wanted) if known >= NETWORK_VERSION else 8
    rules = _call(_CREATE, ctypes.byref(wanted), size, 0)
    for path in writable:
        _allow(rules, path, files)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot give up new privileges")
    _call(_RESTRICT, rules, 0)
    os.close(rules)


def _allow(rules: int, path: str, files: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(parent).st_mode):
            files &= _WRITE_FILE | _TRUNCATE
        _call(_ADD, rules, _BENEATH, ctypes.byref(_Beneath(allowed=files, parent=parent)), 0)
    finally:
        os.close(parent)


def _call(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    answer: int = libc.syscall(number, *arguments)
    if answer < 0:
        raise OSError(ctypes.get_errno(), f"landlock: {os.strerror(ctypes.get_errno())}")
    return answer
