"""`weft plan new` and `weft plan from-issues`"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click
from msgspec.structs import asdict

from weft.cli.output import json_option, show
from weft.errors import InputError
from weft.forge.forge_command import call
from weft.forge.forge_tools import list_issues
from weft.forge.issue_plan import find_needs, read_issues, write_plan
from weft.formats import count
from weft.plan.plan_prose import TEMPLATE
from weft.project.warning_log import show_warnings
from weft.runs import plan_file

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
        lines = [f"Wrote {output}: replace its two tasks by your own."]
        show({"file": output}, [*lines, f"next: weft plan check {output}"], as_json=as_json)
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
    from weft.cli.plan import planner_questions  # late: the example needs no worker

    result = planner_questions.write_plan(directory, goal, agent, output, quiet=as_json)
    if result.plan is not None:
        _write(directory / output, result.plan)
    fields = asdict(result)
    del fields["plan"]
    fields = {"file": None if result.plan is None else output, **fields}
    show(fields, planner_questions.result_lines(result, output), as_json=as_json)
    if result.interrupted:
        return 130
    return 0 if result.plan is not None and not result.problems else 1


def _write(path: Path, text: str) -> None:
    plan_file.write_over(path, text.encode(), ours=lambda _: True, kind="plan")


@click.command(name="from-issues")
@click.argument("file", default="plan.md", metavar="[FILE]")
@click.option("--label", "labels", multiple=True, help="Only issues with this label; repeatable.")
@click.option("--milestone", help="Only issues of this milestone, by number or title.")
@json_option
@click.pass_obj
def from_issues(
    directory: Path, file: str, labels: tuple[str, ...], milestone: str | None, as_json: bool
) -> None:
    """Write a plan.md from open issues of the forge.

    Your own `gh` lists the issues. The number of an issue is the id of its task and stands in the
    commit that lands; "depends on #12" and task lists become dependencies. FILE is plan.md unless
    you name another, and must not exist.

    Example: weft plan from-issues --label bug
    """
    show_warnings()
    path = directory / file
    if os.path.lexists(path):
        raise InputError(f"{file} exists already; name another file, or move it away.")
    answer = call(list_issues(labels, milestone), directory=directory, environment=os.environ)
    issues = read_issues(answer)
    if not issues:
        raise InputError("The forge has no open issue of that kind, so no plan was written.")
    text, unmet = write_plan(issues)
    with path.open("x", encoding="utf-8") as plan:
        plan.write(text)
    tasks = [{"issue": issue.number, "needs": find_needs(issue)} for issue in issues]
    lines = [
        *(
            f"issue #{need.issue} needs #{need.need}, which is closed or not asked for: left out"
            for need in unmet
        ),
        f"Wrote {count(len(issues), 'task')} to {file}.",
        f"next: weft plan check {file}",
    ]
    show({"file": file, "tasks": tasks}, lines, as_json=as_json)
