"""The existing order of two tasks.

The question comes up for every pair that shares a file, so it must be cheap. Phases answer most
cases, two different sortings of the graph tell most unrelated tasks apart, and a search between the
two tasks answers the rest. The search is limited: a wrong "no" only adds an unneeded overlap, and
`sure` is False after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

from weft import graph, paths
from weft.paths import Index, intersects, is_literal, matches, subtree
from weft.plan.needs import Needs
from weft.plan.plan_records import WHOLE_REPOSITORY, ItemKind, Reference

_MOST_PHASES: Final = 4096
_FAR: Final = 2000
_WORK_PER_NODE: Final = 40


class Ordering:
    def __init__(self, needs: Needs, waits: list[list[Reference]]) -> None:
        """Look at a graph without cycles."""
        successors = needs.successors
        self.order = graph.order(successors)
        self._successors = successors
        self._rank = _ranks(self.order)
        self._late = _ranks(graph.late_order(successors))
        self._behind = graph.predecessors(successors)
        self._phase_of = needs.phase_of
        self._stories = [
            task.parent if task.kind is ItemKind.SUBTASK else None for task in needs.plan.tasks
        ]
        self._settled = {place for place, task in enumerate(needs.plan.tasks) if task.settled}
        self._sequential = [not phase.parallel for phase in needs.plan.phases]
        self._earlier = _earlier_phases(needs, waits)
        # If only phases lead from phase to phase, a search stays inside a phase.
        self._crossing = needs.crosses_phases()
        self._left = _WORK_PER_NODE * len(successors) + 10_000
        self.sure = True  # False once a search was given up

    def related(self, a: int, b: int) -> bool:
        """Return whether the tasks have an order, in either direction."""
        phase_a, phase_b = self._phase_of[a], self._phase_of[b]
        if phase_a == phase_b:
            if self._sequential[phase_a] and not self._are_siblings(a, b):
                return True
        elif self._earlier[phase_a] >> phase_b & 1 or self._earlier[phase_b] >> phase_a & 1:
            return True
        elif not self._crossing and len(self._earlier) <= _MOST_PHASES:
            return False
        if self._rank[a] > self._rank[b]:
            a, b = b, a
        return self._late[a] < self._late[b] and self._leads_to(a, b)

    def is_ready_with(self, a: int, b: int) -> bool:
        """Return whether task `a` is ready for sure whenever task `b` is."""
        own = [place for place in self._behind[a] if place not in self._settled]
        return set(own) <= set(self._behind[b])

    def _are_siblings(self, a: int, b: int) -> bool:
        return self._stories[a] is not None and self._stories[a] == self._stories[b]

    def _leads_to(self, a: int, b: int) -> bool:
        rank, late, phase_of = self._rank, self._late, self._phase_of
        inside = None if self._crossing else phase_of[b]
        floor, late_floor = rank[a], late[a]
        seen = {b}
        waiting = [b]
        left = min(_FAR, self._left)
        while waiting and left > 0:
            for before in self._behind[waiting.pop()]:
                left -= 1
                self._left -= 1
                if before == a:
                    return True
                if (
                    rank[before] > floor
                    and late[before] > late_floor
                    and before not in seen
                    and (inside is None or (before < len(phase_of) and phase_of[before] == inside))
                ):
                    seen.add(before)
                    waiting.append(before)
        self.sure = self.sure and not waiting
        return False

    def related_within(self, nodes: Iterable[int]) -> bool:
        """Return whether any two of these tasks have an order."""
        own = set(nodes)
        ceiling = max(self._rank[node] for node in own)
        seen = set(own)
        waiting = list(own)
        while waiting and self._left > 0:
            for after in self._successors[waiting.pop()]:
                self._left -= 1
                if after in own:
                    return True
                if after not in seen and self._rank[after] < ceiling:
                    seen.add(after)
                    waiting.append(after)
        return False


def _ranks(order: list[int]) -> list[int]:
    ranks = [0] * len(order)
    for rank, node in enumerate(order):
        ranks[node] = rank
    return ranks


def _earlier_phases(needs: Needs, waits: list[list[Reference]]) -> list[int]:
    """Return for each phase all that come before it, as the bits of a number."""
    count = len(waits)
    earlier = [0] * count
    if count > _MOST_PHASES:
        return earlier
    successors: list[list[int]] = [[] for _ in waits]
    for place, references in enumerate(waits):
        for reference in references:
            successors[needs.phase_at[reference.to]].append(place)
    for phase in graph.order(successors):
        mask = earlier[phase] | 1 << phase
        for after in successors[phase]:
            earlier[after] |= mask
    return earlier


_NOBODY: Final = -1
# A unit of work is a comparison of a path and a pattern, a microsecond or two.
_FREE_WORK: Final = 200_000
_WORK_PER_PATTERN: Final = 20
_TWO_GLOBS: Final = 8
_FEW: Final = 8


class Sweep:
    """Claims made so far, in the order in which they were made."""

    def __init__(self, claims: Sequence[Sequence[str]]) -> None:
        """Take all claims there will be, to know which patterns have company."""
        self._company = _Company(claims)
        self._last: dict[str, int] = {}  # the last task that claimed each pattern, by number
        self._alone: dict[int, str] = {}  # tasks with a pattern that no other task claims
        self._whole = _NOBODY  # the last task that claimed the whole repository
        self._held = _Held()
        self._left = _FREE_WORK + _WORK_PER_PATTERN * sum(len(each) for each in claims)
        self.complete = True  # False once looking for conflicts became too much work

    def claim(self, number: int, patterns: Sequence[str]) -> dict[int, list[str]]:
        """Claim the patterns; numbers only grow. Return the tasks that this task follows, with
        files.
        """
        if WHOLE_REPOSITORY in patterns:
            return self._claim_whole(number)
        follows: dict[int, list[str]] = {}
        for pattern in patterns:
            times = self._company.claimed(pattern)
            if times == 1:
                self._alone[number] = pattern
                if self._whole != _NOBODY:
                    follows.setdefault(self._whole, []).append(pattern)
                continue
            for earlier, file in self._met(pattern) if times else self._searched(pattern):
                if earlier != number:
                    follows.setdefault(earlier, []).append(file)
            self._last[pattern] = number
        return follows

    def _claim_whole(self, number: int) -> dict[int, list[str]]:
        follows: dict[int, list[str]] = {}
        globs = [pattern for pattern in self._held.patterns if not is_literal(pattern)]
        for pattern, earlier in self._last.items():
            if not self._is_passed_on(pattern, globs):
                follows.setdefault(earlier, []).append(pattern)
        for earlier, pattern in self._alone.items():
            follows.setdefault(earlier, []).append(pattern)
        if not follows and self._whole != _NOBODY:
            follows[self._whole] = [WHOLE_REPOSITORY]
        self._last = {}
        self._alone = {}
        self._held = _Held()
        self._whole = number
        return follows

    def _met(self, path: str) -> list[tuple[int, str]]:
        """Return the last claim of a path that conflicts only with itself."""
        latest = self._last.get(path, self._whole)
        return [(latest, path)] if latest != _NOBODY else []

    def _searched(self, pattern: str) -> list[tuple[int, str]]:
        met = list(self._conflicts(pattern))
        self._held.add(pattern)
        # Every task met since then follows the task that claimed the whole repository.
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
        # The last claim of exactly this pattern follows all earlier conflicts.
        since = self._last.get(pattern, _NOBODY)
        met = [held for held in self._held.conflicts(pattern) if self._last[held] >= since]
        if is_literal(pattern):
            above = [held for held in met if is_literal(held) and pattern.startswith(f"{held}/")]
            same = [held for held in met if intersects(held, pattern)]
            for chain_of_one in (above, same):
                # These patterns all conflict with each other, so the chain goes through the latest.
                if chain_of_one:
                    yield max(self._last[held] for held in chain_of_one), pattern
            met = [held for held in met if _lives_in(held, pattern)]
        globs = [held for held in met if not is_literal(held)]
        for held in met:
            if not self._is_passed_on(held, globs):
                yield self._last[held], _narrower(pattern, held)
        for held in met:
            if held != pattern and _covers(pattern, held):
                self._held.remove(held)
                del self._last[held]

    def _is_passed_on(self, path: str, globs: list[str]) -> bool:
        """Return whether any of the few `globs` claimed the file again since then."""
        if len(globs) > _FEW or not is_literal(path):
            return False
        last = self._last[path]
        return any(self._last[glob] > last and matches(glob, path) for glob in globs)


class _Company:
    """The number of claims of each path that conflicts only with itself."""

    def __init__(self, claims: Iterable[Iterable[str]]) -> None:
        counts = Counter(chain.from_iterable(claims))
        # `Sweep` handles claims of the whole repository apart.
        counts.pop(WHOLE_REPOSITORY, None)
        globs = [pattern for pattern in counts if not is_literal(pattern)]
        homes = {paths.home(glob) for glob in globs}
        for glob in globs:
            del counts[glob]
        folders = {_parent(path) for path in counts}
        inhabited: set[str] = set()
        for directory in chain(folders, homes):
            while directory not in inhabited:
                inhabited.add(directory)
                directory = _parent(directory)
        noisy = counts.keys() & inhabited
        if noisy or homes:
            busy = {
                folder
                for folder in folders
                if any(above in noisy or above in homes for above in _at_or_above(folder))
            }
            noisy |= {path for path in counts if _parent(path) in busy}
        for path in noisy:
            del counts[path]
        self._counts = counts  # how many claim each path that meets no other pattern

    def claimed(self, pattern: str) -> int:
        """Return how many claim exactly this, and can meet in no other way; else 0."""
        return self._counts.get(pattern, 0)


class _Held:
    """An index of patterns that also knows roughly how long a question to it will take."""

    def __init__(self) -> None:
        self._index: Index[str] = Index()
        self.patterns: set[str] = set()
        self._beneath: dict[str, int] = {}  # how many live in each directory
        self._globs: dict[str, int] = {}  # how many globs are about each directory

    def add(self, pattern: str) -> None:
        if pattern not in self.patterns:
            self.patterns.add(pattern)
            self._index.add(pattern, pattern)
            self._count(pattern, 1)

    def remove(self, pattern: str) -> None:
        self.patterns.remove(pattern)
        self._index.remove(pattern)
        self._count(pattern, -1)

    def conflicts(self, pattern: str) -> list[str]:
        return [held for held, _ in self._index.find(pattern)]

    def work(self, pattern: str) -> int:
        home = paths.home(pattern)
        met = self._beneath.get(home, 0) + sum(self._globs.get(at, 0) for at in _above(home))
        return 1 + met * (1 if home == pattern else _TWO_GLOBS)

    def _count(self, pattern: str, step: int) -> None:
        home = paths.home(pattern)
        if home != pattern:
            self._globs[home] = self._globs.get(home, 0) + step
        self._beneath[home] = self._beneath.get(home, 0) + step
        for directory in _above(home):
            self._beneath[directory] = self._beneath.get(directory, 0) + step


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _above(path: str) -> tuple[str, ...]:
    """Return the directories above a path, the root last."""
    return _at_or_above(_parent(path)) if path else ()


@lru_cache(maxsize=4096)
def _at_or_above(directory: str) -> tuple[str, ...]:
    return (directory, *_above(directory))


def _lives_in(pattern: str, directory: str) -> bool:
    """Return whether every path of the pattern lies beneath the directory."""
    home = paths.home(pattern)
    if home == directory:
        return home != pattern
    return not directory or home.startswith(directory + "/")


def _covers(pattern: str, held: str) -> bool:
    """Return whether every conflict of the other pattern is a conflict of this pattern too."""
    inside = subtree(pattern)
    return inside is not None and _lives_in(held, inside.rstrip("/"))


def _narrower(pattern: str, held: str) -> str:
    if pattern == held or is_literal(pattern):
        return pattern
    return held if is_literal(held) else f"{pattern} and {held}"
