"""What becomes of a task, from how its agent ended and what it changed. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from weft.admission import retries
from weft.agents import reset_time
from weft.agents.classify import Failure
from weft.agents.signature import signature
from weft.config import Tuning
from weft.model import ErrorClass, State
from weft.paths import quote


class AttemptWork(Struct, frozen=True, kw_only=True):
    """What an agent that ended well left in its workspace."""

    paths: tuple[str, ...]  # all it touched
    outside: tuple[str, ...]  # of them, what it had not claimed
    escapes: tuple[str, ...]  # links that lead out of the repository
    conflicts: tuple[str, ...]  # files with conflicts left in them
    unusable: tuple[str, ...]  # files whose names git refuses


class NextState(Struct, frozen=True, kw_only=True):
    """What becomes of the task, why, and what else has to be done."""

    state: State
    kind: str = "success"
    reason: str = ""
    until: float | None = None
    signature: str = ""
    stops_agent: bool = False


def after_failure(
    failure: Failure, *, earlier: int, now: float, chance: float, tuning: Tuning
) -> NextState:
    reset = failure.until
    if reset is None and failure.after is not None:
        reset = now + failure.after
    if reset is None and failure.clock:
        reset = reset_time.clock_time(failure.clock, now)
    told = retries.after_failure(
        failure.kind, earlier=earlier, now=now, chance=chance, tuning=tuning, reset=reset
    )
    return NextState(
        state=told.state,
        kind=failure.kind,
        reason=failure.reason,
        until=told.until,
        signature=failure.signature,
        stops_agent=told.stops_agent,
    )


def find_fault(work: AttemptWork, claims: Sequence[str]) -> Failure | None:
    """Why work that its agent calls finished cannot be taken; what it touched beside its claims
    is judged apart, since that may still be granted."""
    if not claims:
        return _refused(work.paths, "changed {files}, although its task may change nothing")
    if work.escapes:
        return _refused(work.escapes, "left links that lead out of the repository: {files}")
    if work.conflicts:
        return _other(work.conflicts, "left conflicts in {files}")
    if work.unusable:
        return _other(work.unusable, "made files whose names git refuses: {files}")
    if not work.paths:
        return Failure(
            kind=ErrorClass.NO_CHANGE,
            reason="The agent said it was done, but nothing has changed.",
            signature=signature(ErrorClass.NO_CHANGE, ""),
        )
    return None


def _refused(paths: Sequence[str], text: str) -> Failure | None:
    if not paths:
        return None
    return _failure(ErrorClass.SCOPE, paths, text)


def _other(paths: Sequence[str], text: str) -> Failure:
    return _failure(ErrorClass.OTHER, paths, text)


def _failure(kind: ErrorClass, paths: Sequence[str], text: str) -> Failure:
    reason = f"The agent {text.format(files=listed(paths))}."
    return Failure(kind=kind, reason=reason, signature=signature(kind, text))


def claim_of(path: str) -> str:
    """The claim of one file, whose name was the agent's choice: one made of asterisks claims
    itself and nothing else. Bytes that are no text, which no store keeps, stand for any letter."""
    return "".join("?" if "\ud800" <= one <= "\udfff" else one for one in quote(path))


def listed(paths: Sequence[str]) -> str:
    """A few of many paths, for a sentence."""
    shown = ", ".join(paths[:5]).encode(errors="replace").decode()
    return shown if len(paths) <= 5 else f"{shown} and {len(paths) - 5} more"
