"""Moves of branches to the landed work of runs, as `weft land` makes them.

A move is recorded before the branch moves, at most one for each branch at a time. After a crash the
next `weft land` completes it; a move whose branch went elsewhere meanwhile is withdrawn.
"""

from __future__ import annotations

from weft.candidate_records import BranchLanding
from weft.errors import NotFound, Refused
from weft.store import row_records
from weft.store.database import Row, Transaction
from weft.store.row_records import get_run_row
from weft.store.store import reads, writes


@writes
def intend_branch_landing(
    tx: Transaction,
    run: str,
    branch: str,
    *,
    trunk: str,
    old: str,
    new: str,
    tree: str,
    checkout: str,
    now: float,
) -> BranchLanding:
    """Record that a branch is about to move; raise `Refused` if it has an open move."""
    repo = get_run_row(tx, run)["repo"]
    if any(landing.branch == branch for landing in list_open_branch_landings(tx, repo)):
        raise Refused(f"Another `weft land` moves {branch} at this moment.")
    ends = {"trunk": trunk, "old": old, "new": new, "tree": tree}
    tx.run(
        "add_branch_landing", run=run, repo=repo, branch=branch, checkout=checkout, at=now, **ends
    )
    tx.event("branch_landing_intended", now=now, run=run, branch=branch, old=old, new=new)
    [landing] = [open for open in list_open_branch_landings(tx, repo) if open.branch == branch]
    return landing


@writes
def complete_branch_landing(tx: Transaction, number: int, *, now: float) -> None:
    """Record that a branch and its checkout have moved. The same call again changes nothing."""
    row = _end(tx, number, "landed")
    if row is not None:
        branch, old, new = row["branch"], row["old"], row["new"]
        tx.event("branch_landed", now=now, run=row["run"], branch=branch, old=old, new=new)


@writes
def withdraw_branch_landing(tx: Transaction, number: int, reason: str, *, now: float) -> None:
    """Record that a branch will not move: another program moved it first."""
    row = _end(tx, number, "withdrawn")
    if row is not None:
        run, branch = row["run"], row["branch"]
        tx.event("branch_landing_withdrawn", now=now, run=run, branch=branch, reason=reason)


def _end(tx: Transaction, number: int, state: str) -> Row | None:
    """End a move; return None if it had ended."""
    row = tx.one("branch_landing", number=number)
    if row is None:
        raise NotFound(f"There is no landing {number} on a branch.")
    return row if tx.count("end_branch_landing", number=number, state=state) else None


@reads
def list_open_branch_landings(tx: Transaction, repo: str) -> list[BranchLanding]:
    return [row_records.branch_landing(row) for row in tx.all("open_branch_landings", repo=repo)]


@reads
def list_branch_landings(tx: Transaction, run: str) -> list[BranchLanding]:
    rows = tx.all("branch_landings_of_run", run=run)
    return [row_records.branch_landing(row) for row in rows]


@reads
def list_landed_branches(tx: Transaction, run: str) -> list[str]:
    """List the branches that all work landed by a run so far is recorded to be on."""
    tip = tx.one("landed_tip", run=run)
    branches = [
        landing.branch
        for landing in list_branch_landings(tx, run)
        if tip is not None and landing.state == "landed" and landing.trunk == tip["new"]
    ]
    return list(dict.fromkeys(branches))
