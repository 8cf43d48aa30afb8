"""`weft choose`"""

from __future__ import annotations

import click

from weft.cli.output import json_option, print_json, say
from weft.cli.project_argument import pass_project
from weft.cli.task_arguments import task_argument
from weft.project.project import Project
from weft.runs.task_diff import choose_candidate


@click.command(name="choose")
@task_argument
@click.argument("entrant", type=click.IntRange(min=1))
@json_option
@pass_project
def command(project: Project, name: str, entrant: int, as_json: bool) -> None:
    """Let the candidate of an entrant land for its team.

    The other entrants are stopped; their candidates are kept. The candidate has to pass the checks
    of the gate as any other; if it fails, its agent makes it again.
    """
    with project.open_store() as store:
        task = choose_candidate(store, name, entrant)
    if as_json:
        print_json({"task": task, "entrant": entrant})
    else:
        say(f"entrant {entrant} was chosen for task {task}; its candidate goes to the gate")
