"""The final state of a workspace as a tree, independent of the agent's own index.

weft keeps its own index from before the agent started. A comparison with it finds changed files by
size, times and inode; git also compares the time of change, which no program can set back.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from msgspec import Struct

from weft.errors import WorkspaceError
from weft.git import GitFailed
from weft.git.trees import (
    Differences,
    add_to_index,
    compare_to_index,
    reset_index,
    write_tree,
)
from weft.workspace import inspection, worktree
from weft.workspace.workspace_records import Workspace


class Snapshot(Struct, frozen=True, kw_only=True):
    tree: str
    changed: Differences


def take(workspace: Workspace) -> Snapshot:
    """Write the tree of all files that are not ignored, without nested repositories."""
    if not worktree.is_present(workspace.slot):
        raise WorkspaceError(f"The files of {workspace.branch} are gone: {workspace.path}.")
    inspection.inspect(workspace)
    view = workspace.view(_copy(workspace.slot.index, workspace, "taken"))
    if not view.index.exists():
        reset_index(view, workspace.base_tree)
    changed = compare_to_index(view)
    if changed.modified or changed.deleted or changed.untracked:
        inspection.refuse_too_large(workspace, changed)
        add_to_index(view, changed)
    # Also without a change: an attempt that goes on from earlier work does not start at its base.
    return Snapshot(tree=write_tree(view), changed=changed)


def find_staged_tree(workspace: Workspace) -> str | None:
    """Write the tree of the agent's own index; return None if it is broken or missing."""
    index = workspace.admin / "index"
    if not index.is_file() or index.is_symlink():
        return None
    try:
        return write_tree(workspace.view(_copy(index, workspace, "staged")))
    except GitFailed:  # broken, or in the middle of a merge
        return None


def _copy(index: Path, workspace: Workspace, name: str) -> Path:
    copy = workspace.slot.directory / name
    copy.with_name(f"{name}.lock").unlink(missing_ok=True)
    copy.unlink(missing_ok=True)
    if index.exists():
        # With its time: git compares it with the times of the files.
        shutil.copy2(index, copy)
    return copy
