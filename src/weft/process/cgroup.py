"""A control group per attempt, where the system allows it; no descendant can leave it.

Version 2 only, and optional: it adds the only proof of death that holds for a process that closed
every descriptor, cleared its environment and lost its wrapper.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re

_MAIN = "weft"  # the group of weft itself, beside those of its agents
_MOUNT = re.compile(r"^\S+ \S+ \S+ (\S+) (\S+) .* - cgroup2 ", re.MULTILINE)


def find_parent() -> str | None:
    """Return the group below which this process may make groups, or None."""
    own = _own_group()
    if own is None:
        return None
    trial = os.path.join(own, f"weft-trial-{os.getpid()}")
    try:
        os.mkdir(trial)
    except OSError:
        return None
    os.rmdir(trial)
    if not os.access(os.path.join(own, "cgroup.procs"), os.W_OK):
        return None
    _delegate(own)
    return own


def _delegate(own: str) -> None:
    """Let groups below bound memory and processes, where the system allows it.

    A group with processes of its own cannot: a process alone in its group steps one level down.
    """
    with contextlib.suppress(OSError), open(os.path.join(own, "cgroup.procs")) as file:
        if file.read().split() == [str(os.getpid())]:
            os.makedirs(os.path.join(own, _MAIN), exist_ok=True)
            enter(os.path.join(own, _MAIN))
    with contextlib.suppress(OSError):
        _write(os.path.join(own, "cgroup.subtree_control"), "+memory +pids")


def bound(group: str, memory: int | None, processes: int | None) -> None:
    """Bound the memory and the number of processes of a group that has these controllers."""
    for name, most in (("memory.max", memory), ("pids.max", processes)):
        if most is not None:
            with contextlib.suppress(OSError):
                _write(os.path.join(group, name), str(most))


def enter_new(parent: str, name: str) -> str | None:
    """Put the calling process, and with it its future children, into a new group.

    Return None if that fails. An idle kernel takes 20 ms for it.
    """
    group = os.path.join(parent, name)
    try:
        os.mkdir(group)
        enter(group)
    except OSError:
        remove(group)
        return None
    return group


def enter(group: str) -> None:
    _write(os.path.join(group, "cgroup.procs"), "0")


def is_empty(group: str) -> bool:
    """Return whether no process is in the group or below; True if the group is gone."""
    try:
        with open(os.path.join(group, "cgroup.events")) as file:
            return "populated 0" in file.read()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno == errno.ENODEV:  # removed while we read
            return True
        raise


def list_members(group: str) -> frozenset[int]:
    """Return the pids in the group and below."""
    pids: set[int] = set()
    for directory, _, _ in os.walk(group):
        with contextlib.suppress(OSError), open(os.path.join(directory, "cgroup.procs")) as file:
            pids.update(map(int, file.read().split()))
    return frozenset(pids)


def kill(group: str) -> None:
    """Send KILL to all processes in the group at once, where the kernel can."""
    with contextlib.suppress(OSError):
        _write(os.path.join(group, "cgroup.kill"), "1")


def remove(group: str) -> None:
    """Remove an empty group with the empty groups an agent may have made below."""
    for directory, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(directory)


def _own_group() -> str | None:
    try:
        with open("/proc/self/mountinfo") as file:
            mount = _MOUNT.search(file.read())
        with open("/proc/self/cgroup") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return None
    paths = [line.removeprefix("0::") for line in lines if line.startswith("0::")]
    if mount is None or not paths:
        return None
    root, point = mount.groups()
    # A container sees its own group as the root of the mount.
    below = os.path.relpath(paths[0], root) if paths[0].startswith(root) else "."
    return os.path.normpath(os.path.join(point, below))


def _write(path: str, text: str) -> None:
    # Never created: a kernel that has no such file shall say so.
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)
