"""`weft limits`"""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from weft.cli.output import json_option, print_json, print_table
from weft.operations import project
from weft.store.limits import list_limits, set_limit


@click.group(name="limits", invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Show every limit, how much of it is used, and who sets it.

    0 means paused. A limit that rate limits have lowered shows what is left of it.
    """
    if ctx.invoked_subcommand is not None:
        return
    directory: Path = ctx.obj
    with project.find(directory, os.environ).open_store() as store:
        found = list_limits(store, now=time.time())
    if as_json:
        keys = ("resource", "capacity", "effective", "used", "owner")
        print_json({"limits": [{key: getattr(one, key) for key in keys} for one in found]})
        return
    print_table(
        ("LIMIT", "USED", "OF", "SET BY"),
        [(one.resource, one.used, one.effective, one.owner or "weft limits set") for one in found],
    )


@command.command(name="set")
@click.argument("name")
@click.argument("number", type=click.IntRange(min=0, max=2**50), metavar="N")
@json_option
@click.pass_context
def set_command(ctx: click.Context, name: str, number: int, as_json: bool) -> None:
    """Set the limit NAME to N, for every process on this store.

    Lowering a limit stops nothing that runs: it only keeps new work from starting. 0 pauses.
    """
    assert ctx.parent is not None
    found = project.find(ctx.obj, os.environ)
    with found.open_store() as store:
        before = set_limit(store, name, number, now=time.time())
    stated = found.config.stated.get(name)
    if as_json or ctx.parent.params["as_json"]:  # `weft limits --json set …` is as good
        print_json({"resource": name, "capacity": number, "before": before})
    else:
        click.echo(f"{name}: {'none' if before is None else before} → {number}")
    if stated is not None and stated.value != number:
        click.echo(
            f"weft: {stated.source} still says {name} = {stated.value}; change it there too, "
            "or processes that read it will refuse to start.",
            err=True,
        )
