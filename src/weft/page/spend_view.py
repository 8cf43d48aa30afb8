"""The view of money: reserved, used, cap; by run, agent and task; retries apart; a forecast."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from weft.formats import dollars
from weft.page.act_forms import limit_form
from weft.page.markup import Html, Part, article, dim, link, table, tag, tr
from weft.runs.task_list import RunCost


class RunSpend(Struct, frozen=True, kw_only=True):
    cost: RunCost
    state: str  # of the run; empty: tasks of no run
    retries: int  # micro-dollars of repeated attempts
    forecast: int | None  # micro-dollars until the end; None: no record, or it has ended


class SpendView(Struct, frozen=True, kw_only=True):
    runs: Sequence[RunSpend]
    after: str | None  # the run that the next page follows
    may_act: bool = False


def render_spend(view: SpendView) -> Html:
    if not view.runs:
        return article("Spend", dim("Nothing was spent yet."))
    heads = ("Run", "Used", "Of it retries", "Reserved", "Cap", "Expected in all", "")
    rows = [_row(spend, view) for spend in view.runs]
    return article(
        "Spend",
        table(heads, rows, caption="Spending by run"),
        tag("h2", "By agent"),
        _agents(view),
        tag("h2", "Most expensive tasks"),
        _tasks(view),
        tag("p", link(f"spend?after={view.after}", "Older runs")) if view.after else None,
    )


def _row(spend: RunSpend, view: SpendView) -> Html:
    budget, run, used = spend.cost.budget, spend.cost.run, spend.cost.micro_usd
    cap = None if budget is None else budget.cap
    name: Part = "tasks of no run"
    if run is not None:
        name = [link(f"report?run={run}", run), f" {spend.state}"]
    return tr(
        name,
        [dollars(used), " ", _meter(used, cap)],
        dollars(spend.retries) if spend.retries else "",
        dollars(budget.reserved) if budget is not None and budget.reserved else "",
        "none" if cap is None else dollars(cap),
        "" if spend.forecast is None else dollars(spend.forecast),
        limit_form(f"run:{run}/usd", cap, "Change the budget…")
        if view.may_act and cap is not None and spend.state != "ended"
        else None,
        id=f"spend-{run or 'rest'}",
        data_row=True,
    )


def _meter(used: int, cap: int | None) -> Part:
    if not cap:
        return None
    return tag(
        "meter",
        value=min(used, cap),
        max=cap,
        high=0.9 * cap,
        aria_label=f"{used / cap:.0%} of the cap",
    )


def _agents(view: SpendView) -> Html:
    sums: dict[str, tuple[int, int, int]] = {}
    for spend in view.runs:
        for cost in spend.cost.costs:
            attempts, tokens, money = sums.get(cost.agent or "none", (0, 0, 0))
            sums[cost.agent or "none"] = (
                attempts + cost.attempts,
                tokens + cost.tokens,
                money + cost.micro_usd,
            )
    rows = [
        tr(agent, f"{attempts:,}", f"{tokens:,}", dollars(money))
        for agent, (attempts, tokens, money) in sorted(sums.items(), key=lambda item: -item[1][2])
    ]
    return table(("Agent", "Attempts", "Tokens", "Used"), rows, caption="Spending by agent")


def _tasks(view: SpendView) -> Html:
    costs = [(spend.cost.run, cost) for spend in view.runs for cost in spend.cost.costs]
    first = sorted(costs, key=lambda pair: -pair[1].micro_usd)[:30]
    rows = [
        tr(
            link(f"task/{cost.task}", f"{run}/{cost.name}" if run else str(cost.task)),
            cost.agent or "",
            f"{cost.attempts:,}",
            f"{cost.tokens:,}",
            dollars(cost.micro_usd),
            data_row=True,
        )
        for run, cost in first
    ]
    return table(("Task", "Agent", "Attempts", "Tokens", "Used"), rows, caption="Spending by task")
