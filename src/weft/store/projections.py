"""Projections of a run's events: the progress of each, and the worker that carries it out.

A projection brings a plan file, an issue tracker, a person or a branch up to date with a run. Its
row holds the number of the last event handled; only the holder of its lease may change the row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from weft.errors import NotFound, StaleFence
from weft.store import row_records
from weft.store.database import Row, Transaction, encode, storable
from weft.store.lease_rows import end_lease, lease_to_worker
from weft.store.ledger import Ledger
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
    if tx.one("run", id=run) is None:
        raise NotFound(f"There is no run {run}.")
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

    Return None while another worker holds it. As with the gate, a lease past its deadline is
    taken over without proof of death: the late holder finds its fence refused.
    """
    row = tx.one("projection", run=run, name=name)
    if row is None or not row["open"]:
        return None
    holder = f"{run}/{name}"
    held = tx.one("open_leases_held_by", kind=_KIND, holder=holder)
    if held is not None:
        if held["deadline"] >= now:
            return None
        end_lease(tx, held, "taken_over", now=now)
    fence = lease_to_worker(tx, Ledger(tx, now), worker, {}, kind=_KIND, holder=holder, now=now)
    return fence, _state({**row, "worker": worker})


@reads
def is_held(tx: Transaction, fence: int, run: str, name: str) -> bool:
    """Tell whether a fence still holds a projection."""
    return _find_lease(tx, fence, run, name) is not None


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
    lease = _get_lease(tx, fence, run, name)
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
    lease = _get_lease(tx, fence, run, name)
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


def _get_lease(tx: Transaction, fence: int, run: str, name: str) -> Row:
    lease = _find_lease(tx, fence, run, name)
    if lease is None:
        raise StaleFence(f"Fence {fence} does not hold the projection {name} of run {run}.")
    return lease


def _find_lease(tx: Transaction, fence: int, run: str, name: str) -> Row | None:
    lease = tx.one("lease", fence=fence)
    held = (
        lease is not None
        and (lease["kind"], lease["holder"]) == (_KIND, f"{run}/{name}")
        and lease["state"] != "released"
    )
    return lease if held else None


def _state(row: Row) -> ProjectionState:
    return row_records.record(ProjectionState, row, "memory", "skipped")
