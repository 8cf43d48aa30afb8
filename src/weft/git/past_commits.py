"""The past of a repository: its commits with messages and files, and definitions in its tree.

Messages and file names are input of strangers: they are read as they are and never interpreted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft.git.git_command import LONG, GitFailed, check_output, run, split_nul

_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_BATCH: Final = 2_000  # commits per call of git: bounds the memory for its answer
_FORMAT: Final = "--format=%x00%H%x00%B%x00"
_DEFINES: Final = (
    "def|class|func|function|fn|struct|interface|type|const|let|var|enum|trait|module|record|object"
)
_MOST_LINES: Final = 2_000  # of an answer of `git grep`


class PastCommit(Struct, frozen=True, kw_only=True):
    id: str
    message: str
    files: tuple[str, ...]  # that it changed, under their names at that time
    renames: tuple[tuple[str, str], ...] = ()  # old and new name; `files` has the new names


def list_past(repository: Path, tip: str, *, most: int, known: str | None = None) -> list[str]:
    """List the newest commits that a commit contains, oldest first; merges are left out.

    Commits that `known` contains are left out too.
    """
    # A parent comes before its children, whatever their clocks said.
    walk = ["rev-list", "--date-order", "--no-merges", f"--max-count={most}", tip]
    if known is not None:
        walk.append(f"^{known}")
    return check_output(repository, *walk, "--", seconds=LONG).splitlines()[::-1]


def read_past(repository: Path, commits: Iterable[str]) -> Iterator[PastCommit]:
    """Read these commits, some thousand at a time; commits without a change are left out."""
    shown = ("-z", "-r", "--root", "-M", "-l200", "--name-status", _FORMAT)
    ids = list(commits)
    for first in range(0, len(ids), _BATCH):
        asked = "".join(f"{commit}\n" for commit in ids[first : first + _BATCH]).encode()
        answer = check_output(repository, "diff-tree", "--stdin", *shown, input=asked, seconds=LONG)
        yield from _read_answer(answer.split("\0"))


def _read_answer(words: Sequence[str]) -> Iterator[PastCommit]:
    # An empty word begins a commit: neither a file name nor a status is empty.
    at = 0
    while at + 2 < len(words):
        if words[at] or not _ID.fullmatch(words[at + 1]):
            raise GitFailed("git diff-tree gave an answer that weft cannot read.")
        commit, message, at = words[at + 1], words[at + 2], at + 3
        at += 1 if at < len(words) and not words[at] else 0
        files: dict[str, None] = {}
        renames: list[tuple[str, str]] = []
        while at + 1 < len(words) and words[at]:
            status, path, at = words[at].lstrip("\n"), words[at + 1], at + 2
            if status[0] in "RC":
                renames += [(path, words[at])] if status[0] == "R" else []
                path, at = words[at], at + 1
            files[path] = None
        yield PastCommit(id=commit, message=message, files=tuple(files), renames=tuple(renames))


def list_tree(repository: Path, commit: str) -> list[str]:
    """List the files of a commit."""
    return split_nul(
        check_output(repository, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
    )


def find_definitions(
    repository: Path, commit: str, names: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Map each of these identifiers to the files of a commit that define it."""
    if not names:
        return {}
    listed = "|".join(sorted(names))
    pattern = rf"\b({_DEFINES})[[:space:]]+\*?({listed})\b"
    shown = ("-z", "-I", "-E", "-o", "--full-name", "--no-color")
    done = run(repository, "grep", *shown, "-e", pattern, commit, "--")
    if done.status not in (0, 1):  # 1: no match
        raise GitFailed(f"git grep failed: {done.errors.strip()}")
    places: dict[str, dict[str, None]] = {}
    for line in done.output.split("\n")[:_MOST_LINES]:
        place, _, text = line.partition("\0")
        name = text.split()[-1].lstrip("*") if text.split() else ""
        places.setdefault(name, {})[place.partition(":")[2]] = None
    return {name: tuple(places[name]) for name in names if name in places}


def read_blobs(repository: Path, commit: str, paths: Sequence[str]) -> dict[str, str]:
    """Return the texts of these files of a commit; bytes that are no text are replaced."""
    usable = [path for path in paths if "\n" not in path]
    asked = "".join(f"{commit}:{path}\n" for path in usable).encode(errors="surrogateescape")
    answer = check_output(repository, "cat-file", "--batch", input=asked).encode(
        errors="surrogateescape"
    )
    texts: dict[str, str] = {}
    at = 0
    for path in usable:
        end = answer.index(b"\n", at)
        header = answer[at:end].split(b" ")
        at = end + 1
        if header[-1] == b"missing":
            continue
        size = int(header[-1])
        texts[path] = answer[at : at + size].decode(errors="replace")
        at += size + 1
    return texts
