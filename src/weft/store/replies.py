"""Requests that may be sent again: who sends one chooses a key, and gets one answer for it.

Where what was asked for is done in one transaction, its answer is kept in the same one, and there
is nothing in between. What takes longer (a poll that waits, a plan that git must look at) is
reserved first; a reservation whose server died is given up after a while.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from weft.errors import InputError, StillAnswering
from weft.store.database import Transaction
from weft.store.store import writes

KEPT: Final = 86_400.0  # seconds for which an answer is remembered
_GIVEN_UP: Final = 300.0  # seconds after which nobody is still answering


class RepeatableRequest(Struct, frozen=True, kw_only=True):
    """A request, as far as its repetition must equal it."""

    token: str  # whose
    key: str
    request: str  # a digest of method, path and body


class StoredReply(Struct, frozen=True, kw_only=True):
    status: int
    body: str


def find_reply(tx: Transaction, asked: RepeatableRequest, *, now: float) -> StoredReply | None:
    """What was answered before. Raises if the key was used for something else, or just now."""
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
    """Remember an answer; None: that somebody is at it."""
    tx.run(
        "keep_reply",
        token=asked.token,
        key=asked.key,
        request=asked.request,
        status=None if reply is None else reply.status,
        body="" if reply is None else reply.body,
        now=now,
    )


@writes
def reserve(tx: Transaction, asked: RepeatableRequest, *, now: float) -> StoredReply | None:
    """Begin to answer; or what was answered before."""
    before = find_reply(tx, asked, now=now)
    if before is None:
        keep_reply(tx, asked, None, now=now)
    return before


@writes
def fill(
    tx: Transaction, asked: RepeatableRequest, reply: StoredReply | None, *, now: float
) -> None:
    """It was answered; None: it was not, and may be tried again."""
    if reply is None:
        tx.run("drop_reply", token=asked.token, key=asked.key)
    else:
        keep_reply(tx, asked, reply, now=now)


@writes
def forget_replies(tx: Transaction, *, now: float) -> None:
    tx.run("forget_replies", before=now - KEPT)
