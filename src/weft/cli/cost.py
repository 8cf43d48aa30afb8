"""`weft cost`"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import click
from msgspec.structs import asdict

from weft.cli.output import json_option, print_json, print_table
from weft.cli.project_argument import pass_store
from weft.cli.task_arguments import run_argument
from weft.formats import dollars
from weft.runs.task_list import RunCost, list_run_costs
from weft.store import Store


@click.command(name="cost")
@run_argument
@json_option
@pass_store
def command(store: Store, run: str | None, as_json: bool) -> None:
    """Show the cost of runs, tasks and agents.

    Tokens and dollars of ended attempts; of a run with a budget also what is spent, what running
    attempts reserve, and how much there is. Without RUN every run and agent; with it that run's
    tasks.
    """
    runs = list_run_costs(store, run)
    if as_json:
        print_json({"runs": [_as_dict(cost) for cost in runs]})
        return
    _print_runs(runs)
    if run is not None:
        click.echo()
        _print_tasks(runs)
    click.echo()
    _print_agents(runs)


def _print_runs(runs: Sequence[RunCost]) -> None:
    print_table(
        ("RUN", "TOKENS", "COST", "SPENT", "RESERVED", "OF"),
        [
            (run.run or "without a run", run.tokens, dollars(run.micro_usd), *_budget(run))
            for run in runs
        ],
    )


def _budget(run: RunCost) -> tuple[str, str, str]:
    """Return the amounts that the budget counts: spent, reserved by attempts, and the cap."""
    budget = run.budget
    if budget is None or (budget.cap is None and not budget.spent):
        return "", "", ""
    cap = "" if budget.cap is None else dollars(budget.cap)
    return dollars(budget.spent), dollars(budget.reserved), cap


def _print_tasks(runs: Sequence[RunCost]) -> None:
    print_table(
        ("TASK", "NAME", "AGENT", "ATTEMPTS", "TOKENS", "COST"),
        [
            (
                cost.task,
                cost.name,
                cost.agent or "",
                cost.attempts,
                cost.tokens,
                dollars(cost.micro_usd),
            )
            for run in runs
            for cost in run.costs
        ],
    )


def _print_agents(runs: Sequence[RunCost]) -> None:
    print_table(
        ("AGENT", "ATTEMPTS", "TOKENS", "COST"),
        [
            (agent or "nobody", attempts, tokens, dollars(micro_usd))
            for agent, (attempts, tokens, micro_usd) in by_agent(runs).items()
        ],
    )


def by_agent(runs: Sequence[RunCost]) -> dict[str | None, tuple[int, int, int]]:
    attempts: Counter[str | None] = Counter()
    tokens: Counter[str | None] = Counter()
    micro_usd: Counter[str | None] = Counter()
    for cost in (cost for run in runs for cost in run.costs):
        attempts[cost.agent] += cost.attempts
        tokens[cost.agent] += cost.tokens
        micro_usd[cost.agent] += cost.micro_usd
    return {agent: (attempts[agent], tokens[agent], micro_usd[agent]) for agent in attempts}


def _as_dict(run: RunCost) -> dict[str, Any]:
    return {
        "run": run.run,
        "tokens": run.tokens,
        "micro_usd": run.micro_usd,
        "budget": None if run.budget is None else asdict(run.budget),
        "tasks": [asdict(cost) for cost in run.costs],
        "agents": [
            {"agent": agent, "attempts": attempts, "tokens": tokens, "micro_usd": micro_usd}
            for agent, (attempts, tokens, micro_usd) in by_agent([run]).items()
        ],
    }
