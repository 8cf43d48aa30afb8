"""The decision of a loop: start the dispatcher again, wait, or end."""

from __future__ import annotations

from collections.abc import Sequence

from cases import each_case
from weft.model import Class, Hop, Priority, Stage, State, Task, TaskRequest
from weft.operations.agent_loop import LoopState, LoopView, decide, next_task

STAGE = Stage(name="implement", agent="dispatch", demand={"requests": 1})


def task(number: int, state: State, agent: str = "develop", since: float = 0.0) -> Task:
    return Task(
        id=number,
        run="loop-1",
        name=str(number),
        repo="r",
        tenant="default",
        text="Choose the next piece of work\n\nUnder way: old",
        request=TaskRequest(stages=(STAGE,)),
        attached={},
        state=state,
        since=since,
        reason="",
        until=None,
        klass=Class.STANDARD,
        priority=Priority.NORMAL,
        agent=agent,
        stage="implement",
        demand={},
        files=(),
        path_seconds=0.0,
        submitted=0.0,
        story=None,
        gang=None,
        pinned=None,
        offered_to=None,
        result="",
    )


def hop(issue: str = "a", tree: str = "t") -> Hop:
    return Hop(
        number=1,
        attempt=1,
        giver="dispatch",
        agent="develop",
        note="",
        args={"issue": issue},
        tree=tree,
        candidate=None,
        base=None,
        counts=True,
        at=0.0,
    )


def view(tasks: Sequence[Task], hops: dict[int, str]) -> LoopView:
    made = {number: [hop(issue)] for number, issue in hops.items()}
    return LoopView(tasks=tuple(tasks), hops=made, dispatcher="dispatch")


RUNNING, DONE, BLOCKED, PARKED = State.RUNNING, State.DONE, State.BLOCKED, State.PARKED
SKIPPED = State.SKIPPED
CASES = {
    "the dispatcher is at work": ([task(1, RUNNING, "dispatch")], {}, LoopState.WORKS),
    "its task was handed over": ([task(1, RUNNING)], {1: "a"}, LoopState.NEXT),
    "too much is under way": (
        [task(1, RUNNING), task(2, RUNNING)],
        {1: "a", 2: "b"},
        LoopState.WORKS,
    ),
    "it found nothing, and nothing is open": ([task(1, DONE, "dispatch")], {}, LoopState.DONE),
    "it found nothing, and work is open": (
        [task(1, RUNNING), task(2, DONE, "dispatch", since=5.0)],
        {1: "a"},
        LoopState.WORKS,
    ),
    "work ended since it found nothing": (
        [task(1, DONE, since=9.0), task(2, DONE, "dispatch", since=5.0)],
        {1: "a"},
        LoopState.NEXT,
    ),
    "work ended before it found nothing": (
        [task(1, DONE, since=4.0), task(2, DONE, "dispatch", since=5.0)],
        {1: "a"},
        LoopState.DONE,
    ),
    "it sleeps alone": ([task(1, PARKED, "dispatch")], {}, LoopState.SLEEPS),
    "it sleeps, and work is open": (
        [task(1, RUNNING), task(2, PARKED, "dispatch")],
        {1: "a"},
        LoopState.WORKS,
    ),
    "it asks": ([task(1, BLOCKED, "dispatch")], {}, LoopState.NEEDS_YOU),
    "the rest needs a person": (
        [task(1, BLOCKED), task(2, DONE, "dispatch", since=5.0)],
        {1: "a"},
        LoopState.NEEDS_YOU,
    ),
    "it was cancelled": ([task(1, State.CANCELLED, "dispatch")], {}, LoopState.DONE),
    "the same work on the same tree comes again and again": (
        [task(number, DONE, since=number) for number in (1, 2, 3)],
        {1: "a", 2: "a", 3: "a"},
        LoopState.TURNS,
    ),
    "a person skipped its stuck task": ([task(1, SKIPPED, "dispatch")], {}, LoopState.NEXT),
    "a person skipped its stuck task and those of other agents": (
        [task(1, SKIPPED), task(2, SKIPPED, "dispatch")],
        {1: "a"},
        LoopState.NEXT,
    ),
    "a person skipped the tasks of the same work": (
        [task(number, SKIPPED, since=number) for number in (1, 2, 3)],
        {1: "a", 2: "a", 3: "a"},
        LoopState.NEXT,
    ),
}


@each_case("case", CASES)
def test_the_next_step_of_a_loop_follows_from_its_tasks(case: str) -> None:
    tasks, hops, expected = CASES[case]
    assert decide(view(tasks, hops), most=2) is expected


def test_the_next_task_names_the_work_that_is_under_way() -> None:
    made = next_task(view([task(1, RUNNING), task(2, DONE)], {1: "a.md", 2: "b.md"}))
    assert (made.name, made.agent, made.demand) == ("3", "dispatch", {"requests": 1})
    assert made.text.startswith("Choose the next piece of work\n\nUnder way already")
    assert "- task 1, develop: issue=a.md" in made.text
    assert "b.md" not in made.text
