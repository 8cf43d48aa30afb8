"""Dollars and tokens: reserved before, followed during, settled after."""

from __future__ import annotations

import time
from collections.abc import Sequence

from attempt.attempt_project import Ground
from databases import look
from wait_until import wait_until
from weft.admission.capacity import attempt_demand
from weft.config import RunSettings
from weft.model import NewRun, NewTask, State, TaskRequest
from weft.project.site import read_agent_file
from weft.store.leases import list_open
from weft.store.runs import submit_run
from weft.store.tasks import cancel

USD = "run:r/usd"
CAP = 1_000_000


def run_of(ground: Ground, tasks: Sequence[tuple[int, str]]) -> list[int]:
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
    run = NewRun(id="r", repo=str(ground.root / ".git"), limits=limits)
    settings = RunSettings(agents={"scripted": read_agent_file(ground.root, "scripted")})
    numbers = submit_run(ground.store, run, new, settings=settings, now=time.time())
    return list(numbers.values())


def spent(ground: Ground) -> list[int]:
    return [row["amount"] for row in look(ground.url, "SELECT amount FROM spending ORDER BY fence")]


def test_more_is_reserved_while_there_is_more_and_what_was_used_is_settled(
    either: Ground,
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


def test_an_agent_is_stopped_at_its_reservation_when_there_is_no_more(ground: Ground) -> None:
    first, second = run_of(
        ground,
        [
            (500_000, "say on; use 1 1 0.7; write f0 half; hang"),
            (500_000, "say on; sleep 60"),
        ],
    )
    ground.serve(lambda: ground.state(first) is State.BLOCKED)
    assert "budget of dollars" in ground.task(first).reason
    assert spent(ground)[0] == 700_000
    assert ground.attempts(first)[0].candidate is not None
    assert ground.state(second) is State.READY


def test_a_stated_budget_is_not_raised_although_the_run_has_more(ground: Ground) -> None:
    ground.agent(front="budget: 0.01\n")
    [task] = run_of(ground, [(10_000, "say on; use 1 1 0.22; say still on; hang")])
    ground.serve(lambda: ground.state(task) is State.BLOCKED)
    assert "budget of dollars" in ground.task(task).reason
    assert spent(ground) == [220_000]


def test_a_task_does_not_raise_the_budget_of_its_agent_file(ground: Ground) -> None:
    ground.agent(front="budget: 0.01\n")
    task = ground.submit("use 1 1 0.22", "hang", request=TaskRequest(budget=100 * CAP))
    ground.serve(lambda: ground.state(task) is State.BLOCKED)
    assert "budget of dollars" in ground.task(task).reason


def test_who_tells_only_at_the_end_may_overshoot_and_that_is_settled(ground: Ground) -> None:
    first, second = run_of(ground, [(900_000, "write f0 x; use 1 1 2.5"), (200_000, "write f1 x")])
    ground.serve(lambda: ground.state(first) is State.GATING)
    assert spent(ground) == [2_500_000]
    ground.serve(lambda: True)
    assert ground.attempts(second) == []


def test_a_cancelled_attempt_has_spent_what_it_said_and_no_more(either: Ground) -> None:
    [task] = run_of(either, [(500_000, "use 1 1 0.2; say ready; hang")])

    def until() -> bool:
        if either.said(task) == ["ready"]:
            cancel(either.store, task, now=time.time())
        return all(one.kind == "run" for one in list_open(either.store)) and bool(spent(either))

    either.serve(until)
    assert spent(either) == [200_000]
    assert either.state(task) is State.CANCELLED


def test_a_budget_of_tokens_stops_an_agent(ground: Ground) -> None:
    ground.agent(front="budget: {tokens: 100}\n")
    task = ground.submit("use 60 30", "say fine", "use 20 0", "write a half", "hang")
    ground.serve()
    assert ground.state(task) is State.BLOCKED
    assert "budget of tokens" in ground.task(task).reason
    assert ground.attempts(task)[0].tokens == 110


def test_tokens_cost_what_the_agent_file_says(ground: Ground) -> None:
    ground.agent(front="budget: 1.00\nprices: {input: 1.00, output: 10.00}\n")
    task = ground.submit("use 1000 100", "write a new")
    dear = ground.submit("use 1000000 1", "hang", files=["dir/b"])
    ground.serve()
    assert ground.attempts(task)[0].micro_usd == 2_000
    assert ground.state(dear) is State.BLOCKED
    assert "budget of dollars" in ground.task(dear).reason


def test_a_session_that_goes_on_twice_pays_for_each_part_once(ground: Ground) -> None:
    ground.agent(front="prices: {input: 1.00, output: 1.00}\n")
    task = ground.submit(
        "use 100 0", "limit for 0.1", "use 30 20", "limit for 0.1", "use 1 0", "write a new"
    )
    ground.serve()
    assert [one.tokens for one in ground.attempts(task)] == [100, 50, 1]
    assert [one.micro_usd for one in ground.attempts(task)] == [100, 50, 1]
    wait_until(lambda: ground.state(task) is State.DONE)
