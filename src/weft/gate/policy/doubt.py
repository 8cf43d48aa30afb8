"""Doubt in the base: tasks fail their checks for a cause that is not theirs.

A missing program is such a cause. So is the same failure of two tasks that share no file. The gate
then checks the base before it sends any of these tasks back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from weft.agents.failure_text import sign_failure
from weft.paths import conflicts

UNABLE: Final = "a program of the check is missing"

_LINES: Final = 5  # at the end of the output, which make a failure recognisable


class FailedCheck(Struct, frozen=True, kw_only=True):
    """A failed check of the tasks of an entry."""

    entry: str
    files: tuple[str, ...]  # claims of its tasks
    output: str
    unable: bool  # a program of the check was missing or not executable


def explain_doubt(failed: FailedCheck, failures: Iterable[FailedCheck]) -> str:
    """Return the reason to doubt the base after a failure; "" if the tasks may be to blame."""
    if failed.unable:
        return UNABLE
    mine = _sign(failed.output)
    alike = (check for check in failures if mine and _sign(check.output) == mine)
    if any(check.entry != failed.entry and not _share(failed, check) for check in alike):
        return "two tasks that share no file fail in the same way"
    return ""


def _sign(output: str) -> str:
    """Return the signature of a failure; "" if its last line, the exit, is all there is."""
    lines = [line.strip() for line in output.splitlines() if any(map(str.isalnum, line))]
    return sign_failure("check", "\n".join(lines[-_LINES:-1])) if len(lines) > 1 else ""


def _share(left: FailedCheck, right: FailedCheck) -> bool:
    return any(conflicts(a, b) for a in left.files for b in right.files)
