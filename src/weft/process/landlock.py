"""Landlock: a process gives up files, signals and network, for itself and its descendants.

It consists of three system calls without a wrapper in libc, made through ctypes. `sandbox` decides
the limits; this module sets them, in the agent's process before it executes.

Landlock has no rules that deny. So the readable files are listed: on the way from `/` to each
hidden place, every sibling gets its own rule. File names stay readable everywhere.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on every architecture
_ASK_VERSION = 1
_BENEATH = 1
_NO_NEW_PRIVILEGES, _HAS_CAPABILITY, _DROP_CAPABILITY = 38, 23, 24  # of prctl

_READ_FILE, _READ_DIRECTORY = 1 << 2, 1 << 3
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
# remove directory and file; make device, directory, file, socket, fifo, block device, link
_CHANGE_DIRECTORY = sum(1 << bit for bit in range(4, 13))
_MOVE = 1 << 13

ANY_NETWORK = 0
NO_TCP = 1 << 0 | 1 << 1  # neither bind nor connect; other protocols are beyond Landlock

MOVE_VERSION, TRUNCATE_VERSION, NETWORK_VERSION, SCOPE_VERSION = 2, 3, 4, 6

_SCOPES = 1 << 0 | 1 << 1  # abstract sockets and signals stay among the agent's own processes

MOST_NEIGHBOURS = 20_000
"""Most rules for siblings of hidden places; each rule takes 10 microseconds."""

# Root keeps the capabilities for files of other owners and for servers. The rest is dropped: some,
# such as CAP_PERFMON, read the environment of every process in spite of Landlock.
KEPT_CAPABILITIES = {
    "CAP_CHOWN": 0,
    "CAP_DAC_OVERRIDE": 1,
    "CAP_FOWNER": 3,
    "CAP_FSETID": 4,
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_NET_BIND_SERVICE": 10,
}


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scopes", ctypes.c_uint64),
    )


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """Return the version of Landlock in this kernel, 0 for none."""
    if sys.platform != "linux":
        return 0
    try:
        return _call(_CREATE, None, 0, _ASK_VERSION)
    except OSError:
        return 0


def restrict(fences: Mapping[str, Any]) -> None:
    """Restrict this process to the paths of `process.agent.Landlock`, and take away a kind of
    network.

    Paths that do not exist are skipped.
    """
    known = version()
    change = _WRITE_FILE | _CHANGE_DIRECTORY
    change |= _MOVE if known >= MOVE_VERSION else 0
    change |= _TRUNCATE if known >= TRUNCATE_VERSION else 0
    read = _READ_FILE | _READ_DIRECTORY
    wanted = _Ruleset(
        files=change | read,
        network=fences["denied"] if known >= NETWORK_VERSION else ANY_NETWORK,
        scopes=_SCOPES if known >= SCOPE_VERSION else 0,
    )
    # Older kernels know a shorter structure.
    fields = 1 + (known >= NETWORK_VERSION) + (known >= SCOPE_VERSION)
    rules = _call(_CREATE, ctypes.byref(wanted), 8 * fields, 0)
    _allow(rules, "/", _READ_DIRECTORY)
    for path in find_visible(fences["hidden"]):
        _allow(rules, path, read, os.O_NOFOLLOW)
    for path in fences["readable"]:
        _allow(rules, path, read)
    for path in fences["writable"]:
        _allow(rules, path, change | read)
    _drop_capabilities()
    _prctl(_NO_NEW_PRIVILEGES, 1)
    _call(_RESTRICT, rules, 0)
    os.close(rules)


def find_visible(hidden: Iterable[str]) -> Iterator[str]:
    """List paths that together cover all but the hidden places, up to a bound."""
    covered = set(map(os.path.realpath, hidden))
    above = {parent for path in covered for parent in _parents(path)}
    if not covered:
        yield "/"
    walk = ["/"] if covered else []
    count = 0
    while walk:
        directory = walk.pop()
        try:
            names = os.listdir(directory)
        except OSError:  # deleted, or this user may not list it
            continue
        for name in names:
            path = os.path.join(directory, name)
            if path in covered:
                continue
            if path in above:
                walk.append(path)
                continue
            count += 1
            if count <= MOST_NEIGHBOURS:
                yield path


def _parents(path: str) -> Iterator[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path


def _allow(rules: int, path: str, files: int, follow: int = 0) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC | follow)
    except OSError:  # deleted, or inside a directory this user may not enter
        return
    try:
        mode = os.fstat(parent).st_mode
        if stat.S_ISLNK(mode):  # the rule for its target decides
            return
        if not stat.S_ISDIR(mode):
            files &= _READ_FILE | _WRITE_FILE | _TRUNCATE
        if files:
            _call(_ADD, rules, _BENEATH, ctypes.byref(_Beneath(allowed=files, parent=parent)), 0)
    finally:
        os.close(parent)


def _drop_capabilities() -> None:
    if os.geteuid() != 0:
        return
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for number in {*range(last + 1)} - {*KEPT_CAPABILITIES.values()}:
        if _prctl(_HAS_CAPABILITY, number):
            _prctl(_DROP_CAPABILITY, number)


def _prctl(option: int, value: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    answer: int = libc.prctl(option, value, 0, 0, 0)
    if answer < 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}: {os.strerror(ctypes.get_errno())}")
    return answer


def _call(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    answer: int = libc.syscall(number, *arguments)
    if answer < 0:
        raise OSError(ctypes.get_errno(), f"landlock: {os.strerror(ctypes.get_errno())}")
    return answer
