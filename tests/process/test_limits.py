"""Which limit a running agent has passed."""

from __future__ import annotations

import pytest

from weft.process.agent_limits import AgentLimit, AgentLimits, AgentProgress, find_passed

ALL = AgentLimits(wall=100, idle=10, tokens=1000, micro_dollars=500)


@pytest.mark.parametrize(
    ("progress", "now", "passed"),
    [
        (AgentProgress(started=0), 9.9, None),
        (
            AgentProgress(started=0),
            10,
            AgentLimit.IDLE,
        ),  # counted from the start, before any output
        (AgentProgress(started=0, printed=5), 14.9, None),
        (AgentProgress(started=0, printed=5), 15, AgentLimit.IDLE),
        (AgentProgress(started=0, printed=99), 99.9, None),
        (AgentProgress(started=0, printed=99), 100, AgentLimit.WALL),
        (AgentProgress(started=0, tokens=1000, micro_dollars=500), 1, None),
        (AgentProgress(started=0, tokens=1001), 1, AgentLimit.TOKENS),
        (AgentProgress(started=0, micro_dollars=501), 1, AgentLimit.DOLLARS),
    ],
)
def test_a_limit_is_passed_at_its_moment_and_beyond_its_amount(
    progress: AgentProgress, now: float, passed: AgentLimit | None
) -> None:
    assert find_passed(ALL, progress, now) == passed


def test_without_limits_nothing_is_passed() -> None:
    forever = AgentProgress(started=0, tokens=10**12, micro_dollars=10**12)
    assert find_passed(AgentLimits(), forever, 1e12) is None


@pytest.mark.parametrize(("printed", "moment"), [(None, 10), (50, 60), (95, 100)])
def test_a_time_is_passed_at_its_moment_and_not_before(
    printed: float | None, moment: float
) -> None:
    progress = AgentProgress(started=0, printed=printed)
    assert find_passed(ALL, progress, moment - 0.1) is None
    assert find_passed(ALL, progress, moment) is not None
