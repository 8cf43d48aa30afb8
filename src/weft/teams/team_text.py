"""The text of `team:`, such as `hedge`, `best-of 3`, `3 of claude` or `claude, codex`. Pure."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

LARGEST: Final = 16
"""The most entrants of a team."""

FORMS: Final = "`hedge`, `best-of 3`, `3 of claude` or `claude, codex`"

_AGENT: Final = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}"
_BEST_OF: Final = re.compile(r"best[- ]of[ ]+([0-9]{1,3})", re.IGNORECASE)
_SAME: Final = re.compile(rf"([0-9]{{1,3}})[ ]+of[ ]+({_AGENT})")
_NAME: Final = re.compile(_AGENT)
_JUDGE: Final = re.compile(rf"judge:[ ]*({_AGENT})")
_LONGEST: Final = 1000  # characters
_HEDGE_SIZE: Final = 2


class Strategy(StrEnum):
    HEDGE = "hedge"  # a further entrant starts only when the first is slow, risky or has failed
    BEST_OF = "best-of"  # all start, and the best candidate lands


class Team(Struct, frozen=True, kw_only=True):
    """The author's wish for a team."""

    strategy: Strategy
    size: int
    agents: tuple[str, ...] = ()  # of the entrants, in order; empty: chosen from the agent files
    judge: str | None = None  # the agent that compares candidates; None: no judge
    risky: bool = False  # a hedge starts all its entrants at once


def parse_team(text: str) -> Team:
    """Return the team that a text describes; raise `ValueError` with the expected form."""
    if len(text) > _LONGEST:
        raise ValueError(FORMS)
    first, *rest = (part.strip() for part in text.split(";"))
    team = _parse_entrants(first)
    if not 2 <= team.size <= LARGEST:
        raise ValueError(f"a team of 2 to {LARGEST} entrants, such as {FORMS}")
    for part in rest:
        judge = _JUDGE.fullmatch(part)
        if judge is None or team.judge is not None:
            raise ValueError(f"{FORMS}, with at most `; judge: NAME` behind it")
        if team.strategy is Strategy.HEDGE:
            raise ValueError("a hedge with a judge: the first green candidate of a hedge lands")
        team = replace(team, judge=judge[1])
    return team


def _parse_entrants(text: str) -> Team:
    if text.lower() == "hedge":
        return Team(strategy=Strategy.HEDGE, size=_HEDGE_SIZE)
    if best := _BEST_OF.fullmatch(text):
        return Team(strategy=Strategy.BEST_OF, size=int(best[1]))
    if same := _SAME.fullmatch(text):
        size = int(same[1])
        return Team(strategy=Strategy.BEST_OF, size=size, agents=(same[2],) * min(size, LARGEST))
    if re.match(r"panel\b", text, re.IGNORECASE):
        raise ValueError(f"a team that weft runs: it runs no panel of reviewers yet, only {FORMS}")
    names = tuple(name.strip() for name in text.split(","))
    if not all(_NAME.fullmatch(name) for name in names):
        raise ValueError(FORMS)
    return Team(strategy=Strategy.BEST_OF, size=len(names), agents=names)


def describe_team(team: Team) -> str:
    """Return the team as a text that `parse_team` reads."""
    if not team.agents:
        size = "" if team.strategy is Strategy.HEDGE else f" {team.size}"
        text = f"{team.strategy}{size}"
    elif len(set(team.agents)) == 1:
        text = f"{team.size} of {team.agents[0]}"
    else:
        text = ", ".join(team.agents)
    return text if team.judge is None else f"{text}; judge: {team.judge}"


def name_agents(team: Team, first: str, alike: tuple[str, ...]) -> tuple[str, ...]:
    """Return the agent of each entrant: those that the author named, or else different agents.

    `first` is the agent of the task, `alike` the other agents of the same stage.
    """
    if team.agents:
        return team.agents
    known = (first, *(agent for agent in alike if agent != first))
    return tuple(known[number % len(known)] for number in range(team.size))
