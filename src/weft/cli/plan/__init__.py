"""`weft plan …`: a file for each command, and the charts they print."""

from __future__ import annotations

from typing import Final

import click

from weft.cli import LateCommands

COMMANDS: Final = {
    "annotate": "weft.cli.plan.annotate",
    "check": "weft.cli.plan.check",
    "show": "weft.cli.plan.show",
    "state": "weft.cli.plan.state",
}


@click.group(name="plan", cls=LateCommands, modules=COMMANDS)
def command() -> None:
    """Check, draw and annotate plans: plan.md, prd.json or a beads export.

    Nothing is run, and no file is changed unless you ask for it.
    """
