"""`weft limits`"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec.structs import asdict

from weft.admission.capacity import MOST, is_consumable
from weft.cli.output import json_option, print_json, print_table, say
from weft.config import Config
from weft.errors import InputError
from weft.formats import dollars, micro_dollars
from weft.model import Limit
from weft.project.project import get_project
from weft.runs.attention import template_of
from weft.runs.host_list import (
    HostStatus,
    as_dict,
    describe_host_labels,
    describe_limit,
    describe_seen,
    read_hosts,
)
from weft.store.limit_table import list_limits, set_limit


@click.group(name="limits", invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Show every limit and host with its use; set a limit.

    0 means paused. Repositories that name the same store share its limits: the setting is `url`
    in [store] of weft.toml, or WEFT_STORE.
    """
    if ctx.invoked_subcommand is not None:
        return
    directory: Path = ctx.obj
    here = get_project(directory, os.environ)
    with here.open_store() as store:
        now = time.time()
        limits = list_limits(store, now=now)
        hosts = read_hosts(store, now=now)
    if as_json:
        print_json(
            {
                "limits": [
                    {**asdict(limit), "source": find_source(limit, here.config)} for limit in limits
                ],
                "hosts": [as_dict(status) for status in hosts],
            }
        )
        return
    print_table(("LIMIT", "USED", "OF", "SET BY"), [_row(limit, here.config) for limit in limits])
    if hosts:
        click.echo()
        header = ("HOST", "SLOTS", "MEMORY (MB)", "PORTS", "TAKES", "SEEN")
        print_table(header, [_host_row(status, limits, now) for status in hosts])
        for status in hosts:
            if status.labels:
                say(f"labels of {status.host}: {describe_host_labels(status)}")


def _row(limit: Limit, config: Config) -> tuple[object, ...]:
    lowered = f", lowered from {limit.capacity} by rate limits"
    return (
        limit.resource,
        _worded(limit.resource, limit.used),
        _worded(limit.resource, limit.effective),
        find_source(limit, config) + (lowered if limit.effective < limit.capacity else ""),
    )


def _host_row(status: HostStatus, limits: Sequence[Limit], now: float) -> tuple[str, ...]:
    return (
        status.host,
        f"{status.slots.current} of {status.slots.max}",
        describe_limit(status, "ram_mb", limits),
        describe_limit(status, "port", limits),
        status.duties,
        describe_seen(status, now).removeprefix("seen "),
    )


def find_source(limit: Limit, config: Config) -> str:
    """Say where the value of a limit came from: a setting, an owner, or `weft limits set`."""
    name = limit.resource
    if limit.owner is not None:
        if not limit.owner.startswith("run:"):
            return limit.owner
        name = template_of(limit.resource)
        if limit.resource.startswith("gate:"):
            return "one gate for each run"
        if is_consumable(limit.resource):
            return f"--budget of {limit.owner.removeprefix('run:')}, or weft limits set"
    stated = config.stated.get(name)
    if stated is not None and stated.value == limit.capacity:
        return f"{name} in {stated.source}"
    if config.limits.get(name) == limit.capacity:
        return "default" if limit.owner is None else f"default of {name}"
    return "weft limits set" if limit.owner is None else "--slots, or weft limits set"


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
    project = get_project(ctx.obj, os.environ)
    with project.open_store() as store:
        before = set_limit(store, name, number, now=time.time())
    stated = project.config.stated.get(name)
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
