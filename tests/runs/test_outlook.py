"""Who holds up whom, how long it may still take, and what could not have been beaten."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from weft.model import HUMAN, Attempt, Class, Priority, Stage, State, Task, TaskKind, TaskRequest
from weft.runs.duration_estimates import DurationEstimates
from weft.runs.outlook import list_holdups, predict_rest
from weft.runs.run_figures import find_bounds


def task(number: int, state: State = State.WAITING, **changes: object) -> Task:
    facts: dict[str, object] = {
        "id": number,
        "run": "r",
        "name": f"t{number}",
        "repo": "/r",
        "tenant": "",
        "text": "",
        "request": TaskRequest(),
        "attached": {},
        "state": state,
        "since": 0.0,
        "reason": "",
        "until": None,
        "klass": Class.STANDARD,
        "priority": Priority.NORMAL,
        "agent": "a",
        "stage": "implement",
        "demand": {},
        "files": (),
        "path_seconds": 0.0,
        "submitted": 0.0,
        "story": None,
        "gang": None,
        "pinned": None,
        "offered_to": None,
        "result": "",
    }
    return Task(**{**facts, **changes})  # type: ignore[arg-type]  # every field is there


def attempt(number: int, started: float, ended: float | None, outcome: str = "success") -> Attempt:
    return Attempt(
        task=number,
        number=1,
        fence=number,
        worker="w",
        agent="a",
        stage="implement",
        started=started,
        ended=ended,
        outcome=outcome if ended is not None else None,
        candidate=None,
        base=None,
        session=None,
        tokens=0,
        micro_usd=0,
    )


def known(seconds: float) -> DurationEstimates:
    return DurationEstimates(lambda agent, stage: [(1, seconds)], [])


def left(
    tasks: Sequence[Task],
    edges: Sequence[tuple[int, int]] = (),
    *,
    slots: int = 2,
    started: dict[int, float] | None = None,
) -> float | None:
    return predict_rest(
        tasks, edges, started or {}, known(10.0), slots=slots, check=0.0, now=100.0
    ).seconds


def test_who_holds_up_the_most_comes_first_and_barriers_only_pass_it_on() -> None:
    tasks = [
        task(1, State.RUNNING),
        task(2, State.BLOCKED),
        task(3, request=TaskRequest(kind=TaskKind.BARRIER)),
        task(4),
        task(5),
        task(6),
        task(7, State.READY),
        task(8, State.READY, agent=HUMAN),
        task(9),
    ]
    edges = [(3, 1), (4, 3), (5, 3), (6, 2), (6, 7), (9, 8)]
    found = [
        (holdup.holder.id, [task.id for task in holdup.waiting])
        for holdup in list_holdups(tasks, edges)
    ]
    assert found == [(1, [4, 5]), (2, [6]), (8, [9])]


@pytest.mark.parametrize(
    ("tasks", "edges", "seconds"),
    [
        ([task(1, State.READY), task(2, State.READY)], [], 10.0),
        ([task(1, State.READY), task(2)], [(2, 1)], 20.0),
        ([task(1, State.READY, files=("f",)), task(2, State.READY, files=("f",))], [], 20.0),
        ([task(1, State.DONE), task(2, State.READY)], [(2, 1)], 10.0),
        ([task(1, State.BLOCKED), task(2), task(3, State.READY)], [(2, 1)], 10.0),
        ([task(1, State.DONE)], [], 0.0),
        ([task(1, State.BLOCKED), task(2)], [(2, 1)], 0.0),
    ],
)
def test_what_is_left_is_what_can_go_on_by_itself(
    tasks: list[Task], edges: list[tuple[int, int]], seconds: float
) -> None:
    assert left(tasks, edges) == seconds


def test_an_attempt_under_way_has_the_rest_of_its_time_and_never_none() -> None:
    assert left([task(1, State.RUNNING)], started={1: 94.0}) == 4.0
    overdue = left([task(1, State.RUNNING)], started={1: 0.0})
    assert overdue is not None
    assert overdue > 0


def test_nobody_guesses_while_nothing_is_known() -> None:
    nothing = DurationEstimates(lambda agent, stage: [], [])
    tasks = [task(1, State.DONE), task(2, State.READY)]
    ahead = predict_rest(tasks, [], {}, nothing, slots=1, check=0.0, now=0.0)
    assert (ahead.seconds, ahead.share) == (None, 0.5)
    learned = DurationEstimates(lambda agent, stage: [], [attempt(1, 0.0, 4.0)])
    assert predict_rest(tasks, [], {}, learned, slots=1, check=0.0, now=0.0).seconds == 4.0


def test_stages_that_are_over_do_not_count_again() -> None:
    stages = tuple(Stage(name=name, agent="a") for name in ("test", "implement"))
    request = TaskRequest(stages=stages)
    assert left([task(1, State.READY, stage="test", request=request)]) == 20.0
    assert left([task(1, State.READY, stage="implement", request=request)]) == 10.0


def test_the_lower_bound_is_that_of_what_really_happened() -> None:
    tasks = [task(1, State.DONE), task(2, State.DONE), task(3, State.DONE)]
    tries = [attempt(1, 0, 3), attempt(2, 3, 5, "crash"), attempt(2, 5, 9), attempt(3, 0, 1)]
    bounds, chain = find_bounds(tasks, [(2, 1)], tries, 2)
    assert bounds.critical_path == 9.0
    assert bounds.lower == 9.0
    assert chain == ["t1", "t2"]
    bounds, _ = find_bounds(tasks, [], tries, 1)
    assert bounds.lower == 10.0, "one slot does one thing at a time"
