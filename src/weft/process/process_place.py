"""The place and the clock of a process."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass

# A clock that also runs while the machine sleeps. Elsewhere than on Linux the monotonic
# clock does so already.
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@dataclass(frozen=True, kw_only=True)
class ProcessPlace:
    """A boot of a machine and a pid namespace, in which pids have a meaning."""

    host: str
    boot: str


def here() -> ProcessPlace:
    return ProcessPlace(host=socket.gethostname(), boot=f"{_boot_id()}/{_pid_namespace()}")


def boottime() -> float:
    """Seconds since boot, those spent suspended included."""
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
