"""This process as a worker in the store: registered, alive, gone."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from msgspec import Struct

from weft.config import Config
from weft.errors import InputError, LimitsDiffer
from weft.gate.check_run import describe_machine
from weft.git import gc_lock
from weft.model import NO_CHECKS, AgentFile, NewWorker
from weft.process import process_table
from weft.process.process_identity import ProcessPlace
from weft.project.host_agents import NO_PROGRAM, find_lacks, list_able_agents
from weft.project.site import AGENTS, Site, agent_names, read_agent, read_agent_file
from weft.runs.host_list import describe_lacks
from weft.store.leases import list_open
from weft.store.workers import depart, heartbeat, register

log = logging.getLogger(__name__)


class WorkerTraits(Struct, frozen=True, kw_only=True):
    """The traits that a worker states when it registers."""

    labels: tuple[str, ...] = ()
    alone: bool = False  # its process does nothing else, and can be told to leave


USUAL: Final = WorkerTraits()
_AGAIN: Final = 10.0  # seconds between two looks for missing programs


class Presence:
    def __init__(
        self,
        site: Site,
        slots: int,
        place: ProcessPlace,
        *,
        kind: str = "",
        traits: WorkerTraits = USUAL,
    ) -> None:
        self.worker = f"{place.host}-{os.getpid()}-{secrets.token_hex(3)}"
        self._name = f"{kind}{self.worker}"
        self._site = site
        self._slots = slots
        self._traits = traits
        self._place = place
        self._files: object = None  # names, times and sizes of the agent files when last read
        self._lacks: Mapping[str, str] = {}  # of agents, when last registered
        self._looked = -_AGAIN  # when programs were last looked for

    def register(self) -> None:
        own = process_table.get_own()
        files, lacks = self._look(), self._find_lacks()
        new = NewWorker(
            id=self.worker,
            name=self._name,
            slots=self._slots,
            host=self._place.host,
            boot=self._place.boot,
            pid=own.pid,
            pid_start=float(own.start),
            agents=agent_files(self._site, lacks),
            repos=(self._site.repository,),
            host_limits=_host_limits(self._site.config),
            gates=self._site.transport is None,
            lacks=lacks,
            labels=self._traits.labels,
            alone=self._traits.alone,
            checks=self._describe_checks(),
        )
        stated = self._site.config.stated if self._site.transport is None else {}
        register(self._site.store, new, now=time.time(), stated=stated)
        self._files, self._lacks = files, lacks

    def _describe_checks(self) -> str:
        """Return the kind of this machine if this worker takes the checks of gates elsewhere."""
        if self._site.transport is None:
            return "" if self._site.checks else NO_CHECKS
        return describe_machine() if self._site.checks else ""

    def _find_lacks(self) -> dict[str, str]:
        """Find the programs, variables and sandboxes that agents lack on this host.

        A host that has joined logs them: at home `weft agents` and the start of a run do.
        """
        transport = self._site.transport
        if transport is None:
            return find_lacks(_read_files(self._site), self._site)
        lacks = find_lacks(transport.read_settings().agents, self._site)
        for lack in describe_lacks(lacks):
            log.warning("on this host %s", lack)
        return lacks

    def reload(self) -> None:
        """State the limits and programs of agents anew if a file was edited or a program came."""
        files = self._look()
        if files == self._files and not self._has_gained():
            return
        self._files = files
        try:
            self.register()
        except LimitsDiffer as error:
            log.warning("could not register the changed limits of agents: %s", error)

    def _has_gained(self) -> bool:
        """Tell whether home has got a program that its agents lacked; look from time to time."""
        now = time.monotonic()
        if self._site.transport is not None or not self._lacks or now < self._looked + _AGAIN:
            return False
        self._looked = now
        return self._find_lacks() != self._lacks

    def sign(self) -> None:
        """Send a heartbeat; a worker taken for dead registers again, without its old leases."""
        if not heartbeat(self._site.store, self.worker, now=time.time()):
            self.register()
        self._guard_objects()

    def _guard_objects(self) -> None:
        """Keep `git gc` away while attempts, checks and gates make objects."""
        try:
            busy = self._makes_objects()
            if not busy:
                gc_lock.release(self._site.common)
                busy = self._makes_objects()  # an attempt may have begun before the release
            if busy:
                gc_lock.hold(self._site.common)
        except OSError as error:
            log.warning("could not lock out `git gc`: %s", error)

    def _makes_objects(self) -> bool:
        leases = list_open(self._site.store)
        return any(lease.kind not in ("run", "projection") for lease in leases)

    def depart(self) -> None:
        with suppress(OSError):
            gc_lock.release(self._site.common)
        depart(self._site.store, self.worker, now=time.time())

    def _look(self) -> object:
        """List names, times and sizes of the agent files; they differ once a file has changed."""
        files = []
        for name in agent_names(self._site.root):
            try:
                seen = os.stat(self._site.root / AGENTS / f"{name}.md")
            except OSError:
                continue
            files.append((name, seen.st_mtime_ns, seen.st_size, seen.st_ino))
        return files


def agent_files(site: Site, lacks: Mapping[str, str]) -> tuple[AgentFile, ...]:
    """Read the limits that the agent files of a repository state; leave out broken files.

    A worker at home states agents without their programs, too: such tasks are left to hosts.
    """
    if site.transport is not None:
        able = list_able_agents(site.transport.read_settings().agents, site)
        return tuple(AgentFile(name=name, source="") for name in able)
    files = []
    for name in agent_names(site.root):
        try:
            agent = read_agent(site.root, name)
        except InputError as error:
            log.warning("%s", error)
            continue
        source = f"{socket.gethostname()}:{site.root / agent.file}"
        files.append(
            AgentFile(
                name=name,
                source=source,
                max_concurrency=agent.max_concurrency,
                able=not lacks.get(name, "").endswith(NO_PROGRAM),
            )
        )
    return tuple(files)


def _host_limits(config: Config) -> dict[str, int]:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return {
        "ram_mb": max(1, total - config.workspace.spare_ram_mb),
        "port": config.workspace.ports,
    }


def _read_files(site: Site) -> dict[str, str]:
    files = {}
    for name in agent_names(site.root):
        with suppress(InputError):  # `agent_files` logs a file that cannot be read
            files[name] = read_agent_file(site.root, name)
    return files
