"""`weft cost`"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from msgspec.structs import asdict

from weft.cli.output import json_option, print_json, print_table
from weft.cli.task_arguments import run_argument
from weft.formats import dollars
from weft.project import project
from weft.runs.run_costs import RunCost, list_run_costs


@click.command(name="cost")
@run_argument
@json_option
@click.pass_obj
def command(directory: Path, run: str | None, as_json: bool) -> None:
    """Show the cost of runs, tasks and agents.

    Tokens and dollars of ended attempts; of a run with a budget also what is spent, what running
    attempts reserve, and how much there is. Without RUN every run and agent; with it that run's
    tasks.
    """
    with project.find(directory, os.environ).open_store() as store:
        found = list_run_costs(store, run)
    if as_json:
        print_json({"runs": [_as_dict(one) for one in found]})
        return
    _print_runs(found)
    if run is not None:
        click.echo()
        _print_tasks(found)
    click.echo()
    _print_agents(found)


def _print_runs(found: Sequence[RunCost]) -> None:
    print_table(
        ("RUN", "TOKENS", "COST", "SPENT", "RESERVED", "OF"),
        [
            (one.run or "without a run", one.tokens, dollars(one.micro_usd), *_budget(one))
            for one in found
        ],
    )


def _budget(one: RunCost) -> tuple[str, str, str]:
    """What its limit counts: settled, reserved by what runs, and the cap."""
    if one.budget is None or (one.budget.cap is None and not one.budget.spent):
        return "", "", ""
    cap = "" if one.budget.cap is None else dollars(one.budget.cap)
    return dollars(one.budget.spent), dollars(one.budget.reserved), cap


def _print_tasks(found: Sequence[RunCost]) -> None:
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
            for one in found
            for cost in one.costs
        ],
    )


def _print_agents(found: Sequence[RunCost]) -> None:
    print_table(
        ("AGENT", "ATTEMPTS", "TOKENS", "COST"),
        [
            (agent or "nobody", attempts, tokens, dollars(micro_usd))
            for agent, (attempts, tokens, micro_usd) in by_agent(found).items()
        ],
    )


def by_agent(found: Sequence[RunCost]) -> dict[str | None, tuple[int, int, int]]:
    attempts: Counter[str | None] = Counter()
    tokens: Counter[str | None] = Counter()
    micro_usd: Counter[str | None] = Counter()
    for cost in (cost for one in found for cost in one.costs):
        attempts[cost.agent] += cost.attempts
        tokens[cost.agent] += cost.tokens
        micro_usd[cost.agent] += cost.micro_usd
    return {agent: (attempts[agent], tokens[agent], micro_usd[agent]) for agent in attempts}


def _as_dict(one: RunCost) -> dict[str, Any]:
    return {
        "run": one.run,
        "tokens": one.tokens,
        "micro_usd": one.micro_usd,
        "budget": None if one.budget is None else asdict(one.budget),
        "tasks": [asdict(cost) for cost in one.costs],
        "agents": [
            {"agent": agent, "attempts": attempts, "tokens": tokens, "micro_usd": micro_usd}
            for agent, (attempts, tokens, micro_usd) in by_agent([one]).items()
        ],
    }
