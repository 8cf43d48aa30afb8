"""Dollars and tokens: reserved before, followed during, settled after."""

from __future__ import annotations

import time
from collections.abc import Sequence

from attempt.attempt_project import AttemptProject
from databases import look
from wait_until import wait_until
from weft.admission.capacity import attempt_demand
from weft.config import RunSettings
from weft.model import NewRun, NewTask, State, TaskRequest
from weft.project.own_repository import get_repository
from weft.project.site import read_agent_file
from weft.store.leases import list_open
from weft.store.runs import submit_run
from weft.store.tasks import cancel

USD = "run:r/usd"
CAP = 1_000_000


def run_of(project: AttemptProject, tasks: Sequence[tuple[int, str]]) -> list[int]:
    """A run with one dollar, its tasks given as what each reserves and its script."""
    new = [
        NewTask(
            name=f"n{number}",
            text="\n".join(f"script: {line}" for line in script.split("; ")),
            files=(f"f{number}",),
            demand={
                **attempt_demand(run="r", stage="implement", agent="scripted", provider=None),
                USD: reserved,
            },
            agent="scripted",
            stage="implement",
        )
        for number, (reserved, script) in enumerate(tasks)
    ]
    limits = {"usd": CAP, "agents": 4, "implement": 4}
    run = NewRun(id="r", repo=get_repository(project.root, project.store), limits=limits)
    settings = RunSettings(agents={"scripted": read_agent_file(project.root, "scripted")})
    numbers = submit_run(project.store, run, new, settings=settings, now=time.time())
    return list(numbers.values())


def spent(project: AttemptProject) -> list[int]:
    return [
        row["amount"] for row in look(project.url, "SELECT amount FROM spending ORDER BY fence")
    ]


def test_more_is_reserved_while_there_is_more_and_what_was_used_is_settled(
    either: AttemptProject,
) -> None:
    first, second = run_of(
        either,
        [
            (400_000, "use 1 1 0.3; sleep 0.3; use 1 1 0.3; sleep 0.5; write f0 x"),
            (700_000, "write f1 x"),
        ],
    )
    either.serve(lambda: either.state(first) is State.GATING)
    assert spent(either) == [600_000]
    assert either.attempts(first)[0].micro_usd == 600_000
    # What is left does not do for the other: it is not admitted at all.
    assert (either.state(second), either.attempts(second)) == (State.READY, [])


def test_an_agent_is_stopped_at_its_reservation_when_there_is_no_more(
    project: AttemptProject,
) -> None:
    first, second = run_of(
        project,
        [
            (500_000, "say on; use 1 1 0.7; write f0 half; hang"),
            (500_000, "say on; sleep 60"),
        ],
    )
    project.serve(lambda: project.state(first) is State.BLOCKED)
    assert "budget of dollars" in project.task(first).reason
    assert spent(project)[0] == 700_000
    assert project.attempts(first)[0].candidate is not None
    assert project.state(second) is State.READY


def test_a_stated_budget_is_not_raised_although_the_run_has_more(project: AttemptProject) -> None:
    project.agent(front="budget: 0.01\n")
    [task] = run_of(project, [(10_000, "say on; use 1 1 0.22; say still on; hang")])
    project.serve(lambda: project.state(task) is State.BLOCKED)
    assert "budget of dollars" in project.task(task).reason
    assert spent(project) == [220_000]


def test_a_task_does_not_raise_the_budget_of_its_agent_file(project: AttemptProject) -> None:
    project.agent(front="budget: 0.01\n")
    task = project.submit("use 1 1 0.22", "hang", request=TaskRequest(budget=100 * CAP))
    project.serve(lambda: project.state(task) is State.BLOCKED)
    assert "budget of dollars" in project.task(task).reason


def test_who_tells_only_at_the_end_may_overshoot_and_that_is_settled(
    project: AttemptProject,
) -> None:
    first, second = run_of(project, [(900_000, "write f0 x; use 1 1 2.5"), (200_000, "write f1 x")])
    project.serve(lambda: project.state(first) is State.GATING)
    assert spent(project) == [2_500_000]
    project.serve(lambda: True)
    assert project.attempts(second) == []


def test_a_cancelled_attempt_has_spent_what_it_said_and_no_more(either: AttemptProject) -> None:
    [task] = run_of(either, [(500_000, "use 1 1 0.2; say ready; hang")])

    def until() -> bool:
        if either.said(task) == ["ready"]:
            cancel(either.store, task, now=time.time())
        return all(one.kind == "run" for one in list_open(either.store)) and bool(spent(either))

    either.serve(until)
    assert spent(either) == [200_000]
    assert either.state(task) is State.CANCELLED


def test_a_budget_of_tokens_stops_an_agent(project: AttemptProject) -> None:
    project.agent(front="budget: {tokens: 100}\n")
    task = project.submit("use 60 30", "say fine", "use 20 0", "write a half", "hang")
    project.serve()
    assert project.state(task) is State.BLOCKED
    assert "budget of tokens" in project.task(task).reason
    assert project.attempts(task)[0].tokens == 110


def test_tokens_cost_what_the_agent_file_says(project: AttemptProject) -> None:
    project.agent(front="budget: 1.00\nprices: {input: 1.00, output: 10.00}\n")
    task = project.submit("use 1000 100", "write a new")
    dear = project.submit("use 1000000 1", "hang", files=["dir/b"])
    project.serve()
    assert project.attempts(task)[0].micro_usd == 2_000
    assert project.state(dear) is State.BLOCKED
    assert "budget of dollars" in project.task(dear).reason


def test_a_session_that_goes_on_twice_pays_for_each_part_once(project: AttemptProject) -> None:
    project.agent(front="prices: {input: 1.00, output: 1.00}\n")
    task = project.submit(
        "use 100 0", "limit for 0.1", "use 30 20", "limit for 0.1", "use 1 0", "write a new"
    )
    project.serve()
    assert [one.tokens for one in project.attempts(task)] == [100, 50, 1]
    assert [one.micro_usd for one in project.attempts(task)] == [100, 50, 1]
    wait_until(lambda: project.state(task) is State.DONE)
