"""`weft report`"""

from __future__ import annotations

from pathlib import Path

import click

from weft.cli.output import json_option, print_json, say
from weft.cli.project_argument import pass_store
from weft.cli.report.report_lines import lines
from weft.page import report_page
from weft.page.markup import is_page
from weft.runs.plan_file import write_over
from weft.runs.run_report import as_json as to_json
from weft.runs.run_report import read
from weft.store import Store


@click.command(name="report")
@click.argument("run", required=False, metavar="[RUN]")
@click.option("--html", metavar="OUT", help="Write it as one HTML page to OUT.")
@json_option
@click.pass_obj
@pass_store
def command(
    store: Store, directory: Path, run: str | None, html: str | None, as_json: bool
) -> None:
    """Report on a run, or on the newest one.

    What ran when and on which slot, what waited for what, how much of every limit was in use,
    what it cost, every attempt, and every verdict of the gate. --html writes all of it as one
    page that needs no other file; without it, a few lines give the result.

    Example: weft report --html report.html
    """
    report = read(store, run)
    if html is not None:
        data = report_page.render(report).encode(errors="replace")
        write_over(directory / html, data, ours=is_page, kind="HTML page")
    if as_json:
        print_json(to_json(report))
    elif html is not None:
        click.echo(f"Wrote {html}.")
    else:
        for line in lines(report):
            say(line)
