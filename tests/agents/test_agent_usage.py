from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from agents.streams import recorded
from cases import each_case
from weft.agents.agent import AgentBudget, Prices
from weft.agents.events import Event, Extent, TextEvent, TokenCount, Usage
from weft.agents.usage import Meter, Spent, count_event, find_exceeded, price

PRICES = Prices(input=3_000_000, output=15_000_000, cache_read=300_000, cache_write=3_750_000)
ONE_RUN = TokenCount(input=200, output=40)


def metered(events: Iterable[Event], meter: Meter | None = None) -> Meter:
    meter = meter or Meter()
    for event in events:
        meter = count_event(meter, event)
    return meter


@each_case("name", ["claude", "codex", "opencode", "gemini"])
def test_each_program_used_as_much_in_its_first_run_as_in_its_second(name: str) -> None:
    first = metered(recorded(name, "shell"))
    assert first.spent.tokens == ONE_RUN
    second = metered(recorded(name, "resume"), Meter(before=first.session))
    assert second.spent == first.spent
    assert second.session.tokens == TokenCount(input=400, output=80)


@each_case(
    ("name", "micro_usd"), [("claude", 1200), ("opencode", 1200), ("codex", 1200), ("gemini", 1200)]
)
def test_dollars_come_from_the_program_or_from_prices(name: str, micro_usd: int) -> None:
    # The scripted model's prices are those of PRICES, so both ways must agree.
    first = metered(recorded(name, "shell"), Meter(prices=PRICES))
    second = metered(recorded(name, "resume"), Meter(prices=PRICES, before=first.session))
    assert (first.spent.micro_usd, second.spent.micro_usd) == (micro_usd, micro_usd)


def test_without_prices_or_a_report_nobody_knows_the_dollars() -> None:
    assert metered(recorded("codex", "shell")).spent.micro_usd is None


def test_while_it_runs_the_steps_count_and_at_the_end_the_whole() -> None:
    meter = Meter(prices=PRICES)
    for _ in range(3):
        meter = count_event(
            meter, Usage(extent=Extent.STEP, tokens=TokenCount(input=1000, output=1))
        )
    assert meter.spent.tokens == TokenCount(input=3000, output=3)
    assert meter.spent.micro_usd == 9045
    meter = count_event(meter, Usage(extent=Extent.RUN, tokens=TokenCount(input=3000, output=500)))
    assert meter.spent.tokens == TokenCount(input=3000, output=500)
    meter = count_event(meter, Usage(extent=Extent.SESSION, micro_usd=7))
    assert meter.spent.micro_usd == 7  # the program knows better


def test_what_a_killed_run_never_reported_is_counted_by_the_next() -> None:
    unseen = Meter()  # killed before its first report: 200 and 40 are lost
    after = metered(recorded("codex", "resume"), Meter(before=unseen.session))
    assert after.spent.tokens == TokenCount(input=400, output=80)


def test_prices_are_rounded_up() -> None:
    assert price(TokenCount(cache_read=1), PRICES) == 1
    assert price(TokenCount(), PRICES) == 0
    assert price(TokenCount(input=10**6, cache_write=10**6), PRICES) == 6_750_000


@each_case(
    ("spent", "budget", "which"),
    [
        (Spent(micro_usd=100), AgentBudget(), None),
        (Spent(micro_usd=100), AgentBudget(micro_usd=100), None),
        (Spent(micro_usd=101), AgentBudget(micro_usd=100), "dollars"),
        (Spent(micro_usd=None), AgentBudget(micro_usd=0), None),
        (Spent(tokens=TokenCount(input=5, cache_read=6)), AgentBudget(tokens=10), "tokens"),
        (Spent(tokens=TokenCount(input=5, cache_read=5)), AgentBudget(tokens=10), None),
    ],
)
def test_a_budget_is_exceeded_above_its_last_unit(
    spent: Spent, budget: AgentBudget, which: str | None
) -> None:
    assert find_exceeded(spent, budget) == which


TOKENS = st.builds(TokenCount, input=st.integers(0, 9), output=st.integers(0, 9))
USAGES = st.builds(
    Usage,
    extent=st.sampled_from(Extent),
    tokens=st.none() | TOKENS,
    micro_usd=st.none() | st.integers(0, 9),
)


@given(
    st.lists(USAGES | st.just(TextEvent("x")), max_size=8), TOKENS, st.none() | st.integers(0, 9)
)
def test_what_was_used_never_comes_back(
    events: list[Event], before: TokenCount, dollars: int | None
) -> None:
    meter = Meter(before=Spent(tokens=before, micro_usd=dollars))
    for event in events:
        later = count_event(meter, event)
        assert later.spent.tokens.total >= meter.spent.tokens.total
        assert (later.spent.micro_usd or 0) >= 0
        meter = later


def test_prices_of_the_agent_file_count_where_a_program_reports_no_dollars() -> None:
    step = Usage(extent=Extent.STEP, tokens=ONE_RUN, micro_usd=0)
    assert metered([step], Meter(prices=PRICES)).spent.micro_usd == price(ONE_RUN, PRICES)
    assert metered([step]).spent.micro_usd == 0
