"""The next state of a task whose attempt failed, by the class of the failure.

The store, which sees all attempts, recognises repeated failures. The caller stops agents and
handles claims after an attempt left its scope.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from weft.config import Tuning
from weft.model import ErrorClass, State

_LONGEST_PARK: Final = 8 * 86_400.0
"""Weekly limits are the longest; a later reset is a mistake of the program."""


class RetryDecision(Struct, frozen=True, kw_only=True):
    state: State  # ready (at once), parked (until) or blocked
    until: float | None = None
    stops_agent: bool = False  # start this agent only after a person has resumed it


def after_failure(
    kind: ErrorClass,
    *,
    earlier: int,
    now: float,
    chance: float,
    tuning: Tuning,
    reset: float | None = None,
) -> RetryDecision:
    """Decide the next state of the task.

    `earlier` counts the failures of this class in a row, `chance` is a random number from 0 to 1,
    and `reset` is the provider's time to come back.
    """
    match kind:
        case ErrorClass.RATE_LIMIT if reset is not None:
            # Tasks that wait for the same reset must not start at the same moment. Programs also
            # state times that are too short, so the wait is never shorter than the usual backoff.
            stated = min(reset, now + _LONGEST_PARK) + chance * tuning.backoff
            return RetryDecision(
                state=State.PARKED, until=max(stated, now + backoff(earlier, chance, tuning))
            )
        case ErrorClass.RATE_LIMIT | ErrorClass.OVERLOAD | ErrorClass.CAPACITY:
            return RetryDecision(state=State.PARKED, until=now + backoff(earlier, chance, tuning))
        case ErrorClass.AUTH | ErrorClass.CONFIG:
            return RetryDecision(state=State.READY, stops_agent=True)
        case ErrorClass.TIMEOUT if earlier < tuning.timeout_retries:
            return RetryDecision(state=State.READY)
        case ErrorClass.NO_CHANGE if earlier < tuning.no_change_retries:
            return RetryDecision(state=State.READY)
        case ErrorClass.CONTEXT if earlier < tuning.context_retries:
            return RetryDecision(state=State.READY)
        case ErrorClass.CRASH | ErrorClass.SCOPE | ErrorClass.STOPPED:
            return RetryDecision(state=State.READY)
    return RetryDecision(state=State.BLOCKED)


def backoff(earlier: int, chance: float, tuning: Tuning) -> float:
    """Return the seconds to wait: doubled each time, with jitter, within the maximum."""
    most = tuning.backoff * tuning.backoff_most
    doubled = tuning.backoff * 2.0 ** min(earlier, 30)
    jitter = 1 + tuning.backoff_jitter * (2 * chance - 1)
    return min(most, min(most, doubled) * jitter)
