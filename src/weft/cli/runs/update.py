"""`weft runs update`"""

from __future__ import annotations

import os
from pathlib import Path

import click

from weft.cli.output import json_option, print_json, say


@click.command(name="update")
@click.argument("run")
@json_option
@click.pass_obj
def command(directory: Path, run: str, as_json: bool) -> None:
    """Give RUN the check, set-up and agent files of this checkout.

    The log keeps what was changed. Work that passed another check is checked again before it
    lands; agents that run go on as they were started.
    """
    from weft.project import project
    from weft.runs.run_settings import update_settings

    done = update_settings(project.find(directory, os.environ), run)
    if as_json:
        print_json({name: getattr(done, name) for name in ("text", "changed", "run", "state")})
    else:
        say(done.text)
