"""`weft plan new`"""

from __future__ import annotations

from pathlib import Path

import click

from weft.cli.output import json_option, print_json, say
from weft.plan.plan_template import TEMPLATE
from weft.runs import plan_file


@click.command(name="new")
@click.option(
    "-o", "--output", default="plan.md", metavar="FILE", help="The file to write. Default: plan.md."
)
@json_option
@click.pass_obj
def command(directory: Path, output: str, as_json: bool) -> None:
    """Write a plan.md to start from, with comments.

    FILE must not exist.

    Example: weft plan new -o plans/login.md
    """
    plan_file.write_new(directory / output, TEMPLATE.encode())
    if as_json:
        print_json({"file": output})
        return
    say(f"Wrote {output}: replace its two tasks by your own.")
    say(f"next: weft plan check {output}")
