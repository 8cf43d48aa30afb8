"""`weft plan from-issues`"""

from __future__ import annotations

import os
from pathlib import Path

import click

from weft.cli.output import json_option, print_json, say
from weft.errors import InputError
from weft.forge.forge_command import call
from weft.forge.forge_tools import list_issues
from weft.forge.issue_plan import find_needs, read_issues, write_plan
from weft.formats import count
from weft.project.warning_log import show_warnings


@click.command(name="from-issues")
@click.argument("file", default="plan.md", metavar="[FILE]")
@click.option("--label", "labels", multiple=True, help="Only issues with this label; repeatable.")
@click.option("--milestone", help="Only issues of this milestone, by number or title.")
@json_option
@click.pass_obj
def command(
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
    if as_json:
        tasks = [{"issue": issue.number, "needs": find_needs(issue)} for issue in issues]
        print_json({"file": file, "tasks": tasks})
        return
    for need in unmet:
        say(f"issue #{need.issue} needs #{need.need}, which is closed or not asked for: left out")
    say(f"Wrote {count(len(issues), 'task')} to {file}.")
    say(f"next: weft plan check {file}")
