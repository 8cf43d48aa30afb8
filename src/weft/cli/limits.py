"""`weft limits`"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import click
from msgspec.structs import asdict

from weft.admission.capacity import is_consumable
from weft.cli.command_arguments import pass_project
from weft.cli.output import json_option, print_json, print_table, say, show
from weft.config import Config
from weft.formats import dollars
from weft.model import Limit
from weft.operations.registry import ask
from weft.operations.steering import LimitAsked
from weft.project.project import Project, get_project
from weft.runs.attention import template_of
from weft.runs.host_list import (
    HostStatus,
    as_dict,
    describe_host_labels,
    describe_limit,
    describe_seen,
    read_hosts,
)
from weft.store.limit_table import list_limits


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
    here = get_project(ctx.obj, os.environ)
    with here.open_store() as store:
        now = time.time()
        limits = list_limits(store, now=now)
        hosts = read_hosts(store, now=now)
    if as_json:
        sources = [{**asdict(limit), "source": find_source(limit, here.config)} for limit in limits]
        print_json({"limits": sources, "hosts": [as_dict(status) for status in hosts]})
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
@click.argument("amount", metavar="N")
@json_option
@pass_project
def set_command(project: Project, name: str, amount: str, as_json: bool) -> None:
    """Set the limit NAME to N, for every process on this store.

    Lowering a limit stops nothing that runs: it only keeps new work from starting. 0 pauses.
    The budget of a run, run:<id>/usd, is in dollars: 12.50.
    """
    with project.open_store() as store:
        done = ask(project, store, "set_limit", LimitAsked(resource=name, capacity=amount))
    show(done, [done.text], as_json=as_json)
    stated = project.config.stated.get(name)
    if stated is not None and str(stated.value) != amount:
        click.echo(
            f"weft: {stated.source} still says {name} = {stated.value}; change it there too, "
            "or processes that read it will refuse to start.",
            err=True,
        )


def _worded(name: str, number: int) -> int | str:
    return dollars(number) if is_consumable(name) else number
