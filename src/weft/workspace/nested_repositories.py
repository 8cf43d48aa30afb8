"""Repositories inside a workspace: submodules that were filled, and repositories an agent made.

weft's candidates and archives hold files of the one repository. Work that exists only inside
another one is found here, so that nothing deletes it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from weft.git import GitFailed, GitView
from weft.git.git_command import run
from weft.git.trees import differences, submodules
from weft.workspace.inspection import read_file
from weft.workspace.workspace_records import Workspace


def populated_submodules(workspace: Workspace) -> list[str]:
    """Submodules of the base with anything in their directory."""
    tree = workspace.path
    return [
        path
        for path in submodules(workspace.view())
        if (tree / path).is_dir() and not (tree / path).is_symlink() and os.listdir(tree / path)
    ]


def find_work(workspace: Workspace, path: str) -> str | None:
    """What would be lost with the repository at this path, in words."""
    root = workspace.path / path
    directory = _git_directory(root)
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


def _git_directory(root: Path) -> Path | None:
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
        found = differences(view)
    except GitFailed:  # not to be read is not to be deleted
        return True
    return bool(found.modified or found.deleted or found.untracked or found.nested)
