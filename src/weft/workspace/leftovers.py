"""Freeing what workspaces left behind: a look at what would go, and the deed.

Only what weft registered is touched, only what nobody uses or still wants, and only after
everything that exists nowhere else was kept.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Container
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft import git
from weft.errors import WeftError, WorkspaceError
from weft.git import RefMoved, Update
from weft.git.deletion import delete_tree
from weft.workspace import archive
from weft.workspace.handout import disown
from weft.workspace.locks import Lock
from weft.workspace.names import ARCHIVE, BRANCHES
from weft.workspace.release import remove
from weft.workspace.setup import tear_down
from weft.workspace.workspace_records import (
    Slot,
    Terms,
    Workspace,
    WorkspacePhase,
    WorkspacePool,
    registering,
    try_lock,
)

log = logging.getLogger(__name__)

_TRIES: Final = 8


class Leftover(Struct, frozen=True, kw_only=True):
    """A workspace or branch, and why it goes or stays."""

    name: str
    why: str
    bytes: int = 0


class LeftoverReport(Struct, frozen=True, kw_only=True):
    freed: tuple[Leftover, ...]  # or would be freed, in a survey
    kept: tuple[Leftover, ...]
    archived: tuple[str, ...] = ()  # references that now keep what was freed

    @property
    def bytes(self) -> int:
        return sum(item.bytes for item in self.freed)


def survey(repository: Path, wanted: Container[str] = ()) -> LeftoverReport:
    """What `clean` would free and keep; nothing is changed.

    Whether a workspace holds a repository with work of its own only turns out when cleaning.
    """
    pool = WorkspacePool(common=git.common_directory(repository))
    freed: list[Leftover] = []
    kept: list[Leftover] = []
    for slot, _ in pool.registered():
        lock = try_lock(slot)
        if lock is not None:
            lock.close()
        stays = "it is in use" if lock is None else _stays(slot, wanted)
        (freed if stays is None else kept).append(_item(slot, stays or "nobody uses it"))
    branches = _idle_branches(pool, wanted)
    freed += [Leftover(name=branch, why="no workspace is on it") for branch in branches]
    trash = [
        Leftover(name=str(at), why="it was deleted already", bytes=size(at)) for at in _trash(pool)
    ]
    freed += [item for item in trash if item.bytes]
    return LeftoverReport(freed=tuple(freed), kept=tuple(kept))


def clean(
    repository: Path,
    wanted: Container[str] = (),
    *,
    terms: Terms | None = None,
    landed: Container[str] = (),
) -> LeftoverReport:
    """Remove unused workspaces, and branches without a workspace; `wanted` branches stay.

    Work that exists nowhere else is archived first; trunk holds all work of the commits in
    `landed`.
    """
    pool = WorkspacePool(common=git.common_directory(repository))
    freed: list[Leftover] = []
    kept: list[Leftover] = []
    archived: list[str] = []
    for slot, _ in pool.registered():
        lock = try_lock(slot)
        if lock is None:
            kept.append(_item(slot, "it is in use"))
            continue
        try:
            item = _item(slot, "nobody uses it")
            stays = _stays(slot, wanted) or _try_to_empty(slot, lock, archived, terms or Terms())
        finally:
            lock.close()
        if stays is None:
            freed.append(item)
        else:
            kept.append(_item(slot, stays))
    dropped = _drop_idle_branches(pool, wanted, archived, landed)
    _drop_landed_archives(pool, landed)
    freed += [Leftover(name=branch, why="no workspace is on it") for branch in dropped]
    freed += _empty_trash(pool)
    return LeftoverReport(freed=tuple(freed), kept=tuple(kept), archived=tuple(archived))


def _stays(slot: Slot, wanted: Container[str]) -> str | None:
    record = slot.find_record()
    return "its task still wants it" if record is not None and record.branch in wanted else None


def _try_to_empty(slot: Slot, lock: Lock, archived: list[str], terms: Terms) -> str | None:
    """Empty a workspace; return an error as the reason why it stays, so that the others are
    still emptied."""
    try:
        return _empty(slot, lock, archived, terms)
    except (WeftError, OSError) as error:
        return str(error)


def _empty(slot: Slot, lock: Lock, archived: list[str], terms: Terms) -> str | None:
    """Archive and remove a workspace, or return the reason why it stays."""
    record = slot.find_record()
    if record is None:  # another cleaner was faster
        return None
    if record.phase is WorkspacePhase.READY:
        tear_down(slot, terms)
        # The lock stays with the caller, who closes it.
        kept = archive.keep(Workspace.of(slot, record, lock, terms))
        archived += kept.refs
        if kept.obstacle is not None:
            return kept.obstacle
    disown(slot, record)
    remove(slot)
    return None


def _idle_branches(pool: WorkspacePool, wanted: Container[str]) -> dict[str, str]:
    """Branches of attempts that no workspace and no task needs.

    Branches are listed before records are read: a workspace has its record before its branch.
    """
    branches = git.list_refs(pool.common, BRANCHES)
    staying = {record.branch for _, record in pool.registered()}
    return {
        branch: tip
        for branch, tip in branches.items()
        if branch not in wanted and branch not in staying
    }


def _drop_landed_archives(pool: WorkspacePool, landed: Container[str]) -> None:
    """Delete archive references to landed work, which an earlier weft kept."""
    kept = git.list_refs(pool.common, ARCHIVE)
    gone = [Update(ref=ref, old=at, new=None) for ref, at in kept.items() if at in landed]
    with contextlib.suppress(RefMoved):  # another cleaner was faster
        git.update_refs(pool.common, gone, why="weft: landed")


def _drop_idle_branches(
    pool: WorkspacePool, wanted: Container[str], archived: list[str], landed: Container[str]
) -> list[str]:
    for _ in range(_TRIES):
        branches = _idle_branches(pool, wanted)
        try:
            archived += archive.drop_branches(pool.common, branches, landed=landed)
        except RefMoved:  # another cleaner was faster with one of them: look again
            continue
        return list(branches)
    return []


def _trash(pool: WorkspacePool) -> list[Path]:
    return sorted(found for one in pool.trashes for found in one.parent.glob(f"{one.name}*"))


def _empty_trash(pool: WorkspacePool) -> list[Leftover]:
    with registering(pool):
        # Nobody's fresh directory is in there now; who is about to discard makes a new one.
        for trash in pool.trashes:
            if trash.is_dir():
                os.rename(trash, tempfile.mkdtemp(dir=trash.parent, prefix=f"{trash.name}-"))
    items = []
    for path in _trash(pool):
        item = Leftover(name=str(path), why="it was deleted already", bytes=size(path))
        try:
            delete_tree(path)
        except WorkspaceError as error:
            log.warning("%s stays: %s", path, error)
        else:
            items.append(item)
    return [item for item in items if item.bytes]


def _item(slot: Slot, why: str) -> Leftover:
    record = slot.find_record()
    branch = record.branch if record is not None else None
    name = f"{slot.directory}" + (f" ({branch})" if branch else "")
    return Leftover(name=name, why=why, bytes=size(slot.directory))


def size(path: Path) -> int:
    """What a directory takes on disk, in bytes; links are not followed."""
    total = 0
    waiting = [path]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
        except OSError:
            continue  # deleted, too deep, or unreadable: it counts as nothing
    return total
