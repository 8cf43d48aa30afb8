"""Verdicts that count, and doubt in the base: checks that fail for a cause of no task.

A missing program is such a cause. So is the same failure of two tasks that share no file. The gate
then checks the base before it sends any of these tasks back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.agents.failure_text import sign_failure
from weft.candidate_records import CheckVerdict, Entry, GateRows, MergeConflict
from weft.gate.policy.evidence import Trunk
from weft.gate.policy.gate_records import Purpose, Rejection
from weft.paths import conflicts

UNABLE: Final = "a program of the check is missing"

_LINES: Final = 5  # at the end of the output, which make a failure recognisable
MERGE: Final = "merge"
"""The check id of a combination that did not merge, which fails any check."""
CheckIdOf = Callable[[Sequence[Entry]], str]
"""Names the present commands, environment and files for the check of a combination."""


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


def drop_stale_verdicts(rows: GateRows, check_id_of: CheckIdOf) -> GateRows:
    """Leave out verdicts of other commands, and those with entries that have left the gate.

    Failures before a failure of the base are left out too: no entry was to blame for them.
    """
    entries = {entry.id: entry for entry in rows.entries}
    red = max((verdict.number for verdict in rows.verdicts if _is_red_base(verdict)), default=0)
    current = [
        verdict
        for verdict in rows.verdicts
        if verdict.combination
        and (verdict.passed or verdict.number > red)
        and entries.keys() >= set(verdict.combination)
        and verdict.check_id
        in (MERGE, check_id_of([entries[entry] for entry in verdict.combination]))
    ]
    return replace(rows, verdicts=tuple(current))


def _is_red_base(verdict: CheckVerdict) -> bool:
    return verdict.purpose == Purpose.BASE and not verdict.passed


def is_base_proved(rows: GateRows, failure: CheckVerdict) -> bool:
    """Tell whether the base passed a check since entries of this failure first failed."""
    entries = set(failure.combination)
    first = min(
        verdict.number
        for verdict in (*rows.verdicts, failure)
        if not verdict.passed and entries.intersection(verdict.combination)
    )
    return any(
        verdict.purpose == Purpose.BASE and verdict.passed and verdict.number > first
        for verdict in rows.verdicts
    )


def find_failure(rejection: Rejection, rows: GateRows, tip: str) -> CheckVerdict | None:
    """Return the latest failed check of a rejected combination, on any tip with the same tree."""
    trunk = Trunk(tip, rows.landings)
    wanted = trunk.tree(rejection.base, rejection.combination)
    failures = (
        verdict
        for verdict in reversed(rows.verdicts)
        if not verdict.passed
        and verdict.base in trunk
        and trunk.tree(verdict.base, verdict.combination) == wanted
    )
    return next(failures, None)


def find_conflict(rejection: Rejection, rows: GateRows) -> MergeConflict | None:
    for conflict in rows.conflicts:
        if (conflict.base, (*conflict.after, conflict.entry)) == (
            rejection.base,
            rejection.combination,
        ):
            return conflict
    return None
