"""`weft compare`"""

from __future__ import annotations

import click
from msgspec import to_builtins

from weft.cli.output import json_option, print_json, say, table_width
from weft.cli.project_argument import pass_project
from weft.cli.task_arguments import task_argument
from weft.cli.team_lines import describe_team, list_diffs, list_entrants, list_steps
from weft.formats import whole_line
from weft.project.project import Project
from weft.runs.task_diff import compare_team


@click.command(name="compare")
@task_argument
@json_option
@pass_project
def command(project: Project, name: str, as_json: bool) -> None:
    """Compare the candidates of a task's team.

    Shows their checks, cost and diffs side by side.

    `weft choose TASK NUMBER` lets one of them land.
    """
    comparison = compare_team(project, name)
    if as_json:
        print_json(to_builtins(comparison))
        return
    say(f"task {comparison.name}: {comparison.title}")
    if comparison.reason:
        say(whole_line(comparison.reason))
    say(describe_team(comparison.team))
    for line in list_entrants(comparison.team):
        say(line)
    if comparison.team.steps:
        say("choice")
    for line in list_steps(comparison.team):
        say(line)
    for line in list_diffs(comparison.entrants, table_width()):
        say(line)
