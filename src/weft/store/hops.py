"""Hops: hand-overs of a task between agents; and the events that wake a sleeping task.

A hop is written by the transaction that ends its attempt, so a task has one owner at any moment.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec.structs import replace

from weft.model import TERMINAL, ArgValue, Hop, NewHop, Outcome, State, WakingEvent
from weft.store import row_records
from weft.store.database import Row, Transaction, encode
from weft.store.store import reads


def record_hop(tx: Transaction, task: Row, hop: NewHop, outcome: Outcome, *, now: float) -> None:
    """Add the hand-over that ends the latest attempt of a task."""
    note = tx.redact(hop.note)
    args = {name: _redacted(tx, value) for name, value in hop.args.items()}
    giver, attempt = task["agent"] or "", task["attempt"]
    tx.run(
        "add_hop",
        task=task["id"],
        attempt=attempt,
        giver=giver,
        agent=hop.agent,
        note=note,
        args=encode(args),
        tree=hop.tree,
        candidate=outcome.candidate,
        base=outcome.base,
        at=now,
    )
    tx.event(
        "task_handed_over",
        task,
        now=now,
        attempt=attempt,
        giver=giver,
        agent=hop.agent,
        note=note,
        args=args,
    )


def _redacted(tx: Transaction, value: ArgValue) -> ArgValue:
    if isinstance(value, tuple):
        return tuple(tx.redact(item) for item in value)
    return tx.redact(value) if isinstance(value, str) else value


@reads
def list_hops(tx: Transaction, task: int) -> list[Hop]:
    """List the hand-overs of a task, oldest first."""
    return _records(tx.all("hops_of", task=task))


@reads
def list_run_hops(tx: Transaction, run: str) -> dict[int, list[Hop]]:
    """Map the tasks of a run to their hand-overs, oldest first."""
    rows = tx.all("hops_of_run", run=run)
    return {
        task: _records([row for row in rows if row["task"] == task])
        for task in sorted({row["task"] for row in rows})
    }


def _records(rows: Sequence[Row]) -> list[Hop]:
    # Converted by themselves: a text such as "5" must stay a text.
    return [replace(row_records.record(Hop, row, args={}), args=_args(row["args"])) for row in rows]


def _args(text: str) -> dict[str, ArgValue]:
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in json.loads(text).items()
    }


def has_happened(tx: Transaction, event: WakingEvent, *, since: float, base: str | None) -> bool:
    """Tell whether an event came while the agent that waits for it, on `base`, was at work."""
    if event.kind == "trunk_moved":
        landings = tx.value("landings_since", run=event.subject, since=since, base=base or "")
        return bool(landings)
    row = tx.one("task", id=int(event.subject))
    return row is None or State(row["state"]) in TERMINAL
