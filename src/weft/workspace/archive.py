"""The archive of work that exists only in a workspace.

Its references are `refs/weft/archive/<run>/<task>/<n>/<commit>`.

It keeps files that are in no commit, contents that were only staged, and every commit of the
worktree that no reference reaches. Archiving twice is archiving once: the same state gives the
same commits, which the references of the first time reach.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Container, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from weft import git
from weft.errors import WorkspaceError
from weft.git import GitFailed, Update
from weft.git.refs import find_commits, find_heads, lacks_objects, list_unreachable
from weft.git.trees import (
    Differences,
    add_to_index,
    compare_to_index,
    reset_index,
    write_tree,
)
from weft.workspace import inspection, nested_repositories, quarantine, worktree
from weft.workspace.names import archive_ref
from weft.workspace.workspace_records import Workspace

_ID = re.compile(rb"\b[0-9a-f]{40}(?:[0-9a-f]{24})?\b")
_HEAD = re.compile(r"(?:ref: )?(refs/[^\s\0]+|[0-9a-f]{40,64})")
_LARGEST = 32 * 1024 * 1024
_ALL = 256 * 1024 * 1024


class Kept(Struct, frozen=True, kw_only=True):
    refs: tuple[str, ...] = ()  # new references
    obstacle: str | None = None  # the reason why work exists only in the workspace


def keep(workspace: Workspace) -> Kept:
    """Archive all work in a workspace that no reference reaches, as far as its objects are
    complete."""
    return git.outlast_gc(lambda: _keep(workspace))


def _keep(workspace: Workspace) -> Kept:
    mount = inspection.find_mount(workspace.slot)
    if mount is not None:
        return Kept(obstacle=f"Something is mounted at {mount}; unmount it: umount {mount}")
    inspection.disarm(workspace)
    tips = _list_tips(workspace)
    ids = {*find_written_ids(workspace.admin), *tips}
    quarantine.import_objects(workspace, ids)
    named = find_commits(workspace.common, ids)
    whole = find_whole(workspace.common, named, excluding=[workspace.branch])
    known = {commit: named[commit] for commit in whole}
    made: list[str] = []
    obstacle = None
    if worktree.is_present(workspace.slot):
        taken = take_snapshot(workspace)
        trees = {known[commit] for commit in tips if commit in known}
        head = next((commit for commit in tips if commit in known), None)
        if head is None:
            raise WorkspaceError(f"The commit {workspace.base} is missing from the repository.")
        made = [
            _commit(workspace, tree, message, head)
            for tree, message in _list_uncommitted(workspace, taken, trees)
        ]
        nested = (
            *taken.changed.nested,
            *nested_repositories.list_filled_submodules(workspace),
        )
        works = (nested_repositories.find_work(workspace, path) for path in nested)
        obstacle = next(filter(None, works), None)
    lost = find_heads(list_unreachable(workspace.common, [*known, *made]))
    updates = [
        Update(ref=archive_ref(workspace.branch, commit), old=None, new=commit) for commit in lost
    ]
    git.update_refs_to_whole(workspace.common, updates, excluding=workspace.base, why="weft: kept")
    return Kept(refs=tuple(update.ref for update in updates), obstacle=obstacle)


def is_whole(workspace: Workspace, tree: str) -> bool:
    """Tell whether the repository has every object of a tree that the base lacks."""
    return not lacks_objects(workspace.common, [tree], besides=[workspace.base])


def find_whole(
    common: Path, commits: Collection[str], *, excluding: Collection[str] = ()
) -> list[str]:
    """Return the commits of which no object is missing: a reference to any other commit would
    make `git gc` fail. Objects that the references in `excluding` reach are checked as well."""
    if not commits or not lacks_objects(common, commits, excluding=excluding):
        return list(commits)
    return [
        commit for commit in commits if not lacks_objects(common, [commit], excluding=excluding)
    ]


def drop_branches(
    common: Path, branches: Mapping[str, str], *, landed: Container[str] = ()
) -> tuple[str, ...]:
    """Delete branches, given with their tips, all at once. Archive commits that only they reach,
    except those in `landed`, whose work is in trunk."""
    names = tuple(branches)
    existing = find_whole(common, find_commits(common, branches.values()), excluding=names)
    lost = find_heads(list_unreachable(common, existing, excluding=names))
    owner = {commit: branch for branch, commit in branches.items()}
    kept = [
        Update(ref=archive_ref(owner[commit], commit), old=None, new=commit)
        for commit in lost
        if commit not in landed
    ]
    gone = [Update(ref=branch, old=tip, new=None) for branch, tip in branches.items()]
    git.update_refs(common, [*kept, *gone], why="weft: kept")
    return tuple(update.ref for update in kept)


def find_written_ids(admin: Path) -> set[str]:
    """Return every object id in the small files of a worktree's git entry: HEAD, its log, …"""
    ids: set[str] = set()
    if not admin.is_dir() or admin.is_symlink():
        return ids
    read = 0
    for entry in inspection.walk(admin):
        inside = entry.path[len(str(admin)) :].split("/")[1:-1]
        if entry.name.startswith("index") or not {"modules", "objects"}.isdisjoint(inside):
            continue
        text = inspection.read_file(Path(entry.path), _LARGEST)
        read += len(text)
        if read > _ALL:
            raise WorkspaceError(f"The files in {admin} have more than {_ALL >> 20} MB.")
        ids.update(id.decode() for id in _ID.findall(text))
    return ids


def _list_tips(workspace: Workspace) -> list[str]:
    """List the commits of the worktree's HEAD, of its branch and of its base."""
    head = _find_head(workspace)
    refs = git.list_refs(workspace.common, workspace.branch, *([head] if head else []))
    own = head and quarantine.find_tip(workspace, head)
    tips = (own, head and refs.get(head, head), refs.get(workspace.branch), workspace.base)
    return [tip for tip in tips if tip]


def _find_head(workspace: Workspace) -> str | None:
    """Return the reference or commit in the worktree's HEAD."""
    text = inspection.read_file(workspace.admin / "HEAD", 4096).decode(errors="replace").strip()
    match = _HEAD.fullmatch(text)  # an agent may have overwritten or removed the file
    return match[1] if match else None


def _list_uncommitted(
    workspace: Workspace, taken: Snapshot, known: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield the trees of the files and of the index that are in no commit, with messages."""
    staged = find_staged_tree(workspace)
    if staged is not None and staged not in {*known, taken.tree} and is_whole(workspace, staged):
        yield staged, "weft: what was staged"
    if taken.tree not in known:
        yield taken.tree, "weft: what was not committed"


def _commit(workspace: Workspace, tree: str, message: str, head: str) -> str:
    parent = git.get_commit(workspace.common, head)
    # The date of its parent, so that archiving again gives the same commit.
    return git.commit_tree(
        workspace.common,
        tree,
        [parent.id],
        f"{message}\n\nFrom the workspace of {workspace.branch}.\n",
        name="weft",
        email="weft@localhost",
        date=parent.date,
    )


class Snapshot(Struct, frozen=True, kw_only=True):
    tree: str
    changed: Differences


def take_snapshot(workspace: Workspace) -> Snapshot:
    """Write the tree of all files that are not ignored, without nested repositories.

    weft keeps its own index from before the agent started. A comparison with it finds changed files
    by size, times and inode; git also compares the time of change, which no program can set back.
    """
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
