from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from weft.admission.retries import RetryDecision, after_failure, backoff
from weft.config import Tuning
from weft.model import ErrorClass, State

TUNING = Tuning()
NOW = 1_000.0


def decide(kind: ErrorClass, earlier: int = 0, reset: float | None = None) -> RetryDecision:
    return after_failure(kind, earlier=earlier, now=NOW, chance=0.5, tuning=TUNING, reset=reset)


def parked(until: float) -> RetryDecision:
    return RetryDecision(state=State.PARKED, until=until)


READY, BLOCKED = RetryDecision(state=State.READY), RetryDecision(state=State.BLOCKED)
STOP = RetryDecision(state=State.READY, stops_agent=True)


@each_case(
    ("kind", "earlier", "reset", "expected"),
    [
        (ErrorClass.RATE_LIMIT, 0, NOW + 3600, parked(NOW + 3602.5)),
        (ErrorClass.RATE_LIMIT, 0, None, parked(NOW + 5)),
        (ErrorClass.RATE_LIMIT, 2, NOW + 1, parked(NOW + 20)),  # never sooner than without
        (ErrorClass.RATE_LIMIT, 0, NOW - 50, parked(NOW + 5)),
        (ErrorClass.RATE_LIMIT, 0, NOW * 10**9, parked(NOW + 8 * 86_400 + 2.5)),
        (ErrorClass.OVERLOAD, 0, None, parked(NOW + 5)),
        (ErrorClass.OVERLOAD, 1, None, parked(NOW + 10)),
        (ErrorClass.CAPACITY, 2, None, parked(NOW + 20)),
        (ErrorClass.OVERLOAD, 3, None, parked(NOW + 40)),
        (ErrorClass.OVERLOAD, 99, None, parked(NOW + 40)),
        (ErrorClass.TIMEOUT, 0, None, READY),
        (ErrorClass.TIMEOUT, 1, None, READY),
        (ErrorClass.TIMEOUT, 2, None, BLOCKED),
        (ErrorClass.AUTH, 0, None, STOP),
        (ErrorClass.AUTH, 50, None, STOP),  # burns no retries
        (ErrorClass.CONFIG, 0, None, STOP),
        (ErrorClass.CRASH, 0, None, READY),
        (ErrorClass.NO_CHANGE, 0, None, READY),
        (ErrorClass.NO_CHANGE, 1, None, BLOCKED),
        (ErrorClass.SCOPE, 0, None, READY),
        (ErrorClass.OTHER, 0, None, BLOCKED),
        (ErrorClass.STOPPED, 99, None, READY),
    ],
)
def test_what_becomes_of_the_task(
    kind: ErrorClass, earlier: int, reset: float | None, expected: RetryDecision
) -> None:
    assert decide(kind, earlier, reset) == expected


@pytest.mark.parametrize("kind", list(ErrorClass))
@given(
    earlier=st.integers(0, 10_000),
    chance=st.floats(0, 1),
    reset=st.none() | st.floats(allow_nan=False),
)
def test_every_class_has_an_answer_and_waits_are_bounded(
    kind: ErrorClass, earlier: int, chance: float, reset: float | None
) -> None:
    decision = after_failure(
        kind, earlier=earlier, now=NOW, chance=chance, tuning=TUNING, reset=reset
    )
    assert (decision.state is State.PARKED) == (decision.until is not None)
    if decision.until is not None:
        assert NOW < decision.until <= NOW + 9 * 86_400


def check_rate_limits(decide: Callable[[ErrorClass, int, float | None], RetryDecision]) -> None:
    for earlier in (*range(100), 10_000):
        for reset in (None, NOW + 60):
            assert decide(ErrorClass.RATE_LIMIT, earlier, reset).state is State.PARKED


def like_any_other(kind: ErrorClass, earlier: int, reset: float | None) -> RetryDecision:
    """A policy that does not tell rate limits from failures of the task, which it counts."""
    counted = ErrorClass.TIMEOUT if kind is ErrorClass.RATE_LIMIT else kind
    return decide(counted, earlier, reset)


def test_no_number_of_rate_limits_fails_a_task_for_good() -> None:
    """rate-limited-task-fails-for-good."""
    check_rate_limits(decide)
    with pytest.raises(AssertionError):
        check_rate_limits(like_any_other)


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_a_backoff_stays_within_a_fifth_and_below_the_most(earlier: int, chance: float) -> None:
    wait = backoff(earlier, chance, TUNING)
    middle = min(40, 5 * 2 ** min(earlier, 10))
    assert 0.8 * middle <= wait <= min(40, 1.2 * middle)
