"""Hosts on one machine: namespaces with their own network, name, processes, home and /tmp.

A process holds each host. It reads a pipe from this process and is the first process of the host,
so the kernel ends every process of the host when this process ends, however it ends; the network
goes with the last process. Hosts meet in a router, which can drop the packets of each direction
without a word to either side.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

_NAMESPACES: Final = ("--net", "--uts", "--pid", "--mount")
_PROGRAMS: Final = ("ip", "mount", "nsenter", "unshare")
_DROPPED: Final = "99"  # the router's table of routes that drops every packet
_HOME: Final = "/home"
_OWN: Final = (_HOME, "/tmp")  # directories a host shares with no other; the last may hold PLACE
_FIRST: Final = """
set -e
mount --make-rprivate /
for source in $BOUND; do
    if [ -d "$source" ]; then mkdir -p "$PLACE$source"; mount --rbind "$source" "$PLACE$source"; fi
done
for directory in $OWN; do mount --rbind "$PLACE$directory" "$directory"; done
mount -t proc proc /proc
hostname "$NAME"
ip link set lo up
trap '' CHLD  # the kernel buries the children of this process
echo ready
exec cat > /dev/null
"""


def find_obstacle() -> str | None:
    """Return the reason why this machine allows no hosts, or None."""
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)} not installed (Debian: iproute2, mount, util-linux)"
    command = ["unshare", *_NAMESPACES, "--fork", "ip", "link"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"no namespaces for this user: {tried.stderr.strip()}" if tried.returncode else None


def _list_bound() -> list[str]:
    """The directories of this program and of Python that a directory of a host would hide."""
    source = Path(__file__).resolve().parents[1]
    places = {str(source), sys.prefix, sys.base_prefix}
    return sorted(place for place in places if place.startswith(tuple(f"{own}/" for own in _OWN)))


@cache
def first_in_line() -> tuple[str, ...]:
    """Return the words that let a command go before others, where this user may do that.

    A real host has a processor of its own: the other work of this machine must not silence it.
    """
    words = ("nice", "-n", "-10")
    done = subprocess.run([*words, "true"], capture_output=True, check=False)
    return () if done.stderr else words


class HostProcess:
    """A process on a host, started by `nsenter`, which ends with it."""

    def __init__(self, entrance: subprocess.Popen[bytes], output: Path, errors: Path) -> None:
        self.entrance = entrance
        self.output = output
        self.errors = errors

    @property
    def pid(self) -> int:
        """The pid of the process itself, as seen from outside the host."""
        entrance = self.entrance.pid
        children = Path(f"/proc/{entrance}/task/{entrance}/children").read_text().split()
        return int(children[0])

    def ended(self) -> bool:
        return self.entrance.poll() is not None

    def stop(self) -> None:
        """Let the process stand still until it is resumed."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
        os.kill(self.entrance.pid, signal.SIGCONT)  # `nsenter` stops with its child

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.entrance.wait()

    def wait(self, timeout: float) -> int:
        return self.entrance.wait(timeout)


class Host:
    """A machine of its own, as far as its processes can tell."""

    def __init__(self, name: str, place: Path, address: str) -> None:
        self.name = name
        self.address = address
        self.place = place  # parent of its own directories, seen from outside
        for own in _OWN:
            (place / own.strip("/")).mkdir(parents=True, exist_ok=True)
        self._processes: list[HostProcess] = []
        self._holder = subprocess.Popen(
            ["unshare", *_NAMESPACES, "--fork", "--kill-child", "sh", "-c", _FIRST],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "NAME": name,
                "PLACE": str(place),
                "OWN": " ".join(_OWN),
                "BOUND": " ".join(_list_bound()),
            },
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "ready\n", f"the host {name} did not start"
        children = f"/proc/{self._holder.pid}/task/{self._holder.pid}/children"
        self.first = int(Path(children).read_text())

    @property
    def home(self) -> Path:
        """The home directory of its user, seen from outside."""
        return self.place / _HOME.strip("/")

    @property
    def tmp(self) -> Path:
        return self.place / "tmp"

    def inside(self, path: Path) -> str:
        """The name by which the host knows a file of its own."""
        return f"/{path.relative_to(self.place)}"

    def enter(self, *namespaces: str) -> tuple[str, ...]:
        """The words before a command that let it run on this host, or in a part of it."""
        words = ("nsenter", "--target", str(self.first), *(namespaces or _NAMESPACES))
        return (*first_in_line(), *words)

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], *, directory: Path | None = None
    ) -> HostProcess:
        """Start a program in a directory of this host; its output goes to files."""
        where = f"--wdns={self.inside(directory or self.home)}"
        name = time.monotonic_ns()
        output, errors = self.place / f"{name}.output", self.place / f"{name}.errors"
        with output.open("wb") as out, errors.open("wb") as err:
            entrance = subprocess.Popen(
                [*self.enter(), where, *words],
                env={**environment, "HOME": _HOME, "TMPDIR": "/tmp"},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        process = HostProcess(entrance, output, errors)
        self._processes.append(process)
        return process

    def run(self, *words: str, namespaces: tuple[str, ...] = ("--net",)) -> str:
        """Run a command in some namespaces of this host: in its network, if not told otherwise."""
        command = [*self.enter(*namespaces), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def listen(self) -> socket.socket:
        """Open a port at the host's own 127.0.0.1, served by this process."""
        system = ctypes.CDLL(None, use_errno=True)
        with (
            open("/proc/thread-self/ns/net") as own,
            open(f"/proc/{self.first}/ns/net") as other,
        ):
            try:
                assert system.setns(other.fileno(), 0) == 0
                return socket.create_server(("127.0.0.1", 0))
            finally:
                assert system.setns(own.fileno(), 0) == 0

    def end(self) -> None:
        """End every process of this host at once, as a power cut does."""
        assert self._holder.stdin is not None
        self._holder.stdin.close()
        self._holder.kill()  # its child, the first process of the host, is killed with it
        self._holder.wait()
        assert self._holder.stdout is not None
        self._holder.stdout.close()
        for process in self._processes:
            process.entrance.kill()
            process.entrance.wait()


class HostNetwork:
    """A router, and hosts that reach each other through it alone."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.hosts: dict[str, Host] = {}
        self._links = 0
        self.router = Host("router", place / "router", "")
        self.router.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        self.router.run("ip", "route", "add", "blackhole", "default", "table", _DROPPED)

    def add(self, name: str) -> Host:
        """Add a host; a host of that name that has ended keeps its directories."""
        self._links += 1
        number = self._links
        own, gateway = f"10.77.{number}.2", f"10.77.{number}.1"
        host = Host(name, self._place / name, own)
        link, peer = f"link{number}", f"peer{number}"
        self.router.run("ip", "link", "add", "name", link, "type", "veth", "peer", "name", peer)
        self.router.run("ip", "link", "set", peer, "netns", str(host.first))
        self.router.run("ip", "address", "add", f"{gateway}/24", "dev", link)
        self.router.run("ip", "link", "set", link, "up")
        host.run("ip", "address", "add", f"{own}/24", "dev", peer)
        host.run("ip", "link", "set", peer, "up")
        host.run("ip", "route", "add", "default", "via", gateway)
        self.hosts[name] = host
        return host

    def slow_down(self, name: str, rate: str) -> None:
        """Bound what a host can send, such as 8mbit."""
        link = self._link_of(name)
        bound = ("rate", rate, "burst", "16kb", "latency", "1s")
        self.hosts[name].run("tc", "qdisc", "replace", "dev", link, "root", "tbf", *bound)

    def speed_up(self, name: str) -> None:
        self.hosts[name].run("tc", "qdisc", "delete", "dev", self._link_of(name), "root")

    def _link_of(self, name: str) -> str:
        return f"peer{self.hosts[name].address.split('.')[2]}"

    def drop(self, source: str, target: str) -> None:
        """Drop the packets from a host to another in the router; neither side is told."""
        self._rule("add", source, target)

    def pass_on(self, source: str, target: str) -> None:
        self._rule("delete", source, target)

    def cut(self, first: str, second: str) -> None:
        """Drop the packets between two hosts in both directions."""
        self.drop(first, second)
        self.drop(second, first)

    def is_whole(self) -> bool:
        return _DROPPED not in self.router.run("ip", "rule")

    def heal(self, first: str, second: str) -> None:
        self.pass_on(first, second)
        self.pass_on(second, first)

    def _rule(self, verb: str, source: str, target: str) -> None:
        ends = ("from", self.hosts[source].address, "to", self.hosts[target].address)
        self.router.run("ip", "rule", verb, *ends, "lookup", _DROPPED)

    def close(self) -> None:
        for host in (*self.hosts.values(), self.router):
            host.end()
