"""The engine: opens the store, registers as a worker, and runs the loops in one task group.

A restart is an ordinary start, a second machine an ordinary process. What the loops decide is
theirs; what is done with the result is the faces'.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync

from weft import git
from weft.attempt.site import Site, agent_names, read_agent
from weft.config import Config
from weft.errors import InputError, LimitsDiffer, StoreError, WeftError
from weft.gate.loop import Gate
from weft.gate.merge import Candidate, merge
from weft.gate.plumbing import open_plumbing
from weft.model import AgentFile, Grant, Lease, NewWorker, Worker
from weft.process import cgroup, sandbox, table
from weft.process.death import proof_of_death
from weft.process.launcher import Launcher
from weft.process.place import Place, boottime, here
from weft.process.table import Process
from weft.reaper import Here, Silence, sweep
from weft.scheduler import Scheduler, was_started
from weft.store import Store
from weft.store.limits import identity
from weft.store.runs import end_finished, list_runs
from weft.store.workers import depart, find_workers, register

log = logging.getLogger(__name__)

_PATIENCE: Final = 30_000
"""Milliseconds that running agents get to end by themselves when weft is asked to."""

_NET: Final = 5.0  # seconds after which to look although nobody rang
_MOMENT: Final = 0.5

Take = Callable[[str], Sequence[Grant]]
"""Asks for work on behalf of a worker."""


class Interrupted(Exception):
    """A person asked weft to stop, and everything has been handed back."""


@contextmanager
def open_site(
    store: Store, root: Path, config: Config, environment: Mapping[str, str]
) -> Iterator[Site]:
    with Launcher() as launcher:
        yield Site(
            store=store,
            identity=identity(store),
            root=root,
            common=git.common_directory(root),
            config=config,
            launcher=launcher,
            able=sandbox.available(),
            cgroup=cgroup.find_parent(),
            environment=environment,
            combine=lambda tip, candidates: _combine(root, tip, candidates),
        )


def _combine(root: Path, tip: str, candidates: Sequence[tuple[str, str]]) -> str:
    """What a subtask starts from: trunk, and on it what its siblings have done."""
    with open_plumbing(root) as plumbing:
        steps = merge(plumbing, tip, [Candidate(commit=one, base=base) for one, base in candidates])
    if any(not step.clean for step in steps):
        raise WeftError("What its siblings did does not merge with trunk any more.")
    return git.commit_tree(
        root,
        steps[-1].tree,
        [tip, *(one for one, _ in candidates)],
        "What a subtask starts from\n",
        name="weft",
        email="weft@localhost",
        date="1000000000 +0000",
    )


@asynccontextmanager
async def serving(site: Site, *, slots: int, take: Take | None = None) -> AsyncIterator[Scheduler]:
    """Run the loops while the block lasts; then see what runs through to its end, and leave.

    A first SIGINT or SIGTERM takes nothing more and gives what runs its time, a second ends it
    at once. A block that is still going on when that is over is left with `Interrupted`.
    """
    place = here()
    worker = f"{place.host}-{os.getpid()}-{secrets.token_hex(3)}"
    await run_sync(_register, site, worker, slots, place)
    scheduler = Scheduler(site, worker, slots, take=(lambda: take(worker)) if take else None)
    block = anyio.CancelScope()
    try:
        with site.store.listen("work") as listener:
            async with anyio.create_task_group() as loops, anyio.create_task_group() as work:
                loops.start_soon(scheduler.heartbeat_loop)
                loops.start_soon(scheduler.report_loop)
                loops.start_soon(_reap_loop, site, scheduler, work, place)
                loops.start_soon(_obey_signals, site, scheduler, block)
                loops.start_soon(scheduler.admit_loop, work, listener)
                with block:
                    yield scheduler
                scheduler.drain()
                await scheduler.wait_idle()
                await scheduler.flush()
                loops.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await run_sync(lambda: depart(site.store, worker, now=time.time()))
    if block.cancelled_caught:
        raise Interrupted


async def _obey_signals(site: Site, scheduler: Scheduler, block: anyio.CancelScope) -> None:
    patience = shutdown_seconds(site.environment)
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as group:
            asked = False
            async for _ in signals:
                if asked:
                    scheduler.kill_all()
                    block.cancel()
                else:
                    asked = True
                    group.start_soon(_shut_down, scheduler, block, patience)


async def _shut_down(scheduler: Scheduler, block: anyio.CancelScope, patience: float) -> None:
    scheduler.drain()
    if scheduler.busy:
        log.warning(
            "Stopping: what runs has %.0f s to end; interrupt again to end it now.", patience
        )
    with anyio.move_on_after(patience):
        await scheduler.wait_idle()
        await anyio.sleep(_MOMENT)  # whoever follows may see it end
    scheduler.stop_all()
    block.cancel()


def shutdown_seconds(environment: Mapping[str, str]) -> float:
    text = environment.get("SHUTDOWN_TIMEOUT") or str(_PATIENCE)
    try:
        milliseconds = int(text)
    except ValueError:
        milliseconds = -1
    if milliseconds < 0:
        raise InputError(f"SHUTDOWN_TIMEOUT must be milliseconds, 0 or more, not {text!r}.")
    return milliseconds / 1000


def _register(site: Site, worker: str, slots: int, place: Place) -> None:
    own = table.get_own()
    new = NewWorker(
        id=worker,
        slots=slots,
        host=place.host,
        boot=place.boot,
        pid=own.pid,
        pid_start=float(own.start),
        agents=agent_files(site.root),
        repos=(str(site.common),),
        host_limits=_host_limits(site.config),
    )
    register(site.store, new, now=time.time(), stated=site.config.stated)


def agent_files(root: Path) -> tuple[AgentFile, ...]:
    """What the agent files of a repository say of their limits; broken ones are left out."""
    found = []
    for name in agent_names(root):
        try:
            agent = read_agent(root, name)
        except InputError as error:
            log.warning("%s", error)
            continue
        source = f"{socket.gethostname()}:{root / agent.file}"
        found.append(AgentFile(name=name, source=source, max_concurrency=agent.max_concurrency))
    return tuple(found)


def _host_limits(config: Config) -> dict[str, int]:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return {
        "ram_mb": max(1, total - config.workspace.spare_ram_mb),
        "port": config.workspace.ports,
    }


async def guard(site: Site, worker: str) -> None:
    """Serve the gate of every run on this repository, until cancelled."""
    gates: set[str] = set()
    async with anyio.create_task_group() as group:
        with site.store.listen("work") as listener:
            while True:
                await run_sync(_end_finished, site)
                for run in await run_sync(list_runs, site.store):
                    here_too = run.state == "running" and run.repo == str(site.common)
                    if here_too and run.id not in gates:
                        gates.add(run.id)
                        group.start_soon(_serve_gate, site, worker, run.id)
                with anyio.move_on_after(_NET):
                    await anyio.wait_readable(listener)
                listener.wait(0)


def _end_finished(site: Site) -> None:
    for run in end_finished(site.store, now=time.time()):
        log.info("run %s has ended", run)


async def _serve_gate(site: Site, worker: str, run: str) -> None:
    with site.store.listen("work") as listener:
        await Gate(site, worker, run).serve(listener)


async def _reap_loop(site: Site, scheduler: Scheduler, work: TaskGroup, place: Place) -> None:
    """Find the dead, go on with what they left, free what nobody can go on with."""
    silence = Silence()
    while True:
        try:
            await run_sync(lambda: _sweep(site, silence, place))
            await scheduler.adopt_orphans(work, place)
        except (StoreError, LimitsDiffer) as error:
            log.warning("the dead could not be looked for: %s", error)
        await anyio.sleep(site.config.tuning.heartbeat)


def _sweep(site: Site, silence: Silence, place: Place) -> None:
    sweep(
        site.store,
        here=Here(host=place.host, boot=place.boot),
        silence=silence,
        prove_worker_dead=_prove_worker_dead,
        prove_dead=lambda lease: _prove_dead(site, lease),
        now=time.time(),
        boottime=boottime(),
    )


def _prove_worker_dead(worker: Worker) -> str | None:
    if worker.pid is None or worker.pid_start is None:
        return None
    process = Process(worker.pid, int(worker.pid_start))
    return None if table.is_alive(process) else f"process {worker.pid} is gone"


def _prove_dead(site: Site, lease: Lease) -> str | None:
    """Proof for a lease of this host. What can be gone on with is left to be adopted."""
    holder = find_workers(site.store, [lease.worker or ""], now=time.time()).get(lease.worker or "")
    gone = holder is not None and holder.left is not None
    if lease.task is None or lease.attempt is None:
        return "its process is gone" if gone else None
    if gone and was_started(site, lease):
        return None
    directory = site.directory(lease.task, lease.attempt)
    marker = site.marker(lease.task, lease.attempt)
    if proof_of_death(directory, marker):
        return "no process of it is left"
    return None
