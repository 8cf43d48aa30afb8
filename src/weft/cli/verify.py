"""`weft verify`"""

from __future__ import annotations

import os
from pathlib import Path

import click

from weft.cli.output import json_option, print_json


@click.command(name="verify")
@click.argument("run")
@json_option
@click.pass_obj
def command(directory: Path, run: str, as_json: bool) -> int:
    """Prove that what RUN landed is what was checked.

    Looks at git and the store alone: every landing moved trunk from the tip before it, holds
    exactly the tree that passed its checks, and no task landed twice.
    """
    from weft.gate.verify import prove
    from weft.operations import project

    proof = prove(project.find(directory, os.environ), run)
    if as_json:
        print_json(
            {
                "run": proof.run,
                "holds": proof.holds,
                "landings": proof.landings,
                "tasks": proof.tasks,
                "problems": list(proof.problems),
            }
        )
    else:
        for problem in proof.problems:
            click.echo(f"✗ {problem}")
        if proof.holds:
            click.echo(
                f"✓ run {run}: {proof.tasks} tasks in {proof.landings} landings, each one "
                "exactly what was checked"
            )
    return 0 if proof.holds else 1
