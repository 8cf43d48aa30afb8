"""The identity of a process: its pid and start, its machine and boot, and the clock of both."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from typing import NamedTuple

# A clock that also runs while the machine sleeps. Elsewhere than on Linux the monotonic
# clock does so already.
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Process(NamedTuple):
    """A pid together with its start, since pids are used again."""

    pid: int
    start: int  # hundredths of a second, from an origin that depends on the platform


class ProcessView(NamedTuple):
    process: Process
    parent: int
    session: int


@dataclass(frozen=True, kw_only=True)
class ProcessPlace:
    """A boot of a machine and a pid namespace, in which pids have a meaning."""

    host: str
    boot: str


def get_place() -> ProcessPlace:
    return ProcessPlace(host=socket.gethostname(), boot=f"{_boot_id()}/{_pid_namespace()}")


def boottime() -> float:
    """Return the seconds since boot, suspended time included."""
    return time.clock_gettime(_CLOCK)


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except FileNotFoundError:
        # No id, but the second of the boot tells boots apart; rounded, since it is a difference.
        return f"at-{round((time.time() - boottime()) / 60)}"


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except FileNotFoundError:
        return "pid:[only]"
