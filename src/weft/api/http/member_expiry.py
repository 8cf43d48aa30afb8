"""Expiry of silent members and old answers, by a server without workers.

A member is no process that could be proved dead: it is freed after a time of silence. A server
without workers does not judge the processes of its host.
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
from weft.store.tokens import forget_replies
from weft.worker.reaper import Here, Silence, sweep

log = logging.getLogger(__name__)

_FORGETS: Final = 600.0  # seconds between two deletions


async def tend(store: Store) -> None:
    """Free silent members, until cancelled."""
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
            log.warning("could not check for silent members: %s", error)
        await anyio.sleep(store.tuning.heartbeat)


async def forget(store: Store) -> None:
    """Delete stored answers past their time, until cancelled."""
    while True:
        try:
            await run_sync(lambda: forget_replies(store, now=time.time()))
        except StoreError as error:
            log.warning("could not delete old answers: %s", error)
        await anyio.sleep(_FORGETS)
