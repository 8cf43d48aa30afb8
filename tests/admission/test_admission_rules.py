"""Policy: tables of cases, and properties over everything that may be asked of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from weft.admission import capacity, order, provider_pressure, rule
from weft.admission.capacity import Shortage, attempt_demand, pick_units, resolve, shortages
from weft.admission.order import QueueEntry
from weft.admission.provider_pressure import Penalty
from weft.admission.rule import Bypassed
from weft.config import Tuning

TUNING = Tuning()
INTERACTIVE, STANDARD, BATCH = range(3)
CRITICAL, HIGH, NORMAL, LOW, BACKGROUND = range(5)

times = st.floats(min_value=0, max_value=1e6)
entries = st.builds(
    QueueEntry,
    id=st.integers(1, 50),
    klass=st.integers(0, 2),
    priority=st.integers(0, 4),
    path_seconds=st.sampled_from([0.0, 1.0, 60.0]),
    submitted=times,
)
distinct = st.lists(entries, max_size=8, unique_by=lambda entry: entry.id)
amounts = st.dictionaries(st.sampled_from(["llm", "requests", "a", "b"]), st.integers(0, 9))
penalties = st.builds(Penalty, level=st.integers(0, 9), since=times, successes=st.integers(0, 30))


def entry(
    number: int = 1,
    klass: int = STANDARD,
    priority: int = NORMAL,
    path: float = 0.0,
    submitted: float = 0.0,
) -> QueueEntry:
    return QueueEntry(
        id=number, klass=klass, priority=priority, path_seconds=path, submitted=submitted
    )


def before(first: QueueEntry, second: QueueEntry, now: float) -> bool:
    return order.rank(first, now, TUNING) < order.rank(second, now, TUNING)


@pytest.mark.parametrize(
    ("first", "second", "now"),
    [
        pytest.param(entry(2, INTERACTIVE), entry(1, STANDARD), 0, id="class"),
        pytest.param(entry(2, STANDARD, CRITICAL), entry(1, STANDARD, HIGH), 0, id="priority"),
        pytest.param(
            entry(2, INTERACTIVE, BACKGROUND), entry(1, BATCH, CRITICAL), 0, id="class-first"
        ),
        pytest.param(entry(2, path=9), entry(1, path=5), 0, id="longest-path"),
        pytest.param(entry(2, submitted=0), entry(1, submitted=1), 1, id="age"),
        pytest.param(entry(1), entry(2), 0, id="id"),
        pytest.param(
            entry(2, BATCH, submitted=0), entry(1, BATCH, submitted=1), 20, id="aged-class"
        ),
        pytest.param(
            entry(2, BATCH, submitted=0), entry(1, STANDARD, submitted=40), 40, id="overtaken"
        ),
        pytest.param(
            entry(2, STANDARD, submitted=0), entry(1, BATCH, submitted=0), 1000, id="declared-class"
        ),
        pytest.param(
            entry(2, INTERACTIVE, HIGH, submitted=5),
            entry(1, INTERACTIVE, LOW, submitted=0),
            1000,
            id="declared-priority",
        ),
        pytest.param(
            entry(2, INTERACTIVE, submitted=30), entry(1, BATCH, path=9), 45, id="class-over-path"
        ),
        pytest.param(
            entry(2, path=9, submitted=1), entry(1, submitted=0), 1000, id="path-over-age"
        ),
    ],
)
def test_the_order_is_as_designed(first: QueueEntry, second: QueueEntry, now: float) -> None:
    assert before(first, second, now)
    assert not before(second, first, now)


def test_ageing_lifts_a_class_each_20_seconds_and_a_priority_each_minute() -> None:
    old = entry(klass=BATCH, priority=BACKGROUND)
    lifted = [order.rank(old, now, TUNING)[:2] for now in (0, 19.9, 20, 40, 60, 120, 240, 9999)]
    assert lifted == [(2, 4), (2, 4), (1, 4), (0, 4), (0, 3), (0, 2), (0, 0), (0, 0)]


@given(distinct, times)
def test_the_order_is_total_and_deterministic(queued: list[QueueEntry], now: float) -> None:
    ranks = [order.rank(entry, now, TUNING) for entry in queued]
    assert len(set(ranks)) == len(queued)
    turned = queued[::-1]
    in_order = sorted(queued, key=lambda entry: order.rank(entry, now, TUNING))
    assert in_order == sorted(turned, key=lambda entry: order.rank(entry, now, TUNING))


@given(entries, times, times)
def test_ageing_only_ever_lifts_and_stops_at_the_top(
    entry: QueueEntry, now: float, later: float
) -> None:
    now, later = sorted((now, later))
    early, late = order.rank(entry, now, TUNING), order.rank(entry, later, TUNING)
    assert late[:2] <= early[:2]
    assert min(*early[:2], *late[:2]) >= 0
    assert early[2:] == late[2:]


@given(entries, times, st.lists(times, max_size=5))
def test_ageing_does_not_depend_on_how_often_anyone_looked(
    entry: QueueEntry, now: float, looks: list[float]
) -> None:
    expected = order.rank(entry, now, TUNING)
    for look in looks:
        order.rank(entry, look, TUNING)
    assert order.rank(entry, now, TUNING) == expected


@given(entries, entries, times, times)
def test_equals_submitted_together_keep_their_order_for_ever(
    drawn: QueueEntry, longer: QueueEntry, submitted: float, age: float
) -> None:
    """All tasks of a run age alike, so that their longest paths decide among them."""
    first = entry(1, drawn.klass, drawn.priority, drawn.path_seconds, submitted)
    second = entry(2, drawn.klass, drawn.priority, longer.path_seconds, submitted)
    expected = first.path_seconds >= second.path_seconds
    assert before(first, second, submitted + age) == expected


def test_a_clock_that_went_back_ages_nobody() -> None:
    assert order.rank(entry(submitted=100), 0, TUNING)[:2] == (STANDARD, NORMAL)


@each_case("klass", [INTERACTIVE, STANDARD, BATCH])
def test_a_question_to_a_person_is_always_interactive(klass: int) -> None:
    assert order.declared_class(klass, "human") == INTERACTIVE
    assert order.declared_class(klass, "claude") == klass
    assert order.declared_class(klass, None) == klass


@each_case(
    ("base", "level", "expected"),
    [(12, 0, 12), (12, 1, 6), (12, 2, 4), (12, 4, 2), (4, 4, 1), (1, 4, 1), (3, 1, 1), (0, 4, 0)],
)
def test_a_penalty_divides_the_limit(base: int, level: int, expected: int) -> None:
    assert provider_pressure.effective(base, level) == expected


@given(st.integers(0, 100), st.integers(0, 9))
def test_pressure_never_raises_a_limit_and_leaves_at_least_one(base: int, level: int) -> None:
    left = provider_pressure.effective(base, level)
    assert min(base, 1) <= left <= base
    assert provider_pressure.effective(base, level + 1) <= left


@given(penalties, times, times)
def test_a_penalty_only_eases_until_it_is_raised(
    penalty: Penalty, now: float, later: float
) -> None:
    now, later = sorted((now, later))
    early, late = (provider_pressure.level(penalty, at, TUNING) for at in (now, later))
    assert 0 <= late <= early <= TUNING.penalty_max
    worse = provider_pressure.raised(penalty, now, TUNING)
    assert provider_pressure.level(worse, now, TUNING) == min(TUNING.penalty_max, early + 1)


def test_a_penalty_eases_by_time_and_by_successes() -> None:
    penalty = Penalty(level=4, since=100, successes=0)
    levels = [
        provider_pressure.level(penalty, now, TUNING) for now in (0, 159, 160, 220, 340, 9999)
    ]
    assert levels == [4, 4, 3, 2, 0, 0]
    eased = [
        provider_pressure.level(Penalty(level=3, since=0, successes=n), 0, TUNING)
        for n in (4, 5, 10, 99)
    ]
    assert eased == [3, 2, 1, 0]
    assert provider_pressure.level(None, 0, TUNING) == 0


def test_rate_limits_raise_a_penalty_step_by_step_up_to_the_most() -> None:
    penalty: Penalty | None = None
    levels = []
    for _ in range(6):
        penalty = provider_pressure.raised(penalty, 0, TUNING)
        levels.append(provider_pressure.level(penalty, 0, TUNING))
    assert levels == [1, 2, 3, 4, 4, 4]


@each_case(
    ("recent", "expected"),
    [
        ([], None),
        (["a"], None),
        (["a", "a"], "a"),
        (["a", "a", "a", "b"], "a"),
        (["a", "b", "a"], None),
        (["b", "a", "a"], None),
    ],
)
def test_a_tenant_yields_after_two_in_a_row(recent: list[str], expected: str | None) -> None:
    assert rule.must_yield(recent, TUNING) == expected


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, unique=True), max_size=30))
def test_no_tenant_goes_three_times_while_another_could(rounds: list[list[str]]) -> None:
    """Each round lists the tenants that could go; the rule decides as admission applies it."""
    turns: list[str] = []
    for could in rounds:
        yielding = rule.must_yield(turns[::-1], TUNING)
        chosen = next((tenant for tenant in could if tenant != yielding), could[0])
        if turns[-2:] == [chosen, chosen]:
            assert could == [chosen]
        turns.append(chosen)


@pytest.mark.parametrize(
    ("previous", "first", "expected"),
    [
        pytest.param(None, None, None, id="nobody"),
        pytest.param(None, 7, Bypassed(task=7, since=9), id="newly-held-up"),
        pytest.param(Bypassed(task=7, since=2), 7, Bypassed(task=7, since=2), id="still-first"),
        pytest.param(Bypassed(task=7, since=2), None, Bypassed(task=7, since=2), id="not-passed"),
        pytest.param(Bypassed(task=7, since=2), 3, Bypassed(task=3, since=9), id="another-first"),
        pytest.param(
            Bypassed(task=7, since=2, reserved=True),
            3,
            Bypassed(task=7, since=2, reserved=True),
            id="reserved-stays",
        ),
    ],
)
def test_who_was_passed_over(
    previous: Bypassed | None, first: int | None, expected: Bypassed | None
) -> None:
    assert rule.bypassed(previous, first, fence=10) == expected


@pytest.mark.parametrize(
    ("short", "expected"),
    [
        pytest.param(Shortage("llm", 4, 10, 12), True, id="full"),
        pytest.param(Shortage("llm", 1, 0, 0), False, id="paused"),
        pytest.param(Shortage("provider:p", 1, 4, 4), False, id="penalised"),
        pytest.param(Shortage("provider:q", 1, 4, 4), True, id="full-provider"),
        pytest.param(Shortage("run:r/usd", 5, 9, 10), False, id="own-budget"),
        pytest.param(Shortage("run:s/usd", 5, 9, 10), True, id="other-budget"),
    ],
)
def test_capacity_is_reserved_only_where_others_could_make_room(
    short: Shortage, expected: bool
) -> None:
    nominal = {"llm": 12, "provider:p": 12, "requests": 0}
    assert rule.can_be_freed(short, nominal, "r") is expected


@given(distinct, entries, times)
def test_a_full_queue_loses_its_last_and_never_a_better(
    queued: list[QueueEntry], newcomer: QueueEntry, now: float
) -> None:
    newcomer = entry(99, newcomer.klass, newcomer.priority, 0.0, now)
    leaves = order.last_of(queued, newcomer, now, TUNING)
    assert leaves is newcomer or leaves in queued
    assert all(
        not before(leaves, entry, now) for entry in (*queued, newcomer) if entry is not leaves
    )


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        pytest.param({}, {"worker:@": 1, "requests": 1}, id="least"),
        pytest.param(
            {"agent": "a", "run": "r", "stage": "test", "provider": "p"},
            {
                "worker:@": 1,
                "agent:a": 1,
                "stage:r/test": 1,
                "run:r/agents": 1,
                "requests": 1,
                "llm": 1,
                "provider:p": 1,
            },
            id="all",
        ),
        pytest.param(
            {"agent": "a", "run": "r", "stage": "test"},
            {"worker:@": 1, "agent:a": 1, "stage:r/test": 1, "run:r/agents": 1, "requests": 1},
            id="no-provider-no-llm",
        ),
        pytest.param({"stage": "test"}, {"worker:@": 1, "requests": 1}, id="stage-without-run"),
        pytest.param(
            {"uses": {"host:@/port": 2, "requests": 1, "run:r/usd": 5}},
            {"worker:@": 1, "requests": 2, "host:@/port": 2, "run:r/usd": 5},
            id="uses-add-up",
        ),
    ],
)
def test_an_attempt_takes_one_of_each_limit_that_concerns_it(
    given_: dict[str, object], expected: dict[str, int]
) -> None:
    nothing = {"run": None, "stage": None, "agent": None, "provider": None}
    assert attempt_demand(**{**nothing, **given_}) == expected  # type: ignore[arg-type]  # a table


def test_here_becomes_the_worker_and_its_host() -> None:
    demand = {"worker:@": 1, "host:@/ram_mb": 512, "host:h2/port": 1, "llm": 1}
    assert resolve(demand, "w", "h") == {
        "worker:w": 1,
        "host:h/ram_mb": 512,
        "host:h2/port": 1,
        "llm": 1,
    }
    assert capacity.shared(demand) == {"host:h2/port": 1, "llm": 1}


def test_a_shortage_reads_as_people_say_it() -> None:
    for short, text in {
        Shortage("worker:w", 1, 3, 3): "a free agent, 3 of 3 busy",
        Shortage("run:plan-1/agents", 1, 4, 4): "a free agent of plan-1, 4 of 4 busy",
        Shortage("stage:plan-1/review", 1, 1, 1): "a free review agent of plan-1, 1 of 1 busy",
        Shortage("agent:reviewer", 1, 2, 2): "agent reviewer, 2 of 2 busy",
        Shortage("llm", 1, 12, 12): "the limit llm, 12 of 12 in use",
        Shortage("gpu", 2, 1, 2): "the limit gpu, 1 of 2 in use, it asks for 2",
        Shortage("host:h/port", 3, 1, 2): "3 ports, 1 of 2 in use",
        Shortage("host:h/ram_mb", 900, 1, 2): "900 MB of memory, 1 of 2 in use",
        Shortage("run:p/usd", 2_000_000, 2_500_000, 3_000_000): (
            "the budget of p: $2.50 of $3.00 is used, an attempt reserves $2.00"
        ),
    }.items():
        assert str(short) == text


@given(amounts, amounts, amounts)
def test_what_is_short_is_exactly_what_does_not_fit(
    demand: dict[str, int], limits: dict[str, int], use: dict[str, int]
) -> None:
    short = {shortage.resource for shortage in shortages(demand, limits, use)}
    for name, amount in demand.items():
        fits = name not in limits or use.get(name, 0) + amount <= limits[name]
        assert (name not in short) == fits
    assert short <= demand.keys()


@given(st.lists(amounts, max_size=4))
def test_demands_add_up(demands: list[dict[str, int]]) -> None:
    total = capacity.add(*demands)
    for name in {name for demand in demands for name in demand}:
        assert total[name] == sum(demand.get(name, 0) for demand in demands)


@given(st.integers(0, 9), st.sets(st.integers(0, 20), max_size=10))
def test_units_are_the_lowest_free_ones(amount: int, taken: set[int]) -> None:
    units = pick_units(amount, taken)
    assert len(set(units)) == amount
    assert not taken & set(units)
    assert units == tuple(sorted(units))
    if units:
        assert set(range(units[-1])) <= taken | set(units)
        assert units[-1] < amount + len(taken)


@each_case(
    ("resource", "consumable", "units"),
    [("run:r/usd", True, False), ("host:h/port", False, True), ("llm", False, False)],
)
def test_kinds_of_resources(resource: str, consumable: bool, units: bool) -> None:
    assert capacity.is_consumable(resource) is consumable
    assert capacity.has_units(resource) is units


@each_case(
    ("used", "offline", "expected"),
    [(0, False, "idle"), (2, False, "busy"), (0, True, "offline"), (2, True, "offline")],
)
def test_a_workers_status_follows_from_what_it_holds(
    used: int, offline: bool, expected: str
) -> None:
    assert capacity.status(used=used, offline=offline) == expected
