"""The files, processes and network that an agent reaches, for Landlock or bubblewrap.

The sandbox is an outer fence, not the contract. Its rules are per directory, since rules per file
break every program that saves by renaming. The real changes are read from git afterwards.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from weft.process import landlock
from weft.process.agent_process import Landlock, Spawn

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_TERMINALS = ("/dev/ptmx", "/dev/pts")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the kernel's own place, as open to all as temp is


# The host still sees the agent's processes and finds them by their mark; they see only each other.
_NAMESPACE = ("--unshare-pid", "--proc", "/proc")


class SandboxKind(StrEnum):
    ON = "on"  # the best kind of this machine
    LANDLOCK = "landlock"
    BWRAP = "bwrap"
    OFF = "off"


class Network(StrEnum):
    OPEN = "open"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    kind: SandboxKind
    writable: tuple[Path, ...]  # workspace, its git directory, temp, the agent's own directories
    hidden: tuple[Path, ...] = ()  # unreadable, with all files beneath
    readable: tuple[Path, ...] = ()  # exceptions inside hidden places
    network: Network = Network.OPEN


@dataclass(frozen=True, kw_only=True)
class Able:
    """The sandboxes of this machine."""

    landlock: int  # its version, 0 for none
    bwrap: bool

    def best(self) -> SandboxKind:
        """Return the kind that `on` means here; OFF if this machine has no sandbox."""
        if self.landlock:
            return SandboxKind.LANDLOCK
        return SandboxKind.BWRAP if self.bwrap else SandboxKind.OFF

    def resolve(self, wanted: SandboxKind) -> SandboxKind:
        """Return the kind that an agent gets on this machine."""
        if wanted is SandboxKind.ON:
            return self.best()
        works = {SandboxKind.LANDLOCK: bool(self.landlock), SandboxKind.BWRAP: self.bwrap}
        return wanted if works.get(wanted) else SandboxKind.OFF

    def lacks(self) -> list[str]:
        """List the accesses that Landlock cannot take away on this kernel."""
        missing = {
            landlock.TRUNCATE_VERSION: "emptying files it may read",
            landlock.NETWORK_VERSION: "TCP",
            landlock.SCOPE_VERSION: "signals to your other processes and abstract sockets",
        }
        known = self.landlock
        return [what for version, what in missing.items() if 0 < known < version]


def available() -> Able:
    return Able(landlock=landlock.version(), bwrap=_bwrap_works())


def choose(wanted: Sandbox, able: Able) -> tuple[Sandbox, str | None]:
    """Return the sandbox to use, and a warning if it is weaker than the wish."""
    kind = able.resolve(wanted.kind)
    if kind is SandboxKind.OFF and wanted.kind is not SandboxKind.OFF:
        return _without(wanted, _MISSING[wanted.kind])
    wanted = replace(wanted, kind=kind)
    if wanted.network is Network.NONE:
        return wanted, _weak_network(wanted.kind, able)
    return wanted, None


def apply(sandbox: Sandbox, spawn: Spawn) -> Spawn:
    """Return the spawn inside the sandbox."""
    if sandbox.kind is SandboxKind.LANDLOCK:
        return replace(spawn, landlock=_landlock(sandbox))
    if sandbox.kind is SandboxKind.BWRAP:
        return replace(spawn, argv=(*bwrap_prefix(sandbox), *spawn.argv))
    return spawn


def _landlock(sandbox: Sandbox) -> Landlock:
    denied = landlock.NO_TCP if sandbox.network is Network.NONE else landlock.ANY_NETWORK
    devices = [*_DEVICES, *_TERMINALS]
    if not _holds(Path(_SHARED_MEMORY), sandbox.hidden):
        devices.append(_SHARED_MEMORY)
    return Landlock(
        writable=(*map(str, sandbox.writable), *devices),
        readable=tuple(map(str, sandbox.readable)),
        hidden=("/dev", *map(str, sandbox.hidden)),
        denied=denied,
    )


def _holds(directory: Path, places: Iterable[Path]) -> bool:
    return any(place.resolve().is_relative_to(directory) for place in places)


def bwrap_prefix(sandbox: Sandbox) -> tuple[str, ...]:
    """Return the command line in front of the agent's own."""
    words = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", *_NAMESPACE]
    opened = {*sandbox.writable, *sandbox.readable}
    mounts = [
        *((path, _cover(path)) for path in sandbox.hidden if path not in opened),
        *((path, ["--ro-bind-try", str(path), str(path)]) for path in sandbox.readable),
        *((path, ["--bind-try", str(path), str(path)]) for path in sandbox.writable),
    ]
    # A mount hides earlier mounts beneath it, so outer places come first.
    for _, mount in sorted(mounts, key=lambda entry: len(entry[0].parts)):
        words += mount
    if sandbox.network is Network.NONE:
        words.append("--unshare-net")
    if os.geteuid() == 0:  # otherwise the agent could unmount the covers
        words += ["--cap-drop", "ALL"]
        words += [word for name in landlock.KEPT_CAPABILITIES for word in ("--cap-add", name)]
    return (*words, "--")


def _cover(path: Path) -> list[str]:
    """Mount an empty file or directory over a place, if the place exists."""
    real = path.resolve()
    if real.is_dir():
        return ["--tmpfs", str(real)]
    return ["--ro-bind", os.devnull, str(real)] if real.exists() else []


_NO_LANDLOCK = "this kernel has no Landlock"
_NO_BWRAP = "bwrap is not installed or may not make namespaces"
_MISSING = {
    SandboxKind.LANDLOCK: _NO_LANDLOCK,
    SandboxKind.BWRAP: _NO_BWRAP,
    SandboxKind.ON: f"{_NO_LANDLOCK}, and {_NO_BWRAP}",
}


def _without(wanted: Sandbox, reason: str) -> tuple[Sandbox, str]:
    name = "a sandbox" if wanted.kind is SandboxKind.ON else f"the sandbox {wanted.kind}"
    warning = f"The agent runs without {name}: {reason}."
    return replace(wanted, kind=SandboxKind.OFF), warning


def _weak_network(kind: SandboxKind, able: Able) -> str | None:
    if kind is SandboxKind.OFF:
        return "The agent has network access: without a sandbox it cannot be taken away."
    if kind is SandboxKind.LANDLOCK and able.landlock < landlock.NETWORK_VERSION:
        return "The agent has network access: this kernel's Landlock cannot take it away."
    if kind is SandboxKind.LANDLOCK:
        return "The agent has no TCP, but Landlock leaves other protocols open."
    return None


def _bwrap_works() -> bool:
    if shutil.which("bwrap") is None:
        return False
    done = subprocess.run(
        ["bwrap", "--ro-bind", "/", "/", *_NAMESPACE, "--", "true"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=10,
        check=False,
    )
    return done.returncode == 0
