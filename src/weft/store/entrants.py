"""Entrants: the rows of a team, from its submission to the start of its entrants.

Entrants are tasks below the task of their team, as subtasks are below a story. The team's task
holds the claims and, by a lease of its own, a place among the teams of its run and the dollars of
all entrants.
"""

from __future__ import annotations

from msgspec.structs import replace

from weft.admission import capacity
from weft.errors import NotFound
from weft.formats import count
from weft.model import TERMINAL, Demand, Stage, State, TaskKind, TaskRequest, TeamRequest
from weft.store import ready, row_records
from weft.store.database import Row, Transaction, encode
from weft.store.entries import set_stage
from weft.store.ledger import Ledger, NewLease, write_lease
from weft.store.row_records import get_task_row
from weft.store.team_rows import dollars_of, join_team, members_of, team_demand
from weft.teams.choice import CandidateResult


def add_team(tx: Transaction, task: Row, *, now: float) -> None:
    """Add the team of a new task, with its limits and its first entrant.

    A task that the plan holds back gets its first entrant when a person lets it go on.
    """
    request = row_records.request(task)
    held = bool(request.held)
    state = "undecided" if held else "waiting"
    tx.run("add_team", task=task["id"], run=task["run"], state=state)
    if not held:
        _set_limits(tx, task, request)
        add_entrant(tx, task, 0, is_first=True, now=now)


def _set_limits(tx: Transaction, task: Row, request: TaskRequest) -> None:
    """Set the limits of a team; its dollars are those of this round, beyond the spent ones."""
    team = team_of(request)
    owner = f"run:{task['run']}"
    limits = {row["resource"]: int(row["capacity"]) for row in tx.all("limits")}
    if "team/members" in limits:
        members = limits["team/members"]
        tx.run("set_limit", resource=members_of(task["id"]), capacity=members, owner=owner)
    if team.micro_usd:
        resource = dollars_of(task["id"])
        dollars = tx.value("spent_total", resource=resource) + team.micro_usd
        tx.run("set_limit", resource=resource, capacity=dollars, owner=owner)


def team_of(request: TaskRequest) -> TeamRequest:
    assert request.team is not None, "the task has a team"
    return request.team


def add_entrant(
    tx: Transaction,
    task: Row,
    pipeline: int,
    *,
    is_first: bool = False,
    is_last: bool = False,
    now: float,
) -> int:
    """Add an entrant with the stages of this number; return its task.

    The first entrant also asks for the place and the dollars of its team.
    """
    request = row_records.request(task)
    team = team_of(request)
    stages = tuple(join_team(stage, task["id"], task["run"]) for stage in team.pipelines[pipeline])
    extra = team_demand(task["run"], team.micro_usd) if is_first else {}
    number = len(tx.all("entrants_of", team=task["id"])) + 1
    entrant = replace(
        request, kind=TaskKind.ENTRANT, stages=stages, review=False, team=None, held=""
    )
    needs = [n["id"] for n in tx.all("needs_of", task=task["id"]) if n["story"] != task["id"]]
    id = add_below(
        tx,
        task,
        f"{task['name']}/{number}",
        entrant,
        replace(stages[0], demand=capacity.add(stages[0].demand, extra)),
        files=task["files"],
        now=now,
    )
    tx.run("set_gang", id=id, gang=task["gang"] if is_first else None)
    tx.run("set_gang", id=task["id"], gang=None)
    tx.many("add_edge", [{"task": id, "needs": need} for need in needs])
    round = get_team(tx, task["id"])["round"]
    tx.run("add_entrant", task=id, team=task["id"], number=number, round=round, last=is_last)
    if not is_first:
        agent = stages[0].agent
        tx.event("entrant_added", task, now=now, entrant=number, agent=agent, entrant_task=id)
        ready.settle(tx, [id], now=now)
    return id


def add_below(
    tx: Transaction,
    task: Row,
    name: str,
    request: TaskRequest,
    stage: Stage,
    *,
    files: str,
    now: float,
    text: str | None = None,
) -> int:
    """Add a task below the task of a team, which needs it."""
    id: int = tx.value("last_task") + 1
    kept = ("run", "repo", "tenant", "priority", "class", "path_seconds", "submitted", "created_by")
    tx.run(
        "add_task",
        id=id,
        name=name,
        text=task["text"] if text is None else text,
        request=row_records.request_text(request),
        attached=encode({}),
        now=now,
        agent=stage.agent,
        stage=stage.name,
        demand=encode(dict(stage.demand)),
        files=files,
        story=task["id"],
        gang=None,
        pinned=None,
        pin_until=None,
        **{column: task[column] for column in kept},
    )
    tx.run("add_edge", task=task["id"], needs=id)
    return id


def open_team(tx: Transaction, ledger: Ledger, entrant: Row, *, now: float) -> Demand:
    """Open the team of a first entrant that is being admitted: lease the team's own demand.

    Return the rest of the entrant's demand. Its claims and the other entrants follow in
    `fill_team`.
    """
    task = get_task_row(tx, entrant["story"])
    team = team_of(row_records.request(task))
    own = team_demand(task["run"], team.micro_usd)
    rest = {name: n for name, n in row_records.demand(entrant["demand"]).items() if name not in own}
    lease = NewLease(
        fence=ledger.next_fence(), kind="team", holder=str(task["id"]), granted=now, deadline=None
    )
    write_lease(tx, lease, encode(dict(own)))
    set_stage(tx, entrant["id"], Stage(name=entrant["stage"], agent=entrant["agent"], demand=rest))
    tx.run("set_team_state", task=task["id"], state="open", winner=None)
    entrants = len(team.pipelines)
    tx.event(
        "team_opened",
        task,
        now=now,
        fence=lease.fence,
        strategy=team.strategy,
        entrants=entrants,
        micro_usd=team.micro_usd,
    )
    return rest


def fill_team(tx: Transaction, task: int, *, now: float) -> None:
    """Add the other entrants of a team that start at once; its task holds the claims by now."""
    row = get_task_row(tx, task)
    team = team_of(row_records.request(row))
    for pipeline in range(1, len(team.pipelines)) if team.at_once else ():
        add_entrant(tx, row, pipeline, now=now)
    describe_team(tx, row, now=now)


def describe_team(tx: Transaction, task: Row, *, now: float) -> None:
    """Say in the reason of a team's task how far its entrants are."""
    rows = tx.all("entrants_of", team=task["id"])
    at_work = sum(row["result"] == CandidateResult.OPEN for row in rows)
    green = sum(row["result"] == CandidateResult.GREEN for row in rows)
    reason = f"{count(at_work, 'entrant')} at work, {green} green" if at_work else "choosing"
    tx.run("set_reason", id=task["id"], reason=reason, now=now)


def start_again(tx: Transaction, task: Row, *, now: float) -> bool:
    """Start a new round of a team that a person lets go on; return False if it needs none."""
    team = tx.one("team", task=task["id"])
    if team is None or team["state"] in ("waiting", "open"):
        return False
    winner = None if team["winner"] is None else tx.one("task", id=team["winner"])
    if winner is not None and winner["state"] not in TERMINAL:
        return False  # the winner is at work
    ready.leave(tx, task, State.WAITING, now=now)
    tx.run("start_round", task=task["id"])
    _set_limits(tx, task, row_records.request(task))
    entrant = add_entrant(tx, task, 0, is_first=True, now=now)
    tx.run("drop_lost_needs", team=task["id"])
    ready.settle(tx, [entrant], now=now)
    return True


def list_members(tx: Transaction, task: int) -> list[int]:
    """List the entrants and comparisons of a task's team; none if it has no team."""
    if tx.one("team", task=task) is None:
        return []
    return [int(row["id"]) for row in tx.all("family", story=task) if row["id"] != task]


def count_in_round(tx: Transaction, task: Row) -> int:
    """Return how many entrants the present round of a team has."""
    round = get_team(tx, task["id"])["round"]
    return sum(row["round"] == round for row in tx.all("entrants_of", team=task["id"]))


def get_team(tx: Transaction, task: int) -> Row:
    team = tx.one("team", task=task)
    if team is None:
        raise NotFound(f"Task {task} has no team.")
    return team


def find_entrant(tx: Transaction, team: int, number: int) -> int:
    for row in tx.all("entrants_of", team=team):
        if row["number"] == number:
            return int(row["task"])
    label = row_records.label(get_task_row(tx, team))
    cure = f"`weft review {label} --compare` lists them"
    raise NotFound(f"Task {label} has no entrant {number}; {cure}.")
