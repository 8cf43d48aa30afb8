"""The final state of a workspace as a tree, whatever the agent did to its own index.

weft keeps an index of its own from before the agent started. Compared with it, cheap looks at
the files (size, times, inode) find what changed; git counts the time of change too, which no
program can set back.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from msgspec import Struct

from weft.errors import WorkspaceError
from weft.git import GitFailed
from weft.git.trees import Differences, differences, put_index, take_up, write_tree
from weft.workspace import inspection, worktree
from weft.workspace.workspace_records import Workspace


class Snapshot(Struct, frozen=True, kw_only=True):
    tree: str
    found: Differences


def take(workspace: Workspace) -> Snapshot:
    """The tree of all files, tracked or not, that are not ignored; nested repositories apart."""
    if not worktree.is_present(workspace.slot):
        raise WorkspaceError(f"The files of {workspace.branch} are gone: {workspace.path}.")
    inspection.inspect(workspace)
    view = workspace.view(_copy(workspace.slot.index, workspace, "taken"))
    if not view.index.exists():
        put_index(view, workspace.base_tree)
    found = differences(view)
    if not (found.modified or found.deleted or found.untracked):
        return Snapshot(tree=workspace.base_tree, found=found)
    inspection.weigh(workspace, found)
    take_up(view, found)
    return Snapshot(tree=write_tree(view), found=found)


def find_staged_tree(workspace: Workspace) -> str | None:
    """The tree of the agent's own index; None if it has none that makes one."""
    index = workspace.admin / "index"
    if not index.is_file() or index.is_symlink():
        return None
    try:
        return write_tree(workspace.view(_copy(index, workspace, "staged")))
    except GitFailed:  # broken, or in the middle of a merge: nothing that could be a tree
        return None


def _copy(index: Path, workspace: Workspace, name: str) -> Path:
    copy = workspace.slot.directory / name
    copy.with_name(f"{name}.lock").unlink(missing_ok=True)
    copy.unlink(missing_ok=True)
    if index.exists():
        # With its time, by which git knows the files that may have changed in the same moment.
        shutil.copy2(index, copy)
    return copy
