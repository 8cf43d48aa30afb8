"""Provider penalties: rate limits lower a provider's effective limit for all processes.

The level is derived from the last change and the time, so that no process has to lower it. Pressure
only ever lowers: the effective limit is never above the base, and at least 1 as long as the base
is.
"""

from __future__ import annotations

from msgspec import Struct

from weft.config import Tuning


class Penalty(Struct, frozen=True, kw_only=True):
    level: int  # when it was last raised
    since: float
    successes: int  # since then


def level(penalty: Penalty | None, now: float, tuning: Tuning) -> int:
    if penalty is None:
        return 0
    elapsed = max(0.0, now - penalty.since)
    eased = int(elapsed // tuning.penalty_decay) + penalty.successes // tuning.penalty_successes
    return max(0, min(penalty.level, tuning.penalty_max) - eased)


def raised(penalty: Penalty | None, now: float, tuning: Tuning) -> Penalty:
    """Return the penalty after another rate limit."""
    worse = min(tuning.penalty_max, level(penalty, now, tuning) + 1)
    return Penalty(level=worse, since=now, successes=0)


def effective(base: int, penalty_level: int) -> int:
    return min(base, max(1, base // (penalty_level + 1)))
