"""Questions to git about a repository, one typed function each."""

from __future__ import annotations

import re
import threading
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from weft.errors import InputError
from weft.git.git_command import answer, first_line, run, split
from weft.git.refs import Update, update_refs
from weft.git.trees import commit_tree

_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")

_MOST_KNOWN = 256
_asking = threading.Lock()

OLDEST = (2, 38)
"""The first git that merges without a working tree (`merge-tree --write-tree`)."""


class NotARepository(InputError):
    """This is not a git repository; run `git init` first, or name one with -C."""


class NoSuchCommit(InputError):
    """There is no such commit."""


class Commit(Struct, frozen=True, kw_only=True):
    id: str
    tree: str
    parents: tuple[str, ...]
    date: str  # as the committer wrote it: `1700000000 +0000`


_known: dict[tuple[Path, str], Commit] = {}


def create(directory: Path) -> None:
    """A new repository with one empty commit, untouched by the user's templates and hooks."""
    directory.mkdir(parents=True)
    answer(directory, "init", "--quiet", "--template=", "--initial-branch=main")
    tree = answer(directory, "mktree").strip()
    who = {"name": "weft", "email": "weft@localhost", "date": "@0 +0000"}
    first = commit_tree(directory, tree, (), "First", **who)
    update_refs(directory, [Update(ref="refs/heads/main", old=None, new=first)])


def version() -> tuple[int, ...]:
    """The installed git's version: (2, 39, 5)."""
    found = re.search(r"(\d+(?:\.\d+)+)", run(Path.cwd(), "version").output)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def top_level(directory: Path) -> Path:
    """The root of the working tree this directory is in."""
    return _path(directory, "--show-toplevel")


def common_directory(directory: Path) -> Path:
    """The git directory that all working trees of a repository share."""
    return _path(directory, "--git-common-dir")


def git_directory(directory: Path) -> Path:
    """The git directory of this working tree alone: the common one, or its entry there."""
    return _path(directory, "--absolute-git-dir")


def locate(directory: Path) -> tuple[Path, Path]:
    """The root of the working tree a directory is in, and the git directory all of them share."""
    asked = ("--path-format=absolute", "--show-toplevel", "--git-common-dir")
    done = run(directory, "rev-parse", *asked)
    lines = done.output.removesuffix("\n").split("\n")
    if done.status != 0 or len(lines) != 2:  # refused, or there is a new line in a path
        return top_level(directory), common_directory(directory)
    return Path(lines[0]), Path(lines[1])


@lru_cache(maxsize=64)
def find_top_level(directory: Path) -> Path | None:
    """The root of the working tree this directory is in; a bare repository has none."""
    inside = answer(directory, "rev-parse", "--is-inside-work-tree") == "true\n"
    return top_level(directory) if inside else None


def list_alternates(directory: Path) -> tuple[str, ...]:
    """List the object stores that a repository borrows from, as it names them."""
    try:
        file = common_directory(directory) / "objects" / "info" / "alternates"
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return ()
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


def tracked_files(directory: Path) -> list[str]:
    """Every file git tracks in this working tree, relative to its root."""
    root = top_level(directory)
    done = run(root, "ls-files", "-z")
    if done.status != 0:
        raise InputError(f"git cannot list the files of {root}: {first_line(done.errors)}.")
    return split(done.output)


def settings(directory: Path) -> dict[str, str]:
    """The whole configuration as git reads it here; keys in lower case, the last value wins."""
    found = {}
    without_ours = {"GIT_CONFIG_COUNT": "0"}
    for entry in split(answer(directory, "config", "--list", "-z", variables=without_ours)):
        key, _, value = entry.partition("\n")
        found[key] = value
    return found


def has_commits(directory: Path) -> bool:
    return bool(answer(directory, "rev-list", "--max-count=1", "--all"))


def get_commit(directory: Path, name: str) -> Commit:
    """The commit a name or id stands for."""
    return _get_known(directory, name) if _ID.fullmatch(name) else _read_commit(directory, name)


def find_tip(directory: Path, ref: str) -> Commit | None:
    """The commit a full reference name points at."""
    shown = "%(refname)%00%(objectname)%00%(tree)%00%(parent)%00%(committerdate:raw)"
    for line in answer(directory, "for-each-ref", f"--format={shown}", ref).splitlines():
        name, commit, tree, parents, date = line.split("\0")
        if name == ref and tree:
            found = Commit(id=commit, tree=tree, parents=tuple(parents.split()), date=date)
            with _asking:
                _known[directory, commit] = found
            return found
    return None


def _get_known(directory: Path, name: str) -> Commit:
    """What an id stands for never changes. Who asks at the same time waits for one answer."""
    with _asking:
        found = _known.get((directory, name))
        if found is None:
            found = _known[directory, name] = _read_commit(directory, name)
        while len(_known) > _MOST_KNOWN:
            del _known[next(iter(_known))]
        return found


def _read_commit(directory: Path, name: str) -> Commit:
    shown = ("--format=%H%n%T%n%P%n%cd", "--date=raw")
    done = run(directory, "log", "-1", *shown, "--end-of-options", f"{name}^{{commit}}", "--")
    if done.status != 0 or not done.output:
        raise NoSuchCommit(f"{name!r} is no commit of {directory}: {first_line(done.errors)}.")
    commit, tree, parents, date = done.output.splitlines()[:4]
    return Commit(id=commit, tree=tree, parents=tuple(parents.split()), date=date)


def ignored(directory: Path, paths: list[str]) -> set[str]:
    """Those of the paths that git ignores in this working tree."""
    done = run(directory, "check-ignore", "-z", "--stdin", input="\0".join([*paths, ""]).encode())
    if done.status not in (0, 1):  # 1: none of them
        raise InputError(f"git cannot tell what is ignored: {first_line(done.errors)}.")
    return set(split(done.output))


def _path(directory: Path, question: str) -> Path:
    """Asked again and again about one repository, which does not move meanwhile."""
    with _asking:
        return _ask_path(directory, question)


@lru_cache(maxsize=64)
def _ask_path(directory: Path, question: str) -> Path:
    done = run(directory, "rev-parse", "--path-format=absolute", question)
    if done.status != 0:
        if "not a git repository" in done.errors:
            raise NotARepository
        raise InputError(f"git cannot use {directory}: {first_line(done.errors)}.")
    return Path(done.output.removesuffix("\n"))
