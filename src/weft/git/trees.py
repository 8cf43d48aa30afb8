"""Trees: comparing, checking out, and writing them from a working tree; and commits of them."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from weft.git.disk import scratch_directory
from weft.git.git_command import LONG, GitView, check_output, join_nul, run, split_nul, view_output

SYMLINK = 0o120000
SUBMODULE = 0o160000


class ChangeKind(StrEnum):
    ADDED = "added"
    EDITED = "edited"
    DELETED = "deleted"
    RENAMED = "renamed"
    RETYPED = "retyped"  # a file became a symlink or a submodule, or the other way round


class FileChange(Struct, frozen=True, kw_only=True):
    """The difference of a path between two trees."""

    kind: ChangeKind
    path: str
    source: str | None = None  # of a rename: the path before
    old_mode: int
    new_mode: int

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,) if self.source is None else (self.source, self.path)


class Differences(Struct, frozen=True, kw_only=True):
    """The paths in which a working tree differs from its index."""

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
    """Return the changes between two trees or commits, with renames."""
    shown = ("-r", "-z", "--raw", "-M")
    return list(
        _read_changes(iter(split_nul(check_output(repository, "diff-tree", *shown, old, new))))
    )


def make_patch(repository: Path, old: str, new: str) -> bytes:
    """Return a patch between two commits that does not depend on the user's `git diff`."""
    shown = ("--no-ext-diff", "--no-textconv", "--no-color", "--binary", "-M", "-p", "-r")
    return os.fsencode(check_output(repository, "diff-tree", *shown, old, new, "--"))


def count_lines(repository: Path, old: str, new: str) -> int:
    """Count the lines that are added and removed between two commits."""
    listed = check_output(repository, "diff-tree", "-r", "-M", "--numstat", old, new, "--")
    numbers = (word for line in listed.splitlines() for word in line.split("\t")[:2])
    return sum(int(number) for number in numbers if number.isdigit())


def replace_files(repository: Path, tree: str, commit: str, paths: Collection[str]) -> str:
    """Write a tree with these files of a commit in place of its own; return its id."""
    listed = split_nul(check_output(repository, "ls-tree", "-r", "-z", commit))
    entries = [entry for entry in listed if entry.partition("\t")[2] in paths]
    asked = ("rev-parse", "--path-format=absolute", "--git-common-dir")
    with scratch_directory(Path(check_output(repository, *asked).removesuffix("\n"))) as directory:
        own = {"GIT_INDEX_FILE": f"{directory}/index"}
        check_output(repository, "read-tree", tree, variables=own)
        update = ("update-index", "-z", "--replace", "--index-info")
        check_output(repository, *update, input=join_nul(entries), variables=own)
        return check_output(repository, "write-tree", variables=own).strip()


def find_file(repository: Path, commit: str, path: str) -> str | None:
    """Return the text of a file in a commit; None if the commit has no such file."""
    done = run(repository, "cat-file", "blob", f"{commit}:{path}")
    return done.output if done.status == 0 else None


def list_sizes(repository: Path, commit: str, paths: Sequence[str]) -> list[int]:
    """Return the sizes of files of a commit, in bytes."""
    names = join_nul(f"{commit}:{path}" for path in paths)
    asked = ("cat-file", "-z", "--batch-check=%(objectsize)")
    return [int(line) for line in check_output(repository, *asked, input=names).splitlines()]


def _read_changes(words: Iterator[str]) -> Iterator[FileChange]:
    for word in words:
        if not word.startswith(":"):  # git prints the id of a single commit first
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


def compare_to_index(view: GitView) -> Differences:
    """Compare the working tree with the view's index; ignored files do not count."""
    paths: dict[str, dict[str, None]] = {"C": {}, "R": {}, "?": {}}
    listed = view_output(view, "ls-files", "-z", "-t", "-m", "-d", "-o", "--exclude-standard")
    for entry in split_nul(listed):
        paths.setdefault(entry[0], {})[entry[2:]] = None
    gone = {path for path in paths["C"] if path in paths["R"] or not _can_add(view.tree, path)}
    return Differences(
        modified=tuple(path for path in paths["C"] if path not in gone),
        deleted=tuple({**paths["R"], **dict.fromkeys(sorted(gone))}),
        untracked=tuple(path for path in paths["?"] if not path.endswith("/")),
        nested=tuple(path.removesuffix("/") for path in paths["?"] if path.endswith("/")),
    )


def _can_add(tree: Path, path: str) -> bool:
    """Tell whether a path can be part of a tree: no pipe, socket or device, and not below a
    symlink, through which git would read."""
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


def add_to_index(view: GitView, changed: Differences) -> None:
    """Write the differences into the view's index, and the files into the repository."""
    update = ("update-index", "-z")
    if changed.deleted:
        view_output(view, *update, "--force-remove", "--stdin", input=join_nul(changed.deleted))
    if changed.modified or changed.untracked:
        paths = join_nul((*changed.modified, *changed.untracked))
        view_output(view, *update, "--add", "--remove", "--replace", "--stdin", input=paths)


def write_tree(view: GitView) -> str:
    """Write the tree of the view's index and return its id."""
    return view_output(view, "write-tree", "--missing-ok").strip()


def list_ignored(view: GitView) -> list[str]:
    """List the ignored files; a whole directory is its name with `/`."""
    shown = ("-o", "-i", "--exclude-standard", "--directory")
    return split_nul(view_output(view, "ls-files", "-z", *shown))


def list_submodules(view: GitView) -> dict[str, str]:
    """Return the paths of submodules in the index, each with its commit."""
    entries = split_nul(view_output(view, "ls-files", "-z", "--stage"))
    return {
        entry.partition("\t")[2]: entry.split(" ")[1]
        for entry in entries
        if entry.startswith("160000 ")
    }


def list_skipped(view: GitView, paths: Iterable[str]) -> list[str]:
    """Return the paths that the index marks as not checked out, even if a file is there."""
    wanted = set(paths)
    plain = replace(view, settings={**view.settings, "core.sparsecheckout": "false"})
    entries = split_nul(view_output(plain, "ls-files", "-z", "-t"))
    return [entry[2:] for entry in entries if entry[0] == "S" and entry[2:] in wanted]


def list_unmerged(view: GitView) -> list[str]:
    """List the paths that are in conflict in the index."""
    entries = split_nul(view_output(view, "ls-files", "-z", "--unmerged"))
    return sorted({entry.partition("\t")[2] for entry in entries})


def reset_index(view: GitView, tree: str) -> None:
    """Read a tree into the index, and leave the files alone."""
    view_output(view, "read-tree", tree)


def check_out(view: GitView, tree: str) -> None:
    """Write the files of a tree over all tracked files."""
    view_output(view, "read-tree", "--reset", "-u", tree)


def switch_tree(view: GitView, old: str, new: str) -> None:
    """Write the files in which two trees differ; `old` is checked out now."""
    view_output(view, "read-tree", "-m", "-u", old, new)


def remove_untracked(view: GitView, but: Iterable[str] = ()) -> None:
    """Remove every file that is not in the index, also ignored files and repositories, except
    matches of these patterns."""
    view_output(view, "clean", "-ffdxq", *(f"--exclude={pattern}" for pattern in but))


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
    people = {
        f"GIT_{role}_{fact}": value
        for role in ("AUTHOR", "COMMITTER")
        for fact, value in (("NAME", name), ("EMAIL", email), ("DATE", date))
    }
    return check_output(
        repository,
        *("commit-tree", tree),
        *(word for parent in parents for word in ("-p", parent)),
        input=message.encode(errors="replace"),
        variables=people,
        seconds=LONG,
    ).strip()
