"""The engine: opens the store, registers as a worker, and runs the loops in one task group.

A restart is an ordinary start, a second machine an ordinary process.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync

from weft import git
from weft.attempt.orphans import Staying, free_workspaces, prove_dead
from weft.attempt.pushed_candidates import keep_pushed
from weft.config import Config
from weft.errors import InputError, StoreError, Unauthenticated, WeftError, find_passing_fault
from weft.gate.check_run import end_orphaned_check
from weft.gate.gate_loop import Gate
from weft.gate.merge import MergeCandidate, merge
from weft.git.object_store import open_object_store
from weft.model import ONE_TASK, Grant, Lease, Worker
from weft.process import box, cgroup, process_table
from weft.process.launcher import Launcher
from weft.process.process_identity import ProcessPlace, boottime, get_place
from weft.process.process_table import Process
from weft.project.boxes import find_container
from weft.project.own_repository import get_repository
from weft.project.site import Site, Transport
from weft.redaction import list_secrets
from weft.store import Store
from weft.store.admission import admit
from weft.store.limit_table import identity
from weft.store.runs import end_finished, list_runs
from weft.store.teams import hedge, list_slow_hedges
from weft.store.wake import wait_rung
from weft.store.workers import list_processes
from weft.worker.heartbeat import USUAL, Presence, WorkerTraits
from weft.worker.reaper import Here, Silence, sweep, sweep_host
from weft.worker.scheduler import Scheduler

if TYPE_CHECKING:
    from weft.worker.projections.projection_loop import ProjectionLoop

log = logging.getLogger(__name__)

_PATIENCE: Final = 30_000
"""Milliseconds that running agents get to end by themselves when weft is asked to."""

_NET: Final = 5.0  # seconds between two looks for runs without a ring
_LEARNS: Final = 20.0  # seconds between two updates of the tasks' order
_MOMENT: Final = 0.5
_BREATH: Final = 1.0  # seconds before a broken loop starts over
_GLANCE: Final = 0.5  # seconds between two checks of this host's worker processes

Take = Callable[[str], Sequence[Grant]]
"""Asks for work on behalf of a worker."""


class Interrupted(Exception):
    """A person asked weft to stop, and all leases have been handed back."""


class ToldToLeave(Interrupted):
    """`weft worker --leave` asked the workers of this host to go."""


@contextmanager
def open_site(
    store: Store,
    root: Path,
    config: Config,
    environment: Mapping[str, str],
    *,
    mcp: str | None = None,
    checks: bool = True,
) -> Iterator[Site]:
    """Open the site of a worker; `mcp` is the address at which this process serves weft's tools.

    Without it the configuration may name a server on the same store. Without `checks` its gates
    leave checks to hosts, while a host takes them.
    """
    store.hide_secrets(list_secrets(environment, config.gate.env))
    repository = get_repository(root, store)
    with Launcher(cgroup.find_parent()) as launcher:
        site = Site(
            store=store,
            identity=identity(store),
            root=root,
            common=git.common_directory(root),
            repository=repository,
            config=config,
            launcher=launcher,
            able=box.available(find_container(config.sandbox, root)),
            environment=environment,
            combine=lambda tip, candidates: _combine(root, tip, candidates),
            mcp=mcp or (config.server and f"{config.server}/mcp"),
            checks=checks,
        )
        yield site


@contextmanager
def open_host_site(
    store: Store,
    mirror: Path,
    repository: str,
    host: str,
    transport: Transport,
    config: Config,
    environment: Mapping[str, str],
    *,
    mcp: str | None = None,
    checks: bool = False,
) -> Iterator[Site]:
    """Open the site of a worker on a host that has a mirror of the repository."""
    with Launcher(cgroup.find_parent()) as launcher:
        yield Site(
            store=store,
            identity=identity(store),
            root=mirror,
            common=mirror,
            repository=repository,
            config=config,
            launcher=launcher,
            able=box.available(find_container(config.sandbox, mirror)),
            environment=environment,
            combine=lambda tip, candidates: git.outlast_gc(
                lambda: _combine(mirror, tip, candidates)
            ),
            transport=transport,
            host=host,
            mcp=mcp,
            checks=checks,
        )


def _combine(root: Path, tip: str, candidates: Sequence[tuple[str, str]]) -> str:
    """Return the commit that a subtask starts from: trunk merged with its siblings' candidates."""
    with open_object_store(root) as objects:
        steps = merge(
            objects, tip, [MergeCandidate(commit=commit, base=base) for commit, base in candidates]
        )
    if any(not step.clean for step in steps):
        raise WeftError("What its siblings did does not merge with trunk any more.")
    return git.commit_tree(
        root,
        steps[-1].tree,
        [tip, *(commit for commit, _ in candidates)],
        "What a subtask starts from\n",
        name="weft",
        email="weft@localhost",
        date="1000000000 +0000",
    )


@asynccontextmanager
async def serving(
    site: Site,
    *,
    slots: int,
    traits: WorkerTraits = USUAL,
    take: Take | None = None,
    leaving: Callable[[], None] | None = None,
) -> AsyncIterator[Scheduler]:
    """Run the loops while the block lasts; then wait for the running attempts, and leave.

    After a first SIGINT or SIGTERM take no more tasks, call `leaving`, and give running attempts
    their time; after a second end them at once. If the block lasts longer than the attempts, it is
    cancelled and `Interrupted` is raised.
    """
    place = get_place() if not site.host else replace(get_place(), host=site.host)
    patience = shutdown_seconds(site.environment)
    presence = Presence(site, slots, place, kind=ONE_TASK if take else "", traits=traits)
    ask = take or (lambda worker: admit(site.store, worker, now=time.time()))

    def take_fresh() -> Sequence[Grant]:
        presence.reload()
        if site.transport is None:
            return ask(presence.worker)
        site.transport.use.hold("tasks")
        grants = ask(presence.worker)
        if not grants and not scheduler.busy:
            site.transport.use.drop("tasks")
        return grants

    scheduler = Scheduler(site, presence.worker, slots, take=take_fresh, sign=presence.sign)
    projections = None if take or site.transport else _projections(site, presence.worker)
    block = anyio.CancelScope()
    with ExitStack() as receiver:
        # Before it registers, so that a registered worker always leaves in good order.
        signals = receiver.enter_context(anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM))
        await run_sync(presence.register)
        try:
            with site.store.listen("work") as listener:
                async with anyio.create_task_group() as loops, anyio.create_task_group() as work:
                    loops.start_soon(_for_ever, scheduler.heartbeat_loop)
                    loops.start_soon(_for_ever, scheduler.report_loop)
                    loops.start_soon(_for_ever, lambda: _reap_loop(site, scheduler, work, place))
                    loops.start_soon(_for_ever, lambda: scheduler.admit_loop(work, listener))
                    if projections is not None:
                        loops.start_soon(_for_ever, projections.run)
                    if site.transport is not None:
                        loops.start_soon(_for_ever, lambda: _answer_readers(site, place.host))
                        loops.start_soon(_for_ever, lambda: _tend_mirrors(site, place.host))
                    loops.start_soon(_obey_signals, signals, scheduler, block, patience, leaving)
                    try:
                        with block:
                            yield scheduler
                    except Exception:
                        # The caller failed: no part of the program waits for the work any more.
                        await scheduler.stop_all()
                        await scheduler.wait_idle()
                        raise
                    scheduler.drain()
                    await scheduler.wait_idle()
                    loops.cancel_scope.cancel()
            receiver.close()  # a signal that comes now ends the process
            if projections is not None:
                await projections.finish()
            await run_sync(_tidy_up, site)
        finally:
            with anyio.CancelScope(shield=True):
                await run_sync(_leave, presence)
    if block.cancelled_caught:
        raise Interrupted


def _projections(site: Site, worker: str) -> ProjectionLoop:
    from weft.worker.projections.projection_loop import ProjectionLoop  # late: imports all of plans

    return ProjectionLoop(site, worker)


async def _answer_readers(site: Site, host: str) -> None:
    from weft.worker.output_answers import answer_loop  # late: only worker hosts need it

    await answer_loop(site, host)


async def _tend_mirrors(site: Site, host: str) -> None:
    from weft.worker.mirror_upkeep import upkeep_loop  # late: only worker hosts need it

    await upkeep_loop(site, host)


def _tidy_up(site: Site) -> None:
    """Try once more to free workspaces: the next worker may start much later."""
    try:
        free_workspaces(site, Staying())
    except (WeftError, OSError) as error:
        log.warning("could not free the workspaces of ended attempts: %s", error)


def _leave(presence: Presence) -> None:
    try:
        presence.depart()
    except (StoreError, Unauthenticated) as error:
        log.warning("could not record the end of this worker: %s", error)


async def _for_ever(loop: Callable[[], Awaitable[None]]) -> None:
    """Start a loop over when it breaks; the agents it serves run on.

    A break is a defect, except after a fault of the machine, which the scheduler reports.
    """
    while True:
        try:
            await loop()
        except Exception as error:
            if fault := find_passing_fault(error):
                log.info("a loop of weft's starts over: %s", fault)
            else:
                log.exception("a loop of weft's broke, and starts over")
            await anyio.sleep(_BREATH)


async def _obey_signals(
    signals: AsyncIterator[signal.Signals],
    scheduler: Scheduler,
    block: anyio.CancelScope,
    patience: float,
    leaving: Callable[[], None] | None,
) -> None:
    async with anyio.create_task_group() as group:
        asked = False
        async for _ in signals:
            if asked:
                block.cancel()
                await scheduler.kill_all()
            else:
                asked = True
                if leaving is not None:
                    leaving()
                group.start_soon(_shut_down, scheduler, block, patience)


async def _shut_down(scheduler: Scheduler, block: anyio.CancelScope, patience: float) -> None:
    scheduler.drain()
    if scheduler.busy:
        log.warning(
            "Stopping: what runs has %.0f s to end; interrupt again to end it now.", patience
        )
    with anyio.move_on_after(patience):
        await scheduler.wait_idle()
        await anyio.sleep(_MOMENT)  # a follower of the run can print its end
    block.cancel()
    await scheduler.stop_all()


def shutdown_seconds(environment: Mapping[str, str]) -> float:
    text = environment.get("SHUTDOWN_TIMEOUT") or str(_PATIENCE)
    try:
        milliseconds = int(text)
    except ValueError:
        milliseconds = -1
    if milliseconds < 0:
        raise InputError(f"SHUTDOWN_TIMEOUT must be milliseconds, 0 or more, not {text!r}.")
    return milliseconds / 1000


async def guard(site: Site, worker: str) -> None:
    """Serve the gate of every run on this repository while it goes on, until cancelled."""
    gates: set[str] = set()
    async with anyio.create_task_group() as group:
        group.start_soon(_learn_loop, site)
        with site.store.listen("work") as listener:
            while True:
                try:
                    runs = await run_sync(_running_here, site)
                except StoreError as error:
                    log.warning("could not look for runs that need a gate: %s", error)
                    runs = set()
                for run in runs - gates:
                    gates.add(run)
                    group.start_soon(_serve_gate, site, worker, run, gates)
                await wait_rung(listener, seconds=_NET)


def _running_here(site: Site) -> set[str]:
    """End the runs without unfinished tasks; return the running runs of this repository."""
    for run in end_finished(site.store, now=time.time()):
        log.info("run %s has ended", run)
    return {
        run.id
        for run in list_runs(site.store)
        if run.repo == site.repository and run.state == "running"
    }


async def _learn_loop(site: Site) -> None:
    """Update the order of unstarted tasks with the durations of ended attempts."""
    while True:
        await anyio.sleep(_LEARNS)
        from weft.runs.outlook import (
            update_paths,  # late: brings all that plans need with it
        )

        try:
            for run in await run_sync(_running_here, site):
                await run_sync(update_paths, site.store, run)
        except StoreError as error:
            log.warning("could not update the order of tasks: %s", error)


async def _serve_gate(site: Site, worker: str, run: str, gates: set[str]) -> None:
    with site.store.listen("work") as listener:
        await Gate(site, worker, run).serve(listener)
    gates.discard(run)


async def _reap_loop(
    site: Site, scheduler: Scheduler, work: TaskGroup, place: ProcessPlace
) -> None:
    """Find dead workers, adopt their running attempts, free the leases of their ended attempts."""
    silence = Silence()
    staying = Staying()
    while True:
        try:
            await run_sync(lambda: _sweep(site, scheduler, silence, place))
            await scheduler.adopt_orphans(work, place)
            await run_sync(lambda: free_workspaces(site, staying))
            await run_sync(lambda: _hedge(site))
            if site.transport is None:
                await run_sync(lambda: keep_pushed(site, now=time.time()))
        except (WeftError, OSError) as error:
            log.warning("could not check for dead workers: %s", error)
        await _wait_death(site, place)


def _hedge(site: Site) -> None:
    """Start another entrant in each hedge whose attempt is slow."""
    for task in list_slow_hedges(site.store, now=time.time()):
        hedge(site.store, task, now=time.time())


async def _wait_death(site: Site, place: ProcessPlace) -> None:
    """Wait for a heartbeat, or at home until a worker process of this host is gone."""
    if site.transport is not None:
        await anyio.sleep(site.config.tuning.heartbeat)  # each question would go to home
        return
    with anyio.move_on_after(site.config.tuning.heartbeat):
        while True:
            await anyio.sleep(_GLANCE)
            try:
                processes = await run_sync(list_processes, site.store, place.host, place.boot)
            except StoreError:
                continue  # the next sweep logs the error
            if not all(_is_alive(pid, start) for pid, start in processes):
                return


def _sweep(site: Site, scheduler: Scheduler, silence: Silence, place: ProcessPlace) -> None:
    here = Here(host=place.host, boot=place.boot)

    def prove(lease: Lease) -> str | None:
        # This worker settles its own attempts, even those it was late to renew.
        return None if scheduler.holds(lease) else _prove_dead(site, lease)

    if site.transport is not None:
        sweep_host(site.store, here, prove_worker_dead, prove, now=time.time())
        return
    sweep(
        site.store,
        here=here,
        silence=silence,
        prove_worker_dead=prove_worker_dead,
        prove_dead=prove,
        now=time.time(),
        boottime=boottime(),
    )


def _prove_dead(site: Site, lease: Lease) -> str | None:
    proof = prove_dead(site, lease)
    if proof is not None and lease.kind == "check":
        return end_orphaned_check(
            site, lease.holder, lease.fence
        )  # its commands may have outlived its worker
    return proof


def prove_worker_dead(worker: Worker) -> str | None:
    """Return the proof that a worker of this host is dead; None if its process may be alive."""
    if worker.pid is None or worker.pid_start is None:
        return None
    alive = _is_alive(worker.pid, int(worker.pid_start))
    return None if alive else f"process {worker.pid} is gone"


def _is_alive(pid: int, start: int) -> bool:
    """Tell whether a process is alive; a later process with the same pid has another start time."""
    return process_table.is_alive(Process(pid, start))
