"""The next state of a task, from the end of its agent and its changes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from weft.admission import retries
from weft.agents import reset_time
from weft.agents.classify import Failure
from weft.agents.failure_text import sign_failure
from weft.config import FILE as SETTINGS_FILE
from weft.config import Tuning
from weft.model import ErrorClass, State
from weft.paths import matches, quote


class AttemptWork(Struct, frozen=True, kw_only=True):
    """The changes that an agent left in its workspace."""

    paths: tuple[str, ...]  # all touched files
    outside: tuple[str, ...]  # touched files outside the claims
    escapes: tuple[str, ...]  # links that lead out of the repository
    conflicts: tuple[str, ...]  # files with conflicts left in them
    unusable: tuple[str, ...]  # files whose names git refuses


_SETTINGS: Final = (".weft/", ".devcontainer/")


class NextState(Struct, frozen=True, kw_only=True):
    """The next state of a task, its reason and its side effects."""

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
        reset = reset_time.parse_clock_time(failure.clock, now)
    decision = retries.after_failure(
        failure.kind, earlier=earlier, now=now, chance=chance, tuning=tuning, reset=reset
    )
    return NextState(
        state=decision.state,
        kind=failure.kind,
        reason=failure.reason,
        until=decision.until,
        signature=failure.signature,
        stops_agent=decision.stops_agent,
    )


def find_fault(work: AttemptWork, claims: Sequence[str]) -> Failure | None:
    """Return the reason to refuse finished work, or None.

    Files outside the claims are judged separately, because they may still be granted.
    """
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
            signature=sign_failure(ErrorClass.NO_CHANGE, ""),
        )
    return None


def find_unnamed_settings(paths: Iterable[str], claims: Sequence[str]) -> tuple[str, ...]:
    """List the changed settings of weft (weft.toml, .weft/) that no claim names.

    A claim names settings only if it begins with their path: a task that may change every file may
    not change the box, the checks and the agents of the next run.
    """
    named = [claim for claim in claims if is_settings(claim.lstrip("/"))]
    return tuple(
        path
        for path in paths
        if is_settings(path)
        and not any(matches(claim, path) or claim == claim_of(path) for claim in named)
    )


def is_settings(path: str) -> bool:
    return path in (SETTINGS_FILE, ".devcontainer.json") or path.startswith(_SETTINGS)


def refuse_settings(paths: Sequence[str]) -> Failure:
    """Return the failure of an agent that changed weft's settings without being asked to."""
    text = "changed {files}: settings of weft, which its task must name in `files:`"
    return _failure(ErrorClass.SCOPE, paths, text)


def refuse_outside(paths: Sequence[str], claims: Sequence[str]) -> Failure:
    """Return the failure of an agent that changed files outside those it was given."""
    text = f"changed {{files}}, and may change only {listed(claims)}"
    return _failure(ErrorClass.SCOPE, paths, text)


def _refused(paths: Sequence[str], text: str) -> Failure | None:
    if not paths:
        return None
    return _failure(ErrorClass.SCOPE, paths, text)


def _other(paths: Sequence[str], text: str) -> Failure:
    return _failure(ErrorClass.OTHER, paths, text)


def _failure(kind: ErrorClass, paths: Sequence[str], text: str) -> Failure:
    reason = f"The agent {text.format(files=listed(paths))}."
    return Failure(kind=kind, reason=reason, signature=sign_failure(kind, text))


def claim_of(path: str) -> str:
    """Return the claim of a single file; asterisks in its name are quoted.

    A byte that is no text becomes `?`, because the store keeps text only.
    """
    return storable_path(quote(path))


def storable_path(path: str) -> str:
    return "".join("?" if "\ud800" <= char <= "\udfff" else char for char in path)


def listed(paths: Sequence[str]) -> str:
    """Join at most five paths for a sentence."""
    shown = ", ".join(paths[:5]).encode(errors="replace").decode()
    return shown if len(paths) <= 5 else f"{shown} and {len(paths) - 5} more"
