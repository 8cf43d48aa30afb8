"""Submodules, filled from the objects that the repository has; nothing is fetched.

Each becomes a small repository that borrows the objects of the repository's module. A submodule
that the repository lacks stays empty, as in a fresh clone; so do submodules of submodules.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from weft.git import GitFailed, GitView
from weft.git.git_command import LONG, answer, run, split, through

_LOCAL: Final = {"GIT_ALLOW_PROTOCOL": "file"}
_PINNED: Final = "refs/remotes/origin/weft"
"""Reference that keeps the commit of a submodule from counting as an agent's work."""


def fill_submodules(view: GitView, common: Path, tree: str) -> None:
    """Check out every submodule of a tree whose commit the repository has."""
    if not (view.tree / ".gitmodules").is_file():
        return
    for path, commit in _pinned(view):
        module = find_module(view, common, tree, path)
        place = view.tree / path
        if module is None or not has_commit(module, commit) or place.is_symlink():
            continue
        if place.is_dir() and os.listdir(place):
            continue
        clone = ("clone", "--quiet", "--shared", "--no-checkout", "--template=")
        answer(common, *clone, str(module), str(place), variables=_LOCAL, seconds=LONG)
        answer(place, "update-ref", _PINNED, commit)
        answer(place, "checkout", "--quiet", "--detach", commit, seconds=LONG)


def find_module(view: GitView, common: Path, tree: str, path: str) -> Path | None:
    """Return the directory in which the repository keeps the submodule at this path of a tree."""
    for name, where in _names(view, tree):
        module = common / "modules" / name
        inside = os.path.realpath(module).startswith(os.path.realpath(common / "modules") + os.sep)
        if where == path and inside and (module / "HEAD").is_file():
            return module
    return None


def has_commit(module: Path, commit: str) -> bool:
    found = run(
        module, "cat-file", "-e", f"{commit}^{{commit}}", variables={"GIT_DIR": str(module)}
    )
    return found.status == 0


def _pinned(view: GitView) -> list[tuple[str, str]]:
    """Return the paths of submodules in the index, each with its commit."""
    entries = split(through(view, "ls-files", "-z", "--stage"))
    return [
        (entry.partition("\t")[2], entry.split(" ")[1])
        for entry in entries
        if entry.startswith("160000 ")
    ]


def _names(view: GitView, tree: str) -> Iterator[tuple[str, str]]:
    asked = ("config", "-z", "--blob", f"{tree}:.gitmodules")
    try:
        told = through(view, *asked, "--get-regexp", r"^submodule\..*\.path$")
    except GitFailed:  # the file is missing or names no submodule
        return
    for entry in split(told):
        key, _, path = entry.partition("\n")
        yield key.removeprefix("submodule.").removesuffix(".path"), path
