"""Words and numbers as the plan commands print them."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import click

from weft import plan
from weft.plan import plan_json
from weft.plan.plan_records import ParsedPlan, Plan, PlanTask, Problem, Severity
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


def duration(seconds: float) -> str:
    """`40 s`, `14 min`, `1 h 05 min`."""
    if round(seconds) < 60:
        return f"{round(seconds)} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def listed(names: Sequence[str], most: int = 6) -> str:
    """`a, b and c`, cut where it would get long."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def plain(text: str) -> str:
    """Text from a plan that cannot move the cursor, change colours or turn the line round."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " for letter in text)


def cells(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(_cells(letter) for letter in text)


def _cells(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def fit(text: str, width: int) -> str:
    """The text in exactly so many columns."""
    room = width - cells(text)
    if room < 0:
        kept, room = [], width - 1
        for letter in text:
            room -= _cells(letter)
            if room < 0:
                room += _cells(letter)
                break
            kept.append(letter)
        text = "".join(kept) + "…"
    return text + " " * room


def mark(task: PlanTask) -> str:
    return _MARKS.get(task.status, " ")


_MARKS: Final = {"running": "~", "done": "x", "blocked": "!", "skipped": "-"}


def problem_lines(problem: Problem) -> Iterator[str]:
    """One problem the way a compiler says it, with what to do about it beneath."""
    place = f"{problem.file}:{problem.line}:{problem.column}"
    pointer = f" ({problem.pointer})" if problem.pointer else ""
    yield plain(f"{place}: {problem.severity}: {problem.message}{pointer} [{problem.code}]")
    if problem.suggestion:
        yield plain(f"    {problem.suggestion}")


def summary(checked: CheckedPlan) -> str:
    """One line about a plan: how much it is, what is wrong, how long it would take."""
    errors = sum(problem.severity is Severity.ERROR for problem in checked.problems)
    warnings = len(checked.problems) - errors
    wrong = [
        count(number, what) for number, what in ((errors, "error"), (warnings, "warning")) if number
    ]
    said = f"{plain(checked.name)}: {size(checked.compiled.plan)}"
    said += f", {' and '.join(wrong)}" if wrong else ", no problems"
    if errors:
        return f"{said}."
    slots = count(checked.forecast.slots, "slot")
    return f"{said}; about {duration(checked.forecast.seconds)} on {slots}."


def size(whole: Plan) -> str:
    phases = [phase for phase in whole.phases if phase.label]
    tasks = count(len(whole.tasks), "task")
    return f"{tasks} in {count(len(phases), 'phase')}" if phases else tasks


def print_problems(checked: CheckedPlan) -> None:
    for problem in checked.problems:
        for line in problem_lines(problem):
            click.echo(line)
    click.echo(summary(checked))


def print_errors(reading: ParsedPlan) -> bool:
    """Print what keeps a plan from being used, and say whether there is anything."""
    found = plan_json.list_problems(reading, plan.compile(reading.plan))
    errors = [problem for problem in found if problem.severity is Severity.ERROR]
    for problem in errors:
        for line in problem_lines(problem):
            click.echo(line, err=True)
    return bool(errors)


def warn(warning: str) -> None:
    """Say that the forecast had to do without the store."""
    if warning:
        click.echo(f"weft: Estimates are defaults, not recorded times: {warning}", err=True)
