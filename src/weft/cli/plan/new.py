"""`weft plan new`"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from weft.cli.output import json_option, print_json, say
from weft.errors import InputError
from weft.plan.plan_prose import TEMPLATE
from weft.runs import plan_file

if TYPE_CHECKING:
    from weft.cli.plan.planner_rounds import PlanningResult

_STANDARD_INPUT: Final = "-"


@click.command(name="new")
@click.argument("goal", required=False, metavar="[GOAL]")
@click.option(
    "--from",
    "source",
    metavar="FILE",
    help="Read the goal from FILE, `-` for standard input, or give the text of an issue itself.",
)
@click.option(
    "--agent", metavar="NAME", help="The agent that plans. Default: that of `stage: plan`."
)
@click.option(
    "-o", "--output", default="plan.md", metavar="FILE", help="The file to write. Default: plan.md."
)
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists.")
@json_option
@click.pass_obj
def command(
    directory: Path,
    goal: str | None,
    source: str | None,
    agent: str | None,
    output: str,
    overwrite: bool,
    as_json: bool,
) -> int:
    """Write a plan.md for a goal, or one to start from.

    With a GOAL, the agent with `stage: plan` reads the repository and writes the plan. weft checks
    it and sends the problems back, in three rounds at most. Nothing is run: read the plan, then
    `weft run` it. Exits with 1 if problems are left. Without a goal, FILE is an example with
    comments. FILE must not exist.

    \b
    weft plan new "Add a login page"
    gh issue view 12 | weft plan new --from -
    """
    path = directory / output
    if not overwrite and os.path.lexists(path):
        raise InputError(f"{output} exists already; --overwrite replaces it.")
    text = "\n\n".join(part for part in (goal, _read_goal(directory, source)) if part is not None)
    if goal is None and source is None:
        _write(path, TEMPLATE)
        if as_json:
            print_json({"file": output})
        else:
            say(f"Wrote {output}: replace its two tasks by your own.")
            say(f"next: weft plan check {output}")
        return 0
    return _plan(directory, text, agent, output, as_json=as_json)


def _read_goal(directory: Path, source: str | None) -> str | None:
    if source is None:
        return None
    if source == _STANDARD_INPUT:
        return sys.stdin.buffer.read(plan_file.MOST_BYTES).decode(errors="replace")
    is_text = any(letter.isspace() for letter in source.strip())
    if is_text and not os.path.lexists(directory / source):
        return source
    return plan_file.read(directory / source).decode(errors="replace")


def _plan(directory: Path, goal: str, agent: str | None, output: str, *, as_json: bool) -> int:
    from weft.cli.plan import planner_rounds  # late: the example needs no worker
    from weft.project.project import get_project
    from weft.runs.planner import find_planner, judge_answer, request_plan, require_goal

    require_goal(goal)
    project = get_project(directory, os.environ)
    planner = find_planner(project, agent)
    result = planner_rounds.run_rounds(
        project,
        planner,
        lambda last: request_plan(project, goal, planner, last),
        lambda answer: judge_answer(project, answer, output),
        quiet=as_json,
    )
    if result.plan is not None:
        _write(directory / output, result.plan)
    if as_json:
        print_json(planner_rounds.as_json(result, output))
    else:
        for line in planner_rounds.result_lines(result, output):
            say(line)
    return _status(result)


def _status(result: PlanningResult) -> int:
    if result.interrupted:
        return 130
    return 0 if result.plan is not None and not result.problems else 1


def _write(path: Path, text: str) -> None:
    plan_file.write_over(path, text.encode(), ours=lambda _: True, kind="plan")
