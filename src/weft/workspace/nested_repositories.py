"""Repositories inside a workspace: submodules, and repositories that an agent made.

Submodules are filled from the objects that the repository has, and no object is fetched. Each
becomes a small repository that borrows the objects of the repository's module. A submodule that
the repository lacks stays empty, as in a fresh clone; so do submodules of submodules.

Candidates and archives hold only files of the main repository. `find_work` finds work that exists
only inside a nested repository, so that weft does not delete it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from weft.git import GitFailed, GitView
from weft.git.git_command import LONG, check_output, run, split_nul, view_output
from weft.git.trees import compare_to_index, list_submodules
from weft.workspace.inspection import read_file
from weft.workspace.workspace_records import Workspace

_LOCAL: Final = {"GIT_ALLOW_PROTOCOL": "file"}
_PINNED: Final = "refs/remotes/origin/weft"
"""Reference that keeps the commit of a submodule from counting as an agent's work."""


def fill_submodules(view: GitView, common: Path, tree: str) -> None:
    """Check out every submodule of a tree whose commit the repository has."""
    if not (view.tree / ".gitmodules").is_file():
        return
    for path, commit in list_submodules(view).items():
        module = find_module(view, common, tree, path)
        place = view.tree / path
        if module is None or not has_commit(module, commit) or place.is_symlink():
            continue
        if place.is_dir() and os.listdir(place):
            continue
        clone = ("clone", "--quiet", "--shared", "--no-checkout", "--template=")
        check_output(common, *clone, str(module), str(place), variables=_LOCAL, seconds=LONG)
        check_output(place, "update-ref", _PINNED, commit)
        check_output(place, "checkout", "--quiet", "--detach", commit, seconds=LONG)


def find_module(view: GitView, common: Path, tree: str, path: str) -> Path | None:
    """Return the directory in which the repository keeps the submodule at this path of a tree."""
    for name, where in _list_names(view, tree):
        module = common / "modules" / name
        inside = os.path.realpath(module).startswith(os.path.realpath(common / "modules") + os.sep)
        if where == path and inside and (module / "HEAD").is_file():
            return module
    return None


def has_commit(module: Path, commit: str) -> bool:
    variables = {"GIT_DIR": str(module)}
    done = run(module, "cat-file", "-e", f"{commit}^{{commit}}", variables=variables)
    return done.status == 0


def _list_names(view: GitView, tree: str) -> Iterator[tuple[str, str]]:
    asked = ("config", "-z", "--blob", f"{tree}:.gitmodules")
    try:
        listed = view_output(view, *asked, "--get-regexp", r"^submodule\..*\.path$")
    except GitFailed:  # the file is missing or names no submodule
        return
    for entry in split_nul(listed):
        key, _, path = entry.partition("\n")
        yield key.removeprefix("submodule.").removesuffix(".path"), path


def list_filled_submodules(workspace: Workspace) -> list[str]:
    """List the submodules of the base with files in their directory."""
    tree = workspace.path
    return [
        path
        for path in list_submodules(workspace.view())
        if (tree / path).is_dir() and not (tree / path).is_symlink() and os.listdir(tree / path)
    ]


def find_work(workspace: Workspace, path: str) -> str | None:
    """Return, as a sentence, the work that would be lost with the repository at this path."""
    root = workspace.path / path
    directory = _find_git_directory(root)
    if directory is None:
        return f"{path} holds files that git does not see."
    commits = run(
        root,
        *("rev-list", "--max-count=1", "--all", "HEAD", "--not", "--remotes"),
        variables={"GIT_DIR": str(directory)},
    )
    if commits.output or (commits.status != 0 and _has_objects(directory)):
        return f"{path} is a repository with commits of its own."
    if _is_dirty(workspace, root, directory):
        return f"{path} is a repository with changes of its own."
    return None


def _find_git_directory(root: Path) -> Path | None:
    link = root / ".git"
    if link.is_file():
        text = os.fsdecode(read_file(link, 4096))
        directory = root / text.removeprefix("gitdir:").strip().replace("\0", "")
    else:
        directory = link
    return directory if (directory / "objects").is_dir() else None


def _has_objects(directory: Path) -> bool:
    return any(name not in ("info", "pack") for name in os.listdir(directory / "objects")) or any(
        (directory / "objects" / "pack").glob("*.pack")
    )


def _is_dirty(workspace: Workspace, root: Path, directory: Path) -> bool:
    index = workspace.slot.directory / "nested"
    index.unlink(missing_ok=True)
    if (directory / "index").is_file():
        shutil.copy2(directory / "index", index)  # with its time: see snapshot
    view = GitView(
        directory=workspace.slot.view,
        objects=directory / "objects",
        tree=root,
        index=index,
        settings={"core.sparseCheckout": "false"},
    )
    try:
        changed = compare_to_index(view)
    except GitFailed:  # an unreadable repository may hold work
        return True
    return bool(changed.modified or changed.deleted or changed.untracked or changed.nested)
