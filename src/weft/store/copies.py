"""A store whose file was copied, with its repository or alone, and so became two stores.

The store records the path and inode of its directory. A copy gets its own identity, so that no
process, workspace or output of the original is taken for the copy's. The workers and leases in the
copy belong to the original and end here; the tasks that ran there run here again.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from pathlib import Path
from typing import NamedTuple

from weft.store.database import Transaction
from weft.store.leases import release
from weft.store.repositories import rename_repository
from weft.store.store import Store, writes
from weft.store.workers import depart


class StorePlace(NamedTuple):
    """The place of a store's directory: its path without links, and its inode."""

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
    """Compare the store's place with the recorded place; give a copy its own identity."""
    here = StorePlace.of(directory)
    if recorded == str(here):
        return
    copied = bool(recorded) and is_copy(StorePlace.read(recorded), here)
    identities = move_store(store, recorded, str(here), copied=copied, now=time.time())
    if identities is not None:
        # The output of attempts was copied too, and is found by the identity.
        old, new = (here.path / "attempts" / identity[:12] for identity in identities)
        if old.is_dir():
            old.rename(new)


def is_copy(before: StorePlace, here: StorePlace) -> bool:
    """Tell a copy from a store that was moved, or whose file system renumbers its files.

    The pipe of a listener has a reader only in the directory in which that reader made it.
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
    """Record the place of the store and its repository; end the workers and leases in a copy.

    Return the identities of the original and of the copy, or None if another process was faster.
    """
    row = tx.one("identity")
    if row is None or row["place"] != before:
        return None
    tx.run("set_place", place=here)
    if before:
        old, new = StorePlace.read(before).path.parent, StorePlace.read(here).path.parent
        tx.run("move_repository", old=str(old), path=str(new), inode=new.stat().st_ino)
        rename_repository(tx, str(old), str(new))  # of a weft that named repositories by paths
    if not copied:
        return None
    identity = secrets.token_hex(16)
    tx.run("set_identity", identity=identity)
    for worker in tx.all("workers_present"):
        depart(tx, worker["id"], now=now)
    for lease in tx.all("open_leases"):
        if lease["kind"] != "run":
            release(tx, lease["fence"], now=now, reason="copied")
    tx.event("store_copied", now=now, place=here)
    return str(row["identity"]), identity
