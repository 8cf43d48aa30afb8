"""`weft verify`"""

from __future__ import annotations

import os
from pathlib import Path

import click

from weft.cli.output import json_option, print_json, printable
from weft.cli.task_arguments import run_argument
from weft.config import command_line
from weft.gate.proof import prove, state_proof
from weft.project.project import get_project
from weft.runs.task_list import get_run_or_newest


@click.command(name="verify")
@run_argument
@json_option
@click.pass_obj
def command(directory: Path, run: str | None, as_json: bool) -> int:
    """Prove that everything a run landed was checked.

    RUN is the newest run unless you name one. Looks at git and the store alone: every landing
    moved trunk from the tip before it and holds exactly the tree that passed the commands which
    `weft runs` names, and no task landed twice.
    """
    here = get_project(directory, os.environ)
    if run is None:
        with here.open_store() as store:
            run = get_run_or_newest(store, None).id
    proof = prove(here, run)
    if as_json:
        print_json(
            {
                "run": proof.run,
                "holds": proof.holds,
                "landings": proof.landings,
                "tasks": proof.tasks,
                "unchecked": proof.unchecked,
                "checks": [check and command_line(check) for check in proof.checks],
                "problems": list(proof.problems),
            }
        )
    else:
        for problem in proof.problems:
            click.echo(printable(f"✗ {problem}"))
        if proof.holds:
            click.echo(printable(f"✓ {state_proof(proof)}"))
    return 0 if proof.holds else 1
