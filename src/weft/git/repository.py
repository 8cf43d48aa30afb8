"""Questions to git about a repository."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft.errors import InputError
from weft.git.git_command import check_output, first_line, join_nul, run, split_nul
from weft.git.refs import Update, update_refs
from weft.git.trees import commit_tree

_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")

_MOST_KNOWN = 256
_asking = threading.Lock()

OLDEST = (2, 38)
"""The first git that merges without a working tree (`merge-tree --write-tree`)."""
_KEY: Final = "weft.repository"
_OWN_ID: Final = re.compile(r"[0-9a-f]{32}")
_LINE: Final = re.compile(r"^\s*repository\s*=\s*([0-9a-f]{32})\s*$", re.MULTILINE)


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


def create_repository(directory: Path) -> None:
    """Make a repository with an empty commit, without the user's templates and hooks."""
    directory.mkdir(parents=True)
    check_output(directory, "init", "--quiet", "--template=", "--initial-branch=main")
    tree = check_output(directory, "mktree").strip()
    author = {"name": "weft", "email": "weft@localhost", "date": "@0 +0000"}
    first = commit_tree(directory, tree, (), "First", **author)
    update_refs(directory, [Update(ref="refs/heads/main", old=None, new=first)])


def get_version() -> tuple[int, ...]:
    """Return the version of the installed git: (2, 39, 5)."""
    match = re.search(r"(\d+(?:\.\d+)+)", run(Path.cwd(), "version").output)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def top_level(directory: Path) -> Path:
    """Return the root of the working tree of this directory."""
    return _path(directory, "--show-toplevel")


def common_directory(directory: Path) -> Path:
    """Return the git directory that all working trees of a repository share."""
    return _path(directory, "--git-common-dir")


def git_directory(directory: Path) -> Path:
    """Return the git directory of this working tree: the common one, or its entry there."""
    return _path(directory, "--absolute-git-dir")


def get_directories(directory: Path) -> tuple[Path, Path]:
    """Return the root of a directory's working tree and the common git directory."""
    asked = ("--path-format=absolute", "--show-toplevel", "--git-common-dir")
    done = run(directory, "rev-parse", *asked)
    lines = done.output.removesuffix("\n").split("\n")
    if done.status != 0 or len(lines) != 2:  # git refused, or a path contains a new line
        return top_level(directory), common_directory(directory)
    return Path(lines[0]), Path(lines[1])


@lru_cache(maxsize=64)
def find_top_level(directory: Path) -> Path | None:
    """Return the root of the working tree of this directory; None in a bare repository."""
    inside = check_output(directory, "rev-parse", "--is-inside-work-tree") == "true\n"
    return top_level(directory) if inside else None


def list_alternates(directory: Path) -> tuple[str, ...]:
    """List the object stores that a repository borrows from, under its names for them."""
    try:
        file = common_directory(directory) / "objects" / "info" / "alternates"
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return ()
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


def list_tracked_files(directory: Path) -> list[str]:
    """List the tracked files of a working tree, relative to its root."""
    root = top_level(directory)
    done = run(root, "ls-files", "-z")
    if done.status != 0:
        raise InputError(f"git cannot list the files of {root}: {first_line(done.errors)}.")
    return split_nul(done.output)


def find_tracked(directory: Path, tree: str, paths: Sequence[str]) -> list[str]:
    """Return the paths that a tree has, of these."""
    if not paths:
        return []
    return split_nul(
        check_output(directory, "ls-tree", "-z", "--name-only", "--full-tree", tree, "--", *paths)
    )


def list_uncommitted(directory: Path) -> list[str]:
    """List the files of a working tree that differ from its commit, also new files."""
    entries = split_nul(
        check_output(
            directory, "status", "--porcelain", "-z", "--no-renames", "--ignore-submodules"
        )
    )
    return [entry[3:] for entry in entries]


def read_settings(directory: Path) -> dict[str, str]:
    """Read the whole configuration of a directory; keys are in lower case, the last value wins."""
    without_ours = {"GIT_CONFIG_COUNT": "0"}
    listed = check_output(directory, "config", "--list", "-z", variables=without_ours)
    entries = (entry.partition("\n") for entry in split_nul(listed))
    return {key: value for key, _, value in entries}


def has_commits(directory: Path) -> bool:
    return bool(check_output(directory, "rev-list", "--max-count=1", "--all"))


def get_commit(directory: Path, name: str) -> Commit:
    """Return the commit of a name or id; raise NoSuchCommit without one."""
    return _get_known(directory, name) if _ID.fullmatch(name) else _read_commit(directory, name)


def find_tip(directory: Path, ref: str) -> Commit | None:
    """Return the commit of a full reference name."""
    shown = "%(refname)%00%(objectname)%00%(tree)%00%(parent)%00%(committerdate:raw)"
    for line in check_output(directory, "for-each-ref", f"--format={shown}", ref).splitlines():
        name, commit, tree, parents, date = line.split("\0")
        if name == ref and tree:
            tip = Commit(id=commit, tree=tree, parents=tuple(parents.split()), date=date)
            with _asking:
                _known[directory, commit] = tip
            return tip
    return None


def _get_known(directory: Path, name: str) -> Commit:
    with _asking:  # threads that ask at the same time wait for a single answer
        commit = _known.get((directory, name))
        if commit is None:
            commit = _known[directory, name] = _read_commit(directory, name)
        while len(_known) > _MOST_KNOWN:
            del _known[next(iter(_known))]
        return commit


def _read_commit(directory: Path, name: str) -> Commit:
    shown = ("--format=%H%n%T%n%P%n%cd", "--date=raw")
    done = run(directory, "log", "-1", *shown, "--end-of-options", f"{name}^{{commit}}", "--")
    if done.status != 0 or not done.output:
        raise NoSuchCommit(f"{name!r} is no commit of {directory}: {first_line(done.errors)}.")
    commit, tree, parents, date = done.output.splitlines()[:4]
    return Commit(id=commit, tree=tree, parents=tuple(parents.split()), date=date)


def find_ignored(directory: Path, paths: list[str]) -> set[str]:
    """Return the paths that git ignores in this working tree."""
    done = run(directory, "check-ignore", "-z", "--stdin", input=join_nul(paths))
    if done.status not in (0, 1):  # 1: git ignores none
        raise InputError(f"git cannot tell what is ignored: {first_line(done.errors)}.")
    return set(split_nul(done.output))


def _path(directory: Path, question: str) -> Path:
    with _asking:
        return _ask_path(directory, question)


@lru_cache(maxsize=64)  # a repository does not move while weft works on it
def _ask_path(directory: Path, question: str) -> Path:
    done = run(directory, "rev-parse", "--path-format=absolute", question)
    if done.status != 0:
        if "not a git repository" in done.errors:
            raise NotARepository
        raise InputError(f"git cannot use {directory}: {first_line(done.errors)}.")
    return Path(done.output.removesuffix("\n"))


def find_repository_id(common: Path) -> str | None:
    """Return the id in the configuration of a common git directory.

    git is started only if the file is not as git writes it: most commands of weft start here.
    """
    text = (common / "config").read_text(encoding="utf-8", errors="replace")
    if "[weft]" not in text:
        return None
    section = text.rpartition("[weft]")[2].partition("\n[")[0]
    if match := _LINE.search(section):
        return match[1]
    id = run(common, "config", "--file", "config", "--get", _KEY).output.strip()
    return id if _OWN_ID.fullmatch(id) else None


def write_repository_id(common: Path, id: str | None = None) -> str:
    """Write an id, by default a new one, into the configuration; return it."""
    id = id or secrets.token_hex(16)
    lock = common / "config.lock"
    locks = () if lock.exists() else (lock,)  # else it is another program's
    check_output(common, "config", "--file", "config", "--replace-all", _KEY, id, locks=locks)
    return id


def find_root_commit(common: Path) -> str:
    """Return the oldest root commit of the branch that is checked out; empty without a commit."""
    roots = run(common, "rev-list", "--max-parents=0", "HEAD", "--").output.split()
    return roots[-1] if roots else ""
