"""Collecting problems, so that a reader reports everything in one go."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import Final

from weft.plan.plan_records import Problem, Severity

MOST_PROBLEMS: Final = 1000
"""Of each severity; a file with more is not a plan, and nobody reads so many."""

# Words compared with each other, in all: about half a second.
_MOST_GUESSES: Final = 50_000
# A word longer than this is no misspelling of anything known.
_LONGEST_WORD: Final = 40


class Problems:
    """The problems of one file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._found: list[Problem] = []
        self._counts = {Severity.ERROR: 0, Severity.WARNING: 0}
        self._guesses = 0

    def error(
        self,
        line: int,
        column: int,
        code: str,
        message: str,
        suggestion: str = "",
        pointer: str | None = None,
    ) -> None:
        self._add(Severity.ERROR, line, column, code, message, suggestion, pointer)

    def warn(
        self,
        line: int,
        column: int,
        code: str,
        message: str,
        suggestion: str = "",
        pointer: str | None = None,
    ) -> None:
        self._add(Severity.WARNING, line, column, code, message, suggestion, pointer)

    def _add(
        self,
        severity: Severity,
        line: int,
        column: int,
        code: str,
        message: str,
        suggestion: str,
        pointer: str | None,
    ) -> None:
        self._counts[severity] += 1
        if self._counts[severity] > MOST_PROBLEMS:
            return
        self._found.append(
            Problem(
                file=self._file,
                line=line,
                column=column,
                code=code,
                severity=severity,
                message=message,
                suggestion=suggestion,
                pointer=pointer,
            )
        )

    def closest(self, word: str, known: Collection[str], cutoff: float = 0.75) -> str | None:
        """Return the known word that this one may be a misspelling of.

        Comparing is slow, so a file full of strange words is given up on after a while.
        """
        self._guesses += len(known)
        if len(word) > _LONGEST_WORD or self._guesses > _MOST_GUESSES:
            return None
        close = difflib.get_close_matches(word, known, n=1, cutoff=cutoff)
        return close[0] if close else None

    @property
    def failed(self) -> bool:
        return self._counts[Severity.ERROR] > 0

    def found(self) -> tuple[Problem, ...]:
        """Return them in the order of the file."""
        missing = sum(max(0, count - MOST_PROBLEMS) for count in self._counts.values())
        if missing:
            severity = Severity.ERROR if self.failed else Severity.WARNING
            left_out = Problem(
                file=self._file,
                line=1,
                column=1,
                code="too-many-problems",
                severity=severity,
                message=f"{missing} more problems are not listed.",
                suggestion="Mend the first ones and check again.",
            )
            return (*_sorted(self._found), left_out)
        return _sorted(self._found)


def shorten(text: str, most: int = 60) -> str:
    """Quote text from a plan in a message; the file may hold a line of many megabytes."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _sorted(found: list[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(found, key=lambda problem: (problem.line, problem.column)))
