"""The collected problems of a plan, so that a reader reports all of them at once."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import Final

from weft.plan.plan_records import Problem, Severity

MOST_PROBLEMS: Final = 1000
"""The most problems of each severity; a file with more is hardly a plan."""

# Words compared with each other, in all: about half a second.
_MOST_GUESSES: Final = 50_000
# A longer word is no misspelling of a known word.
_LONGEST_WORD: Final = 40


Place = tuple[int, int]
"""A line and a column, both counted from 1."""

TOP: Final[Place] = (1, 1)


class Problems:
    """The problems of a file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._problems: list[Problem] = []
        self._counts = {Severity.ERROR: 0, Severity.WARNING: 0}
        self._guesses = 0

    def error(
        self, at: Place, code: str, message: str, cure: str = "", pointer: str | None = None
    ) -> None:
        self._add(Severity.ERROR, at, code, message, cure, pointer)

    def warn(
        self, at: Place, code: str, message: str, cure: str = "", pointer: str | None = None
    ) -> None:
        self._add(Severity.WARNING, at, code, message, cure, pointer)

    def _add(
        self, severity: Severity, at: Place, code: str, message: str, cure: str, pointer: str | None
    ) -> None:
        self._counts[severity] += 1
        if self._counts[severity] > MOST_PROBLEMS:
            return
        self._problems.append(
            Problem(
                file=self._file,
                line=at[0],
                column=at[1],
                code=code,
                severity=severity,
                message=message,
                suggestion=cure,
                pointer=pointer,
            )
        )

    def closest(self, word: str, known: Collection[str], cutoff: float = 0.75) -> str | None:
        """Return the known word that `word` may be a misspelling of.

        Comparing is slow, so this gives up after many strange words in a file.
        """
        self._guesses += len(known)
        if len(word) > _LONGEST_WORD or self._guesses > _MOST_GUESSES:
            return None
        close = difflib.get_close_matches(word, known, n=1, cutoff=cutoff)
        return close[0] if close else None

    def suggest(
        self, word: str, known: Collection[str], otherwise: str, cutoff: float = 0.6
    ) -> str:
        """Return a question for the known word that may be meant, or the other advice."""
        close = self.closest(word, known, cutoff)
        return f"Did you mean {close!r}?" if close else otherwise

    @property
    def failed(self) -> bool:
        return self._counts[Severity.ERROR] > 0

    def sorted(self) -> tuple[Problem, ...]:
        """Return the problems in the order of the file."""
        by_place = sort_by_place(self._problems)
        missing = sum(max(0, count - MOST_PROBLEMS) for count in self._counts.values())
        if not missing:
            return by_place
        left_out = Problem(
            file=self._file,
            line=1,
            column=1,
            code="too-many-problems",
            severity=Severity.ERROR if self.failed else Severity.WARNING,
            message=f"{missing} more problems are not listed.",
            suggestion="Correct the first errors and check again.",
        )
        return (*by_place, left_out)


def shorten(text: str, most: int = 60) -> str:
    """Shorten text from a plan for a message; the file may hold a line of many megabytes."""
    return text if len(text) <= most else text[: most - 1] + "…"


def sort_by_place(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(problems, key=lambda problem: (problem.line, problem.column)))
