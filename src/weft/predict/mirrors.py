"""Tests that mirror sources, found by their names: `parser.py` and `test_parser.py`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

_TEST: Final = re.compile(
    r"(?:test_(?P<a>.+)|(?P<b>.+)_(?:test|spec)|(?P<c>.+)\.(?:test|spec)|(?P<d>.+?)(?:Tests?|Spec))"
)
_MOST: Final = 3  # mirrors of a file


class Mirrors:
    """The tests of a tree and the sources that they mirror."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._tests: dict[str, list[str]] = {}
        self._sources: dict[str, list[str]] = {}
        for path in paths:
            tested = _tested(path)
            if tested is None:
                self._sources.setdefault(_stem(path), []).append(path)
            else:
                self._tests.setdefault(tested, []).append(path)

    def list_tests(self, source: str) -> tuple[str, ...]:
        """List the tests that mirror a source, nearest first."""
        if is_test(source):
            return ()
        return _nearest(source, self._tests.get(_stem(source), ()))

    def list_sources(self, test: str) -> tuple[str, ...]:
        """List the sources that a test mirrors, nearest first."""
        tested = _tested(test)
        return () if tested is None else _nearest(test, self._sources.get(tested, ()))


def is_test(path: str) -> bool:
    return _tested(path) is not None


def _tested(path: str) -> str | None:
    match = _TEST.fullmatch(_stem(path))
    return next((part for part in match.groups() if part), None) if match else None


def _stem(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[0]


def _nearest(path: str, candidates: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of the same extension that share most directories with a path."""
    own = set(path.split("/")[:-1])
    ending = path.rpartition(".")[2]
    same = [neighbour for neighbour in candidates if neighbour.rpartition(".")[2] == ending]
    shared = {neighbour: len(own & set(neighbour.split("/")[:-1])) for neighbour in same}
    best = max(shared.values(), default=0)
    return tuple(sorted(neighbour for neighbour in same if shared[neighbour] == best))[:_MOST]
