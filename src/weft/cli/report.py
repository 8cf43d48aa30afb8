"""`weft report`"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from weft.cli.command_arguments import pass_store, run_argument
from weft.cli.output import json_option, print_json, print_table, show
from weft.errors import InputError
from weft.formats import count, dollars, duration, listed, whole_line
from weft.page import report_page
from weft.page.markup import is_page
from weft.runs.plan_file import write_over
from weft.runs.report_records import RunReport, describe_choice
from weft.runs.run_figures import describe_times
from weft.runs.run_report import as_json as to_json
from weft.runs.run_report import read
from weft.runs.task_list import RunCost, list_run_costs
from weft.store import Store


@click.command(name="report")
@run_argument
@click.option("--html", metavar="OUT", help="Write it as one HTML page to OUT.")
@click.option("--cost", is_flag=True, help="The cost of all runs and agents, or of RUN's tasks.")
@json_option
@click.pass_obj
@pass_store
def command(
    store: Store, directory: Path, run: str | None, html: str | None, cost: bool, as_json: bool
) -> None:
    """Report on a run, or on the newest one.

    What ran when and on which slot, what waited for what, how much of every limit was in use,
    what it cost, every attempt, and every verdict of the gate. --html writes all of it as one
    page that needs no other file; without it, a few lines give the result.

    --cost shows tokens and dollars of ended attempts; of a run with a budget also what is spent,
    what running attempts reserve, and how much there is.

    Example: weft report --html report.html
    """
    if cost:
        if html is not None:
            raise InputError("Give --cost or --html: the page has the cost of its run.")
        _print_cost(list_run_costs(store, run), tasks=run is not None, as_json=as_json)
        return
    report = read(store, run)
    if html is not None:
        data = report_page.render(report).encode(errors="replace")
        write_over(directory / html, data, ours=is_page, kind="HTML page")
    written = [f"Wrote {html}."]
    show(to_json(report), lines(report) if html is None else written, as_json=as_json)


def lines(report: RunReport) -> Iterator[str]:
    figures = report.figures
    yield f"run {report.run} ({report.title}): {report.state}"
    yield f"{figures.landed} of {figures.tasks} tasks landed"
    if times := describe_times(figures):
        yield times
    flaky = f" ({figures.flaky} flaky)" if figures.flaky else ""
    yield (
        f"{count(figures.attempts, 'attempt')} ({figures.failed} failed), "
        f"{count(figures.checks, 'check')}{flaky}, "
        f"{figures.sent_back} sent back, {figures.tokens:,} tokens, {dollars(figures.micro_usd)}"
    )
    if report.unboxed:
        yield f"! the sandbox was {report.unboxed}"
    yield from _hosts(report)
    predicted = [task.name for task in report.tasks if task.predicted]
    if predicted:
        yield f"files predicted for {listed(predicted)} (`weft why TASK`)"
    for rejection in report.rejections:
        reason = whole_line(rejection.reason)
        yield f"↩ {', '.join(rejection.tasks)} at {duration(rejection.at)}: {reason}"
    for choice in report.choices:
        yield f"★ {choice.task} at {duration(choice.at)}: {describe_choice(choice)}"
    yield "`weft report --html OUT` draws all of it"


def _hosts(report: RunReport) -> Iterator[str]:
    """Yield the work of each worker host."""
    attempts = Counter(attempt.host for attempt in report.attempts if attempt.host)
    checks = Counter(check.host for check in report.checks if check.host)
    for host in sorted({*attempts, *checks}):
        parts = [(attempts[host], "attempt"), (checks[host], "check")]
        yield f"on {host}: {', '.join(count(number, noun) for number, noun in parts if number)}"


def _print_cost(runs: Sequence[RunCost], *, tasks: bool, as_json: bool) -> None:
    if as_json:
        print_json({"runs": [_cost_dict(run) for run in runs]})
        return
    print_table(
        ("RUN", "TOKENS", "COST", "SPENT", "RESERVED", "OF"),
        [
            (run.run or "without a run", run.tokens, dollars(run.micro_usd), *_budget(run))
            for run in runs
        ],
    )
    click.echo()
    if tasks:
        print_table(
            ("TASK", "NAME", "AGENT", "ATTEMPTS", "TOKENS", "COST"),
            [
                (
                    *(cost.task, cost.name, cost.agent or "", cost.attempts, cost.tokens),
                    dollars(cost.micro_usd),
                )
                for run in runs
                for cost in run.costs
            ],
        )
        click.echo()
    print_table(
        ("AGENT", "ATTEMPTS", "TOKENS", "COST"),
        [
            (agent or "nobody", attempts, tokens, dollars(micro_usd))
            for agent, (attempts, tokens, micro_usd) in by_agent(runs).items()
        ],
    )


def _budget(run: RunCost) -> tuple[str, str, str]:
    """Return the amounts that the budget counts: spent, reserved by attempts, and the cap."""
    budget = run.budget
    if budget is None or (budget.cap is None and not budget.spent):
        return "", "", ""
    cap = "" if budget.cap is None else dollars(budget.cap)
    return dollars(budget.spent), dollars(budget.reserved), cap


def by_agent(runs: Sequence[RunCost]) -> dict[str | None, tuple[int, int, int]]:
    """Return attempts, tokens and micro-dollars of each agent."""
    sums: dict[str | None, tuple[int, int, int]] = {}
    for cost in (cost for run in runs for cost in run.costs):
        attempts, tokens, micro_usd = sums.get(cost.agent, (0, 0, 0))
        sums[cost.agent] = (
            attempts + cost.attempts,
            tokens + cost.tokens,
            micro_usd + cost.micro_usd,
        )
    return sums


def _cost_dict(run: RunCost) -> dict[str, Any]:
    return {
        "run": run.run,
        "tokens": run.tokens,
        "micro_usd": run.micro_usd,
        "budget": run.budget,
        "tasks": run.costs,
        "agents": [
            {"agent": agent, "attempts": attempts, "tokens": tokens, "micro_usd": micro_usd}
            for agent, (attempts, tokens, micro_usd) in by_agent([run]).items()
        ],
    }
