"""Teams as people see them: the entrants with their evidence, and the steps of the choice."""

from __future__ import annotations

import json
from collections.abc import Mapping

from msgspec import Struct

from weft.store import row_records
from weft.store.database import Transaction
from weft.store.store import reads


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
