"""Running the loops behind a command while it watches the store.

What a command watches for is its own: an object whose `look` reads what is new, prints it, and
says whether that was all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, Protocol

import anyio
from anyio.to_thread import run_sync

from weft.attempt.site import Site
from weft.engine import Take, open_site, serving, shutdown_seconds
from weft.errors import StoreError, WeftError
from weft.operations.project import Project
from weft.store import Store

log = logging.getLogger(__name__)

_NET = 1.0  # seconds after which to look although nobody rang


Beside = Callable[[Site, str], Coroutine[Any, Any, None]]
"""Something to do beside the loops, for a worker."""


class Watch(Protocol):
    def look(self) -> bool:
        """Take in what has happened since; True if there is nothing more to wait for."""
        ...


def serve(
    project: Project,
    store: Store,
    watch: Callable[[str], Watch],
    *,
    slots: int = 1,
    take: Take | None = None,
    beside: Beside | None = None,
) -> None:
    """Be a worker until `watch`, made for that worker, has seen all it waits for.

    `beside` goes on as long, such as the gates of the repository's runs.
    Raises `engine.Interrupted` if a person would not wait for that.
    """
    logging.basicConfig(format="weft: %(message)s", level=logging.WARNING)
    shutdown_seconds(project.environment)  # a mistake there shows before anything starts
    try:
        anyio.run(_serve, project, store, watch, slots, take, beside)
    except BaseExceptionGroup as group:
        _raise_plainly(group)


async def _serve(
    project: Project,
    store: Store,
    watch: Callable[[str], Watch],
    slots: int,
    take: Take | None,
    beside: Beside | None,
) -> None:
    with open_site(store, project.root, project.config, project.environment) as site:
        async with (
            serving(site, slots=slots, take=take) as scheduler,
            anyio.create_task_group() as group,
        ):
            if beside is not None:
                group.start_soon(beside, site, scheduler.worker)
            await _watch(store, watch(scheduler.worker))
            group.cancel_scope.cancel()


async def _watch(store: Store, watch: Watch) -> None:
    with store.listen("events") as listener:
        while not await run_sync(_look, watch):
            with anyio.move_on_after(_NET):
                await anyio.wait_readable(listener)
            listener.wait(0)


def _look(watch: Watch) -> bool:
    try:
        return watch.look()
    except StoreError as error:
        log.warning("what happens cannot be seen just now: %s", error)
        return False


def _raise_plainly(group: BaseExceptionGroup[BaseException]) -> NoReturn:
    """Task groups wrap whatever ends them; what weft raised on purpose is one sentence."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, WeftError):
        raise error from None
    raise group
