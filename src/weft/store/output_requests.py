"""Requests for the output of attempts on worker hosts.

The output stays on its host, and no connection leads into a host: a reader leaves a request, the
host's worker answers it at its next look. A request and its answer are kept for a minute.
"""

from __future__ import annotations

import secrets
from typing import Final

from msgspec import Struct

from weft.errors import InputError, NotFound, Refused
from weft.store.database import Row, Transaction
from weft.store.store import reads, writes

LARGEST: Final = 4 << 20  # characters of an answer
_KEPT: Final = 60.0  # seconds
_MOST: Final = 200  # requests


class OutputRequest(Struct, frozen=True, kw_only=True):
    id: str
    host: str
    task: int
    attempt: int
    stream: str  # stdout or stderr
    start: int  # offset of the first byte
    ended: bool  # the attempt has ended: its last line may lack a newline


@writes
def request_output(
    tx: Transaction,
    *,
    host: str,
    task: int,
    attempt: int,
    stream: str,
    start: int,
    ended: bool,
    now: float,
) -> str:
    """Ask a host for output; return the id of the request."""
    tx.run("forget_output_requests", before=now - _KEPT)
    if tx.value("output_request_count") >= _MOST:
        raise Refused(f"{_MOST} requests for output are open already; try again in a minute.")
    id = secrets.token_hex(16)
    tx.run(
        "add_output_request",
        id=id,
        host=host,
        task=task,
        attempt=attempt,
        stream=stream,
        start=start,
        ended=ended,
        asked=now,
    )
    return id


@reads
def list_output_requests(tx: Transaction, host: str) -> list[OutputRequest]:
    """List the unanswered requests to a host, oldest first."""
    return [_request(row) for row in tx.all("open_output_requests", host=host)]


@reads
def get_output_request(tx: Transaction, id: str) -> OutputRequest:
    return _request(_row(tx, id))


@writes
def answer_output_request(tx: Transaction, id: str, piece: str) -> bool:
    """Store the answer to a request; return False if it is gone or has an answer."""
    if len(piece) > LARGEST:
        raise InputError(f"A part of an output has at most {LARGEST} characters.")
    return bool(tx.count("answer_output_request", id=id, piece=piece))


@reads
def find_output_answer(tx: Transaction, id: str) -> str | None:
    """Return the answer to a request; None while there is none."""
    piece: str | None = _row(tx, id)["piece"]
    return piece


def _row(tx: Transaction, id: str) -> Row:
    row = tx.one("output_request", id=id)
    if row is None:
        raise NotFound("There is no such request for output; it may be too old.")
    return row


def _request(row: Row) -> OutputRequest:
    return OutputRequest(
        id=row["id"],
        host=row["host"],
        task=row["task"],
        attempt=row["attempt"],
        stream=row["stream"],
        start=row["start"],
        ended=bool(row["ended"]),
    )
