"""Whole PostgreSQL clusters of this machine's own programs, to be killed and promoted."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO

import psycopg

from bench.host_network import Host

USER = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
"""The server and the pooler refuse to run as root."""


def find_binaries() -> Path | None:
    """The programs of an installed PostgreSQL, the newest."""
    for postgres in sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True):
        return postgres.parent
    return None


class Cluster:
    """A PostgreSQL with its own data and socket, reached through `directory`.

    `host` is a machine whose network it listens to as well.
    """

    def __init__(self, directory: Path, options: str = "", host: Host | None = None) -> None:
        self.directory = directory
        binaries = find_binaries()
        assert binaries is not None, "no PostgreSQL is installed (Debian: postgresql)"
        self.binaries = binaries
        self._options = f"-k {directory} -c listen_addresses= -c fsync=off {options}".split()
        self._process: subprocess.Popen[bytes] | None = None
        self._host = host
        if host is not None:
            self._options += ["-c", f"listen_addresses={host.address}"]

    @property
    def url(self) -> str:
        return f"postgresql://weft@/postgres?host={self.directory}"

    def run(self, program: str, *arguments: object) -> None:
        subprocess.run(
            [self.binaries / program, *map(str, arguments)],
            user=USER if os.geteuid() == 0 else None,
            cwd=self.directory,
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=120,
        )

    def found(self) -> None:
        data = self.directory / "data"
        self.run("initdb", "-D", data, "-A", "trust", "-U", "weft", "--no-sync")
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.77.0.0/16 trust\n")

    def start(self) -> None:
        with (self.directory / "log").open("a") as log:
            program = self.binaries / "postgres"
            self._process = start_as_user(
                self._host, program, "-D", self.directory / "data", *self._options, log=log
            )
        while not answers(self.url):
            assert self._process.poll() is None, "the server did not start"
            time.sleep(0.02)

    def stop(self) -> None:
        """End the server at once; its sessions are told to leave, and its next start recovers."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        """Kill the server's first process with SIGKILL; the others notice and follow."""
        assert self._process is not None
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        self._process.kill()
        self._process.wait()
        self._process = None
        while any(is_running(int(child)) for child in children):
            time.sleep(0.01)

    def promote(self) -> None:
        self.run("pg_ctl", "promote", "-w", "-D", self.directory / "data")

    def copy(self, primary: Cluster) -> None:
        """Become a standby that follows a primary."""
        data = self.directory / "data"
        self.run("pg_basebackup", "-D", data, "-R", "-X", "stream", "-c", "fast", "-d", primary.url)


def start_as_user(host: Host | None, *words: str | Path, log: IO[str]) -> subprocess.Popen[bytes]:
    """Start a server as the user that it asks for, on this machine's network or that of a host."""
    if host is None:
        return subprocess.Popen(words, user=USER if os.geteuid() == 0 else None, stderr=log)
    user = pwd.getpwnam(USER)
    # It ends with this process, as the host does, even after kill -9.
    who = (f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    command = [*host.enter("--net"), "setpriv", *who, "--pdeathsig=KILL", *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)


def is_running(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


@contextmanager
def own_directory() -> Iterator[Path]:
    """A directory with a short name, for sockets, that belongs to the server's user."""
    directory = Path(tempfile.mkdtemp(prefix="weft-pg-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(directory, USER)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def running_cluster(options: str = "", host: Host | None = None) -> Iterator[Cluster]:
    """A new PostgreSQL of the machine's own, stopped in the end."""
    with own_directory() as directory:
        cluster = Cluster(directory, options, host)
        cluster.found()
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()


@contextmanager
def standby_of(primary: Cluster) -> Iterator[Cluster]:
    with own_directory() as directory:
        standby = Cluster(directory)
        standby.copy(primary)
        standby.start()
        try:
            yield standby
        finally:
            standby.stop()


def answers(url: str) -> bool:
    with suppress(psycopg.OperationalError), closing(psycopg.connect(url)):
        return True
    return False
