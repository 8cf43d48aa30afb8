"""The choice among the candidates of a team, by evidence. Pure.

The evidence counts in this order: the candidate stays in scope and merges; it passes the gate's
check; it passes the task's check; it passes the new tests of the other candidates; a judge that
compares pairs in both orders prefers it; its diff is smaller; it cost less. Candidates with equal
trees are a group, of which the cheapest stands for all. The last resort is the entrant's number, so
that the same results give the same choice in whatever order they arrived.

A hedge ends with its first green candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from weft.teams.team_text import Strategy

Pair = tuple[int, int]


class CandidateResult(StrEnum):
    """The evidence about a candidate by itself."""

    OPEN = "open"  # not known yet
    GREEN = "green"  # stays in scope, merges, and passes the checks
    FAILED = "failed"  # left no candidate in scope
    CONFLICT = "conflict"  # does not merge
    GATE_RED = "gate_red"  # fails the gate's check
    TASK_RED = "task_red"  # fails the task's check


class Preference(StrEnum):
    """A judge's answer about two candidates."""

    FIRST = "first"
    SECOND = "second"
    EQUAL = "equal"  # also an answer that could not be had


class EntrantResult(Struct, frozen=True, kw_only=True):
    """An entrant, as the choice sees it."""

    number: int
    result: CandidateResult = CandidateResult.OPEN
    arrival: int = 0  # the order in which green candidates of a hedge were known
    tree: str = ""
    lines: int = 0  # of its diff
    micro_usd: int = 0
    has_tests: bool = False  # it added test files
    last: bool = False  # it is the attempt after all others failed


class TeamResults(Struct, frozen=True, kw_only=True):
    strategy: Strategy
    size: int
    entrants: tuple[EntrantResult, ...]
    checked: bool = True  # a check exists, so that tests can be run
    judged: bool = False  # the team has a judge
    tests: Mapping[Pair, bool] = field(default_factory=dict)
    """(candidate, author of the tests): the candidate passed these tests."""
    preferences: Mapping[Pair, Preference] = field(default_factory=dict)
    """(candidate shown first, candidate shown second): the judge's answer."""


class ChoiceStep(Struct, frozen=True, kw_only=True):
    """A step of the choice: the candidates that remain after it, and the reasons of the others."""

    name: str
    left: tuple[int, ...]
    out: Mapping[int, str] = field(default_factory=dict)


class TeamDecision(Struct, frozen=True, kw_only=True):
    """The next action of a team. All fields empty: wait for results."""

    steps: tuple[ChoiceStep, ...] = ()  # taken so far, for people
    winner: int | None = None
    starts: bool = False  # another entrant of a hedge starts
    tries_again: bool = False  # one more attempt gets all failures
    gives_up: bool = False  # a person compares
    tests: tuple[Pair, ...] = ()  # to run: (candidate, author of the tests)
    comparisons: tuple[Pair, ...] = ()  # to make: (shown first, shown second)


_OUT: Final = (
    (
        "scope and merge",
        {CandidateResult.FAILED: "left no candidate", CandidateResult.CONFLICT: "does not merge"},
    ),
    ("gate check", {CandidateResult.GATE_RED: "fails the gate's check"}),
    ("task check", {CandidateResult.TASK_RED: "fails the task's check"}),
)


def choose(team: TeamResults) -> TeamDecision:
    """Return the winner, or the action that brings the choice forward."""
    entrants = sorted(team.entrants, key=lambda entrant: entrant.number)
    waits = any(entrant.result is CandidateResult.OPEN for entrant in entrants)
    green = [entrant for entrant in entrants if entrant.result is CandidateResult.GREEN]
    if team.strategy is Strategy.HEDGE and green:
        first = min(green, key=lambda entrant: (entrant.arrival, entrant.number))
        step = ChoiceStep(name="first green candidate", left=(first.number,))
        return TeamDecision(steps=(*_own_steps(entrants), step), winner=first.number)
    if waits:
        return TeamDecision(starts=_wants_another(team, entrants))
    if not green:
        return _without_green(team, entrants)
    return _compare(team, _own_steps(entrants), green)


def _wants_another(team: TeamResults, entrants: Sequence[EntrantResult]) -> bool:
    """Tell whether a failure calls for the next entrant of a hedge."""
    failed = any(entrant.result is not CandidateResult.OPEN for entrant in entrants)
    return team.strategy is Strategy.HEDGE and failed and len(entrants) < team.size


def _without_green(team: TeamResults, entrants: Sequence[EntrantResult]) -> TeamDecision:
    if len(entrants) < team.size:
        return TeamDecision(starts=True)
    tried = any(entrant.last for entrant in entrants)
    return TeamDecision(steps=_own_steps(entrants), tries_again=not tried, gives_up=tried)


def _own_steps(entrants: Sequence[EntrantResult]) -> tuple[ChoiceStep, ...]:
    """Return the steps over the evidence about each candidate by itself."""
    steps = []
    left = list(entrants)
    for name, reasons in _OUT:
        out = {each.number: reasons[each.result] for each in left if each.result in reasons}
        left = [each for each in left if each.number not in out]
        steps.append(ChoiceStep(name=name, left=_numbers(left), out=out))
    return tuple(steps)


def _compare(
    team: TeamResults, before: tuple[ChoiceStep, ...], green: Sequence[EntrantResult]
) -> TeamDecision:
    """Choose among several green candidates, or name the tests or comparisons that are missing."""
    steps = list(before)
    left = list(green)
    wanted = _list_tests(team, left)
    if missing := tuple(pair for pair in wanted if pair not in team.tests):
        return TeamDecision(steps=tuple(steps), tests=missing)
    if wanted:
        passed = {
            each.number: -sum(not team.tests[pair] for pair in wanted if pair[0] == each.number)
            for each in left
        }
        left = _keep(steps, "tests of the others", left, passed, "fails more tests of the others")
    left = _group(steps, left)
    pairs = _list_comparisons(team, left)
    if missing := tuple(pair for pair in pairs if pair not in team.preferences):
        return TeamDecision(steps=tuple(steps), comparisons=missing)
    if pairs:
        score = {each.number: _score(team, each, left) for each in left}
        left = _keep(steps, "judge", left, score, "the judge prefers another")
    for name, reason, size in _SIZES:
        measure = {each.number: -size(each) for each in left}
        left = _keep(steps, name, left, measure, reason)
    if len(left) > 1:
        rest = {each.number: "is equal, and came later in the list" for each in left[1:]}
        steps.append(ChoiceStep(name="order", left=(left[0].number,), out=rest))
    return TeamDecision(steps=tuple(steps), winner=left[0].number)


Measure = Callable[[EntrantResult], int]

_SIZES: Final[tuple[tuple[str, str, Measure], ...]] = (
    ("smaller diff", "has a larger diff", lambda entrant: entrant.lines),
    ("lower cost", "cost more", lambda entrant: entrant.micro_usd),
)


def _keep(
    steps: list[ChoiceStep],
    name: str,
    entrants: Sequence[EntrantResult],
    score: Mapping[int, int],
    reason: str,
) -> list[EntrantResult]:
    """Keep the entrants with the highest score; add the step, unless a single entrant was left."""
    if len(entrants) == 1:
        return list(entrants)
    best = max(score.values())
    left = [entrant for entrant in entrants if score[entrant.number] == best]
    out = {each.number: reason for each in entrants if score[each.number] < best}
    steps.append(ChoiceStep(name=name, left=_numbers(left), out=out))
    return left


def _group(steps: list[ChoiceStep], entrants: Sequence[EntrantResult]) -> list[EntrantResult]:
    """Keep the cheapest entrant of each group with equal trees."""
    groups: dict[str, EntrantResult] = {}
    for entrant in sorted(entrants, key=lambda each: (each.micro_usd, each.number)):
        groups.setdefault(entrant.tree, entrant)
    left = sorted(groups.values(), key=lambda each: each.number)
    kept = set(_numbers(left))
    out = {
        each.number: f"is equal to {groups[each.tree].number}"
        for each in entrants
        if each.number not in kept
    }
    if out:
        steps.append(ChoiceStep(name="equal candidates", left=_numbers(left), out=out))
    return left


def _list_tests(team: TeamResults, entrants: Sequence[EntrantResult]) -> list[Pair]:
    if not team.checked or len({each.tree for each in entrants}) < 2:
        return []
    return [
        (candidate.number, author.number)
        for candidate in entrants
        for author in entrants
        if author.has_tests and author.number != candidate.number
    ]


def _list_comparisons(team: TeamResults, entrants: Sequence[EntrantResult]) -> list[Pair]:
    """List the pairs, each in both orders, that a judge has to compare."""
    if not team.judged:
        return []
    return [
        (first.number, second.number)
        for first in entrants
        for second in entrants
        if first.number != second.number
    ]


def _score(team: TeamResults, entrant: EntrantResult, entrants: Iterable[EntrantResult]) -> int:
    """Count the candidates that an entrant beats, less those that beat it."""
    return sum(
        _compare_pair(team, entrant.number, rival.number)
        for rival in entrants
        if rival.number != entrant.number
    )


def _compare_pair(team: TeamResults, candidate: int, rival: int) -> int:
    """Return 1 or -1 if the judge prefers a candidate in both orders, else 0."""
    answers = team.preferences[candidate, rival], team.preferences[rival, candidate]
    if answers == (Preference.FIRST, Preference.SECOND):
        return 1
    return -1 if answers == (Preference.SECOND, Preference.FIRST) else 0


def _numbers(entrants: Iterable[EntrantResult]) -> tuple[int, ...]:
    return tuple(entrant.number for entrant in entrants)
