"""`weft limits`"""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from weft.admission.capacity import MOST, is_consumable
from weft.cli.output import json_option, print_json, print_table
from weft.errors import InputError
from weft.formats import dollars, micro_dollars
from weft.project import project
from weft.store.limit_table import list_limits, set_limit


@click.group(name="limits", invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Show every limit, its use and its source; set a limit.

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
        [
            (
                one.resource,
                _worded(one.resource, one.used),
                _worded(one.resource, one.effective),
                one.owner or "weft limits set",
            )
            for one in found
        ],
    )


@command.command(name="set", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("text", metavar="N")
@json_option
@click.pass_context
def set_command(ctx: click.Context, name: str, text: str, as_json: bool) -> None:
    """Set the limit NAME to N, for every process on this store.

    Lowering a limit stops nothing that runs: it only keeps new work from starting. 0 pauses.
    The budget of a run, run:<id>/usd, is in dollars: 12.50.
    """
    assert ctx.parent is not None
    number = _number(name, text)
    found = project.find(ctx.obj, os.environ)
    with found.open_store() as store:
        before = set_limit(store, name, number, now=time.time())
    stated = found.config.stated.get(name)
    if as_json or ctx.parent.params["as_json"]:  # `weft limits --json set …` is as good
        print_json({"resource": name, "capacity": number, "before": before})
    else:
        was = "none" if before is None else _worded(name, before)
        click.echo(f"{name}: {was} → {_worded(name, number)}")
    if stated is not None and stated.value != number:
        click.echo(
            f"weft: {stated.source} still says {name} = {stated.value}; change it there too, "
            "or processes that read it will refuse to start.",
            err=True,
        )


def _number(name: str, text: str) -> int:
    if is_consumable(name):
        number = micro_dollars(text)
        if number is None:
            raise InputError(
                f"The limit {name} is in dollars, 0 or more and below a million, not {text!r}."
            )
        return number
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= MOST:
        raise InputError(
            f"A limit is a whole number, 0 or more and at most {MOST}, not {text!r}; 0 pauses it."
        )
    return number


def _worded(name: str, number: int) -> int | str:
    return dollars(number) if is_consumable(name) else number
