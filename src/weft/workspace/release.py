"""Giving a workspace back: what it holds is kept first, then it is clean and free again."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from weft import git
from weft.errors import InUse, WorkspaceError
from weft.git import GitFailed, Update
from weft.workspace import archive, inspection, worktree
from weft.workspace.archive import Kept
from weft.workspace.handout import disown
from weft.workspace.setup import normalise, tear_down
from weft.workspace.workspace_records import (
    Slot,
    Terms,
    Workspace,
    WorkspacePhase,
    WorkspacePool,
    try_lock,
)

POOL: Final = 16
"""How many free workspaces are kept to be used again; more are removed."""


def release(workspace: Workspace) -> Kept:
    """Keep what exists nowhere else, then make the workspace free for others.

    The branch stays if it has a commit of its own. If something cannot be kept elsewhere the
    workspace is left as it is, and `Kept.obstacle` says why.
    """
    with workspace:
        tear_down(workspace.slot, workspace.terms)
        kept = archive.keep(workspace)
        if kept.obstacle is None:
            _free(workspace)
        return kept


def discard(workspace: Workspace) -> None:
    """Make a workspace free for others and keep nothing of it, its branch neither."""
    with workspace:
        tear_down(workspace.slot, workspace.terms)
        _drop_branch(workspace.slot, workspace.branch)
        _free(workspace)


def discard_abandoned(repository: Path, branch: str, *, terms: Terms | None = None) -> None:
    """Discard the workspace on a branch whose user has died, even if it is half-made."""
    pool = WorkspacePool(common=git.common_directory(repository))
    for slot, named in pool.registered():
        if named.branch != branch:
            continue
        lock = try_lock(slot)
        if lock is None:
            raise InUse(f"The workspace of {branch} is in use.")
        with contextlib.closing(lock):
            record = slot.find_record()
            if record is not None and record.branch == branch:
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
    # From here on the files are worth nothing: whoever comes after a crash starts over.
    slot.write_record(replace(record, phase=WorkspacePhase.MAKING))
    admin = worktree.admin_directory(slot, record)
    disown(slot, record)
    record = replace(record, phase=WorkspacePhase.MAKING, branch=None)
    slot.write_record(record)
    if (
        admin is None
        or not worktree.is_present(slot)
        or not worktree.is_recyclable(record.settings)
        or _free_ones(slot) >= POOL
    ):
        remove(slot)
        return
    try:
        inspection.disarm(workspace)
        keep = [normalise(name) for name in workspace.terms.rules.keep]
        kept = worktree.reset(slot, record, admin, workspace.view(), keep)
    except (GitFailed, OSError, WorkspaceError):
        # What cannot be made clean is made anew by whoever comes next.
        worktree.take_apart(slot, record)
        return
    slot.write_record(replace(record, phase=WorkspacePhase.FREE, kept=kept))


def _free_ones(slot: Slot) -> int:
    return sum(record.phase is WorkspacePhase.FREE for _, record in slot.pool.registered())


def remove(slot: Slot) -> None:
    """Remove a workspace that holds nothing of value; its lock is held by the caller."""
    worktree.take_apart(slot, slot.find_record())
    if os.path.lexists(slot.directory):
        worktree.discard(slot.pool, slot.directory)
