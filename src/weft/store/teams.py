"""Teams: from the results of entrants to the winner.

After each result `decide` asks `weft.teams.choice` for the next action and does it, in the
transaction that records the result; so a crash loses no result and no action is done twice. A team
that has a winner is an ordinary story with a single subtask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.admission import capacity
from weft.errors import AlreadyEnded, Refused
from weft.model import TERMINAL, CandidatePair, State, TaskKind
from weft.store import ready, row_records
from weft.store.claims import Claims, claim_for_story, family, give_up
from weft.store.database import Row, Transaction, encode_keys
from weft.store.entrants import (
    add_below,
    add_entrant,
    count_in_round,
    describe_team,
    find_entrant,
    get_team,
    team_of,
)
from weft.store.entries import enter, set_stage
from weft.store.ledger import end_lease, settle_spending
from weft.store.ready import end_task
from weft.store.row_records import get_task_row
from weft.store.store import reads, writes
from weft.store.team_rows import dollars_of, is_open_team, leave_team, read_results
from weft.teams.choice import CandidateResult, ChoiceStep, Pair, TeamDecision, choose


def decide(tx: Transaction, task: int, *, now: float) -> None:
    """Do the next action of a team after a result: start, compare, choose or give up."""
    team = tx.one("team", task=task)
    if team is None:
        return
    if team["state"] != "open":
        close_team(tx, team, now=now)
        return
    row = get_task_row(tx, task)
    decision = find_decision(tx, team, row)
    if decision.winner is not None:
        conclude(tx, row, find_entrant(tx, task, decision.winner), decision.steps, now=now)
    elif decision.gives_up:
        _give_up(tx, row, decision, now=now)
    else:
        _go_on(tx, row, decision, now=now)


def find_decision(tx: Transaction, team: Row, task: Row) -> TeamDecision:
    """Return the next action of a team, from the rows alone."""
    return choose(read_results(tx, team, task, has_gate=_has_gate(tx, team["run"])))


def _go_on(tx: Transaction, task: Row, decision: TeamDecision, *, now: float) -> None:
    rows = tx.all("entrants_of", team=task["id"])
    if decision.starts:
        add_entrant(tx, task, count_in_round(tx, task), now=now)
    elif decision.tries_again:
        failures = "\n\n".join(f"Entrant {row['number']}: {row['report']}" for row in rows)
        last = add_entrant(tx, task, 0, is_last=True, now=now)
        tx.event("entrants_failed", get_task_row(tx, last), now=now, reason=failures)
    elif decision.comparisons:
        _add_comparisons(tx, task, decision.comparisons, now=now)
    elif decision.tests:
        tx.wake()  # the gate runs them
    describe_team(tx, task, now=now)
    _drop_unaffordable(tx, task, now=now)


def _drop_unaffordable(tx: Transaction, task: Row, *, now: float) -> None:
    """Fail the entrants that wait for dollars which the team has spent: they would never start."""
    if tx.one("open_lease_in_team", team=task["id"]) is not None:
        return  # an attempt may end with less than it reserved
    resource = dollars_of(task["id"])
    limits = {row["resource"]: int(row["capacity"]) for row in tx.all("limits")}
    left = limits.get(resource, capacity.MOST) - tx.value("spent_total", resource=resource)
    for row in family(tx, task["id"]):
        waits = row["state"] in (State.READY, State.PARKED) and row["id"] != task["id"]
        if waits and row_records.demand(row["demand"]).get(resource, 0) > left:
            fail_entrant(
                tx, row, CandidateResult.FAILED, "the dollars of its team are spent", now=now
            )
            return  # the decision that follows looks at the others


def _add_comparisons(tx: Transaction, task: Row, pairs: Sequence[Pair], *, now: float) -> None:
    judge = team_of(row_records.request(task)).judge
    assert judge is not None
    known = {row["name"] for row in tx.all("family", story=task["id"])}
    for first, second in pairs:
        name = f"{task['name']}/judge-{first}-{second}"
        if name in known:
            continue
        works = [get_work(tx, find_entrant(tx, task["id"], number)) for number in (first, second)]
        compares = CandidatePair(
            team=task["id"],
            first=first,
            second=second,
            commits=(works[0][0], works[1][0]),
            bases=(works[0][1], works[1][1]),
        )
        request = replace(
            row_records.request(task),
            kind=TaskKind.COMPARISON,
            check="",
            stages=(judge,),
            review=False,
            team=None,
            compares=compares,
        )
        id = add_below(tx, task, name, request, judge, files=encode_keys(()), now=now)
        ready.settle(tx, [id], now=now)


def get_work(tx: Transaction, entrant: int) -> tuple[str, str]:
    """Return the candidate of an entrant and its base."""
    row = get_task_row(tx, entrant)
    attempt = tx.one("attempt", task=entrant, number=row["attempt"])
    if attempt is None or not attempt["candidate"] or not attempt["base"]:
        raise Refused(f"Entrant {row['name']} has left no candidate.")
    return attempt["candidate"], attempt["base"]


def fail_entrant(
    tx: Transaction, row: Row, result: CandidateResult, reason: str, *, now: float
) -> None:
    """End an entrant that is out, and let its team go on."""
    ready.leave(tx, row, State.FAILED, now=now, reason=reason)
    give_up(tx, row)
    record_failure(tx, row, result, reason, now=now)


def record_failure(
    tx: Transaction, row: Row, result: CandidateResult, reason: str, *, now: float
) -> None:
    """Record why an entrant is out, and let its team go on; a comparison that failed is a tie."""
    tx.run("set_entrant_result", task=row["id"], result=result, report=tx.redact(reason))
    entrant = tx.one("entrant", task=row["id"])
    if entrant is not None:
        task, number = get_task_row(tx, row["story"]), entrant["number"]
        tx.event("entrant_failed", task, now=now, entrant=number, result=result, reason=reason)
    decide(tx, row["story"], now=now)
    if is_open_team(tx, row["story"]):
        tx.run("drop_lost_needs", team=row["story"])


def record_green(
    tx: Transaction,
    row: Row,
    entry: Row,
    tree: str,
    lines: int,
    tests: Sequence[str],
    *,
    now: float,
) -> None:
    """Record that the candidate of an entrant passed its checks, and let its team go on."""
    tx.run(
        "set_entrant_green",
        task=row["id"],
        arrival=entry["number"],
        tree=tree,
        lines=lines,
        tests=encode_keys(tests),
    )
    tx.run("set_reason", id=row["id"], reason="passed, waits for the choice", now=now)
    entrant = tx.one("entrant", task=row["id"])
    assert entrant is not None
    task, number, id = get_task_row(tx, row["story"]), entrant["number"], entry["id"]
    tx.event("entrant_passed", task, now=now, entrant=number, lines=lines, entry=id)
    decide(tx, row["story"], now=now)


def conclude(
    tx: Transaction, task: Row, winner: int, steps: Sequence[ChoiceStep], *, now: float
) -> None:
    """Choose an entrant: stop the rest, and let the candidate ask to land as a story's would."""
    chosen = tx.one("entrant", task=winner)
    assert chosen is not None
    reason = f"entrant {chosen['number']} was chosen"
    for row in family(tx, task["id"]):
        if row["id"] not in (task["id"], winner) and row["state"] not in TERMINAL:
            end_task(tx, row, State.CANCELLED, now=now, reason=reason)
    tx.run("set_team_state", task=task["id"], state="decided", winner=winner)
    _log_steps(tx, task, steps, now=now)
    agent = get_task_row(tx, winner)["agent"]
    tx.event("team_decided", task, now=now, entrant=chosen["number"], agent=agent)
    tx.run("drop_lost_needs", team=task["id"])
    _make_ordinary(tx, get_task_row(tx, winner), task)
    tx.run("set_reason", id=task["id"], reason=reason, now=now)
    enter(tx, get_task_row(tx, winner), now=now)
    close_team(tx, get_team(tx, task["id"]), now=now)


def _make_ordinary(tx: Transaction, winner: Row, task: Row) -> None:
    """Give the winner the demand of an ordinary task, for a candidate that has to be made again."""
    request = row_records.request(winner)
    stages = tuple(leave_team(stage, task["id"], task["run"]) for stage in request.stages)
    tx.run(
        "set_request",
        id=winner["id"],
        request=row_records.request_text(replace(request, stages=stages)),
    )
    present = next((stage for stage in stages if stage.name == winner["stage"]), None)
    if present is not None:
        set_stage(tx, winner["id"], present)


def _log_steps(tx: Transaction, task: Row, steps: Sequence[ChoiceStep], *, now: float) -> None:
    for step in steps:
        out = {str(number): reason for number, reason in step.out.items()}
        tx.event("team_step", task, now=now, step=step.name, left=list(step.left), out=out)


def _give_up(tx: Transaction, task: Row, decision: TeamDecision, *, now: float) -> None:
    """Block the task of a team without a green candidate: a person compares."""
    name = row_records.label(task)
    entrants = len(tx.all("entrants_of", team=task["id"]))
    reason = (
        f"none of its {entrants} entrants passed; `weft review {name} --compare` shows them, "
        f"`weft review {name} --choose N` takes one"
    )
    tx.run("set_team_state", task=task["id"], state="undecided", winner=None)
    _log_steps(tx, task, decision.steps, now=now)
    ready.leave(tx, task, State.BLOCKED, now=now, reason=reason)
    give_up(tx, task)
    tx.event("task_blocked", task, now=now, reason=reason)
    close_team(tx, get_team(tx, task["id"]), now=now)


def close_team(tx: Transaction, team: Row, *, now: float) -> None:
    """End the lease of a team that is decided or ended and has no process left.

    Its spending is the sum of its entrants'.
    """
    task = team["task"]
    if tx.one("open_lease_in_team", team=task) is not None:
        return
    for lease in tx.all("open_leases_held_by", kind="team", holder=str(task)):
        end_lease(tx, lease, team["state"], now=now)
        budget = f"run:{team['run']}/usd"
        spent = tx.value("spent_total", resource=dollars_of(task))
        before = tx.value("spent_by_team", resource=budget, holder=str(task))
        reserved = {row["resource"] for row in tx.all("costs_of", fence=lease["fence"])}
        settle_spending(tx, lease, {budget: spent - before} if budget in reserved else {})


def end_team(tx: Transaction, task: Row, *, now: float) -> None:
    """End the entrants of a task that has ended without a winner."""
    team = tx.one("team", task=task["id"])
    if team is None:
        return
    tx.run("set_team_state", task=task["id"], state="ended", winner=team["winner"])
    for row in tx.all("family", story=task["id"]):
        if row["id"] != task["id"] and row["state"] not in TERMINAL:
            end_task(tx, row, State.CANCELLED, now=now, reason="the task of its team has ended")
    close_team(tx, get_team(tx, task["id"]), now=now)


def refuse_winner(tx: Transaction, row: Row) -> None:
    """Refuse to cancel the winner of a team without its task, which would wait for ever."""
    team = None if row["story"] is None else tx.one("team", task=row["story"])
    if team is not None and team["winner"] == row["id"] and team["state"] == "decided":
        task = row_records.label(get_task_row(tx, row["story"]))
        raise Refused(f"{row_records.label(row)} was chosen for task {task}; cancel that instead.")


def refuse_entrant(tx: Transaction, row: Row, verb: str) -> None:
    """Refuse a verb that concerns the task of a team, not an entrant; a winner is an ordinary
    task."""
    team = None if row["story"] is None else tx.one("team", task=row["story"])
    if team is not None and team["winner"] != row["id"]:
        task = row_records.label(get_task_row(tx, row["story"]))
        raise Refused(
            f"{row_records.label(row)} works for the team of task {task}; "
            f"`weft {verb} {task}` does it for the task."
        )


def _has_gate(tx: Transaction, run: str) -> bool:
    row = tx.one("current_settings", run=run)
    return row is not None and row_records.run_settings(row).gate.run is not None


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
