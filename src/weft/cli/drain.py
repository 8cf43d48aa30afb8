"""`weft drain`"""

from __future__ import annotations

from pathlib import Path

import click

from weft.cli.control_command import steer
from weft.cli.output import json_option


@click.command(name="drain")
@click.option("--undo", is_flag=True, help="Let work start again.")
@json_option
@click.pass_obj
def command(directory: Path, undo: bool, as_json: bool) -> None:
    """Start nothing more on this store until it is undone.

    No process on any host takes a task then. What runs goes on to its end, and what is at the gate
    lands.
    """
    from weft.runs.control import admit_again, stop_admissions

    verb = admit_again if undo else stop_admissions
    steer(directory, lambda store, now: verb(store, now=now), as_json=as_json)
