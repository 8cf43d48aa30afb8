"""Turning the final state of a workspace into one commit on its branch."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from weft import git
from weft.git import Update
from weft.git.refs import RefMoved, find_commits, heads, unreachable
from weft.workspace import snapshot
from weft.workspace.archive import find_whole
from weft.workspace.names import archive_ref
from weft.workspace.workspace_records import Workspace


class Author(Struct, frozen=True, kw_only=True):
    name: str
    email: str


class Candidate(Struct, frozen=True, kw_only=True):
    commit: str
    tree: str


class NoChange(Struct, frozen=True, kw_only=True):
    """The workspace holds what its base holds."""

    tree: str


def candidate(
    workspace: Workspace,
    message: str,
    *,
    author: Author,
    trailers: Mapping[str, str],
    date: str,
    tree: str | None = None,
) -> Candidate | NoChange:
    """Make one commit, on the base, of all that is in the workspace, and put the branch there.

    `tree` is what `changes` found there, if it was asked; otherwise the files are looked at.
    `date` is as git takes it (`1700000000 +0000`); equal arguments give an equal commit, so
    doing it again after a crash changes nothing. What the branch held before, such as commits of
    the agent's own, is archived in the same step.
    """
    tree = tree or snapshot.take(workspace).tree
    if tree == workspace.base_tree:
        return NoChange(tree=tree)
    commit = git.commit_tree(
        workspace.common,
        tree,
        [workspace.base],
        compose(message, trailers),
        name=author.name,
        email=author.email,
        date=date,
    )
    try:  # most agents leave their branch alone; whether this one did, git says while it moves
        _move(workspace, workspace.base, commit)
    except RefMoved:
        before = git.find_ref(workspace.common, workspace.branch)
        if commit != before:
            _move(workspace, before, commit)
    return Candidate(commit=commit, tree=tree)


def _move(workspace: Workspace, before: str | None, commit: str) -> None:
    stood = {before} - {None, workspace.base}  # the base is reached by the new commit too
    tips = find_commits(workspace.common, [one for one in stood if one])
    whole = find_whole(workspace.common, tips, excluding=[workspace.branch])
    lost = heads(unreachable(workspace.common, whole, excluding=[workspace.branch]))
    git.keep_whole(
        workspace.common,
        [
            Update(ref=workspace.branch, old=before, new=commit),
            *(Update(ref=archive_ref(workspace.branch, one), old=None, new=one) for one in lost),
        ],
        excluding=workspace.base,
        why="weft: candidate",
    )


def compose(message: str, trailers: Mapping[str, str]) -> str:
    """A commit message that ends in these trailers."""
    text = message.replace("\0", "").strip() or "Work of an agent"
    lines = [f"{key}: {' '.join(value.split())}" for key, value in trailers.items()]
    _, before = git.split_trailers(text.encode(errors="replace"))
    return text + ("\n" if before else "\n\n") + "\n".join(lines).replace("\0", "") + "\n"
