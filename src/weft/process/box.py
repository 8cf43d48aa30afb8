"""The box around every program that an agent can influence: agents, checks, set-up and teardown.

A box is a description (readable, writable and hidden paths, network, ceilings) and `enclose` turns
it into a command line for the best kind that this machine has:

- bubblewrap: own user, pid, ipc, uts, cgroup and mount namespaces. Only system directories, tool
  chains and the listed paths exist in it; home and /tmp are its own.
- a container: the same through podman or docker, in an image of the user's.
- Landlock: protects files, not processes, sockets or the network; for machines without the others.

Rules are per directory, since rules per file break every program that saves by renaming. The real
changes are read from git afterwards.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from weft.config import BoxKind
from weft.process import landlock
from weft.process.wrapper import EXPENDABLE

SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix"),
    *("/snap", "/sys", "/var/lib", "/var/cache", "/home/linuxbrew"),
)
"""Directories of the system, which every box reads. Keys in them are for root alone, and a box of
root's has no rights over files that are not root's own."""

_SECRET_SYSTEM: Final = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d")
_NAMESPACES: Final = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
)
_TEMPORARY: Final = ("TMPDIR", "TEMP", "TMP")
_MOST_PROCESSES: Final = 4096
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


@dataclass(frozen=True, kw_only=True)
class Container:
    """The engine and image of boxes that are containers."""

    engine: tuple[str, ...]  # the words before `run`, such as `podman`
    image: str
    options: tuple[str, ...] = ()  # words after `run`
    variables: tuple[tuple[str, str], ...] = ()  # of every program in it, such as `containerEnv`


@dataclass(frozen=True, kw_only=True)
class Box:
    kind: BoxKind
    writable: tuple[Path, ...] = ()  # workspace, its git directory, the program's own directories
    readable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()  # keys and passwords inside readable places
    scratch: Path | None = None  # the directory that becomes /tmp; deleted with its workspace
    network: bool = True
    memory: int | None = None  # bytes a process may use; in a container, all of them together
    processes: int = _MOST_PROCESSES
    container: Container | None = None


@dataclass(frozen=True, kw_only=True)
class Able:
    """The boxes of this machine."""

    landlock: int  # its version, 0 for none
    bwrap: bool
    container: Container | None = None

    def resolve(self, wanted: BoxKind) -> BoxKind:
        """Return the kind that a wish means on this machine; OFF if it has no such box."""
        works = {
            BoxKind.BWRAP: self.bwrap,
            BoxKind.CONTAINER: self.container is not None,
            BoxKind.LANDLOCK: bool(self.landlock),
        }
        if wanted is BoxKind.ON:
            return next((kind for kind, works_here in works.items() if works_here), BoxKind.OFF)
        return wanted if works.get(wanted) else BoxKind.OFF

    def lacks(self, kind: BoxKind) -> str:
        """Say what a kind of box does not protect on this machine; '' if nothing is known."""
        if kind is BoxKind.LANDLOCK:
            return (
                "Landlock protects files only: programs in it reach your other processes' sockets, "
                "shared memory and the network; install bubblewrap"
            )
        if kind is BoxKind.OFF:
            return "there is no box: programs run with your rights"
        box = Box(kind=kind, container=self.container)
        if is_scoped(box) and self.landlock >= landlock.SCOPE_VERSION:
            return ""
        return "with network access a program reaches abstract sockets of your other programs"


def available(container: Container | None = None) -> Able:
    """Find the boxes that work here; `container` is what the settings name."""
    engine = container is not None and shutil.which(container.engine[0]) is not None
    return Able(
        landlock=landlock.version(),
        bwrap=_bwrap_works(),
        container=container if engine else None,
    )


def choose(wanted: Box, able: Able) -> tuple[Box, str | None]:
    """Return the box to use, and a warning if it is weaker than the wish."""
    kind = able.resolve(wanted.kind)
    box = replace(wanted, kind=kind, container=wanted.container or able.container)
    if wanted.kind is BoxKind.OFF:
        open_network = "The agent has network access: without a box it cannot be taken away."
        return box, None if wanted.network else open_network
    if kind is BoxKind.OFF:
        name = "a box" if wanted.kind is BoxKind.ON else f"the box {wanted.kind}"
        return box, f"The agent runs without {name}: {_MISSING[wanted.kind]}."
    if kind is BoxKind.LANDLOCK and not wanted.network:
        return (
            box,
            "The agent has network access: Landlock cannot take it away; install bubblewrap.",
        )
    return box, None


def enclose(
    box: Box, argv: Iterable[str], environment: Mapping[str, str], *, cwd: Path, name: str
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the command line and environment of a program inside its box.

    `name` is that of its container, which `remove_command` ends whatever else dies.
    """
    words, variables = tuple(argv), dict(environment)
    if box.kind is BoxKind.BWRAP:
        for key in _TEMPORARY:  # its /tmp is its own
            variables.pop(key, None)
        return (*_bwrap_words(box, variables), *_ceiling(box), *words), variables
    if box.kind is BoxKind.CONTAINER:
        return (*_container_words(box, variables, cwd, name), *words), variables
    if box.kind is BoxKind.LANDLOCK:
        if box.scratch is not None:
            variables |= dict.fromkeys(_TEMPORARY, str(box.scratch))
        return (*_landlock_words(box), *_ceiling(box), *words), variables
    return words, variables


def is_scoped(box: Box) -> bool:
    """Tell whether a box needs Landlock besides its namespaces: one that shares the network.

    A daemon starts the containers of docker, and podman without root gets its rights by file modes.
    """
    if box.kind is BoxKind.CONTAINER and box.container is not None:
        is_child = os.path.basename(box.container.engine[0]) == "podman" and os.geteuid() == 0
        return box.network and is_child
    return box.kind is BoxKind.BWRAP and box.network and not _is_setuid()


def _is_setuid() -> bool:
    """Tell whether bwrap gets its rights by its file mode, which Landlock takes away."""
    path = shutil.which("bwrap")
    return path is not None and bool(os.stat(path).st_mode & stat.S_ISUID)


def remove_command(box: Box, name: str) -> tuple[str, ...]:
    """Return the command that ends the container of a box; () for other kinds."""
    if box.kind is not BoxKind.CONTAINER or box.container is None:
        return ()
    return (*box.container.engine, "rm", "--force", "--volumes", name)


def _ceiling(box: Box) -> list[str]:
    """Return the words that bound memory and processes, where the machine has `prlimit`."""
    if shutil.which("prlimit") is None:
        return []
    memory = [] if box.memory is None else [f"--data={box.memory}"]
    return ["prlimit", f"--nproc={box.processes}", *memory, "--"]


def find_home(environment: Mapping[str, str]) -> Path:
    """Return the home directory, also where HOME is not set."""
    return Path(environment.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir)


def _bwrap_words(box: Box, environment: Mapping[str, str]) -> list[str]:
    words = ["bwrap", *_NAMESPACES]
    words += [] if box.network else ["--unshare-net"]
    words += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
    mounts: dict[str, list[str]] = {}
    for place in map(Path, SYSTEM):
        if place.is_symlink():
            mounts[str(place)] = ["--symlink", os.readlink(place), str(place)]
        else:
            mounts[str(place)] = ["--ro-bind-try", str(place), str(place)]
    homes = {str(find_home(environment)), pwd.getpwuid(os.getuid()).pw_dir}
    for private in ("/tmp", "/run", "/var/tmp", *homes):  # noqa: S108 - the box's own
        if private != "/":
            mounts[private] = ["--tmpfs", private]
    if box.scratch is not None:
        mounts["/tmp"] = ["--bind", str(box.scratch), "/tmp"]  # noqa: S108
    opened = {str(path) for path in (*box.readable, *box.writable)}
    # As texts: comparing a hundred hidden paths with each opened one took longer than bwrap.
    inside = tuple(f"{place}/" for place in (*opened, *SYSTEM))
    for hidden in (*map(str, box.hidden), *_SECRET_SYSTEM):
        if hidden not in opened and f"{hidden}/".startswith(inside):
            mounts[hidden] = _cover(Path(hidden))
    # Sources in places that the box has of its own are bound from outside, by their real path.
    mounts |= {str(path): _bind("--ro-bind-try", path) for path in box.readable}
    mounts |= {str(path): _bind("--bind-try", path) for path in box.writable}
    # A mount hides earlier mounts beneath it, so outer places come first.
    for target in sorted(mounts, key=lambda name: len(Path(name).parts)):
        words += mounts[target]
    return [*words, "--cap-drop", "ALL", "--"]


def _bind(how: str, path: Path) -> list[str]:
    return [how, str(path), str(path)]


def _cover(path: Path) -> list[str]:
    """Mount an empty file or directory over a place, if the place exists."""
    real = path.resolve()
    if real.is_dir():
        return ["--tmpfs", str(real)]
    return ["--ro-bind", os.devnull, str(real)] if real.exists() else []


def _container_words(
    box: Box, environment: Mapping[str, str], cwd: Path, name: str
) -> Iterator[str]:
    assert box.container is not None
    yield from (*box.container.engine, "run", "--rm", "--interactive", "--init", "--name", name)
    yield from ("--workdir", str(cwd), "--network", "host" if box.network else "none")
    yield from ("--pids-limit", str(box.processes), "--security-opt", "no-new-privileges")
    yield from ("--oom-score-adj", EXPENDABLE)
    if box.memory is not None:
        yield from ("--memory", str(box.memory))
    for key, value in box.container.variables:
        if key not in environment:
            yield from ("--env", f"{key}={value}")
    # By name: values would be seen in the process table. The image has its own PATH.
    for key in environment:
        if key not in ("PATH", *_TEMPORARY):
            yield from ("--env", key)
    mounts = {path: "readonly" for path in box.readable if path.exists()}
    mounts |= {path: "" for path in box.writable if path.exists()}
    if box.scratch is not None:
        yield from ("--mount", _mount(box.scratch, "/tmp", ""))  # noqa: S108
    for path in sorted(mounts, key=lambda place: len(place.parts)):
        yield from ("--mount", _mount(path, str(path), mounts[path]))
    yield from (*box.container.options, box.container.image)


def _mount(source: Path, target: str, mode: str) -> str:
    """Return a mount as engines read it: fields of comma-separated values."""
    parts = ["type=bind", f"source={source}", f"target={target}", *([mode] if mode else [])]
    return ",".join(f'"{part}"' if "," in part else part for part in parts)


def _landlock_words(box: Box) -> list[str]:
    scratch = [] if box.scratch is None else [box.scratch]
    fences = {
        "readable": [*SYSTEM, "/proc", "/dev", *map(str, box.readable)],
        "writable": [*map(str, (*box.writable, *scratch)), *_DEVICES],
        "hidden": [*map(str, box.hidden), *_SECRET_SYSTEM],
    }
    return [sys.executable, "-IS", landlock.__file__, json.dumps(fences)]


_NO_BWRAP: Final = "bwrap is not installed or may not make namespaces"
_NO_LANDLOCK: Final = "this kernel has no Landlock"
_MISSING: Final = {
    BoxKind.LANDLOCK: _NO_LANDLOCK,
    BoxKind.BWRAP: _NO_BWRAP,
    BoxKind.CONTAINER: "podman or docker and an `image` under [sandbox] are needed",
    BoxKind.ON: f"{_NO_BWRAP}, no container is set up, and {_NO_LANDLOCK}",
}


def _bwrap_works() -> bool:
    if shutil.which("bwrap") is None:
        return False
    done = subprocess.run(
        ["bwrap", *_NAMESPACES, "--ro-bind", "/", "/", "--proc", "/proc", "--", "true"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=10,
        check=False,
    )
    return done.returncode == 0
