"""`weft plan state`"""

from __future__ import annotations

import os
from pathlib import Path

import click

from weft.cli.plan import plan_text
from weft.plan.plan_records import Source
from weft.runs import plan_check
from weft.runs.plan_state import encode_state, write_state
from weft.runs.progress import find_last_run, read_progress


@click.command(name="state")
@click.argument("file", metavar="FILE")
@click.option("--phase", metavar="P", help="A phase, by its number. Default: the running phases.")
@click.option("--output", metavar="OUT", help="The file to write instead of the output.")
@plan_text.format_option
@click.pass_obj
def command(
    directory: Path,
    file: str,
    phase: str | None,
    output: str | None,
    plan_format: Source | None,
) -> int:
    """Write the running phases of a plan as parallel_state.json.

    Times, commits and errors are those of the last run of FILE; a plan that was never run has its
    marks alone. OUT may be there from an earlier time; a file of any other kind is not
    overwritten. `weft run FILE --state OUT` keeps OUT up to date.

    Example: weft plan state plan.md --output parallel_state.json
    """
    source = plan_check.load(directory, file, format=plan_format)
    reading = plan_check.read_source(source)
    if plan_text.print_errors(reading):
        return 2
    with plan_check.setting(directory, os.environ) as around:
        run = None if around.store is None else find_last_run(around.store, directory / file)
        progress = None if run is None or around.store is None else read_progress(around.store, run)
    data = encode_state(reading.plan, phase, progress)
    if output is None:
        click.echo(data, nl=False)
    else:
        write_state(directory / output, data)
        click.echo(f"Wrote {output}.")
    return 0
