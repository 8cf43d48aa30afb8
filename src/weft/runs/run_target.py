"""The branch that a run moves to its landed commit (`--into`): asked for, or refused."""

from __future__ import annotations

from pathlib import Path

from weft import git
from weft.errors import InputError
from weft.workspace.names import OLD_BRANCHES, TRUNKS
from weft.workspace.worktree import find_checkout

_HEADS = "refs/heads/"


def require_target(root: Path, branch: str, base: str) -> None:
    """Refuse a branch that could not move forward from `base`."""
    ref = _HEADS + branch
    if not git.is_branch_name(root, branch) or branch.startswith("refs/"):
        raise InputError(f"--into {branch}: no branch can be called that.")
    if ref.startswith((TRUNKS, OLD_BRANCHES)):
        raise InputError(f"--into {branch}: branches that begin so are weft's own.")
    if place := find_checkout(root, ref):
        raise InputError(
            f"--into {branch}: it is checked out in {place}, and its files would not follow; name "
            "another branch, or leave --into away and `weft land` when the run has ended."
        )
    where = git.find_ref(root, ref)
    if where is None:
        _refuse_neighbours(root, branch)
    elif not git.is_ancestor(root, where, base):
        raise InputError(
            f"--into {branch}: it has commits that {base[:12]}, which the run starts from, does "
            f"not have, so it could not move forward; start from it with --base {branch}."
        )


def _refuse_neighbours(root: Path, branch: str) -> None:
    """Refuse a branch beside its own prefix: git keeps branches as files, `a` excludes `a/b`."""
    for ref in git.list_refs(root, _HEADS):
        neighbour = ref.removeprefix(_HEADS)
        if branch.startswith(f"{neighbour}/") or neighbour.startswith(f"{branch}/"):
            raise InputError(f"--into {branch}: git cannot have it beside the branch {neighbour}.")
