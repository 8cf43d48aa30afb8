"""The forecast: a schedule that could really happen, and bounds that nothing beats."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import each_case
from weft import graph, plan
from weft.admission.order import urgency
from weft.config import Tuning
from weft.model import Class, Priority
from weft.paths import conflicts
from weft.plan.plan_json import DEFAULT_SECONDS
from weft.planning.forecast import (
    ForecastJob,
    ForecastWork,
    Stint,
    bounds,
    estimate,
    forecast,
    paths,
    savings,
    simulate,
    work_of,
)

FILES = ("src/a.py", "src/b.py", "src/**", "docs/x.md", "docs/*.md", "**")


def job(name: str, seconds: float, *claims: str, **fields: Any) -> ForecastJob:
    return replace(ForecastJob(name=name, seconds=seconds, claims=claims), **fields)


def work(jobs: Sequence[ForecastJob], edges: Sequence[tuple[int, int]] = ()) -> ForecastWork:
    successors: list[list[int]] = [[] for _ in jobs]
    for before, after in edges:
        successors[before].append(after)
    return ForecastWork(jobs=tuple(jobs), successors=successors)


def starts(schedule: Sequence[Stint]) -> dict[str, float]:
    return {stint.name: stint.start for stint in schedule}


@st.composite
def works(draw: st.DrawFn, *, gangs: bool = False) -> ForecastWork:
    """Small plans in which everything happens: shared files, urgency, settled tasks, gangs."""
    size = draw(st.integers(1, 12))
    lengths = st.sampled_from([0.0, 1.0, 2.0, 3.0, 5.0, 8.0])
    jobs = []
    for number in range(size):
        runs = draw(st.booleans()) or draw(st.booleans())
        claims = draw(st.lists(st.sampled_from(FILES), max_size=3)) if runs else []
        jobs.append(
            ForecastJob(
                name=str(number),
                seconds=draw(lengths) if runs else 0.0,
                runs=runs,
                claims=tuple(claims),
                klass=draw(st.sampled_from(Class)),
                priority=draw(st.sampled_from(Priority)),
            )
        )
    edges = [
        pair for pair in combinations(range(size), 2) if draw(st.integers(0, 4), label="edge") == 0
    ]
    made = work(jobs, edges)
    return _with_gangs(made, draw) if gangs else made


def _with_gangs(made: ForecastWork, draw: st.DrawFn) -> ForecastWork:
    """Put two tasks into a gang if they can start together at all."""
    reach = _reach(made)
    able = [
        (a, b)
        for a, b in combinations(range(len(made.jobs)), 2)
        if made.jobs[a].runs and made.jobs[b].runs
        if b not in reach[a] and not _exclude(made.jobs[a], made.jobs[b])
    ]
    if not able:
        return made
    chosen = draw(st.sampled_from(able))
    jobs = [
        replace(planned, gang="g") if number in chosen else planned
        for number, planned in enumerate(made.jobs)
    ]
    return replace(made, jobs=tuple(jobs))


def _reach(made: ForecastWork) -> list[set[int]]:
    reach: list[set[int]] = [set() for _ in made.jobs]
    for node in reversed(graph.order(made.successors)):
        for after in made.successors[node]:
            reach[node] |= {after} | reach[after]
    return reach


def _exclude(a: ForecastJob, b: ForecastJob) -> bool:
    return any(conflicts(x, y) for x in a.claims for y in b.claims)


def _overlap(a: Stint, b: Stint) -> bool:
    return a.start < b.end and b.start < a.end


def assert_possible(made: ForecastWork, slots: int, schedule: Sequence[Stint]) -> None:
    """Everything ran once, after what it needs, on a slot of its own, alone on its files."""
    by_name = {planned.name: planned for planned in made.jobs}
    assert sorted(stint.name for stint in schedule) == sorted(
        planned.name for planned in made.jobs if planned.runs
    )
    for stint in schedule:
        assert 0 <= stint.slot < slots
        assert (
            sum(concurrent.start <= stint.start < concurrent.end for concurrent in schedule)
            <= slots
        )
    for a, b in combinations(schedule, 2):
        if _overlap(a, b):
            assert a.slot != b.slot
            assert not _exclude(by_name[a.name], by_name[b.name])
    ends = {stint.name: stint.end for stint in schedule}
    begins = starts(schedule)
    for before, behind in enumerate(_reach(made)):
        for after in behind:
            first, second = made.jobs[before].name, made.jobs[after].name
            if first in ends and second in begins:
                assert ends[first] <= begins[second]


SLOTS = st.integers(1, 4)


@given(works(gangs=True), SLOTS)
def test_the_schedule_could_really_happen(made: ForecastWork, slots: int) -> None:
    assert_possible(made, slots, simulate(made, slots))


@given(works(gangs=True), SLOTS, st.randoms(use_true_random=False))
def test_a_schedule_with_other_durations_than_expected_could_happen_too(
    made: ForecastWork, slots: int, chance: random.Random
) -> None:
    real = [planned.seconds * chance.choice([0.25, 1, 3]) for planned in made.jobs]
    schedule = simulate(made, slots, durations=real)
    assert_possible(made, slots, schedule)
    taken = {stint.name: stint.end - stint.start for stint in schedule}
    for planned, seconds in zip(made.jobs, real, strict=True):
        if planned.runs:
            assert taken[planned.name] == pytest.approx(seconds)


@given(works(), SLOTS)
def test_no_schedule_is_shorter_than_the_lower_bound(made: ForecastWork, slots: int) -> None:
    predicted = forecast(made, slots)
    assert predicted.seconds >= predicted.bounds.lower - 1e-9


@given(works(gangs=True), SLOTS)
def test_a_gang_starts_together(made: ForecastWork, slots: int) -> None:
    begins = starts(simulate(made, slots))
    gang = {begins[planned.name] for planned in made.jobs if planned.gang}
    assert len(gang) <= 1 or slots < 2


@given(works(gangs=True), SLOTS)
def test_the_same_work_has_the_same_schedule(made: ForecastWork, slots: int) -> None:
    assert simulate(made, slots) == simulate(made, slots)


def _ready_times(made: ForecastWork, schedule: Sequence[Stint]) -> dict[str, float]:
    """When each job was ready; a job with nothing before it was so before the schedule began."""
    ends = {stint.name: stint.end for stint in schedule}
    ready = {planned.name: -1.0 for planned in made.jobs}
    for node in graph.order(made.successors):
        name = made.jobs[node].name
        done = ends.get(name, ready[name])
        for after in made.successors[node]:
            behind = made.jobs[after].name
            ready[behind] = max(ready[behind], done)
    return ready


def _goes_before(a: ForecastJob, b: ForecastJob, moment: float) -> bool:
    """Whether a job goes before another that shares a file, once both are ready."""
    urgent = [urgency(planned.klass, planned.priority, 0.0, moment, Tuning()) for planned in (a, b)]
    return (urgent[0], int(a.name)) < (urgent[1], int(b.name)) and _exclude(a, b)


@given(works(), SLOTS)
def test_jobs_that_share_a_file_keep_plan_order_once_both_are_ready(
    made: ForecastWork, slots: int
) -> None:
    schedule = simulate(made, slots)
    by_name = {planned.name: planned for planned in made.jobs}
    ready, begins = _ready_times(made, schedule), starts(schedule)
    for later in schedule:
        for earlier in schedule:
            if _goes_before(by_name[earlier.name], by_name[later.name], later.start):
                # Jobs of no length make others ready at the very moment that they start.
                passed = ready[earlier.name] < later.start < begins[earlier.name]
                assert not passed, (earlier, later)


@given(works(), SLOTS)
def test_no_slot_idles_while_something_could_run(made: ForecastWork, slots: int) -> None:
    schedule = simulate(made, slots)
    by_name = {planned.name: planned for planned in made.jobs}
    ready, begins = _ready_times(made, schedule), starts(schedule)
    moments = sorted({0.0} | {stint.end for stint in schedule})
    for stint in schedule:
        for moment in moments:
            if not ready[stint.name] <= moment < stint.start:
                continue
            running = [
                running_stint
                for running_stint in schedule
                if running_stint.start <= moment < running_stint.end
            ]
            held = any(
                _exclude(by_name[concurrent.name], by_name[stint.name]) for concurrent in running
            )
            has_its_turn = not any(
                ready[concurrent.name] <= moment < begins[concurrent.name]
                and _goes_before(by_name[concurrent.name], by_name[stint.name], moment)
                for concurrent in schedule
            )
            assert len(running) == slots or held or not has_its_turn


@given(works(), SLOTS)
def test_a_saving_is_positive_and_real(made: ForecastWork, slots: int) -> None:
    before = forecast(made, slots).seconds
    for saving in savings(made, slots):
        jobs = tuple(
            replace(planned, claims=tuple(each for each in planned.claims if each != saving.file))
            for planned in made.jobs
        )
        assert saving.seconds >= 1
        assert forecast(replace(made, jobs=jobs), slots).seconds == before - saving.seconds
        assert {planned.name for planned in made.jobs if saving.file in planned.claims} == set(
            saving.tasks
        )


@each_case(
    ("jobs", "edges", "expected"),
    [
        # A chain, and one that stands alone.
        ([job("a", 2), job("b", 3), job("c", 1)], [(0, 1)], [5, 3, 1]),
        # The first of three that share a file has all their work behind it.
        ([job("a", 3, "f"), job("b", 2, "f"), job("c", 1, "f")], [], [6, 3, 1]),
        # Plan order decides, whoever has more behind it: `a` goes first, and all waits for it.
        ([job("a", 3, "f"), job("b", 1, "f"), job("d", 9)], [(1, 2)], [13, 10, 9]),
        # What comes before the first inherits the tail.
        ([job("x", 1), job("a", 4, "f"), job("b", 4, "f")], [(0, 1), (0, 2)], [9, 8, 4]),
        # A file named twice by one task is shared with nobody.
        ([job("a", 3, "f", "f"), job("b", 2)], [], [3, 2]),
    ],
)
def test_the_longest_path_has_a_tail_for_each_shared_file(
    jobs: list[ForecastJob], edges: list[tuple[int, int]], expected: list[float]
) -> None:
    assert paths(work(jobs, edges)) == expected


def test_the_bounds_name_what_binds() -> None:
    made = work([job("a", 4, "f"), job("b", 4, "f"), job("c", 1), job("d", 5)], [(2, 3)])
    limits = bounds(made, 2)
    assert (limits.critical_path, limits.work_per_slot) == (6, 7)
    assert (limits.busiest_file, limits.file, limits.lower) == (8, "f", 8)


def test_a_task_that_claims_everything_is_counted_once_for_each_file() -> None:
    made = work([job("a", 4, "**", "f"), job("b", 3, "f"), job("c", 2, "**")])
    limits = bounds(made, 3)
    assert (limits.busiest_file, limits.file) == (9, "f")
    assert forecast(made, 3).seconds == 9


def test_without_shared_files_no_file_is_busy() -> None:
    limits = bounds(work([job("a", 4, "f"), job("b", 4, "g")]), 2)
    assert (limits.busiest_file, limits.file) == (0, "")


def test_what_is_done_already_holds_up_nobody_and_settles_the_order_at_once() -> None:
    """Only a finished task comes before `early`, so it keeps its place before `late`."""
    settled = job("done", 0, runs=False)
    made = work([settled, job("early", 1, "f"), job("late", 5, "f")], [(0, 1)])
    assert starts(simulate(made, 1)) == {"early": 0, "late": 1}


def test_a_job_that_waits_for_its_files_holds_back_the_later_ones_that_share_another() -> None:
    made = work([job("x", 4, "a"), job("both", 1, "a", "b"), job("later", 9, "b"), job("y", 1)])
    assert starts(simulate(made, 3)) == {"x": 0, "y": 0, "both": 4, "later": 5}


def test_a_gang_that_waits_for_slots_may_be_passed() -> None:
    gang = [job("a", 2, "f", gang="g"), job("b", 2, gang="g")]
    made = work([job("x", 9), *gang, job("later", 1, "f")])
    assert starts(simulate(made, 2)) == {"x": 0, "later": 0, "a": 9, "b": 9}


def test_urgency_goes_before_length() -> None:
    made = work([job("long", 9), job("urgent", 1, priority=Priority.CRITICAL)])
    assert starts(simulate(made, 1)) == {"urgent": 0, "long": 1}
    made = work([job("long", 9), job("soon", 1, klass=Class.INTERACTIVE)])
    assert starts(simulate(made, 1)) == {"soon": 0, "long": 1}


def test_a_gang_waits_until_all_of_it_fits() -> None:
    made = work([job("x", 9), job("a", 2, gang="g"), job("b", 2, gang="g"), job("y", 1)])
    begins = starts(simulate(made, 2))
    assert begins == {"x": 0, "y": 0, "a": 9, "b": 9}


def test_a_gang_that_never_fits_is_ordinary_tasks() -> None:
    made = work([job(name, 1, gang="g") for name in "abc"])
    assert forecast(made, 2).seconds == 2


def test_splitting_the_file_that_is_shared_is_the_advice() -> None:
    jobs = [job("a", 60, "f"), job("b", 60, "f"), job("c", 10, "g"), job("d", 10, "g")]
    (saving,) = savings(work(jobs), 4)
    assert (saving.file, saving.tasks, saving.seconds) == ("f", ("a", "b"), 60)


def test_where_slots_are_what_binds_no_split_is_advised() -> None:
    assert savings(work([job("a", 60, "f"), job("b", 60, "f")]), 1) == []


@each_case(
    ("samples", "size", "expected"),
    [
        ([], 3, None),
        ([(1, 10.0)], 7, 10.0),
        ([(1, 10.0), (1, 20.0), (1, 600.0)], 1, 20.0),
        ([(1, 10.0)] * 9 + [(5, 100.0)] * 9, 5, 100.0),
        ([(1, 10.0)] * 9 + [(5, 100.0)] * 9, 2, 10.0),
    ],
)
def test_an_estimate_is_the_median_of_those_nearest_in_size(
    samples: list[tuple[int, float]], size: int, expected: float | None
) -> None:
    assert estimate(samples, size) == expected


PLAN = b"""
## Phase 1: one
<!-- execution: parallel -->
- [x] Task 1: done
  <!-- files: a -->
- [ ] Task 2: known
  <!-- files: b -->
- [ ] Task 3: unknown
- [ ] Task 4: Phase 1 Verification (manual verification per workflow.md)
- [ ] Task 5: in a gang
  <!-- files: c; parallel-group: g -->
- [ ] Task 6: in a gang
  <!-- files: d; parallel-group: g -->
## Phase 2: two
- [ ] Task 1: after all
  <!-- files: none -->
"""


def test_the_work_of_a_plan_is_what_is_left_of_it() -> None:
    compiled = plan.compile(plan.read("plan.md", PLAN).plan)
    made = work_of(compiled, {"1.1": 7.0, "1.2": 8.0, "1.4": 9.0})
    jobs = {planned.name: planned for planned in made.jobs if planned.name}
    assert [planned.name for planned in jobs.values() if not planned.runs] == ["1.1", "1.4"]
    assert {name: planned.seconds for name, planned in jobs.items()} == {
        "1.1": 0.0,
        "1.2": 8.0,
        "1.3": DEFAULT_SECONDS,
        "1.4": 0.0,
        "1.5": DEFAULT_SECONDS,
        "1.6": DEFAULT_SECONDS,
        "2.1": DEFAULT_SECONDS,
    }
    assert jobs["1.1"].claims == jobs["1.4"].claims == jobs["2.1"].claims == ()
    assert jobs["1.3"].claims == ("**",)
    assert jobs["1.5"].gang == jobs["1.6"].gang is not None
    begins = starts(simulate(made, 3))
    assert begins["1.5"] == begins["1.6"]
    assert begins["2.1"] == max(begins.values())


def test_an_empty_plan_takes_no_time() -> None:
    assert forecast(work([]), 3).seconds == 0


def test_jobs_share_the_slots_that_have_their_labels() -> None:
    gpu, both = frozenset({"gpu"}), frozenset({"gpu", "arm64"})
    jobs = [
        job("a", 10, labels=gpu),
        job("b", 10, labels=gpu),
        job("c", 10, labels=both),
        job("d", 10),
    ]
    made = replace(work(jobs), rooms={gpu: 2, both: 1})
    assert sorted(starts(simulate(made, 4)).items()) == [("a", 0), ("b", 0), ("c", 10), ("d", 0)]
    assert set(starts(simulate(work(jobs), 4)).values()) == {0}
