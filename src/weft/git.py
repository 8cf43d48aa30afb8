"""Questions to git, one typed function each."""

from __future__ import annotations

import os
import re
from pathlib import Path

from weft import process
from weft.errors import InputError

OLDEST = (2, 38)
"""The first git that merges without a working tree (`merge-tree --write-tree`)."""


class NotARepository(InputError):
    """This is not a git repository; run `git init` first, or name one with -C."""


def version() -> tuple[int, ...]:
    """The installed git's version: (2, 39, 5)."""
    answer = _git(Path.cwd(), "version").output
    found = re.search(r"(\d+(?:\.\d+)+)", answer)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def top_level(directory: Path) -> Path:
    """The root of the working tree this directory is in."""
    return _path(directory, "--show-toplevel")


def common_directory(directory: Path) -> Path:
    """The git directory that all working trees of a repository share."""
    return _path(directory, "--git-common-dir")


def tracked_files(directory: Path) -> list[str]:
    """Every file git tracks in this working tree, relative to its root."""
    root = top_level(directory)
    done = _git(root, "ls-files", "-z")
    if done.status != 0:
        raise InputError(f"git cannot list the files of {root}: {_first_line(done.errors)}.")
    return done.output.split("\0")[:-1]


def _path(directory: Path, question: str) -> Path:
    done = _git(directory, "rev-parse", "--path-format=absolute", question)
    if done.status != 0:
        if "not a git repository" in done.errors:
            raise NotARepository
        raise InputError(f"git cannot use {directory}: {_first_line(done.errors)}.")
    return Path(done.output.removesuffix("\n"))


def _first_line(errors: str) -> str:
    first = (errors.strip().splitlines() or ["git failed"])[0]
    return first.removeprefix("fatal: ")


def _git(directory: Path, *arguments: str) -> process.Finished:
    return process.run(("git", *arguments), directory=directory, environment=_environment())


def _environment() -> dict[str, str]:
    """The user's environment without what would point git at another repository."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, "LC_ALL": "C"}
