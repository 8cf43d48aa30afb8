"""The loops of a worker behind a command that watches the store.

The command passes a `Watch`: its `look` reads and prints new events, and returns True at the end.
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, NoReturn, Protocol, TypeVar

import anyio
from anyio.to_thread import run_sync

from weft.agents.classify import Stop
from weft.cli.poll_interval import NET, Rhythm
from weft.errors import StoreError, WeftError
from weft.gate.host_checks import check_for_gates
from weft.project.own_repository import get_repository
from weft.project.project import Project
from weft.project.site import Site
from weft.project.warning_log import show_warnings
from weft.runs.host_list import is_served
from weft.store import Store
from weft.store.wake import wait_rung
from weft.worker.engine import (
    Interrupted,
    Take,
    ToldToLeave,
    guard,
    open_site,
    serving,
    shutdown_seconds,
)
from weft.worker.heartbeat import USUAL, WorkerTraits

log = logging.getLogger(__name__)

T = TypeVar("T")

_SWITCH = 0.0005  # seconds
_RESTS = 10  # times as long as the look took


Beside = Callable[[Site, str], Coroutine[Any, Any, None]]
"""A coroutine that runs beside the loops of a worker."""


class Watch(Protocol):
    @property
    def rhythm(self) -> Rhythm: ...

    def look(self) -> bool:
        """Read the news since the last look; return True at the end of the watch."""
        ...


def serve(
    project: Project,
    store: Store,
    watch: Callable[[str], Watch],
    *,
    slots: int = 1,
    traits: WorkerTraits = USUAL,
    take: Take | None = None,
    beside: Beside | None = None,
    leaving: Callable[[], None] | None = None,
    mcp: str | None = None,
    checks: bool = True,
) -> None:
    """Be a worker until the watch, made by `watch` for that worker, is at its end.

    `beside` runs as long, such as the gates of the repository's runs. `leaving` is called at the
    first interruption. `mcp` is the address of weft's tools for the worker's agents. Raise
    `engine.Interrupted` at an interruption before the end. Without `checks` hosts run the checks.
    """
    show_warnings()
    shutdown_seconds(project.environment)  # refuse a wrong value before an attempt starts
    site = open_site(
        store, project.root, project.config, project.environment, mcp=mcp, checks=checks
    )
    _run(_serve, site, store, watch, slots, traits, take, beside, leaving)


def serve_elsewhere(
    site: AbstractContextManager[Site],
    store: Store,
    watch: Callable[[str], Watch],
    *,
    slots: int,
    traits: WorkerTraits,
    beside: Beside | None = None,
) -> None:
    """Be a worker on a host without the repository: agents run here, the gate stays at home.

    `beside` runs as long as the worker.
    """
    show_warnings()
    _run(_serve, site, store, watch, slots, traits, None, beside)


def attend(project: Project, store: Store, watch: Watch, *, slots: int) -> bool:
    """Watch, and be a worker as soon as no other process serves this repository.

    Return whether this process was a worker. Raise `engine.Interrupted` if a person would not wait
    for the end.
    """
    show_warnings()
    shutdown_seconds(project.environment)
    return _run(_attend, project, store, watch, slots)


def work_beside(project: Project, store: Store, work: Beside) -> None:
    """Be a worker that takes no task until `work` has ended."""
    show_warnings()
    _run(_work_beside, project, store, work)


async def _work_beside(project: Project, store: Store, work: Beside) -> None:
    with open_site(store, project.root, project.config, project.environment) as site:
        async with serving(site, slots=1, take=lambda worker: ()) as scheduler:
            await work(site, scheduler.worker)


def run_until_asked(
    work: Callable[[], Coroutine[Any, Any, None]], leaving: Callable[[], None]
) -> None:
    """Run `work`, which runs no agents, until a person interrupts it."""
    show_warnings()
    _run(_until_asked, work, leaving)


async def _until_asked(
    work: Callable[[], Coroutine[Any, Any, None]], leaving: Callable[[], None]
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as group:
            group.start_soon(work)
            async for _ in signals:
                leaving()
                group.cancel_scope.cancel()
                return


def look_on(store: Store, watch: Watch) -> None:
    """Watch without being a worker; raise `engine.Interrupted` at an interruption."""
    show_warnings()
    _run(_look_on, store, watch, None)


def look_on_there(store: Store, repo: str, watch: Watch) -> None:
    """Watch a run in the repository of a server; raise `engine.Interrupted` at an interruption."""
    show_warnings()
    if not is_served(store, repo):
        log.warning("no worker takes tasks there now; `weft worker` there starts one")
    look_on(store, watch)


def _run(function: Callable[..., Coroutine[Any, Any, T]], *arguments: object) -> T:
    # Threads that return from git and the database do not wait long for a thread that computes.
    sys.setswitchinterval(_SWITCH)
    try:
        return anyio.run(function, *arguments)
    except BaseExceptionGroup as group:
        _raise_plainly(group)


async def _attend(project: Project, store: Store, watch: Watch, slots: int) -> bool:
    repo = await run_sync(get_repository, project.root, store)
    while await run_sync(is_served, store, repo):
        if await _look_on(store, watch, repo):
            return False
    site = open_site(store, project.root, project.config, project.environment)
    await _serve(site, store, lambda worker: watch, slots, USUAL, None, guard)
    return True


async def _look_on(store: Store, watch: Watch, repo: str | None) -> bool:
    """Watch to the end; return False if no process serves the repository any more."""
    async with anyio.create_task_group() as group:
        group.start_soon(_raise_at_signal)
        seen = await _watch(store, watch, repo)
        group.cancel_scope.cancel()
    return seen


async def _raise_at_signal() -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            raise Interrupted


async def _serve(
    opening: AbstractContextManager[Site],
    store: Store,
    watch: Callable[[str], Watch],
    slots: int,
    traits: WorkerTraits,
    take: Take | None,
    beside: Beside | None,
    leaving: Callable[[], None] | None = None,
) -> None:
    with opening as site:
        async with (
            serving(site, slots=slots, traits=traits, take=take, leaving=leaving) as scheduler,
            anyio.create_task_group() as group,
        ):
            if beside is not None:
                group.start_soon(beside, site, scheduler.worker)
            if site.transport is not None:
                group.start_soon(check_for_gates, site, scheduler)
            try:
                await _watch(store, watch(scheduler.worker))
            except ToldToLeave:
                await scheduler.stop_all(Stop.LEAVE)
                raise
            group.cancel_scope.cancel()


async def _watch(store: Store, watch: Watch, served: str | None = None) -> bool:
    """Look until the end; return False if no process serves the repository `served` any more."""
    with store.listen("events") as listener:
        asked = anyio.current_time()
        looks, rhythm = _Looks(watch), watch.rhythm
        while not await run_sync(looks.look):
            await anyio.sleep(min(rhythm.rest, _RESTS * looks.took))
            await wait_rung(listener, seconds=rhythm.net)
            if served is not None and anyio.current_time() > asked + NET:
                asked = anyio.current_time()
                if not await run_sync(is_served, store, served):
                    return False
    return True


class _Looks:
    """The looks of a watch; a store that does not answer is logged once and asked again."""

    def __init__(self, watch: Watch) -> None:
        self.took = 0.0  # seconds of processor time, the last time
        self._watch = watch
        self._failure = ""

    def look(self) -> bool:
        began = time.thread_time()
        try:
            done = self._watch.look()
        except StoreError as error:
            if str(error) != self._failure:
                log.warning("cannot read the events just now: %s", error)
            self._failure = str(error)
            return False
        finally:
            self.took = time.thread_time() - began
        self._failure = ""
        return done


def _raise_plainly(group: BaseExceptionGroup[BaseException]) -> NoReturn:
    """Raise the only error in nested groups, if it is weft's own; else raise the group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, WeftError | Interrupted):
        raise error from None
    raise group
