"""The tokens and dollars that an attempt has used, from reports of its program and prices.

Programs differ in the extent of a report: a step, this process, or the whole session. A `Meter` is
a value that takes in reports in order. The use of a resumed session before this attempt is
subtracted, since another attempt has paid for it.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import add

from msgspec import Struct, field
from msgspec.structs import replace

from weft.agents.agent import AgentBudget, Prices
from weft.agents.events import Event, Extent, TokenCount, Usage


class Spent(Struct, frozen=True, kw_only=True):
    tokens: TokenCount = field(default_factory=TokenCount)
    micro_usd: int | None = None  # None: neither the program nor the agent file says


class Meter(Struct, frozen=True, kw_only=True):
    prices: Prices | None = None
    before: Spent = field(default_factory=Spent)  # the use of the session when it was resumed
    stepped: TokenCount = field(default_factory=TokenCount)  # the sum of the steps
    total: TokenCount = field(default_factory=TokenCount)  # the last word on the whole
    stepped_usd: int | None = None
    total_usd: int | None = None

    @property
    def spent(self) -> Spent:
        """Return the tokens and dollars that this attempt used.

        Programs report 0 dollars for a model whose prices they do not know; then the prices in the
        agent file count.
        """
        # Use never shrinks: of two reports on the same work the larger counts.
        tokens = _combine(max, self.stepped, self.total)
        reported = self.stepped_usd if self.total_usd is None else self.total_usd
        if not reported and self.prices is not None:
            reported = price(tokens, self.prices)
        return Spent(tokens=tokens, micro_usd=reported)

    @property
    def session(self) -> Spent:
        """The use of the session, to be `before` when it is resumed."""
        spent = self.spent
        known = [
            amount for amount in (self.before.micro_usd, spent.micro_usd) if amount is not None
        ]
        return Spent(
            tokens=_combine(add, self.before.tokens, spent.tokens),
            micro_usd=sum(known) if known else None,
        )


def count_event(meter: Meter, event: Event) -> Meter:
    """Return the meter after another event."""
    if not isinstance(event, Usage):
        return meter
    if event.tokens is not None:
        meter = _count_tokens(meter, event.tokens, event.extent)
    if event.micro_usd is not None:
        meter = _count_dollars(meter, event.micro_usd, event.extent)
    return meter


def _combine(combine: Callable[[int, int], int], a: TokenCount, b: TokenCount) -> TokenCount:
    return TokenCount(
        input=combine(a.input, b.input),
        output=combine(a.output, b.output),
        cache_read=combine(a.cache_read, b.cache_read),
        cache_write=combine(a.cache_write, b.cache_write),
    )


def _count_tokens(meter: Meter, tokens: TokenCount, extent: Extent) -> Meter:
    match extent:
        case Extent.STEP:
            return replace(meter, stepped=_combine(add, meter.stepped, tokens))
        case Extent.RUN:
            return replace(meter, total=_combine(max, meter.total, tokens))
        case Extent.SESSION:
            own = _combine(lambda a, b: max(0, a - b), tokens, meter.before.tokens)
            return replace(meter, total=_combine(max, meter.total, own))


def _count_dollars(meter: Meter, micro_usd: int, extent: Extent) -> Meter:
    match extent:
        case Extent.STEP:
            return replace(meter, stepped_usd=(meter.stepped_usd or 0) + micro_usd)
        case Extent.RUN:
            return replace(meter, total_usd=max(meter.total_usd or 0, micro_usd))
        case Extent.SESSION:
            own = max(0, micro_usd - (meter.before.micro_usd or 0))
            return replace(meter, total_usd=max(meter.total_usd or 0, own))


def price(tokens: TokenCount, prices: Prices) -> int:
    """Return micro-dollars, rounded up: rounding never overruns a budget."""
    millionths = (
        tokens.input * prices.input
        + tokens.output * prices.output
        + tokens.cache_read * prices.cache_read
        + tokens.cache_write * prices.cache_write
    )
    return -(-millionths // 1_000_000)


def find_exceeded(spent: Spent, budget: AgentBudget) -> str | None:
    """Return the budget that is used up, `dollars` or `tokens`; None while both last."""
    if budget.micro_usd is not None and (spent.micro_usd or 0) > budget.micro_usd:
        return "dollars"
    if budget.tokens is not None and spent.tokens.total > budget.tokens:
        return "tokens"
    return None
