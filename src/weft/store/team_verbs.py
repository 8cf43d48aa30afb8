"""The verbs of people and workers on teams: choose an entrant, hedge a slow attempt."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from weft.errors import AlreadyEnded, Refused
from weft.model import TERMINAL, ObjectId, State
from weft.store import ready, row_records
from weft.store.claims import Claims, claim_for_story, family
from weft.store.database import Row, Transaction
from weft.store.entrants import (
    add_entrant,
    count_in_round,
    describe_team,
    find_entrant,
    get_task_row,
    team_of,
)
from weft.store.leases import require_current
from weft.store.store import reads, writes
from weft.store.team_rows import is_contending, is_open_team
from weft.store.teams import conclude, find_decision, get_work
from weft.teams.choice import ChoiceStep, Pair

_FEWEST: Final = 10  # successes that a percentile is taken of


@writes
def choose_entrant(tx: Transaction, task: int, number: int, *, now: float) -> None:
    """Choose an entrant of a team for a person: its candidate asks to land.

    Refuse a team that has its winner, an entrant without a candidate, and files that another task
    holds by now.
    """
    row = get_task_row(tx, task)
    name = row_records.label(row)
    team = tx.one("team", task=task)
    if team is None:
        raise Refused(f"Task {name} has no team; there is nothing to choose.")
    if State(row["state"]) in TERMINAL:
        raise AlreadyEnded(f"Task {name} is {row['state']} already.")
    if team["state"] == "decided":
        raise Refused(f"The team of task {name} has its winner already.")
    winner = find_entrant(tx, task, number)
    get_work(tx, winner)
    entrant = get_task_row(tx, winner)
    kin = [relative["id"] for relative in family(tx, task)]
    files = {*row_records.files(row["files"]), *row_records.files(entrant["files"])}
    for pattern, holder in Claims(tx).held(row["repo"], files, own=kin).items():
        raise Refused(f"{pattern} is held by task {holder}; choose again when that has landed.")
    if entrant["state"] not in (State.GATING, State.FAILED):
        raise Refused(f"Entrant {number} is {entrant['state']}; it has no candidate to land.")
    tx.run("set_team_state", task=task, state="open", winner=None)
    if row["state"] == State.BLOCKED:
        ready.leave(tx, row, State.WAITING, now=now)
    if entrant["state"] == State.FAILED:
        tx.event("task_reopened", entrant, now=now, was=entrant["state"])
        ready.leave(tx, entrant, State.GATING, now=now)
    claim_for_story(tx, row["repo"], task)
    step = ChoiceStep(name="person", left=(number,))
    conclude(tx, get_task_row(tx, task), winner, [step], now=now)


class WantedTests(Struct, frozen=True, kw_only=True):
    """The new tests of a candidate, to be run on another candidate of the team."""

    candidate: str  # entries
    author: str
    base: str  # of the candidate
    tree: str  # of the candidate
    commit: str  # of the author
    paths: tuple[str, ...]


@reads
def list_wanted_tests(tx: Transaction, run: str) -> list[WantedTests]:
    """List the tests that the choices of a run's teams wait for."""
    wanted: list[WantedTests] = []
    for team in tx.all("open_teams"):
        if team["run"] == run:
            row = get_task_row(tx, team["task"])
            wanted += [_wanted(tx, row["id"], pair) for pair in find_decision(tx, team, row).tests]
    return wanted


def _wanted(tx: Transaction, team: int, pair: Pair) -> WantedTests:
    candidate, author = (get_task_row(tx, find_entrant(tx, team, number)) for number in pair)
    result, tests = (tx.one("entrant", task=row["id"]) for row in (candidate, author))
    assert result is not None
    assert tests is not None
    return WantedTests(
        candidate=candidate["entry"],
        author=author["entry"],
        base=get_work(tx, candidate["id"])[1],
        tree=result["tree"],
        commit=get_work(tx, author["id"])[0],
        paths=row_records.files(tests["tests"]),
    )


@reads
def list_slow_hedges(tx: Transaction, *, now: float) -> list[int]:
    """List the tasks of hedges whose attempt is slower than nine of ten attempts like it."""
    rows = [get_task_row(tx, team["task"]) for team in tx.all("open_teams")]
    return [int(row["id"]) for row in rows if _is_slow(tx, row, now=now)]


@writes
def hedge(tx: Transaction, task: int, *, now: float) -> bool:
    """Start another entrant of a hedge that is slow; return False if it no longer is."""
    row = get_task_row(tx, task)
    if not is_open_team(tx, task) or not _is_slow(tx, row, now=now):
        return False
    tx.event("team_hedged", row, now=now, reason="slower than 9 of 10 attempts like it")
    add_entrant(tx, row, count_in_round(tx, row), now=now)
    describe_team(tx, row, now=now)
    return True


def _is_slow(tx: Transaction, task: Row, *, now: float) -> bool:
    team = team_of(row_records.request(task))
    if team.at_once or count_in_round(tx, task) >= len(team.pipelines):
        return False
    for row in family(tx, task["id"]):
        if row["id"] == task["id"] or row["state"] != State.RUNNING:
            continue
        alike = tx.all(
            "durations_alike", agent=row["agent"] or "", stage=row["stage"] or "", most=100
        )
        attempt = tx.one("attempt", task=row["id"], number=row["attempt"])
        seconds = sorted(float(each["seconds"]) for each in alike)
        if attempt is None or len(seconds) < _FEWEST:
            continue
        if now - attempt["started"] > seconds[int(0.9 * len(seconds))]:
            return True
    return False


@writes
def fix_team_base(tx: Transaction, fence: int, base: ObjectId) -> ObjectId:
    """Let all entrants of a team start from the same commit; return the commit of the first."""
    _, task = require_current(tx, fence)
    if not is_contending(tx, task):
        return base
    tx.run("fix_team_base", task=task["story"], base=base)
    team = tx.one("team", task=task["story"])
    return base if team is None else str(team["base"])
