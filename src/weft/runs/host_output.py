"""Output of attempts that ran on a worker host, fetched from that host.

The reader writes a request into the store and waits. A worker of the host reads the request and
writes the answer: the lines after an offset. The reader does not trust the answer: its size has a
bound, and the offset of each line must be larger than the offset before.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from weft.agents.adapters import ADAPTERS
from weft.errors import Refused
from weft.model import Attempt, Worker
from weft.process.output_tail import OutputLine
from weft.process.process_identity import get_place
from weft.store import Store
from weft.store.check_orders import find_output_answer, request_output
from weft.store.limit_table import identity
from weft.store.tasks import get_task, list_attempts
from weft.store.workers import find_workers, list_workers
from weft.words import full_label

MOST: Final = 256 << 10  # bytes of the lines in a part; a single line may be longer
_PATIENCE: Final = 15.0  # seconds until a host that is present has answered
_LOOK: Final = 0.1  # seconds between two looks for an answer

Stream = Literal["stdin", "stdout", "stderr"]
"""A file of an attempt: its prompt, its output or its errors."""


class AttemptName(Struct, frozen=True, kw_only=True):
    task: int
    number: int


class OutputPiece(Struct, frozen=True, kw_only=True):
    """A part of an attempt's output, as its program printed it."""

    adapter: str  # that understands it
    lines: tuple[OutputLine, ...]
    more: bool  # there is more by now


def shorten_piece(piece: OutputPiece, most: int = MOST) -> OutputPiece:
    """Return the first lines of a piece: at most `most` bytes, but at least one line."""
    size = 0
    for number, line in enumerate(piece.lines):
        size += len(line.text) + len(line.last)
        if number and size > most:
            return replace(piece, lines=piece.lines[:number], more=True)
    return piece


def encode_piece(piece: OutputPiece | None) -> str:
    """Encode an answer; None means that the output is gone."""
    return msgspec.json.encode(piece).decode()


def ask_host(
    store: Store, attempt: AttemptName, *, stream: Stream, offset: int, ended: bool
) -> OutputPiece | None:
    """Fetch output after an offset from the host of an attempt, and wait for the answer.

    Return None if the attempt ran on this host. Raise `Refused` if no worker of that host runs, or
    if none answers in time.
    """
    [row] = [row for row in list_attempts(store, attempt.task) if row.number == attempt.number]
    worker = find_workers(store, [row.worker], now=time.time()).get(row.worker)
    if worker is None or worker.host == get_place().host or worker.gates:
        return None
    if all(present.host != worker.host for present in list_workers(store, now=time.time())):
        raise Refused(
            f"{_place(store, row, worker)}, of which no worker runs now: start it there again, or "
            "read the files there. `weft logs` without --raw shows what the store has."
        )
    request = request_output(
        store,
        host=worker.host,
        task=attempt.task,
        attempt=attempt.number,
        stream=stream,
        start=offset,
        ended=ended,
        now=time.time(),
    )
    end = time.monotonic() + _PATIENCE
    while (answer := find_output_answer(store, request)) is None:
        if time.monotonic() > end:
            raise Refused(f"{_place(store, row, worker)}, which did not answer; try again later.")
        time.sleep(_LOOK)
    return read_answer(answer, offset, _place(store, row, worker))


def read_answer(answer: str, offset: int, place: str) -> OutputPiece:
    """Read the answer of a host; raise if it is no part of an output after an offset."""
    try:
        piece = msgspec.json.decode(answer, type=OutputPiece | None)
    except msgspec.DecodeError as error:
        raise Refused(f"{place}, which answered nonsense: {error}.") from error
    if piece is None:
        raise Refused(f"{place}, which has deleted them.")
    ends = [offset, *(line.end for line in piece.lines)]
    if piece.adapter not in ADAPTERS or any(low >= high for low, high in pairwise(ends)):
        raise Refused(f"{place}, which answered nonsense.")
    return piece


def _place(store: Store, attempt: Attempt, worker: Worker) -> str:
    directory = f"weft/attempts/{identity(store)[:12]}/{attempt.task}.{attempt.number}"
    task = full_label(get_task(store, attempt.task))
    return (
        f"Prompt and output of attempt {attempt.number} of task {task} are in {directory}, in the "
        f"mirror of the host {worker.host}"
    )
