"""A store in a file that was copied, with its repository or alone, and is now two stores.

The store records path and inode of its directory. A copy gets an identity of its own, so that no
process, workspace or output of the original is taken for its own; workers and leases that came
along are the original's and end here; tasks that ran there are to be run here again.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from pathlib import Path
from typing import NamedTuple

from weft.store.database import Transaction
from weft.store.leases import let_go
from weft.store.store import Store, writes
from weft.store.workers import leave


class StorePlace(NamedTuple):
    """Where a store's directory is: its path without links, and its inode."""

    path: Path
    inode: int

    @classmethod
    def of(cls, directory: Path) -> StorePlace:
        path = directory.resolve()
        return cls(path, path.stat().st_ino)

    @classmethod
    def read(cls, text: str) -> StorePlace:
        inode, _, path = text.partition(" ")
        return cls(Path(path), int(inode))

    def __str__(self) -> str:
        return f"{self.inode} {self.path}"


def settle_place(store: Store, directory: Path, recorded: str) -> None:
    """Compare where a store is with where it was; make a copy a store of its own."""
    here = StorePlace.of(directory)
    if recorded == str(here):
        return
    copied = bool(recorded) and is_copy(StorePlace.read(recorded), here)
    identities = move_store(store, recorded, str(here), copied=copied, now=time.time())
    if identities is not None:
        # The output of attempts, which came along, is found by the identity.
        old, new = (here.path / "attempts" / one[:12] for one in identities)
        if old.is_dir():
            old.rename(new)


def is_copy(before: StorePlace, here: StorePlace) -> bool:
    """Tell a copy from a store that was moved, or whose file system numbers its files anew.

    A listener's pipe has a reader only in the directory in which the reader made it.
    """
    if before.path != here.path and _find_inode(before.path) == before.inode:
        return True
    return before.inode != here.inode and not _is_listened_to(here.path)


def _find_inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _is_listened_to(directory: Path) -> bool:
    return any(map(_has_reader, directory.glob("*.bells/*")))


def _has_reader(pipe: Path) -> bool:
    try:
        if not stat.S_ISFIFO(pipe.lstat().st_mode):
            return False
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return False
    return True


@writes
def move_store(
    tx: Transaction, before: str, here: str, *, copied: bool, now: float
) -> tuple[str, str] | None:
    """Record where the store is now, and the repository it lies in; end what a copy brought along.

    Returns the identities of the original and of a copy. Changes nothing if another process was
    faster.
    """
    row = tx.one("identity")
    if row is None or row["place"] != before:
        return None
    tx.run("set_place", place=here)
    if before:
        old, new = StorePlace.read(before).path.parent, StorePlace.read(here).path.parent
        paths = {"old": str(old), "new": str(new)}
        tx.run("move_runs", **paths)
        tx.run("move_tasks", **paths)
        tx.run("move_buckets", **paths)
        tx.run("move_claims", **paths)
    if not copied:
        return None
    identity = secrets.token_hex(16)
    tx.run("set_identity", identity=identity)
    for worker in tx.all("workers_present"):
        leave(tx, worker["id"], now=now)
    for lease in tx.all("open_leases"):
        if lease["kind"] != "run":
            let_go(tx, lease["fence"], "copied", now=now)
    tx.event("store_copied", now=now, place=here)
    return str(row["identity"]), identity
