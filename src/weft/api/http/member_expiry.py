"""What a server does for the store when no worker is there to do it: the silent are let go.

Agents of the swarm have no process of ours that could be proved dead; they are freed after a time
of silence, by whoever watches. On this host's own processes a server without work has no say.
"""

from __future__ import annotations

import logging
import time
from typing import Final

import anyio
from anyio.to_thread import run_sync

from weft.errors import StoreError
from weft.process.process_identity import boottime, get_place
from weft.store import Store
from weft.store.replies import forget_replies
from weft.worker.reaper import Here, Silence, sweep

log = logging.getLogger(__name__)

_FORGETS: Final = 600.0  # seconds between two looks at old answers


async def tend(store: Store) -> None:
    """Watch for silence until cancelled."""
    silence, place = Silence(), get_place()

    def look() -> None:
        sweep(
            store,
            here=Here(host=place.host, boot=place.boot),
            silence=silence,
            prove_worker_dead=lambda worker: None,
            prove_dead=lambda lease: None,
            now=time.time(),
            boottime=boottime(),
        )

    while True:
        try:
            await run_sync(look)
        except StoreError as error:
            log.warning("the silent could not be looked for: %s", error)
        await anyio.sleep(store.tuning.heartbeat)


async def forget(store: Store) -> None:
    """Let go of answers that nobody asks for again, until cancelled."""
    while True:
        try:
            await run_sync(lambda: forget_replies(store, now=time.time()))
        except StoreError as error:
            log.warning("old answers could not be forgotten: %s", error)
        await anyio.sleep(_FORGETS)
