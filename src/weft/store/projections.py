"""Projections of a run's events: the progress of each, and the worker that carries it out.

A projection brings a plan file, an issue tracker, a person or a branch up to date with a run. Its
row holds the number of the last event handled; only the holder of its lease may change the row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from weft.store import row_records
from weft.store.database import Row, Transaction, encode, storable
from weft.store.leases import take
from weft.store.ledger import end_lease, require_holder
from weft.store.row_records import get_run_row
from weft.store.store import reads, writes

PLAN_MARKS: Final = "plan_marks"
PLAN_STATE: Final = "plan_state"
ISSUE_TRACKER: Final = "issue_tracker"
NOTIFICATIONS: Final = "notifications"
TARGET_BRANCH: Final = "target_branch"

_KIND: Final = "projection"


class NewProjection(Struct, frozen=True, kw_only=True):
    """A projection, as requested."""

    name: str
    host: str = ""  # the host of the file; empty: any host with the repository
    path: str = ""  # of the plan file, or of the state file
    memory: tuple[str, ...] = ()  # texts that it needs to begin; of a plan file, a forced format


class ProjectionState(Struct, frozen=True, kw_only=True):
    """A projection, as stored."""

    run: str
    name: str
    host: str
    path: str
    open: bool  # False once the end of the run is handled or given up
    handled: int  # the number of the last event handled
    memory: tuple[str, ...]  # texts that it needs to resume
    tries: int  # failures since the last success
    failure: str  # the last failure
    skipped: Mapping[str, str]  # reasons of hosts that cannot carry it out
    worker: str | None  # the worker that carries it out now


@writes
def request_projections(
    tx: Transaction, run: str, wanted: Sequence[NewProjection], unwanted: Sequence[str] = ()
) -> None:
    """Let these projections follow a run, and those named in `unwanted` no longer.

    A projection that was closed or failed starts again after the last event it has handled.
    """
    get_run_row(tx, run)
    for name in unwanted:
        tx.run("drop_projection", run=run, name=name)
    add_projections(tx, run, wanted)


def add_projections(tx: Transaction, run: str, wanted: Sequence[NewProjection]) -> None:
    for projection in wanted:
        tx.run(
            "request_projection",
            run=run,
            name=projection.name,
            host=projection.host,
            path=projection.path,
            memory=encode([storable(text) for text in projection.memory]),
            handled=tx.value("last_event"),
        )
    tx.ring()


@reads
def list_projections(tx: Transaction, run: str) -> list[ProjectionState]:
    return [_state(row) for row in tx.all("projections_of", run=run)]


@reads
def list_open_projections(tx: Transaction, repo: str, *, now: float) -> list[ProjectionState]:
    """List the projections of a repository's runs that are behind or may fall behind.

    A worker whose lease is past its deadline counts as none: its projection can be taken over.
    """
    rows = tx.all("open_projections", repo=repo)
    return [
        _state(row if row["deadline"] and row["deadline"] >= now else {**row, "worker": None})
        for row in rows
    ]


@writes
def take_projection(
    tx: Transaction, run: str, name: str, *, worker: str, now: float
) -> tuple[int, ProjectionState] | None:
    """Lease a projection; return the fence and the state to resume from.

    Return None while another worker holds it.
    """
    row = tx.one("projection", run=run, name=name)
    if row is None or not row["open"]:
        return None
    fence = take(tx, _KIND, f"{run}/{name}", {}, worker=worker, now=now)
    return None if fence is None else (fence, _state({**row, "worker": worker}))


@writes
def advance_projection(
    tx: Transaction,
    fence: int,
    run: str,
    name: str,
    *,
    handled: int,
    memory: Sequence[str],
    ended: bool,
    now: float,
) -> None:
    """Record that a projection has handled the events up to a number.

    With `ended` the end of the run was among them, and the projection ends too.
    """
    lease = require_holder(tx, fence, f"{run}/{name}", kind=_KIND)
    tx.run(
        "advance_projection",
        run=run,
        name=name,
        handled=handled,
        memory=encode([storable(text) for text in memory]),
        open=not ended,
    )
    if ended:
        end_lease(tx, lease, "run ended", now=now)
    tx.ring()


@writes
def fail_projection(
    tx: Transaction, fence: int, run: str, name: str, *, failure: str, give_up: bool, now: float
) -> None:
    """Record a failed try; with `give_up` it is the last until the run is resumed."""
    lease = require_holder(tx, fence, f"{run}/{name}", kind=_KIND)
    tx.run("fail_projection", run=run, name=name, failure=tx.redact(failure), open=not give_up)
    if give_up:
        end_lease(tx, lease, "given up", now=now)
    tx.ring()


@writes
def skip_projection(tx: Transaction, run: str, name: str, *, host: str, reason: str) -> None:
    """Record why a host cannot carry out a projection."""
    row = tx.one("projection", run=run, name=name)
    if row is None:
        return
    skipped = {**json.loads(row["skipped"]), host: storable(reason)}
    tx.run("skip_projection", run=run, name=name, skipped=encode(skipped))
    tx.ring()


def _state(row: Row) -> ProjectionState:
    return row_records.record(ProjectionState, row, "memory", "skipped")
