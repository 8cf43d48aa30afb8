"""What an agent may write and reach: decided here, carried out by Landlock or bubblewrap.

An outer fence, not the contract: rules are per directory, since rules per file break every
program that saves by renaming. What really changed is read from git afterwards.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from weft.process import landlock
from weft.process.agent import Landlock, Spawn

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_TERMINALS = ("/dev/ptmx", "/dev/pts")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the kernel's own place, as open to all as temp is


class Kind(StrEnum):
    LANDLOCK = "landlock"
    BWRAP = "bwrap"
    OFF = "off"


class Network(StrEnum):
    OPEN = "open"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    kind: Kind
    writable: tuple[Path, ...]  # workspace, its git entry, temp, the agent's own directories
    network: Network = Network.OPEN


@dataclass(frozen=True, kw_only=True)
class Able:
    """What this machine can do."""

    landlock: int  # its version, 0 for none
    bwrap: bool


def available() -> Able:
    return Able(landlock=landlock.version(), bwrap=_bwrap_works())


def choose(wanted: Sandbox, able: Able) -> tuple[Sandbox, str | None]:
    """The sandbox to use, and a warning where it is less than was wanted."""
    if wanted.kind is Kind.LANDLOCK and able.landlock == 0:
        return _without(wanted, "this kernel has no Landlock")
    if wanted.kind is Kind.BWRAP and not able.bwrap:
        return _without(wanted, "bwrap is not installed or may not make namespaces")
    if wanted.network is Network.NONE:
        return wanted, _weak_network(wanted.kind, able)
    return wanted, None


def apply(sandbox: Sandbox, spawn: Spawn) -> Spawn:
    """The same spawn, fenced in."""
    if sandbox.kind is Kind.LANDLOCK:
        denied = landlock.NO_TCP if sandbox.network is Network.NONE else landlock.ANY_NETWORK
        paths = (*map(str, sandbox.writable), *_DEVICES, *_TERMINALS, _SHARED_MEMORY)
        return replace(spawn, landlock=Landlock(writable=paths, denied=denied))
    if sandbox.kind is Kind.BWRAP:
        return replace(spawn, argv=(*bwrap_prefix(sandbox), *spawn.argv))
    return spawn


def bwrap_prefix(sandbox: Sandbox) -> tuple[str, ...]:
    """The command line in front of the agent's own."""
    binds = [word for path in sandbox.writable for word in ("--bind-try", str(path), str(path))]
    network = ["--unshare-net"] if sandbox.network is Network.NONE else []
    # The process table stays the host's, so that the agent's processes are found by their mark.
    return ("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", *binds, *network, "--")


def _without(wanted: Sandbox, reason: str) -> tuple[Sandbox, str]:
    warning = f"The agent runs without the sandbox {wanted.kind}: {reason}."
    return replace(wanted, kind=Kind.OFF), warning


def _weak_network(kind: Kind, able: Able) -> str | None:
    if kind is Kind.OFF:
        return "The agent has network access: without a sandbox it cannot be taken away."
    if kind is Kind.LANDLOCK and able.landlock < landlock.NETWORK_VERSION:
        return "The agent has network access: this kernel's Landlock cannot take it away."
    if kind is Kind.LANDLOCK:
        return "The agent has no TCP, but Landlock leaves other protocols open."
    return None


def _bwrap_works() -> bool:
    if shutil.which("bwrap") is None:
        return False
    done = subprocess.run(
        ["bwrap", "--ro-bind", "/", "/", "--", "true"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=10,
        check=False,
    )
    return done.returncode == 0
