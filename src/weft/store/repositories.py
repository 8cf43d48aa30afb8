"""The repositories of a store, by id, each with its place on its home host.

The rows of runs, tasks, claims and workers refer to a repository by its id. The place tells a
process whether the repository that it has on disk is the one that the store means.
"""

from __future__ import annotations

from msgspec import Struct

from weft.store import row_records
from weft.store.database import Transaction
from weft.store.store import reads, writes


class HomeRepository(Struct, frozen=True, kw_only=True):
    id: str
    host: str  # the host that has it on disk
    path: str  # of its common git directory
    inode: int  # of that directory
    root: str  # a root commit; empty if it had no commit


@reads
def find_repository(tx: Transaction, id: str) -> HomeRepository | None:
    row = tx.one("repository", id=id)
    return None if row is None else row_records.record(HomeRepository, row)


@reads
def find_repository_at(tx: Transaction, host: str, path: str, inode: int) -> HomeRepository | None:
    """Return the repository that was last recorded at a place."""
    row = tx.one("repository_at", host=host, path=path, inode=inode)
    return None if row is None else row_records.record(HomeRepository, row)


@reads
def has_workers_on(tx: Transaction, host: str, repo: str) -> bool:
    """Tell whether a worker of a host is present that works on a repository."""
    return any(
        row["host"] == host and (row["repos"] is None or repo in row_records.files(row["repos"]))
        for row in tx.all("workers_present")
    )


@writes
def record_repository(tx: Transaction, here: HomeRepository, *, now: float) -> None:
    """Record the place of a repository, new or moved.

    Rows of a weft that named repositories by their paths get the id.
    """
    tx.run("record_repository", here, at=now)
    rename_repository(tx, here.path, here.id)


def rename_repository(tx: Transaction, old: str, new: str) -> None:
    tx.run("move_runs", old=old, new=new)
    tx.run("move_tasks", old=old, new=new)
    tx.run("move_claims", old=old, new=new)
    tx.run("move_branch_landings", old=old, new=new)
