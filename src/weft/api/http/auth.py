"""Tokens of requests: a bearer token becomes an identity, in the transaction that serves the
request. Before a body is read, `TokenCheck` tests whether the token is valid at all.

There are no cookies, so no page can send requests in the name of its reader. Tokens are not
accepted in addresses, which end up in logs.
"""

from __future__ import annotations

import hashlib
import time
from typing import Final

import anyio
from anyio.to_thread import run_sync
from fastapi import Request

from weft.errors import StoreBusy, Unauthenticated
from weft.operations.identity import Identity, from_token, need
from weft.store import Store
from weft.store.database import Transaction
from weft.store.tokens import identify, is_token

OWN: Final = "own"
"""In place of a scope: open to tokens of a single attempt too. The operation decides which tasks
such a token may see and touch."""

_TRUSTED: Final = 5.0  # seconds after which a token is checked again
_MOST: Final = 10_000  # tokens that are remembered
_THREADS: Final = 4  # separate: the threads of requests may all be busy


class TokenCheck:
    """A check of the shown token before the body is read. A valid token is remembered for a
    moment: the transaction that serves the request checks it again."""

    def __init__(self, store: Store, quick: Store | None) -> None:
        self._store = store
        self._quick = quick
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._known: dict[bytes, tuple[str, float]] = {}

    async def identify(self, text: str) -> str:
        """Return the id of a token; raise `Unauthenticated` if it is not valid."""
        if not is_token(text):
            raise Unauthenticated
        digest, now = hashlib.sha256(text.encode()).digest(), time.monotonic()
        id, until = self._known.get(digest, ("", 0.0))
        if now >= until:
            id = await self._look_up(text)
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[digest] = (id, now + _TRUSTED)
        return id

    async def _look_up(self, text: str) -> str:
        if self._quick is not None:
            try:
                return identify(self._quick, text, now=time.time()).id
            except StoreBusy:
                pass  # wait in a thread instead
        store = self._store
        return await run_sync(
            lambda: identify(store, text, now=time.time()).id, limiter=self._threads
        )


def bearer(request: Request) -> str:
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthenticated
    return text.strip()


def admit(tx: Transaction, bearer: str, scope: str, *, now: float) -> Identity:
    """Return the identity of a token; raise if it may not ask for this scope."""
    who = from_token(identify(tx, bearer, now=now))
    if scope != OWN:
        need(who, scope)
    return who
