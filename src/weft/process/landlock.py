"""Landlock: a process gives up files and signals, for itself and its descendants.

It consists of three system calls without a wrapper in libc, made through ctypes. `box` decides the
limits; this module is the program that sets them on itself and then becomes the boxed program.

Landlock has no rules that deny, so the readable and writable places are listed, and hidden places
in them are left out: on the way to each, every sibling gets its own rule. File names stay readable
everywhere. It mediates neither sockets, shared memory, the network nor file modes.
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on every architecture
_ASK_VERSION = 1
_BENEATH = 1
_NO_NEW_PRIVILEGES, _HAS_CAPABILITY, _DROP_CAPABILITY = 38, 23, 24  # of prctl

_READ_FILE, _READ_DIRECTORY, _EXECUTE = 1 << 2, 1 << 3, 1 << 0
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
# remove directory and file; make device, directory, file, socket, fifo, block device, link
_CHANGE_DIRECTORY = sum(1 << bit for bit in range(4, 13))
_MOVE = 1 << 13

MOVE_VERSION, TRUNCATE_VERSION, SCOPE_VERSION = 2, 3, 6

_SCOPES = 1 << 0 | 1 << 1  # abstract sockets and signals stay among the agent's own processes

MOST_NEIGHBOURS = 20_000
"""Most rules for siblings of hidden places; each rule takes 10 microseconds."""


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


def restrict(fences: Mapping[str, Iterable[str]]) -> None:
    """Restrict this process to the readable and writable paths, without the hidden ones.

    Paths that do not exist are skipped.
    """
    known = version()
    change = _WRITE_FILE | _CHANGE_DIRECTORY
    change |= _MOVE if known >= MOVE_VERSION else 0
    change |= _TRUNCATE if known >= TRUNCATE_VERSION else 0
    read = _READ_FILE | _READ_DIRECTORY | _EXECUTE
    wanted = _Ruleset(files=change | read, scopes=_SCOPES if known >= SCOPE_VERSION else 0)
    # Older kernels know a shorter structure.
    rules = _call(_CREATE, ctypes.byref(wanted), 24 if known >= SCOPE_VERSION else 8, 0)
    _allow(rules, "/", _READ_DIRECTORY)
    hidden = [*fences["hidden"]]
    for place in fences["readable"]:
        for path in find_visible(place, hidden):
            _allow(rules, path, read)
    for path in fences["writable"]:
        _allow(rules, path, change | read)
    _drop_capabilities()
    _prctl(_NO_NEW_PRIVILEGES, 1)
    _call(_RESTRICT, rules, 0)
    os.close(rules)


def scope() -> None:
    """Cut this process off from abstract sockets and signals of processes outside its box.

    A network namespace would do this too; a program that needs the network has none of its own.
    """
    if version() < SCOPE_VERSION:
        return
    rules = _call(_CREATE, ctypes.byref(_Ruleset(scopes=_SCOPES)), 24, 0)
    _prctl(_NO_NEW_PRIVILEGES, 1)
    _call(_RESTRICT, rules, 0)
    os.close(rules)


def find_visible(place: str, hidden: Iterable[str]) -> Iterator[str]:
    """List paths that together cover a place but for what is hidden in it, up to a bound."""
    root = os.path.realpath(place)
    covered = {path for path in map(os.path.realpath, hidden) if _is_below(path, root)}
    if root in covered:
        return
    above = {root} if covered else set()
    for path in covered:
        while (path := os.path.dirname(path)) != root:
            above.add(path)
    if not above:
        yield root
    walk = [root] if above else []
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


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _allow(rules: int, path: str, files: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # deleted, or inside a directory this user may not enter
        return
    try:
        mode = os.fstat(parent).st_mode
        if stat.S_ISLNK(mode):  # the rule for its target decides
            return
        if not stat.S_ISDIR(mode):
            files &= _READ_FILE | _WRITE_FILE | _TRUNCATE | _EXECUTE
        if files:
            _call(_ADD, rules, _BENEATH, ctypes.byref(_Beneath(allowed=files, parent=parent)), 0)
    finally:
        os.close(parent)


def _drop_capabilities() -> None:
    """Drop all rights of root: files of other owners, other processes, the network's settings."""
    if os.geteuid() != 0:
        return
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for number in range(last + 1):
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


def main(arguments: list[str]) -> None:
    """Restrict this process as the first argument says, then become the rest of them."""
    restrict(json.loads(arguments[0]))
    os.execvp(arguments[1], arguments[1:])  # noqa: S606 - no shell


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as error:  # as a shell says that a program cannot be started
        sys.stderr.write(f"weft: {sys.argv[2:3]}: {error}\n")
        sys.exit(127)
