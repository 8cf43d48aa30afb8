"""Trees and commits: taking a working tree down, putting one up, comparing two."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from weft.git.git_command import LONG, GitView, answer, join, split, through

SYMLINK = 0o120000
SUBMODULE = 0o160000


class ChangeKind(StrEnum):
    ADDED = "added"
    EDITED = "edited"
    DELETED = "deleted"
    RENAMED = "renamed"
    RETYPED = "retyped"  # a file became a symlink or a submodule, or the other way round


class FileChange(Struct, frozen=True, kw_only=True):
    """How one path differs between two trees."""

    kind: ChangeKind
    path: str
    source: str | None = None  # of a rename: what it was called before
    old_mode: int
    new_mode: int

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path it touches."""
        return (self.path,) if self.source is None else (self.source, self.path)


class Differences(Struct, frozen=True, kw_only=True):
    """What a working tree holds other than its index says."""

    modified: tuple[str, ...]
    deleted: tuple[str, ...]
    untracked: tuple[str, ...]
    nested: tuple[str, ...]  # untracked repositories


_KINDS = {
    "A": ChangeKind.ADDED,
    "D": ChangeKind.DELETED,
    "M": ChangeKind.EDITED,
    "T": ChangeKind.RETYPED,
}


def compare_trees(repository: Path, old: str, new: str) -> list[FileChange]:
    """What differs between two trees or commits, renames recognised."""
    words = iter(split(answer(repository, "diff-tree", "-r", "-z", "--raw", "-M", old, new)))
    return list(_read_changes(words))


def _read_changes(words: Iterator[str]) -> Iterator[FileChange]:
    for word in words:
        if not word.startswith(":"):  # the commit's own id, printed for a single commit
            continue
        old_mode, new_mode, _, _, status = word[1:].split(" ")
        first = next(words)
        renamed = status[0] == "R"
        yield FileChange(
            kind=ChangeKind.RENAMED if renamed else _KINDS[status[0]],
            path=next(words) if renamed else first,
            source=first if renamed else None,
            old_mode=int(old_mode, 8),
            new_mode=int(new_mode, 8),
        )


def differences(view: GitView) -> Differences:
    """What the working tree holds other than the view's index; ignored files do not count."""
    found: dict[str, dict[str, None]] = {"C": {}, "R": {}, "?": {}}
    listed = through(view, "ls-files", "-z", "-t", "-m", "-d", "-o", "--exclude-standard")
    for entry in split(listed):
        found.setdefault(entry[0], {})[entry[2:]] = None
    gone = {path for path in found["C"] if path in found["R"] or not _is_there(view.tree, path)}
    return Differences(
        modified=tuple(path for path in found["C"] if path not in gone),
        deleted=tuple({**found["R"], **dict.fromkeys(sorted(gone))}),
        untracked=tuple(path for path in found["?"] if not path.endswith("/")),
        nested=tuple(path.removesuffix("/") for path in found["?"] if path.endswith("/")),
    )


def _is_there(tree: Path, path: str) -> bool:
    """Whether git could take the path up: git reads through a symlinked directory, weft does not.

    A pipe, socket or device in the place of a file cannot be part of a tree either.
    """
    above = tree
    for name in path.split("/")[:-1]:
        above = above / name
        if above.is_symlink() or not above.is_dir():
            return False
    try:
        mode = os.lstat(above / path.rpartition("/")[2]).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)


def take_up(view: GitView, found: Differences) -> None:
    """Write the differences into the view's index, and the files into the repository."""
    if found.deleted:
        through(view, "update-index", "-z", "--force-remove", "--stdin", input=join(found.deleted))
    if found.modified or found.untracked:
        paths = join((*found.modified, *found.untracked))
        through(
            view, "update-index", "-z", "--add", "--remove", "--replace", "--stdin", input=paths
        )


def write_tree(view: GitView) -> str:
    """The tree of the view's index."""
    return through(view, "write-tree", "--missing-ok").strip()


def ignored_files(view: GitView) -> list[str]:
    """What lies in the working tree and is ignored; whole directories by their name and `/`."""
    return split(through(view, "ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory"))


def submodules(view: GitView) -> list[str]:
    """The paths that the index says are submodules."""
    entries = split(through(view, "ls-files", "-z", "--stage"))
    return [entry.partition("\t")[2] for entry in entries if entry.startswith("160000 ")]


def skipped(view: GitView, paths: Iterable[str]) -> list[str]:
    """Return the paths that the index marks as not checked out, even if a file lies there."""
    wanted = set(paths)
    plain = replace(view, settings={**view.settings, "core.sparsecheckout": "false"})
    entries = split(through(plain, "ls-files", "-z", "-t"))
    return [entry[2:] for entry in entries if entry[0] == "S" and entry[2:] in wanted]


def unmerged(view: GitView) -> list[str]:
    """The paths that the index says are in conflict."""
    entries = split(through(view, "ls-files", "-z", "--unmerged"))
    return sorted({entry.partition("\t")[2] for entry in entries})


def put_index(view: GitView, tree: str) -> None:
    """Make the index what the tree says, and leave the files alone."""
    through(view, "read-tree", tree)


def put_up(view: GitView, tree: str) -> None:
    """Make tracked files what the tree says, whatever was there before."""
    through(view, "read-tree", "--reset", "-u", tree)


def advance(view: GitView, old: str, new: str) -> None:
    """Make tracked files what `new` says where it differs from `old`, which is there now."""
    through(view, "read-tree", "-m", "-u", old, new)


def remove_untracked(view: GitView, but: Iterable[str] = ()) -> None:
    """Remove every file that is not in the index, also ignored files and repositories, except
    matches of these patterns."""
    through(view, "clean", "-ffdxq", *(f"--exclude={pattern}" for pattern in but))


def commit_tree(
    repository: Path,
    tree: str,
    parents: Iterable[str],
    message: str,
    *,
    name: str,
    email: str,
    date: str,
) -> str:
    """Write a commit; the same arguments give the same commit."""
    who = {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", name), ("EMAIL", email), ("DATE", date))
    }
    return answer(
        repository,
        *("-c", "i18n.commitEncoding=UTF-8", "commit-tree", tree),
        *(word for parent in parents for word in ("-p", parent)),
        input=message.encode(errors="replace"),
        variables=who,
        seconds=LONG,
    ).strip()
