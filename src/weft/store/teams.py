"""Teams: from the results of entrants to the winner.

After each result `decide` asks `weft.teams.choice` for the next action and does it, in the
transaction that records the result; so a crash loses no result and no action is done twice. A team
that has a winner is an ordinary story with a single subtask.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from weft.admission import capacity
from weft.errors import Refused
from weft.model import TERMINAL, CandidatePair, State, TaskKind
from weft.store import ready, row_records
from weft.store.claims import family, give_up
from weft.store.database import Row, Transaction, encode_keys
from weft.store.entrants import (
    add_below,
    add_entrant,
    count_in_round,
    describe_team,
    find_entrant,
    get_task_row,
    get_team,
    team_of,
)
from weft.store.entries import enter, set_stage
from weft.store.lease_rows import end_lease, settle_spending
from weft.store.task_end import end_task
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
