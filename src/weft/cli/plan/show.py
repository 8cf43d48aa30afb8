"""`weft plan show`"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import click

from weft.cli.output import json_option, print_json
from weft.cli.page import is_page
from weft.cli.plan import gantt, page, texts, tree
from weft.cli.plan.texts import duration
from weft.operations import plan_file, plans
from weft.operations.plans import Checked


@click.command(name="show")
@click.argument("file", metavar="FILE")
@texts.slots_option
@click.option("--html", metavar="OUT", help="Write it as one HTML page to OUT instead.")
@json_option
@click.pass_obj
def command(
    directory: Path, file: str, slots: int | None, html: str | None, as_json: bool
) -> int | None:
    """Draw a plan: who waits for whom and why, and when what would run.

    Ends with what would shorten it most, such as a file that two tasks have to take turns at.

    Example: weft plan show plan.md --slots 4 --html plan.html
    """
    source = plans.load(directory, file)
    with plans.setting(directory, os.environ) as around:
        checked = plans.check(source, around, slots)
        texts.warn(around.history.warning)
    if checked.failed:
        if as_json:
            print_json(plans.as_json(checked))
        else:
            texts.print_problems(checked)
        return 2
    if html is not None:
        text = page.render(checked, list(figures(checked)), list(advice(checked)))
        data = text.encode(errors="replace")
        plan_file.write_over(directory / html, data, ours=is_page, kind="HTML page")
    if as_json:
        print_json({**plans.as_json(checked), **_as_json(checked)})
    elif html is not None:
        click.echo(f"Wrote {html}.")
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        for line in _lines(checked, width):
            click.echo(line)
    return None


def _as_json(checked: Checked) -> dict[str, object]:
    return {
        "schedule": [
            {
                "task": stint.name,
                "slot": stint.slot,
                "start": round(stint.start, 3),
                "end": round(stint.end, 3),
            }
            for stint in checked.forecast.schedule
        ],
        "savings": [
            {"file": one.file, "tasks": list(one.tasks), "seconds": round(one.seconds, 3)}
            for one in checked.savings
        ],
    }


def _lines(checked: Checked, width: int) -> Iterator[str]:
    plan = checked.compiled.plan
    yield from ([texts.plain(plan.title), ""] if plan.title else [])
    yield from tree.draw(checked.compiled)
    yield ""
    yield from gantt.draw(checked.forecast, tree.names(plan), set(checked.critical_path), width)
    yield ""
    yield from _words(checked)
    if checked.problems:
        yield f"`weft plan check` lists {texts.count(len(checked.problems), 'warning')}."


def _words(checked: Checked) -> Iterator[str]:
    for name, value in figures(checked):
        yield f"{name + ':' if name else '':<15} {texts.plain(value)}"
    for number, line in enumerate(advice(checked)):
        yield f"{'Shorter:' if number == 0 else '':<15} {line}"


def figures(checked: Checked) -> Iterator[tuple[str, str]]:
    """How much it is and what bounds it, each as a name and a value."""
    forecast, bounds = checked.forecast, checked.forecast.bounds
    tasks = texts.count(len(forecast.schedule), "task")
    if not forecast.schedule:
        yield "Predicted", "nothing is left to run"
        return
    slots = texts.count(forecast.slots, "slot")
    yield "Predicted", f"{duration(forecast.seconds)} for {tasks} on {slots}"
    over = 1 - bounds.lower / forecast.seconds if forecast.seconds else 0.0
    near = "no schedule is shorter" if over < 0.005 else f"{over:.0%} less than predicted"
    yield "At best", f"{duration(bounds.lower)}: {near}"
    yield "Longest path", duration(bounds.critical_path)
    yield "Work per slot", duration(bounds.work_per_slot)
    if bounds.file:
        yield "Busiest file", f"{place(bounds.file)}, {duration(bounds.busiest_file)}"
    yield "Width", f"up to {texts.count(checked.compiled.width, 'task')} could run at once"
    yield "Critical path", path(checked.critical_path)


def path(names: list[str], most: int = 12) -> str:
    """The ids on a path, its middle left out if it is long."""
    if len(names) > most:
        half = most // 2
        names = [*names[:half], f"… {len(names) - 2 * half} more …", *names[-half:]]
    return texts.plain(" → ".join(names))


def advice(checked: Checked) -> Iterator[str]:
    """What would shorten the run most."""
    for saving in checked.savings:
        less = f"−{duration(saving.seconds)}"
        who = texts.listed(saving.tasks)
        if saving.file == "**":
            yield texts.plain(f"name the files of {who}: {less}")
        else:
            yield texts.plain(f"split {saving.file} between {who}: {less}")


def place(pattern: str) -> str:
    return "the whole repository" if pattern == "**" else texts.plain(pattern)
