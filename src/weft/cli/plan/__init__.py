"""`weft plan …`: a file for each command, and the charts they print."""

from __future__ import annotations

from typing import Final

import click

from weft.cli.command_group import CommandGroup, CommandTable

COMMANDS: Final[CommandTable] = {
    "annotate": ("weft.cli.plan.annotate", "Find tasks of a plan.md that could run in parallel."),
    "check": ("weft.cli.plan.check", "Report every problem of a plan, like a compiler."),
    "from-issues": ("weft.cli.plan.from_issues", "Write a plan.md from open issues of the forge."),
    "show": ("weft.cli.plan.show", "Draw a plan: its dependencies and its predicted schedule."),
    "state": ("weft.cli.plan.state", "Write a phase of a plan.md as parallel_state.json."),
}


@click.group(name="plan", cls=CommandGroup, table=COMMANDS)
def command() -> None:
    """Check, draw and annotate plans.

    A plan is a plan.md, a prd.json or a beads export. Nothing is run, and no file is changed unless
    you ask for it.
    """
