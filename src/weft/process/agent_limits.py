"""Whether a running agent has passed a limit of its own. Pure: the caller looks and stops.

Times are seconds on one clock of the caller's choice. Tokens and dollars come from what the
agent reports, so the caller counts them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class AgentLimit(StrEnum):
    WALL = "wall"  # it has run for too long
    IDLE = "idle"  # it has printed nothing for too long
    TOKENS = "tokens"
    DOLLARS = "dollars"


@dataclass(frozen=True, kw_only=True)
class AgentLimits:
    """None: no such limit."""

    wall: float | None = None
    idle: float | None = None
    tokens: int | None = None
    micro_dollars: int | None = None


@dataclass(frozen=True, kw_only=True)
class AgentProgress:
    started: float
    printed: float | None = None  # when its output last grew; idleness counts from the start
    tokens: int = 0
    micro_dollars: int = 0


def find_passed(limits: AgentLimits, progress: AgentProgress, now: float) -> AgentLimit | None:
    """The first limit that is passed now: those on time at their moment, amounts beyond theirs."""
    for limit, at in _moments(limits, progress):
        if now >= at:
            return limit
    if limits.tokens is not None and progress.tokens > limits.tokens:
        return AgentLimit.TOKENS
    if limits.micro_dollars is not None and progress.micro_dollars > limits.micro_dollars:
        return AgentLimit.DOLLARS
    return None


def _moments(limits: AgentLimits, progress: AgentProgress) -> Iterator[tuple[AgentLimit, float]]:
    if limits.wall is not None:
        yield AgentLimit.WALL, progress.started + limits.wall
    if limits.idle is not None:
        since = progress.started if progress.printed is None else progress.printed
        yield AgentLimit.IDLE, since + limits.idle
