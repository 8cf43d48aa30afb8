"""Words that several plan commands print."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import click

from weft import plan
from weft.formats import count, duration, listed, plain
from weft.plan import plan_json
from weft.plan.plan_records import ParsedPlan, Plan, Problem, Severity, Source
from weft.runs.plan_check import CheckedPlan

F = TypeVar("F", bound=Callable[..., Any])

MOST_SLOTS: Final = 10_000


def slots_option(command: F) -> F:
    return click.option(
        "--slots",
        type=click.IntRange(1, MOST_SLOTS),
        metavar="N",
        help="Predict for N tasks at once. Default: what weft.toml and the limits allow, mostly 3.",
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


def problem_lines(problem: Problem) -> Iterator[str]:
    """Yield a problem as a compiler prints it, with the suggestion beneath."""
    place = f"{problem.file}:{problem.line}:{problem.column}"
    pointer = f" ({problem.pointer})" if problem.pointer else ""
    yield plain(f"{place}: {problem.severity}: {problem.message}{pointer} [{problem.code}]")
    if problem.suggestion:
        yield plain(f"    {problem.suggestion}")


def summary(checked: CheckedPlan) -> str:
    """Return the size of a plan, the number of its problems and its predicted time."""
    errors = sum(problem.severity is Severity.ERROR for problem in checked.problems)
    warnings = len(checked.problems) - errors
    wrong = [
        count(number, noun) for number, noun in ((errors, "error"), (warnings, "warning")) if number
    ]
    text = f"{plain(checked.name)}: {_size(checked.compiled.plan)}"
    text += f", {' and '.join(wrong)}" if wrong else ", no problems"
    if errors:
        return f"{text}."
    slots = count(checked.forecast.slots, "slot")
    guess = f" (a guess: {listed(checked.guesses)})" if checked.guesses else ""
    return f"{text}; about {duration(checked.forecast.seconds)} on {slots}{guess}."


def _size(whole: Plan) -> str:
    phases = [phase for phase in whole.phases if phase.label]
    tasks = count(len(whole.tasks), "task")
    return f"{tasks} in {count(len(phases), 'phase')}" if phases else tasks


def print_problems(checked: CheckedPlan) -> None:
    for problem in checked.problems:
        for line in problem_lines(problem):
            click.echo(line)
    if note := prediction_note(checked):
        click.echo(note)
    click.echo(summary(checked))


def prediction_note(checked: CheckedPlan) -> str:
    """Return a sentence about predicted files; empty if there is nothing to say."""
    return checked.prediction.note if checked.prediction is not None else ""


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
