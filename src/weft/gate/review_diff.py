"""Patches as files, hunks and numbered lines; and the place of a comment in a later text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from weft.git.trees import SYMLINK, ChangeKind, FileChange

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)")
_START = re.compile(r"^diff --git ", re.MULTILINE)


class DiffLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of a hunk; a removed line has only an old number, an added line only a new one."""

    old: int | None = None
    new: int | None = None
    text: str

    @property
    def sign(self) -> str:
        return "+" if self.old is None else "-" if self.new is None else " "


class DiffHunk(Struct, frozen=True, kw_only=True):
    section: str  # text behind the second @@
    lines: tuple[DiffLine, ...]


class DiffFile(Struct, frozen=True, kw_only=True):
    path: str
    kind: str  # added, edited, deleted, renamed, retyped
    source: str | None  # of a rename: the path before
    binary: bool
    hunks: tuple[DiffHunk, ...]
    mode: str = ""  # a change of its mode or type, for people: `now executable`, `a link`


def read_patch(patch: bytes, changes: Iterable[FileChange]) -> tuple[DiffFile, ...]:
    """Read a patch; `changes` are the paths of the same comparison, in the same order.

    Paths in a patch are quoted by rules of git, so they are not read from it.
    """
    parts = iter(_split(patch.decode("utf-8", "replace")))
    return tuple(
        _read_file(change, [next(parts) for _ in range(_count_parts(change))]) for change in changes
    )


def _split(text: str) -> list[str]:
    """Split a patch at its files; lines of contents never start with `diff`."""
    starts = [match.start() for match in _START.finditer(text)]
    return [text[start:end] for start, end in pairwise([*starts, len(text)])]


def _count_parts(change: FileChange) -> int:
    """Return the number of parts of a change; git shows a new type as a deletion and an
    addition."""
    return 2 if change.kind is ChangeKind.RETYPED else 1


def _read_file(change: FileChange, parts: Sequence[str]) -> DiffFile:
    lines = [line for part in parts for line in part.split("\n")]
    return DiffFile(
        path=change.path,
        kind=change.kind.value,
        source=change.source,
        binary="GIT binary patch" in lines,
        hunks=tuple(_read_hunks(lines)),
        mode=_describe_mode(change),
    )


def _describe_mode(change: FileChange) -> str:
    """Name a mode that is not that of a plain file, or that the change gave or took."""
    if change.new_mode == SYMLINK:
        return "a link"
    was, now = (bool(mode & 0o100) for mode in (change.old_mode, change.new_mode))
    if now and not was:
        return "executable" if change.kind is ChangeKind.ADDED else "now executable"
    return "no longer executable" if was and change.new_mode else ""


def _read_hunks(lines: Iterable[str]) -> Iterator[DiffHunk]:
    section: str | None = None
    shown: list[DiffLine] = []
    old = new = 0
    for line in lines:
        if match := _HUNK.fullmatch(line):
            if section is not None:
                yield DiffHunk(section=section, lines=tuple(shown))
            section, shown = match[3].strip(), []
            old, new = int(match[1]), int(match[2])
        elif section is not None and line[:1] in (" ", "+", "-"):
            sign = line[0]
            numbers = {"old": None if sign == "+" else old, "new": None if sign == "-" else new}
            shown.append(DiffLine(**numbers, text=line[1:].removesuffix("\r")))
            old += sign != "+"
            new += sign != "-"
    if section is not None:
        yield DiffHunk(section=section, lines=tuple(shown))


def find_line(text: str | None, line: int, quoted: str) -> int | None:
    """Return the place nearest to `line` that has the quoted lines; None if there is none.

    An empty line is only found in its own place.
    """
    lines = [] if text is None else [own.removesuffix("\r") for own in text.split("\n")]
    wanted = quoted.split("\n")
    if line > 0 and lines[line - 1 : line - 1 + len(wanted)] == wanted:
        return line
    if not quoted.strip():
        return None
    places = [
        place
        for place, own in enumerate(lines, 1)
        if own == wanted[0] and lines[place - 1 : place - 1 + len(wanted)] == wanted
    ]
    return min(places, key=lambda place: (abs(place - line), place), default=None)
