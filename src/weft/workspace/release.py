"""Release of workspaces: archive their work, then make them clean and free; and `weft clean`.

weft removes only workspaces that it registered, that no process uses and no task wants, after it
has archived work that exists nowhere else.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Callable, Container
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from weft import git
from weft.errors import WeftError, WorkspaceError
from weft.git import GitFailed, RefMoved, Update
from weft.git.disk import delete_tree
from weft.workspace import archive, inspection, place, worktree
from weft.workspace.archive import Kept
from weft.workspace.handout import drop_unused_branch
from weft.workspace.locks import Lock
from weft.workspace.names import ARCHIVE, BRANCHES, OLD_BRANCHES
from weft.workspace.setup import normalise, tear_down
from weft.workspace.workspace_records import (
    Slot,
    Terms,
    Workspace,
    WorkspacePhase,
    WorkspacePool,
    lock_branch,
    registering,
    try_lock,
)

POOL: Final = 16  # free workspaces to keep
log = logging.getLogger(__name__)
_TRIES: Final = 8


def release(workspace: Workspace) -> Kept:
    """Archive work that exists nowhere else, then make the workspace free.

    The branch stays if it has a commit of its own. If work cannot be archived, the workspace stays
    as it is, and `Kept.obstacle` is the reason.
    """
    with workspace:
        tear_down(workspace.slot, workspace.terms)
        kept = archive.keep(workspace)
        if kept.obstacle is None:
            _free(workspace)
        return kept


def discard(workspace: Workspace) -> None:
    """Make a workspace free and delete its branch, without an archive."""
    with workspace:
        tear_down(workspace.slot, workspace.terms)
        _drop_branch(workspace.slot, workspace.branch)
        _free(workspace)


def discard_abandoned(repository: Path, branch: str, *, terms: Terms | None = None) -> None:
    """Discard the workspace on a branch whose user has died, even if it is half-made."""
    locked = lock_branch(WorkspacePool.of(repository), branch)
    if locked is not None:
        slot, _, lock = locked
        with contextlib.closing(lock):
            tear_down(slot, terms or Terms())
            _drop_branch(slot, branch)
            remove(slot)


def _drop_branch(slot: Slot, branch: str) -> None:
    tip = git.find_ref(slot.pool.common, branch)
    if tip is not None:
        git.update_refs(slot.pool.common, [Update(ref=branch, old=tip, new=None)])


def _free(workspace: Workspace) -> None:
    slot = workspace.slot
    record = slot.get_record()
    # All work is archived: after a crash, the next user of the workspace starts over.
    slot.write_record(replace(record, phase=WorkspacePhase.MAKING))
    admin = worktree.admin_directory(slot, record)
    drop_unused_branch(slot, record)
    record = replace(record, phase=WorkspacePhase.MAKING, branch=None)
    slot.write_record(record)
    if slot.scratch.is_dir():
        worktree.discard(slot.pool, slot.scratch)
    if (
        admin is None
        or not worktree.is_present(slot)
        or not worktree.is_recyclable(record.settings)
        or _count_free(slot.pool) >= POOL
    ):
        remove(slot)
        return
    try:
        inspection.disarm(workspace)
        keep = [normalise(name) for name in workspace.terms.rules.keep]
        kept = worktree.reset(slot, record, admin, workspace.view(), keep)
    except (GitFailed, OSError, WorkspaceError):
        # The next user makes the files anew.
        worktree.remove_files(slot, record)
        return
    slot.write_record(replace(record, phase=WorkspacePhase.FREE, kept=kept))


def _count_free(pool: WorkspacePool) -> int:
    return sum(record.phase is WorkspacePhase.FREE for _, record in pool.registered())


def remove(slot: Slot) -> None:
    """Remove a workspace without unarchived work; the caller holds its lock."""
    worktree.remove_files(slot, slot.find_record())
    if os.path.lexists(slot.directory):
        worktree.discard(slot.pool, slot.directory)


class Leftover(Struct, frozen=True, kw_only=True):
    """A workspace, branch, attempt or trash, and the reason why it goes or stays."""

    kind: Literal["workspace", "branch", "attempt", "trash"]
    name: str
    why: str
    bytes: int = 0


class LeftoverReport(Struct, frozen=True, kw_only=True):
    freed: tuple[Leftover, ...]  # or to be freed
    kept: tuple[Leftover, ...]
    archived: tuple[str, ...] = ()  # new references to archived work

    @property
    def bytes(self) -> int:
        return sum(item.bytes for item in self.freed)


def list_leftovers(repository: Path, wanted: Container[str] = ()) -> LeftoverReport:
    """Report what `clean` would free and keep, without a change.

    It does not find nested repositories with their own work, for which `clean` keeps a workspace.
    """
    pool = WorkspacePool.of(repository)
    freed, kept = _free_slots(pool, wanted, lambda slot, lock: None)
    freed += [_describe_branch(branch) for branch in _idle_branches(pool, wanted)]
    freed += [item for path in _list_trash(pool) if (item := _describe_trash(path)).bytes]
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
    pool = WorkspacePool.of(repository)
    archived: list[str] = []
    roots = pool.roots()
    freed, kept = _free_slots(
        pool, wanted, lambda slot, lock: _try_to_empty(slot, lock, archived, terms or Terms())
    )
    dropped = _drop_idle_branches(pool, wanted, archived, landed)
    _drop_landed_archives(pool, landed)
    freed += [_describe_branch(branch) for branch in dropped]
    freed += _empty_trash(pool)
    with registering(pool):
        for root in set(roots).difference(pool.roots()):
            place.drop_unused(root)
    return LeftoverReport(freed=tuple(freed), kept=tuple(kept), archived=tuple(archived))


def _free_slots(
    pool: WorkspacePool, wanted: Container[str], empty: Callable[[Slot, Lock], str | None]
) -> tuple[list[Leftover], list[Leftover]]:
    """Call `empty` on each unused workspace; return those it freed, and those that stay.

    `empty` returns the reason why a workspace stays.
    """
    freed: list[Leftover] = []
    kept: list[Leftover] = []
    for slot, _ in pool.registered():
        lock = try_lock(slot)
        if lock is None:
            kept.append(_describe(slot, "it is in use"))
            continue
        with contextlib.closing(lock):
            item = _describe(slot, "no task uses it")
            record = slot.find_record()
            is_wanted = record is not None and record.branch in wanted
            reason = "its task still wants it" if is_wanted else empty(slot, lock)
        if reason is None:
            freed.append(item)
        else:
            kept.append(_describe(slot, reason))
    return freed, kept


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
    slot = slot.pool.slot(slot.number, record)
    if record.phase is WorkspacePhase.READY:
        tear_down(slot, terms)
        kept = archive.keep(Workspace.of(slot, record, lock, terms))
        archived += kept.refs
        if kept.obstacle is not None:
            return kept.obstacle
    drop_unused_branch(slot, record)
    remove(slot)
    return None


def _idle_branches(pool: WorkspacePool, wanted: Container[str]) -> dict[str, str]:
    """Return the branches of attempts that no workspace and no task needs.

    Branches are listed before records are read: a workspace has its record before its branch.
    """
    branches = git.list_refs(pool.common, BRANCHES, OLD_BRANCHES)
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
        except RefMoved:  # another cleaner was faster with a branch: list again
            continue
        return list(branches)
    return []


def _list_trash(pool: WorkspacePool) -> list[Path]:
    return sorted(path for trash in pool.trashes for path in trash.parent.glob(f"{trash.name}*"))


def _empty_trash(pool: WorkspacePool) -> list[Leftover]:
    with registering(pool):
        # No fresh directory of another process is in the trash now; a discard makes a new trash.
        for trash in pool.trashes:
            if trash.is_dir():
                os.rename(trash, tempfile.mkdtemp(dir=trash.parent, prefix=f"{trash.name}-"))
    items = []
    for path in _list_trash(pool):
        item = _describe_trash(path)
        try:
            delete_tree(path)
        except WorkspaceError as error:
            log.warning("could not delete %s: %s", path, error)
        else:
            items.append(item)
    return [item for item in items if item.bytes]


def _describe(slot: Slot, why: str) -> Leftover:
    record = slot.find_record()
    branch = record.branch if record is not None else None
    name = f"{slot.tree}" + (f" ({branch})" if branch else "")
    disk = size(slot.directory) + (size(slot.outer_tree) if slot.outer_tree is not None else 0)
    return Leftover(kind="workspace", name=name, why=why, bytes=disk)


def _describe_branch(branch: str) -> Leftover:
    return Leftover(kind="branch", name=branch, why="no workspace is on it")


def _describe_trash(path: Path) -> Leftover:
    return Leftover(kind="trash", name=str(path), why="it was deleted already", bytes=size(path))


def size(path: Path) -> int:
    """Return the bytes of a directory on disk, without following links."""
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
            continue  # deleted, too deep, or unreadable
    return total
