"""Rows of teams: the resources of entrants, the results that a choice is made of, and the team as
people see it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.model import PROPOSAL, SLEPT, Demand, Stage, State, TaskKind
from weft.store import row_records
from weft.store.database import Row, Transaction
from weft.store.store import reads
from weft.teams.choice import EntrantResult, Pair, Preference, TeamResults
from weft.teams.team_text import Strategy

TESTS: Final = "tests"
"""The purpose of a check of a candidate with the new tests of another candidate."""


def members_of(team: int) -> str:
    """Return the resource of which each entrant at work takes one."""
    return f"team:{team}/members"


def dollars_of(team: int) -> str:
    """Return the consumable that holds the dollars reserved for a team."""
    return f"team:{team}/usd"


def is_entrant(row: Row) -> bool:
    """Tell from its demand whether a task is an entrant whose team is undecided."""
    return row["story"] is not None and members_of(row["story"]) in row_records.demand(
        row["demand"]
    )


def waits_in_team(row: Row) -> bool:
    """Tell whether a task is an entrant of a team that is at work already."""
    return is_entrant(row) and f"run:{row['run']}/teams" not in row_records.demand(row["demand"])


def is_contending(tx: Transaction, row: Row) -> bool:
    """Tell whether a task is an entrant or a comparison of a team that is undecided."""
    return row["story"] is not None and is_open_team(tx, row["story"])


def is_open_team(tx: Transaction, task: int) -> bool:
    team = tx.one("team", task=task)
    return team is not None and team["state"] == "open"


_RETRIED: Final = frozenset({"rate_limit", "overload", "capacity", "crash", SLEPT, PROPOSAL})
"""Outcomes after which an entrant is tried again, as any task."""


def is_out(state: State, kind: str) -> bool:
    """Tell whether an outcome ends an entrant or a comparison: no person is asked about it."""
    goes_on = state in (State.READY, State.PARKED)
    return state is State.BLOCKED or (goes_on and kind != "success" and kind not in _RETRIED)


def join_team(stage: Stage, team: int, run: str) -> Stage:
    """Return a stage with the demand of an entrant: its dollars are the team's."""
    demand = {_swap(name, f"run:{run}/usd", dollars_of(team)): n for name, n in _items(stage)}
    return replace(stage, demand={**demand, members_of(team): 1})


def leave_team(stage: Stage, team: int, run: str) -> Stage:
    """Return a stage of an entrant with the demand of an ordinary task."""
    demand = {_swap(name, dollars_of(team), f"run:{run}/usd"): n for name, n in _items(stage)}
    return replace(stage, demand={n: a for n, a in demand.items() if n != members_of(team)})


def _items(stage: Stage) -> list[tuple[str, int]]:
    return list(stage.demand.items())


def _swap(name: str, old: str, new: str) -> str:
    return new if name == old else name


def team_demand(run: str, micro_usd: int) -> Demand:
    """Return the demand of a team itself: a place among those of its run, and its dollars."""
    return {f"run:{run}/teams": 1, **({f"run:{run}/usd": micro_usd} if micro_usd else {})}


def read_results(tx: Transaction, team: Row, task: Row, *, has_gate: bool) -> TeamResults:
    """Read the results of a team's present round; `task` is the row of its task."""
    request = row_records.request(task)
    assert request.team is not None
    rows = [row for row in tx.all("entrants_of", team=task["id"]) if row["round"] == team["round"]]
    numbers = {int(row["task"]): int(row["number"]) for row in rows}
    return TeamResults(
        strategy=Strategy(request.team.strategy),
        size=len(request.team.pipelines),
        entrants=tuple(_result(row) for row in rows),
        checked=has_gate or bool(request.check),
        judged=request.team.judge is not None,
        tests=_tests(tx, team["run"], numbers),
        preferences=_preferences(tx, task["id"]),
    )


def _result(row: Row) -> EntrantResult:
    has_tests = bool(json.loads(row["tests"]))
    return row_records.record(EntrantResult, row, micro_usd=row["cost"], has_tests=has_tests)


def task_of_entry(entry: str) -> int:
    """Return the task of an entrant's entry."""
    return int(entry.partition(".")[0])


def _tests(tx: Transaction, run: str, numbers: Mapping[int, int]) -> dict[Pair, bool]:
    """Return the latest verdicts on candidates with the tests of others."""
    tests = {}
    for row in tx.all("test_verdicts", run=run):
        candidate, author = map(task_of_entry, json.loads(row["combination"]))
        if candidate in numbers and author in numbers:
            tests[numbers[candidate], numbers[author]] = bool(row["passed"])
    return tests


def _preferences(tx: Transaction, team: int) -> dict[Pair, Preference]:
    """Return the judge's answers; a comparison that failed counts as a tie."""
    answers = {}
    for row in tx.all("family", story=team):
        request = row_records.request(row)
        if request.kind is TaskKind.COMPARISON and request.compares is not None:
            pair = (request.compares.first, request.compares.second)
            if row["state"] == State.DONE:
                answers[pair] = Preference(row["result"])
            elif row["state"] in (State.FAILED, State.CANCELLED):
                answers[pair] = Preference.EQUAL
    return answers


class EntrantView(Struct, frozen=True, kw_only=True):
    number: int
    task: int
    name: str
    agent: str
    state: str
    result: str  # open, green, failed, conflict, gate_red, task_red
    report: str  # why it is out
    lines: int  # of its diff; 0 if it is not green
    tests: tuple[str, ...]  # test files that it added
    attempts: int
    seconds: float  # of ended attempts
    tokens: int
    micro_usd: int
    commit: str  # its candidate; '': none
    base: str


class StepView(Struct, frozen=True, kw_only=True):
    """A step of the choice: the entrants left after it, and why others are out."""

    step: str
    left: tuple[int, ...]
    out: Mapping[str, str]


class TeamView(Struct, frozen=True, kw_only=True):
    task: int
    state: str  # waiting, open, decided, undecided, ended
    strategy: str
    size: int
    winner: int | None  # number of the entrant
    entrants: tuple[EntrantView, ...]
    steps: tuple[StepView, ...]


@reads
def find_team(tx: Transaction, task: int) -> TeamView | None:
    """Return the team of a task; None if it has none."""
    team, row = tx.one("team", task=task), tx.one("task", id=task)
    if team is None or row is None:
        return None
    request = row_records.request(row).team
    assert request is not None
    entrants = tuple(_entrant(tx, int(each["task"])) for each in tx.all("entrants_of", team=task))
    winner = [entrant.number for entrant in entrants if entrant.task == team["winner"]]
    return TeamView(
        task=task,
        state=team["state"],
        strategy=request.strategy,
        size=len(request.pipelines),
        winner=winner[0] if winner else None,
        entrants=entrants,
        steps=tuple(_list_steps(tx, task)),
    )


def _entrant(tx: Transaction, task: int) -> EntrantView:
    row, entrant = tx.one("task", id=task), tx.one("entrant", task=task)
    assert row is not None
    assert entrant is not None
    attempts = [row_records.attempt(attempt) for attempt in tx.all("attempts_of", task=task)]
    made = [attempt for attempt in attempts if attempt.candidate and attempt.base]
    return EntrantView(
        number=entrant["number"],
        task=task,
        name=row["name"],
        agent=row["agent"] or "",
        state=row["state"],
        result=entrant["result"],
        report=entrant["report"],
        lines=entrant["lines"],
        tests=tuple(json.loads(entrant["tests"])),
        attempts=len(attempts),
        seconds=sum(attempt.ended - attempt.started for attempt in attempts if attempt.ended),
        tokens=sum(attempt.tokens for attempt in attempts),
        micro_usd=sum(attempt.micro_usd for attempt in attempts),
        commit=made[-1].candidate or "" if made else "",
        base=made[-1].base or "" if made else "",
    )


def _list_steps(tx: Transaction, task: int) -> list[StepView]:
    events = [row_records.event(row) for row in tx.all("milestones_of_task", task=task)]
    return [
        StepView(step=event.data["step"], left=tuple(event.data["left"]), out=event.data["out"])
        for event in events
        if event.kind == "team_step"
    ]
