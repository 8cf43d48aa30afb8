"""Which tasks may change the same file (ruling 7), found in one pass over the plan.

Tasks are taken one after the other. For each pattern a task claims, the tasks that held a
conflicting one last are those it follows: a chain for each file, never all pairs. Most files
are named exactly and conflict with nothing but themselves, which a dictionary answers; only
patterns that have something above or beneath them go through the index. A task that claims the
whole repository follows everybody since the last such task, and everything starts anew behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final

from weft.paths import Index, is_literal, matches
from weft.plan.records import WHOLE_REPOSITORY

_NOBODY: Final = -1
# A unit of work is a comparison of two patterns, a microsecond or two.
_FREE_WORK: Final = 500_000
_WORK_PER_PATTERN: Final = 10


class Sweep:
    """Claims made so far, in the order in which they were made."""

    def __init__(self, claims: Sequence[Sequence[str]]) -> None:
        """Take all claims there will be, to know which patterns have company."""
        self._company = _Company(claims)
        self._last: dict[str, int] = {}  # who claimed each pattern last, by number
        self._whole = _NOBODY  # who claimed the whole repository last
        self._held = _Held()
        self._left = _FREE_WORK + _WORK_PER_PATTERN * sum(len(each) for each in claims)
        self.complete = True  # False once looking for conflicts became too much work

    def claim(self, number: int, patterns: Sequence[str]) -> dict[int, list[str]]:
        """Claim the patterns; numbers only grow. Return whom this follows, and for which files."""
        follows: dict[int, list[str]] = {}
        if WHOLE_REPOSITORY in patterns:
            for pattern, other in self._last.items():
                follows.setdefault(other, []).append(pattern)
            if not follows and self._whole != _NOBODY:
                follows[self._whole] = [WHOLE_REPOSITORY]
            self._last = {}
            self._held = _Held()
            self._whole = number
            return follows
        for pattern in patterns:
            for other, file in self._met(pattern):
                if other != number:
                    follows.setdefault(other, []).append(file)
            self._last[pattern] = number
        return follows

    def _met(self, pattern: str) -> list[tuple[int, str]]:
        if not self._company.has(pattern):
            latest = self._last.get(pattern, self._whole)
            return [(latest, pattern)] if latest != _NOBODY else []
        met = list(self._conflicts(pattern))
        self._held.add(pattern)
        # Whoever has been met since then follows the task that had the whole repository.
        if not met and self._whole != _NOBODY:
            return [(self._whole, pattern)]
        return met

    def _conflicts(self, pattern: str) -> Iterator[tuple[int, str]]:
        self._left -= self._held.work(pattern)
        if self._left < 0:
            self.complete = False
            if pattern in self._last:
                yield self._last[pattern], pattern
            return
        exact = is_literal(pattern)
        of_this_file = []
        for other in self._held.conflicts(pattern):
            if exact and not _lives_in(other, pattern):
                of_this_file.append(self._last[other])
            else:
                yield self._last[other], _narrower(pattern, other)
            if other != pattern and _covers(pattern, other):
                self._held.remove(other)
                del self._last[other]
        if of_this_file:
            # The chain of one file goes through whoever had it last.
            yield max(of_this_file), pattern


class _Company:
    """Knows which patterns could conflict with another one than themselves."""

    def __init__(self, claims: Iterable[Iterable[str]]) -> None:
        self._literals: set[str] = set()
        self._homes: set[str] = set()  # directories that globs are about
        self._inhabited: set[str] = set()  # directories above anything
        self._known: dict[str, bool] = {}
        for pattern in {pattern for patterns in claims for pattern in patterns}:
            if is_literal(pattern):
                self._literals.add(pattern)
                self._inhabit(_parent(pattern))
            elif pattern != WHOLE_REPOSITORY:
                self._homes.add(_home(pattern))
                self._inhabit(_home(pattern))

    def _inhabit(self, directory: str) -> None:
        while directory not in self._inhabited:
            self._inhabited.add(directory)
            directory = _parent(directory)

    def has(self, pattern: str) -> bool:
        return (
            pattern not in self._literals
            or pattern in self._inhabited
            or self._something_at_or_above(_parent(pattern))
        )

    def _something_at_or_above(self, directory: str) -> bool:
        known = self._known.get(directory)
        if known is None:
            known = directory in self._literals or directory in self._homes
            if not known and directory:
                known = self._something_at_or_above(_parent(directory))
            self._known[directory] = known
        return known


class _Held:
    """An index of patterns that also knows roughly how long a question to it will take."""

    def __init__(self) -> None:
        self._index: Index[str] = Index()
        self._patterns: set[str] = set()
        self._beneath: dict[str, int] = {}  # how many live in each directory
        self._globs: dict[str, int] = {}  # how many globs are about each directory

    def add(self, pattern: str) -> None:
        if pattern not in self._patterns:
            self._patterns.add(pattern)
            self._index.add(pattern, pattern)
            self._count(pattern, 1)

    def remove(self, pattern: str) -> None:
        self._patterns.remove(pattern)
        self._index.remove(pattern)
        self._count(pattern, -1)

    def conflicts(self, pattern: str) -> list[str]:
        return [other for other, _ in self._index.find(pattern)]

    def work(self, pattern: str) -> int:
        home = _home(pattern)
        return 1 + self._beneath.get(home, 0) + sum(self._globs.get(at, 0) for at in _above(home))

    def _count(self, pattern: str, step: int) -> None:
        home = _home(pattern)
        if home != pattern:
            self._globs[home] = self._globs.get(home, 0) + step
        self._beneath[home] = self._beneath.get(home, 0) + step
        for directory in _above(home):
            self._beneath[directory] = self._beneath.get(directory, 0) + step


def _home(pattern: str) -> str:
    """Return the path itself, or the directory that all paths of a glob lie beneath."""
    if is_literal(pattern):
        return pattern
    return "/".join(takewhile(is_literal, pattern.split("/")))


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _above(path: str) -> Iterator[str]:
    while path:
        path = _parent(path)
        yield path


def _lives_in(pattern: str, directory: str) -> bool:
    """Whether every path of the pattern lies beneath the directory."""
    home = _home(pattern)
    if home == directory:
        return home != pattern
    return not directory or home.startswith(directory + "/")


def _covers(pattern: str, other: str) -> bool:
    """Whether whatever conflicts with the other conflicts with the pattern too."""
    if is_literal(pattern):
        return _lives_in(other, pattern)
    if pattern.endswith("/**") and is_literal(pattern[:-3]):
        return _lives_in(other, pattern[:-3])
    return is_literal(other) and matches(pattern, other)


def _narrower(pattern: str, other: str) -> str:
    if pattern == other or is_literal(pattern):
        return pattern
    return other if is_literal(other) else f"{pattern} and {other}"
