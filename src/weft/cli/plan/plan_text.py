"""Words that several plan commands print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from weft import plan
from weft.plan import plan_json
from weft.plan.plan_records import ParsedPlan, Severity, Source
from weft.runs.plan_check import CheckedPlan
from weft.runs.plan_words import list_notes, problem_lines, summary

F = TypeVar("F", bound=Callable[..., Any])

MOST_SLOTS: Final = 10_000


def slots_option(command: F) -> F:
    return click.option(
        "--slots",
        type=click.IntRange(1, MOST_SLOTS),
        metavar="N",
        help="Predict for N tasks at once. Default: what weft.toml and the limits allow, mostly 4.",
    )(command)


def take_option(command: F) -> F:
    return click.option(
        "--take",
        multiple=True,
        metavar="ID",
        help="Take this task although it is held back; may be repeated.",
    )(command)


def format_option(command: F) -> F:
    return click.option(
        "--format",
        "plan_format",
        type=click.Choice(Source),
        help="Read the file in this format. Default: found by its name and content.",
    )(command)


def print_problems(checked: CheckedPlan) -> None:
    for problem in checked.problems:
        for line in problem_lines(problem):
            click.echo(line)
    for note in list_notes(checked):
        click.echo(note)
    click.echo(summary(checked))


def print_errors(reading: ParsedPlan) -> bool:
    """Print the errors of a plan to stderr; return whether there are any."""
    problems = plan_json.list_problems(reading, plan.compile(reading.plan))
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    for problem in errors:
        for line in problem_lines(problem):
            click.echo(line, err=True)
    return bool(errors)


def warn(warning: str) -> None:
    if warning:
        click.echo(f"weft: Estimates are defaults, not recorded times: {warning}", err=True)
