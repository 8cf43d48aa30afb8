"""`weft record`"""

from __future__ import annotations

from pathlib import Path

import click
from msgspec.structs import asdict

from weft.cli.output import json_option, print_json, say
from weft.cli.project_argument import pass_project
from weft.formats import count
from weft.project.project import Project
from weft.runs.recorded_runs import record


@click.command(name="record")
@click.argument("name", metavar="TASK|RUN")
@click.option(
    "-o",
    "--output",
    "directory",
    required=True,
    metavar="DIRECTORY",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the recordings go.",
)
@json_option
@click.pass_obj
@pass_project
def command(project: Project, here: Path, name: str, directory: Path, as_json: bool) -> None:
    """Record the attempts of a task or run as files.

    Each file has the command line, the prompt, the output with its times, the calls of weft's
    tools, the use, the exit and the change of an attempt, without secrets. An agent file with
    `runs: recorded` and `from: DIRECTORY` plays them; `weft replay RUN` plays a whole run.
    """
    with project.open_store() as store:
        done = record(project, store, name, (here / directory).resolve())
    if as_json:
        print_json(asdict(done))
        return
    say(f"recorded {count(len(done.files), 'attempt')} in {directory}")
    for reason in done.left_out:
        say(f"left out: {reason}")
