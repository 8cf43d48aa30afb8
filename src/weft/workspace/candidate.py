"""The candidate of an attempt: a single commit of the workspace's final state, on its branch."""

from __future__ import annotations

from collections.abc import Mapping

from weft import git
from weft.git import Update
from weft.git.refs import RefMoved, find_commits, find_heads, list_unreachable
from weft.workspace.archive import find_whole, take_snapshot
from weft.workspace.names import archive_ref
from weft.workspace.workspace_records import Workspace

Author = tuple[str, str]
"""The name and the address of the author of a commit."""


def candidate(
    workspace: Workspace,
    message: str,
    *,
    author: Author,
    trailers: Mapping[str, str],
    date: str,
    tree: str | None = None,
) -> str | None:
    """Commit all files of the workspace on the base, move the branch there and return the commit.

    Return None if the files are those of the base.

    `tree` is the tree of `changes`, if the caller has it. `date` has git's format
    (`1700000000 +0000`); equal arguments give an equal commit, so repeating this after a crash
    changes no reference. Commits that the branch held before are archived in the same step.
    """
    tree = tree or take_snapshot(workspace).tree
    if tree == workspace.base_tree:
        return None
    commit = git.commit_tree(
        workspace.common,
        tree,
        [workspace.base],
        compose(message, trailers),
        name=author[0],
        email=author[1],
        date=date,
    )
    try:  # most agents leave their branch at the base
        _move(workspace, workspace.base, commit)
    except RefMoved:
        before = git.find_ref(workspace.common, workspace.branch)
        if commit != before:
            _move(workspace, before, commit)
    return commit


def _move(workspace: Workspace, before: str | None, commit: str) -> None:
    replaced = [] if before in (None, workspace.base) else [str(before)]
    tips = find_commits(workspace.common, replaced)
    whole = find_whole(workspace.common, tips, excluding=[workspace.branch])
    lost = find_heads(list_unreachable(workspace.common, whole, excluding=[workspace.branch]))
    git.update_refs_to_whole(
        workspace.common,
        [
            Update(ref=workspace.branch, old=before, new=commit),
            *(
                Update(ref=archive_ref(workspace.branch, commit), old=None, new=commit)
                for commit in lost
            ),
        ],
        excluding=workspace.base,
        why="weft: candidate",
    )


def compose(message: str, trailers: Mapping[str, str]) -> str:
    """Return a commit message that ends with these trailers."""
    text = message.replace("\0", "").strip() or "Work of an agent"
    lines = [f"{key}: {' '.join(value.split())}" for key, value in trailers.items()]
    _, before = git.split_trailers(text.encode(errors="replace"))
    return text + ("\n" if before else "\n\n") + "\n".join(lines).replace("\0", "") + "\n"
