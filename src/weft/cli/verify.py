"""`weft verify`"""

from __future__ import annotations

import os
from pathlib import Path

import click

from weft.cli.output import json_option, print_json
from weft.cli.task_arguments import run_argument
from weft.config import command_line
from weft.formats import count
from weft.gate.proof import Proof, prove
from weft.project.project import get_project
from weft.runs.task_list import get_run_or_newest


def _claim(proof: Proof) -> str:
    """State the proved property of the landings, and the commands they passed."""
    commands = [command_line(check) for check in proof.checks if check]
    by = f" by {', then '.join(f'`{command}`' for command in commands)}" if commands else ""
    if not proof.unchecked:
        return f"each one exactly what was checked{by}"
    if proof.unchecked == proof.landings:
        return "each one exactly what was merged; nothing was checked: no check was configured"
    return (
        f"each one exactly what was checked{by}, but for {proof.unchecked} for which no check was "
        "configured"
    )


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
            click.echo(f"✗ {problem}")
        if proof.holds:
            click.echo(
                f"✓ run {run}: {count(proof.tasks, 'task')} in {count(proof.landings, 'landing')}, "
                f"{_claim(proof)}"
            )
    return 0 if proof.holds else 1
