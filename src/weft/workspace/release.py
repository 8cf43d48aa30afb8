"""Release of workspaces: archive their work, then make them clean and free."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from weft import git
from weft.errors import WorkspaceError
from weft.git import GitFailed, Update
from weft.workspace import archive, inspection, worktree
from weft.workspace.archive import Kept
from weft.workspace.handout import drop_unused_branch
from weft.workspace.setup import normalise, tear_down
from weft.workspace.workspace_records import (
    Slot,
    Terms,
    Workspace,
    WorkspacePhase,
    WorkspacePool,
    lock_branch,
)

POOL: Final = 16  # free workspaces to keep


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
