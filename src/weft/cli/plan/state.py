"""`weft plan state`"""

from __future__ import annotations

import json
from pathlib import Path

import click

from weft import plan
from weft.cli.output import json_text
from weft.cli.plan import plan_text
from weft.errors import InputError
from weft.plan.parallel_state import build_parallel_state
from weft.plan.plan_records import Source
from weft.runs import plan_check, plan_file


@click.command(name="state")
@click.argument("file", metavar="FILE")
@click.option("--phase", metavar="P", help="The phase, by its number. Default: the one at hand.")
@click.option("--output", metavar="OUT", help="The file to write instead of the output.")
@click.pass_obj
def command(directory: Path, file: str, phase: str | None, output: str | None) -> int:
    """Write a phase of a plan.md as parallel_state.json.

    OUT may be there from an earlier time; a file of any other kind is not overwritten.

    Example: weft plan state plan.md --output parallel_state.json
    """
    source = plan_check.load(directory, file)
    reading = plan.read(source.name, source.data)
    if plan_text.print_errors(reading):
        return 2
    if reading.plan.source is not Source.MARKDOWN:
        raise InputError(f"{file} has no phases; only a plan.md has a state to write.")
    state = build_parallel_state(reading.plan, phase)
    data = (json_text(state) + "\n").encode()
    if output is None:
        click.echo(data, nl=False)
    else:
        plan_file.write_over(directory / output, data, ours=_is_state, kind="parallel state")
        click.echo(f"Wrote {output}.")
    return 0


def _is_state(data: bytes) -> bool:
    try:
        state = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(state, dict) and "workers" in state
