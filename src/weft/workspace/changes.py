"""What an agent changed, read from files and git and never from what it says."""

from __future__ import annotations

import filecmp
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft import git
from weft.git import FileChange, GitFailed
from weft.git.git_command import through
from weft.git.refs import find_commits, unreachable
from weft.git.trees import SUBMODULE, SYMLINK, ignored_files, skipped, unmerged
from weft.workspace import nested_repositories, quarantine, snapshot
from weft.workspace.archive import written_ids
from weft.workspace.filters import find_raw
from weft.workspace.inspection import Unkeepable, read_file
from weft.workspace.submodules import find_module, has_commit
from weft.workspace.workspace_records import Workspace
from weft.workspace.worktree import is_sparse

_LARGEST: Final = 8 * 1024 * 1024
_MARKERS: Final = re.compile(rb"^<{7} .*?^={7}\r?$.*?^>{7} ", re.MULTILINE | re.DOTALL)
# A line of HEAD's log that says a commit was made, rather than gone to.
_MADE: Final = re.compile(
    rb"^[0-9a-f]+ ([0-9a-f]+) .*\t(?:commit|merge|cherry-pick|revert|rebase|am|pull)\b.*$",
    re.MULTILINE,
)


class Changes(Struct, frozen=True, kw_only=True):
    workspace: Workspace
    tree: str  # the final state of the workspace
    changes: tuple[FileChange, ...]  # from base to tree, renames recognised
    repositories: tuple[str, ...]  # made inside the workspace, left out of the tree
    unusable: tuple[str, ...]  # files with names that git refuses, left out of the tree
    conflicts: tuple[str, ...]  # unmerged for the agent's git, or with markers left in the file
    escapes: tuple[str, ...]  # changed symlinks that lead out of the repository

    @property
    def commits(self) -> tuple[str, ...]:
        """Those that the agent made itself, even if it threw them away; git is asked now."""
        return _commits(self.workspace)

    @property
    def ignored(self) -> tuple[str, ...]:
        """Files and, with a `/`, directories left out of the tree; git is asked now."""
        return tuple(ignored_files(self.workspace.view()))

    @property
    def nested(self) -> tuple[str, ...]:
        """Repositories and filled submodules, left out of the tree; git is asked now."""
        return (*self.repositories, *nested_repositories.populated_submodules(self.workspace))

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path touched; a rename touches both."""
        return tuple(sorted({path for change in self.changes for path in change.paths}))

    @property
    def submodules(self) -> tuple[str, ...]:
        """Paths that are, or were, submodules."""
        return tuple(
            change.path
            for change in self.changes
            if SUBMODULE in (change.old_mode, change.new_mode)
        )


def changes(workspace: Workspace) -> Changes:
    taken = snapshot.take(workspace)
    found = git.compare_trees(workspace.common, workspace.base_tree, taken.tree)
    paths = {path for change in found for path in change.paths}
    present = [change for change in found if change.new_mode]
    unseen = skipped(workspace.view(), paths) if is_sparse(workspace.settings) else []
    if unseen:
        raise Unkeepable(
            f"{unseen[0]} lies outside the sparse checkout, so the agent changed a file it had "
            "not seen; name it in `files:` of the task to have it checked out."
        )
    for change in present:
        _refuse_unknown_commit(workspace, taken.tree, change)
    raw = find_raw(workspace.view(), taken.tree, [one.path for one in present if _is_file(one)])
    if raw:
        raise Unkeepable(
            f"{raw[0]} is kept in LFS and would land as it is, not as an LFS pointer; the rules in "
            ".gitattributes must stay as they are for it."
        )
    return Changes(
        workspace=workspace,
        tree=taken.tree,
        changes=tuple(found),
        repositories=taken.found.nested,
        unusable=tuple(path for path in taken.found.untracked if path not in paths),
        conflicts=_conflicts(workspace, present),
        escapes=tuple(
            change.path
            for change in present
            if change.new_mode == SYMLINK and _escapes(workspace.path, change.path)
        ),
    )


def _refuse_unknown_commit(workspace: Workspace, tree: str, change: FileChange) -> None:
    """Raise if a submodule was moved to a commit that exists only in this workspace."""
    if change.new_mode != SUBMODULE:
        return
    view = workspace.view()
    commit = through(view, "rev-parse", f"{tree}:{change.path}").strip()
    module = find_module(view, workspace.common, tree, change.path)
    if module is not None and not has_commit(module, commit):
        raise Unkeepable(
            f"The submodule {change.path} stands on {commit}, a commit made here that would not "
            f"land; {module} has to have it first."
        )


def _is_file(change: FileChange) -> bool:
    return stat.S_ISREG(change.new_mode)


def _commits(workspace: Workspace) -> tuple[str, ...]:
    made = {one.decode() for one in _MADE.findall(_head_log(workspace.admin))}
    tip = git.find_ref(workspace.common, workspace.branch)
    ids = {*made, *written_ids(workspace.admin), *([tip] if tip else [])}
    quarantine.take_in(workspace, ids)
    written = find_commits(workspace.common, ids)
    alone = unreachable(workspace.common, written, excluding=[workspace.branch])
    elsewhere = sorted(made.intersection(written).difference(alone, {workspace.base}))
    return (*alone, *elsewhere)


def _head_log(admin: Path) -> bytes:
    # An agent may have removed the branch; commits reached from elsewhere still count.
    return read_file(admin / "logs" / "HEAD", _LARGEST)


def _conflicts(workspace: Workspace, present: Iterable[FileChange]) -> tuple[str, ...]:
    marked = {change.path for change in present if _has_markers(workspace.path / change.path)}
    return tuple(sorted(marked.union(_unmerged(workspace))))


def _unmerged(workspace: Workspace) -> list[str]:
    index = workspace.admin / "index"
    if not index.is_file() or _is_as_handed_over(index, workspace):
        return []
    try:
        return unmerged(workspace.view(index))
    except GitFailed:  # the agent's index decides nothing, so a broken one does no harm
        return []


def _is_as_handed_over(index: Path, workspace: Workspace) -> bool:
    """Whether an agent's index is still the copy of weft's that it was given."""
    try:
        return filecmp.cmp(index, workspace.slot.index, shallow=False)
    except OSError:
        return False


def _has_markers(path: Path) -> bool:
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            return False
        return _MARKERS.search(read_file(path, _LARGEST)) is not None
    except OSError:  # changed again since: there is no file to look into
        return False


def _escapes(tree: Path, path: str) -> bool:
    """Whether a symlink leads out of the tree, as it is written or as it resolves."""
    link = tree / path
    try:
        target = os.readlink(link)
    except OSError:
        return False
    if os.path.isabs(target):
        return True
    written = os.path.normpath(os.path.join(os.path.dirname(path), target))
    root = os.path.realpath(tree)
    resolved = os.path.realpath(link)
    inside = resolved == root or resolved.startswith(root + os.sep)
    return written == ".." or written.startswith("../") or not inside
