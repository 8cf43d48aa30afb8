"""`weft plan check`, `weft plan show` and `weft plan state`"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click
from msgspec.structs import asdict

from weft.cli.output import json_option, print_json
from weft.cli.plan import plan_text
from weft.cli.plan.split import advice_json, advice_lines
from weft.cli.text_gantt import MOST_LINES, draw_bars, draw_load
from weft.formats import count, plain
from weft.page import plan_page
from weft.page.markup import is_page
from weft.plan.plan_records import Compiled, PlanTask, Source
from weft.runs import plan_check, plan_file, plan_splitting, plan_words
from weft.runs.plan_check import CheckedPlan
from weft.runs.plan_splitting import SplitTask
from weft.runs.plan_state import encode_state, write_state
from weft.runs.progress import find_last_run, read_progress

_MOST_REASONS: Final = 5
_DEEPEST: Final = 8
_MARKS: Final = {"running": "~", "done": "x", "blocked": "!", "skipped": "-"}


@click.command(name="check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@plan_text.slots_option
@plan_text.take_option
@plan_text.format_option
@json_option
@click.pass_obj
def command(
    directory: Path,
    files: tuple[str, ...],
    slots: int | None,
    take: tuple[str, ...],
    plan_format: Source | None,
    as_json: bool,
) -> int:
    """Report every problem of a plan, like a compiler.

    Each problem has its place, a code and a suggestion; the last line says how long the plan
    would take. Exits with 2 if there are errors; warnings alone exit with 0.

    Example: weft plan check plan.md --slots 4
    """
    sources = [plan_check.load(directory, name, take, plan_format) for name in files]
    with plan_check.setting(directory, os.environ) as around:
        checked = [plan_check.check(source, around, slots) for source in sources]
    plan_text.warn(checked[0].warning)
    if as_json:
        answers = [plan_check.as_json(plan) for plan in checked]
        named = [
            {"file": plan.name, **answer} for plan, answer in zip(checked, answers, strict=True)
        ]
        print_json(answers[0] if len(answers) == 1 else named)
    else:
        for plan in checked:
            plan_text.print_problems(plan)
    return 2 if any(plan.failed for plan in checked) else 0


@click.command(name="show")
@click.argument("file", metavar="FILE")
@plan_text.slots_option
@plan_text.take_option
@plan_text.format_option
@click.option("--html", metavar="OUT", help="Write it as one HTML page to OUT instead.")
@json_option
@click.pass_obj
def show(
    directory: Path,
    file: str,
    slots: int | None,
    take: tuple[str, ...],
    plan_format: Source | None,
    html: str | None,
    as_json: bool,
) -> int | None:
    """Draw a plan: its dependencies and its predicted schedule.

    Ends with what would shorten it most, such as a file that two tasks have to take turns at.

    Example: weft plan show plan.md --slots 4 --html plan.html
    """
    source = plan_check.load(directory, file, take, plan_format)
    with plan_check.setting(directory, os.environ) as around:
        checked = plan_check.check(source, around, slots)
        splits: Sequence[SplitTask] = ()
        if around.config.plan.split != "off" and not checked.failed:
            splits = plan_splitting.advise_plan(checked, around)
    plan_text.warn(checked.warning)
    if checked.failed:
        if as_json:
            print_json(plan_check.as_json(checked))
        else:
            plan_text.print_problems(checked)
        return 2
    if html is not None:
        text = plan_page.render(checked)
        data = text.encode(errors="replace")
        plan_file.write_over(directory / html, data, ours=is_page, kind="HTML page")
    if as_json:
        splitting = {"splitting": [advice_json(split) for split in splits]}
        print_json({**plan_check.as_json(checked), **_as_json(checked), **splitting})
    elif html is not None:
        click.echo(f"Wrote {html}.")
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        for line in (*_show_lines(checked, width), *_split_lines(splits, file)):
            click.echo(line)
    return None


def _as_json(checked: CheckedPlan) -> dict[str, object]:
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
            {**asdict(saving), "seconds": round(saving.seconds, 3)} for saving in checked.savings
        ],
    }


def _show_lines(checked: CheckedPlan, width: int) -> Iterator[str]:
    plan = checked.compiled.plan
    yield from ([plain(plan.title), ""] if plan.title else [])
    yield from _draw_tree(checked.compiled)
    yield ""
    yield from schedule_lines(checked, width)
    yield ""
    yield from _words(checked)
    yield from plan_words.list_notes(checked)
    if checked.problems:
        yield f"`weft plan check` lists {count(len(checked.problems), 'warning')}."


def _split_lines(splits: Sequence[SplitTask], file: str) -> Iterator[str]:
    for number, line in enumerate(advice_lines(splits)):
        yield f"{'Split:' if number == 0 else '':<15} {plain(line)}"
    if any(split.advice.pays for split in splits):
        yield f"`weft plan split {plain(file)}` shows the parts."


def schedule_lines(checked: CheckedPlan, width: int) -> Iterator[str]:
    """Draw a line for each task, or for each slot if the tasks are many."""
    if len(checked.forecast.schedule) > MOST_LINES:
        yield from draw_load(plan_page.chart_slots(checked), width)
    elif checked.forecast.schedule:
        yield from draw_bars(plan_page.chart_tasks(checked), width)
        yield "█ critical path  ▒ other tasks"


def _words(checked: CheckedPlan) -> Iterator[str]:
    for name, value in plan_words.figures(checked):
        yield f"{name + ':' if name else '':<15} {plain(value)}"
    for number, line in enumerate(plan_words.advice(checked)):
        yield f"{'Shorter:' if number == 0 else '':<15} {line}"


@click.command(name="state")
@click.argument("file", metavar="FILE")
@click.option("--phase", metavar="P", help="A phase, by its number. Default: the running phases.")
@click.option("--output", metavar="OUT", help="The file to write instead of the output.")
@plan_text.format_option
@click.pass_obj
def state(
    directory: Path,
    file: str,
    phase: str | None,
    output: str | None,
    plan_format: Source | None,
) -> int:
    """Write the running phases of a plan as parallel_state.json.

    Times, commits and errors are those of the last run of FILE; a plan that was never run has its
    marks alone. OUT may be there from an earlier time; a file of any other kind is not
    overwritten. `weft run FILE --state OUT` keeps OUT up to date.

    Example: weft plan state plan.md --output parallel_state.json
    """
    source = plan_check.load(directory, file, format=plan_format)
    reading = plan_check.read_source(source)
    if plan_text.print_errors(reading):
        return 2
    with plan_check.setting(directory, os.environ) as around:
        run = None if around.store is None else find_last_run(around.store, directory / file)
        progress = None if run is None or around.store is None else read_progress(around.store, run)
    data = encode_state(reading.plan, phase, progress)
    if output is None:
        click.echo(data, nl=False)
    else:
        write_state(directory / output, data)
        click.echo(f"Wrote {output}.")
    return 0


def _draw_tree(compiled: Compiled) -> Iterator[str]:
    reasons = plan_words.list_reasons(compiled)
    for heading, tasks in plan_words.list_phases(compiled):
        yield heading
        yield from _branches(tasks, reasons)


def _branches(tasks: Sequence[PlanTask], reasons: dict[str, list[str]]) -> Iterator[str]:
    """Yield the tasks of a phase, with the parts of a story or an epic beneath it."""
    parts: dict[str | None, list[PlanTask]] = {}
    own = {task.id for task in tasks}
    for task in tasks:
        parts.setdefault(task.parent if task.parent in own else None, []).append(task)
    waiting = [(task, "", task is parts[None][-1]) for task in reversed(parts.get(None, []))]
    while waiting:
        task, lead, last = waiting.pop()
        yield f"{lead}{'└' if last else '├'}─ [{_MARKS.get(task.status, ' ')}] {_describe(task)}"
        beneath = lead + ("   " if last else "│  ")
        children = parts.get(task.id, [])
        yield from _notes(reasons.get(task.id, []), beneath + ("│ " if children else "  "))
        deeper = beneath if len(beneath) <= 3 * _DEEPEST else lead
        waiting.extend((child, deeper, child is children[-1]) for child in reversed(children))


def _describe(task: PlanTask) -> str:
    person = " (waits for a person)" if task.manual else ""
    note = f" ({plain(task.note)})" if task.note else ""
    return plain(f"{task.id} {task.title}") + person + note


def _notes(reasons: Sequence[str], lead: str) -> Iterator[str]:
    for reason in reasons[:_MOST_REASONS]:
        yield f"{lead}     {plain(reason)}"
    if len(reasons) > _MOST_REASONS:
        yield f"{lead}     … and {count(len(reasons) - _MOST_REASONS, 'more reason')}"
