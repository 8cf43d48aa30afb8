"""Tokens of requests: a bearer token becomes an identity, in the transaction that serves the
request. Before a body is read, `TokenCheck` tests whether the token is valid at all.

There are no cookies, so no page can send requests in the name of its reader. Tokens are not
accepted in addresses, which end up in logs.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from pathlib import Path
from typing import Final

import anyio
from anyio.to_thread import run_sync
from fastapi import Request

from weft.errors import InputError, StoreBusy, Unauthenticated
from weft.operations.identity import OWN, Identity, from_token, need
from weft.store import Store
from weft.store.database import Transaction
from weft.store.tokens import create_token, identify, is_token

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


_LONGEST: Final = 4096  # bytes of a token


def keep_own_token(store: Store, path: Path, *, now: float) -> None:
    """Keep a valid admin token in a file: the present token if it is valid, else a new token."""
    if _is_good(store, path, now):
        return
    _, text = create_token(store, name="weft serve", scopes=("admin",), now=now)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(path, text)
    except OSError as error:
        raise InputError(f"Cannot keep a token in {path}: {error.strerror}.") from error


def _is_good(store: Store, path: Path, now: float) -> bool:
    """Return the token in the file; None if other users can read the file."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            text = file.read(_LONGEST).decode(errors="replace").strip()
    except OSError:
        return False
    try:
        return not mode & 0o077 and "admin" in identify(store, text, now=now).scopes
    except Unauthenticated:
        return False


def _replace(path: Path, text: str) -> None:
    """Whole and readable by its owner alone from the first moment."""
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{text}\n")
    os.replace(made, path)
