"""What an attempt has used so far, from what its program reports and what tokens cost.

Programs differ in what a report covers: one step, this process, or the whole session. A `Meter`
is a value that takes in one report after the other; what a resumed session had used before this
attempt is subtracted, since another attempt has paid for it.
"""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from weft.agents.agent import AgentBudget, Prices
from weft.agents.events import Event, Extent, TokenCount, Usage


class Spent(Struct, frozen=True, kw_only=True):
    tokens: TokenCount = field(default_factory=TokenCount)
    micro_usd: int | None = None  # None: neither the program nor the agent file says


class Meter(Struct, frozen=True, kw_only=True):
    prices: Prices | None = None
    before: Spent = field(default_factory=Spent)  # what the session had used when it was resumed
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
        tokens = _most(self.stepped, self.total)
        reported = self.stepped_usd if self.total_usd is None else self.total_usd
        if not reported and self.prices is not None:
            reported = price(tokens, self.prices)
        return Spent(tokens=tokens, micro_usd=reported)

    @property
    def session(self) -> Spent:
        """What the session has used, to be `before` when it is resumed."""
        spent = self.spent
        known = [one for one in (self.before.micro_usd, spent.micro_usd) if one is not None]
        return Spent(
            tokens=_plus(self.before.tokens, spent.tokens),
            micro_usd=sum(known) if known else None,
        )


def counted(meter: Meter, event: Event) -> Meter:
    """The meter after one more event."""
    if not isinstance(event, Usage):
        return meter
    if event.tokens is not None:
        meter = _count_tokens(meter, event.tokens, event.extent)
    if event.micro_usd is not None:
        meter = _count_dollars(meter, event.micro_usd, event.extent)
    return meter


def _count_tokens(meter: Meter, tokens: TokenCount, extent: Extent) -> Meter:
    match extent:
        case Extent.STEP:
            return replace(meter, stepped=_plus(meter.stepped, tokens))
        case Extent.RUN:
            return replace(meter, total=_most(meter.total, tokens))
        case Extent.SESSION:
            own = _minus(tokens, meter.before.tokens)
            return replace(meter, total=_most(meter.total, own))


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
    """Micro-dollars, rounded up: a budget is never overrun by rounding."""
    millionths = (
        tokens.input * prices.input
        + tokens.output * prices.output
        + tokens.cache_read * prices.cache_read
        + tokens.cache_write * prices.cache_write
    )
    return -(-millionths // 1_000_000)


def exceeded(spent: Spent, budget: AgentBudget) -> str | None:
    """Which budget is used up: `dollars`, `tokens`, or None while there is something left."""
    if budget.micro_usd is not None and (spent.micro_usd or 0) > budget.micro_usd:
        return "dollars"
    if budget.tokens is not None and spent.tokens.total > budget.tokens:
        return "tokens"
    return None


def _plus(one: TokenCount, other: TokenCount) -> TokenCount:
    return TokenCount(
        input=one.input + other.input,
        output=one.output + other.output,
        cache_read=one.cache_read + other.cache_read,
        cache_write=one.cache_write + other.cache_write,
    )


def _minus(one: TokenCount, other: TokenCount) -> TokenCount:
    return TokenCount(
        input=max(0, one.input - other.input),
        output=max(0, one.output - other.output),
        cache_read=max(0, one.cache_read - other.cache_read),
        cache_write=max(0, one.cache_write - other.cache_write),
    )


def _most(one: TokenCount, other: TokenCount) -> TokenCount:
    """Of two reports on the same work the larger: what was used does not come back."""
    return TokenCount(
        input=max(one.input, other.input),
        output=max(one.output, other.output),
        cache_read=max(one.cache_read, other.cache_read),
        cache_write=max(one.cache_write, other.cache_write),
    )
