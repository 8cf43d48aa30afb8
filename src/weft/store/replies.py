"""Replies to requests that may be repeated: the sender chooses a key, and gets a single reply for
it.

A short request keeps its reply in its own transaction. A longer request (a poll
that waits, a plan that git must read) is reserved first; the reservation of a dead server ends
after a while.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from weft.errors import InputError, StillAnswering
from weft.store.database import Transaction
from weft.store.store import writes

KEPT: Final = 86_400.0  # seconds for which a reply is kept
_GIVEN_UP: Final = 300.0  # seconds after which a reservation ends


class RepeatableRequest(Struct, frozen=True, kw_only=True):
    """The parts of a request that its repetition must equal."""

    token: str  # the sender's
    key: str
    request: str  # digest of method, path and body


class StoredReply(Struct, frozen=True, kw_only=True):
    status: int
    body: str


def find_reply(tx: Transaction, asked: RepeatableRequest, *, now: float) -> StoredReply | None:
    """Return the reply that was kept. Raise if the key was used for another request, or just
    now."""
    row = tx.one("reply", token=asked.token, key=asked.key)
    if row is None or row["at"] <= now - KEPT:
        return None
    if row["request"] != asked.request:
        raise InputError("This idempotency key was used for another request; take a new one.")
    if row["status"] is not None:
        return StoredReply(status=int(row["status"]), body=row["body"])
    if row["at"] > now - _GIVEN_UP:
        raise StillAnswering
    return None


def keep_reply(
    tx: Transaction, asked: RepeatableRequest, reply: StoredReply | None, *, now: float
) -> None:
    """Keep a reply, or None to reserve the request."""
    status, body = (None, "") if reply is None else (reply.status, reply.body)
    tx.run("keep_reply", asked, status=status, body=body, now=now)


@writes
def reserve(tx: Transaction, asked: RepeatableRequest, *, now: float) -> StoredReply | None:
    """Reserve a request, or return the reply that was kept."""
    before = find_reply(tx, asked, now=now)
    if before is None:
        keep_reply(tx, asked, None, now=now)
    return before


@writes
def fill(
    tx: Transaction, asked: RepeatableRequest, reply: StoredReply | None, *, now: float
) -> None:
    """Keep the reply of a reserved request; None releases it, so that it may be tried again."""
    if reply is None:
        tx.run("drop_reply", token=asked.token, key=asked.key)
    else:
        keep_reply(tx, asked, reply, now=now)


@writes
def forget_replies(tx: Transaction, *, now: float) -> None:
    tx.run("forget_replies", before=now - KEPT)
