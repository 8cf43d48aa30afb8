"""Who holds up whom, how long it may still take, and how long it took."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from cases import each_case
from weft.candidate_records import CheckVerdict, Entry, GateRows, Landing
from weft.model import (
    HUMAN,
    Attempt,
    Class,
    Event,
    Priority,
    Stage,
    State,
    Task,
    TaskKind,
    TaskRequest,
)
from weft.runs.outlook import CheckTimes, DurationEstimates, Outlook, predict_rest
from weft.runs.run_figures import (
    describe_times,
    find_waits,
    list_holdups,
    measure_idle,
    measure_run,
)


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
        led_to=State.GATING,
        candidate=None,
        base=None,
        session=None,
        tokens=0,
        micro_usd=0,
    )


NONE = CheckTimes(usual=0.0)


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
        tasks, edges, started or {}, known(10.0), slots=slots, checks=NONE, now=100.0
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


@each_case(
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


def test_an_estimate_without_a_record_is_called_a_guess() -> None:
    nothing = DurationEstimates(lambda agent, stage: [], [])
    tasks = [task(1, State.DONE), task(2, State.READY)]
    ahead = predict_rest(tasks, [], {}, nothing, slots=1, checks=NONE, now=0.0)
    assert (ahead.guess, ahead.share) == (True, 0.5)
    learned = DurationEstimates(lambda agent, stage: [], [attempt(1, 0.0, 4.0)])
    ahead = predict_rest(tasks, [], {}, learned, slots=1, checks=NONE, now=0.0)
    assert (ahead.seconds, ahead.guess) == (4.0, False)


def rest(*tasks: Task, checks: CheckTimes, edges: Sequence[tuple[int, int]] = ()) -> Outlook:
    return predict_rest(tasks, edges, {}, known(10.0), slots=2, checks=checks, now=100.0)


def test_checks_are_part_of_the_rest_and_a_running_check_counts_down() -> None:
    thirty = CheckTimes(usual=30.0)
    first, second = task(1, State.READY, files=("a",)), task(2, files=("b",))
    assert rest(first, checks=thirty).seconds == 40.0
    assert rest(first, second, checks=thirty, edges=[(2, 1)]).seconds == 80.0
    testing = task(1, State.GATING, files=("a",))
    assert rest(testing, checks=thirty).seconds == 30.0
    assert rest(testing, checks=CheckTimes(usual=30.0, since={1: 80.0})).seconds == 10.0
    late = rest(testing, checks=CheckTimes(usual=30.0, since={1: 0.0})).seconds
    assert late > 0, "it goes on, whatever its usual length"
    assert rest(testing, checks=CheckTimes(usual=None)).guess


def test_the_rest_leaves_out_the_steps_of_people_and_says_so() -> None:
    asks = task(1, State.READY, agent=HUMAN, since=100.0)
    ahead = rest(asks, task(2), checks=NONE, edges=[(2, 1)])
    assert (ahead.seconds, ahead.guess, ahead.people) == (10.0, False, True)
    assert rest(task(1, State.BLOCKED), task(2, State.READY), checks=NONE).people
    assert not rest(task(1, State.READY), checks=NONE).people


def test_percent_is_weighted_done_work_and_nothing_else() -> None:
    weights = {"small": 10.0, "large": 90.0}
    past = DurationEstimates(lambda agent, stage: [(1, weights[agent])], [])

    def share(small: State, large: State) -> float:
        tasks = [task(1, small, agent="small"), task(2, large, agent="large")]
        return predict_rest(tasks, [], {2: 0.0}, past, slots=2, checks=NONE, now=60.0).share

    assert share(State.DONE, State.RUNNING) == 0.1, "an attempt under way is not done"
    assert share(State.READY, State.DONE) == 0.9
    assert share(State.READY, State.READY) == 0.0, "sent back: what it did does not count"
    assert share(State.SKIPPED, State.DONE) == 1.0


def test_retries_count_at_their_observed_rate() -> None:
    past = DurationEstimates(lambda agent, stage: [(1, 10.0)], rates=lambda agent, stage: 1.5)
    assert past.of_task(task(1)) == 15.0
    hopeless = DurationEstimates(lambda agent, stage: [(1, 10.0)], rates=lambda agent, stage: 40.0)
    assert hopeless.of_task(task(1)) == 30.0, "a bad day does not make the next forecast absurd"


def test_stages_that_are_over_do_not_count_again() -> None:
    stages = tuple(Stage(name=name, agent="a") for name in ("test", "implement"))
    request = TaskRequest(stages=stages)
    assert left([task(1, State.READY, stage="test", request=request)]) == 20.0
    assert left([task(1, State.READY, stage="implement", request=request)]) == 10.0


NO_GATE = GateRows(
    entries=(),
    verdicts=(),
    conflicts=(),
    landings=(),
    rejected=(),
    revision=1,
    blocked="",
    ended=True,
)


def test_one_by_one_includes_a_check_for_each_landing() -> None:
    tasks = [task(number, State.DONE, files=(str(number),)) for number in (1, 2)]
    entries = tuple(
        Entry(
            id=f"{number}.1",
            run="r",
            state="landed",
            looked_at=False,
            base=None,
            story=None,
            tasks=(number,),
            work=(),
            needs=frozenset(),
            alone=False,
        )
        for number in (1, 2)
    )
    verdict = CheckVerdict(
        base="b",
        combination=("1.1", "2.1"),
        purpose="batch",
        tree="t",
        check_id="c",
        commands=(),
        passed=True,
        seconds=5.0,
    )
    landing = Landing(
        run="r",
        sequence=1,
        old="b",
        new="n",
        tree="t",
        entries=("1.1", "2.1"),
        commits=("c", "n"),
        revision=1,
        every_commit=False,
        state="landed",
    )
    gate = replace(NO_GATE, entries=entries, verdicts=(verdict,), landings=(landing,))
    done = [attempt(1, 0, 10), attempt(2, 0, 10)]
    assert measure_run(tasks, done, gate, slots=2, now=20.0).sequential == 30.0


def test_waits_for_people_leave_out_work_beside_them() -> None:
    assert measure_idle([(10, 50)], [(0, 20), (40, 60)], (0, 60)) == 20
    assert measure_idle([(10, 50), (15, 55)], [(0, 10)], (0, 60)) == 45
    assert measure_idle([(0, 99)], [(0, 60)], (0, 60)) == 0


def times(
    *attempts: Attempt, waits: Sequence[tuple[float, float]] = (), state: State = State.DONE
) -> str:
    end = max((each.ended or 0.0 for each in attempts), default=0.0)
    tasks = [task(1, state, since=end), task(2, State.DONE, since=end)]
    return describe_times(measure_run(tasks, attempts, NO_GATE, slots=2, now=end, waits=waits))


def test_the_times_of_a_run_are_a_sentence() -> None:
    pair = attempt(1, 0, 1000), attempt(2, 0, 800)
    assert times(*pair) == "ran 16 min 40 s; one by one 30 min"
    assert times(*pair, state=State.RUNNING) == "ran 16 min 40 s", "no comparison before the end"
    waited = times(attempt(1, 0, 100), attempt(1, 3700, 3800), waits=[(100.0, 3700.0)])
    assert waited == (
        "ran 1 h 03 min; without waiting for you it would have taken 3 min 20 s; "
        "one by one 3 min 20 s"
    )
    assert times(attempt(1, 0, 59)) == "", "a run of less than a minute is short enough"
    assert times() == ""


def test_dead_time_and_stopped_processes_are_not_work() -> None:
    died = attempt(1, 50, 30_000, "reaped")
    assert times(attempt(2, 0, 100), died, attempt(1, 30_000, 30_060)) == "ran 2 min 40 s"
    stopped = replace(attempt(1, 0, 500, "handed_back"), led_to=None)
    assert times(stopped, attempt(1, 500, 700)) == "ran 11 min 40 s; one by one 3 min 20 s"


@each_case(
    "jump",
    [
        (attempt(1, 0, 100), attempt(1, 393.5 * 86_400, 393.5 * 86_400 + 100)),
        (attempt(1, 0, 100), attempt(1, 100, 200), attempt(2, 100, 393.5 * 86_400)),
        (attempt(1, 0, 100), attempt(1, -393.5 * 86_400, -393.5 * 86_400 + 100)),
        (attempt(1, 0, 100), attempt(1, 100, 200), attempt(2, 100, -393.5 * 86_400)),
    ],
)
def test_a_clock_that_jumps_is_no_part_of_a_run(jump: tuple[Attempt, ...]) -> None:
    assert times(*jump) == "ran 3 min 20 s"


def happened(number: int, at: float, kind: str, **data: object) -> Event:
    return Event(id=number, at=at, kind=kind, run="r", task=1, data=data)


def test_waits_are_questions_blocked_paused_and_parked_tasks() -> None:
    events = [
        happened(1, 10.0, "attempt_finished", state="blocked"),
        happened(2, 40.0, "task_reopened", was="blocked"),
        happened(3, 50.0, "task_paused"),
        happened(4, 70.0, "task_resumed"),
    ]
    assert find_waits(events, [], [], [], now=99.0) == ([(10.0, 40.0), (50.0, 70.0)], [])
    asks = task(1, State.DONE, agent=HUMAN, since=80.0)
    before = task(2, State.DONE, since=30.0)
    assert find_waits([], [asks, before], [(1, 2)], [], now=99.0) == ([(30.0, 80.0)], [])
    night = [attempt(1, 0, 10), attempt(1, 30_000, 30_010)]
    limited = [happened(1, 10.0, "attempt_finished", state="parked")]
    found = find_waits(limited, [], [], night, now=30_010.0)
    assert found == ([], [(10.0, 30_000)]), "a rate limit is no person"


def test_a_task_whose_labels_no_present_worker_has_does_not_go_on() -> None:
    asks = {"label:gpu": 1}
    tasks = [task(1, State.READY), task(2, State.READY, demand=asks), task(3)]

    def rest(slots: int) -> float:
        rooms = {frozenset({"gpu"}): slots}
        return predict_rest(
            tasks, [(3, 2)], {}, known(10.0), slots=2, checks=NONE, rooms=rooms, now=0.0
        ).seconds

    assert rest(1) == 20
    assert rest(0) == 10
