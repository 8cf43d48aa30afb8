"""`weft plan convert`"""

from __future__ import annotations

from pathlib import Path

import click

from weft import plan
from weft.cli.plan import plan_text
from weft.plan.conversion import convert
from weft.plan.plan_records import Source
from weft.runs import plan_check, plan_file


@click.command(name="convert")
@click.argument("file", metavar="FILE")
@click.option(
    "--to",
    "kind",
    required=True,
    type=click.Choice([str(source) for source in Source]),
    help="What to write it as.",
)
@click.option("--output", metavar="OUT", help="A new file to write to instead of the output.")
@click.pass_obj
def command(directory: Path, file: str, kind: str, output: str | None) -> int:
    """Write a plan as another kind of file.

    What comes before what is kept, and so is everything else that both kinds can say. FILE
    itself is not changed, and OUT must not be there yet.

    Example: weft plan convert prd.json --to plan.md --output plan.md
    """
    source = plan_check.load(directory, file)
    reading = plan.read(source.name, source.data)
    if plan_text.print_errors(reading):
        return 2
    data = convert(reading.plan, Source(kind)).encode(errors="replace")
    if output is None:
        click.echo(data, nl=False)
    else:
        plan_file.write_new(directory / output, data)
        click.echo(f"Wrote {output}.")
    return 0
