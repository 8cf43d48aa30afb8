"""The changes of an agent, read from its files and git, never from its report."""

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
from weft.git.git_command import view_output
from weft.git.refs import find_commits, list_unreachable
from weft.git.trees import SUBMODULE, SYMLINK, list_ignored, list_skipped, list_unmerged
from weft.paths import matches
from weft.workspace import nested_repositories, quarantine
from weft.workspace.archive import find_written_ids, take_snapshot
from weft.workspace.filters import find_raw
from weft.workspace.inspection import Unkeepable, read_file
from weft.workspace.nested_repositories import find_module, has_commit
from weft.workspace.workspace_records import Workspace
from weft.workspace.worktree import is_sparse

_LARGEST: Final = 8 * 1024 * 1024
_MARKERS: Final = re.compile(rb"^<{7} .*?^={7}\r?$.*?^>{7} ", re.MULTILINE | re.DOTALL)
# A line of HEAD's log about a new commit, not about a checkout.
_MADE: Final = re.compile(
    rb"^[0-9a-f]+ ([0-9a-f]+) .*\t(?:commit|merge|cherry-pick|revert|rebase|am|pull)\b.*$",
    re.MULTILINE,
)


class Changes(Struct, frozen=True, kw_only=True):
    workspace: Workspace
    tree: str  # the final state of the workspace
    changes: tuple[FileChange, ...]  # from base to tree, renames recognised
    repositories: tuple[str, ...]  # made inside the workspace, not in the tree
    unusable: tuple[str, ...]  # files with names that git refuses, not in the tree
    conflicts: tuple[str, ...]  # unmerged in the agent's index, or with conflict markers
    escapes: tuple[str, ...]  # changed symlinks that lead out of the repository

    @property
    def commits(self) -> tuple[str, ...]:
        """The agent's own commits, even those it dropped; each access asks git."""
        return _commits(self.workspace)

    @property
    def ignored(self) -> tuple[str, ...]:
        """Ignored files and, with a `/`, directories; each access asks git."""
        return tuple(list_ignored(self.workspace.view()))

    @property
    def nested(self) -> tuple[str, ...]:
        """Repositories and filled submodules, not in the tree; each access asks git."""
        return (*self.repositories, *nested_repositories.list_filled_submodules(self.workspace))

    @property
    def paths(self) -> tuple[str, ...]:
        """The touched paths; a rename touches two."""
        return tuple(sorted({path for change in self.changes for path in change.paths}))

    @property
    def submodules(self) -> tuple[str, ...]:
        """Changed paths that are or were submodules."""
        return tuple(
            change.path
            for change in self.changes
            if SUBMODULE in (change.old_mode, change.new_mode)
        )


def changes(workspace: Workspace) -> Changes:
    taken = take_snapshot(workspace)
    changed = git.compare_trees(workspace.common, workspace.base_tree, taken.tree)
    paths = {path for change in changed for path in change.paths}
    present = [change for change in changed if change.new_mode]
    unseen = list_skipped(workspace.view(), paths) if is_sparse(workspace.settings) else []
    if unseen:
        raise Unkeepable(
            f"{unseen[0]} lies outside the sparse checkout, so the agent changed a file it had "
            "not seen; name it in `files:` of the task to have it checked out."
        )
    for change in present:
        _refuse_unknown_commit(workspace, taken.tree, change)
    files = [change.path for change in present if stat.S_ISREG(change.new_mode)]
    raw = find_raw(workspace.view(), taken.tree, files)
    if raw:
        raise Unkeepable(
            f"{raw[0]} is kept in LFS and would land as it is, not as an LFS pointer; the rules in "
            ".gitattributes must stay as they are for it."
        )
    return Changes(
        workspace=workspace,
        tree=taken.tree,
        changes=tuple(changed),
        repositories=taken.changed.nested,
        unusable=tuple(path for path in taken.changed.untracked if path not in paths),
        conflicts=_conflicts(workspace, present),
        escapes=tuple(
            change.path
            for change in present
            if change.new_mode == SYMLINK and _escapes(workspace.path, change.path)
        ),
    )


def out_of_scope(changes: Changes, claims: Iterable[str]) -> tuple[str, ...]:
    """Return the touched paths that no claim matches.

    Claims are normalised patterns and match exactly, letter case included. Symlinks that lead out
    of the repository are in `Changes.escapes`, since no larger claim would help.
    """
    patterns = tuple(claims)
    return tuple(
        path for path in changes.paths if not any(matches(pattern, path) for pattern in patterns)
    )


def _refuse_unknown_commit(workspace: Workspace, tree: str, change: FileChange) -> None:
    """Raise if a submodule was moved to a commit that exists only in this workspace."""
    if change.new_mode != SUBMODULE:
        return
    view = workspace.view()
    commit = view_output(view, "rev-parse", f"{tree}:{change.path}").strip()
    module = find_module(view, workspace.common, tree, change.path)
    if module is not None and not has_commit(module, commit):
        raise Unkeepable(
            f"The submodule {change.path} is at {commit}, a commit made here that would not "
            f"land; {module} has to have it first."
        )


def _commits(workspace: Workspace) -> tuple[str, ...]:
    # An agent may have removed the branch; commits reached from elsewhere still count.
    log = read_file(workspace.admin / "logs" / "HEAD", _LARGEST)
    made = {id.decode() for id in _MADE.findall(log)}
    tip = git.find_ref(workspace.common, workspace.branch)
    ids = {*made, *find_written_ids(workspace.admin), *([tip] if tip else [])}
    quarantine.import_objects(workspace, ids)
    written = find_commits(workspace.common, ids)
    alone = list_unreachable(workspace.common, written, excluding=[workspace.branch])
    elsewhere = sorted(made.intersection(written).difference(alone, {workspace.base}))
    return (*alone, *elsewhere)


def _conflicts(workspace: Workspace, present: Iterable[FileChange]) -> tuple[str, ...]:
    marked = {change.path for change in present if _has_markers(workspace.path / change.path)}
    return tuple(sorted(marked.union(_unmerged(workspace))))


def _unmerged(workspace: Workspace) -> list[str]:
    index = workspace.admin / "index"
    if not index.is_file() or _is_as_handed_over(index, workspace):
        return []
    try:
        return list_unmerged(workspace.view(index))
    except GitFailed:  # a broken index of the agent does no harm
        return []


def _is_as_handed_over(index: Path, workspace: Workspace) -> bool:
    """Tell whether an agent's index is still the copy of weft's index."""
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
    except OSError:  # changed again since
        return False


def _escapes(tree: Path, path: str) -> bool:
    """Tell whether a symlink leads out of the tree, as it is written or as it resolves."""
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
