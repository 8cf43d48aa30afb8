"""`weft token`"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from weft.cli.command_arguments import Duration, pass_project, pass_store
from weft.cli.output import json_option, print_json, print_table, show
from weft.errors import InputError
from weft.formats import clock
from weft.model import EVERY_AGENT, Token
from weft.project.project import Project
from weft.project.site import agent_names
from weft.store import Store
from weft.store.tokens import (
    JOIN,
    create_join_token,
    create_token,
    find_token,
    list_tokens,
    revoke_token,
)


@click.group(name="token")
def command() -> None:
    """Make, list and revoke the tokens of a server."""


@command.command(name="create")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(["read", "work", "admin"]),
    default=("read", "work"),
    show_default=True,
    help="read: look. work: also join, take, send tasks. admin: everything. Can be repeated.",
)
@click.option(
    "--tenant",
    metavar="T",
    help="Whose tasks it sends; tenants take turns.",
)
@click.option(
    "--agents",
    multiple=True,
    metavar="NAME[,NAME]",
    help="Agents it may send tasks to, * for all. Default: those with `open: yes` in their file; "
    "all for an admin.",
)
@click.option("--expires", type=Duration("12h or 30d"), metavar="30d", help="Default: never.")
@click.option("--join", "joins", is_flag=True, help="Let worker hosts join, and nothing else.")
@click.option(
    "--uses",
    type=click.IntRange(min=1, max=1000),
    metavar="N",
    help="How many hosts may join with it. Default: 1.",
)
@click.option("--checks", is_flag=True, help="Hosts that join may run checks, too.")
@json_option
@pass_project
def create(
    project: Project,
    name: str,
    scopes: tuple[str, ...],
    tenant: str | None,
    agents: tuple[str, ...],
    expires: float | None,
    joins: bool,
    uses: int | None,
    checks: bool,
    as_json: bool,
) -> None:
    """Make a token for NAME, and print it.

    It is printed this once: the store keeps only a digest. With --join a worker host exchanges it
    for a token of its own (`weft worker --server URL --token-file FILE`).
    """
    now = time.time()
    named = [name.strip() for part in agents for name in part.split(",")]
    if not joins and uses is not None:
        raise InputError("--uses counts the hosts that join: it goes with --join.")
    if not joins and checks:
        raise InputError("--checks is a right of hosts that join: it goes with --join.")
    if joins and (tenant is not None or named):
        raise InputError("A token to join takes no --tenant and no --agents.")
    until = None if expires is None else now + expires
    with project.open_store() as store:
        if joins:
            token, text = create_join_token(
                store, name=name, uses=uses or 1, expires=until, now=now, checks=checks
            )
        else:
            token, text = create_token(
                store,
                name=name,
                scopes=scopes,
                tenant=tenant,
                agents=named,
                expires=until,
                now=now,
            )
    if project.server is None:
        _warn_of_unknown_agents(project.root, named)
    show({**as_dict(token), "secret": text}, [text], as_json=as_json)


def _warn_of_unknown_agents(root: Path, named: list[str]) -> None:
    for name in sorted({*named} - {*agent_names(root), "*"}):
        click.echo(f"weft: there is no agent {name} yet; `weft agents` lists them", err=True)


@command.command(name="list")
@json_option
@pass_store
def list_command(store: Store, as_json: bool) -> None:
    """List all tokens, those that no longer work included."""
    now = time.time()
    tokens = list_tokens(store)
    if as_json:
        print_json({"tokens": [as_dict(token) for token in tokens]})
        return
    print_table(
        ("TOKEN", "NAME", "SCOPES", "TENANT", "AGENTS", "STATE"),
        [
            (
                token.id,
                token.name,
                " ".join(sorted(token.scopes)),
                token.tenant or "default",
                _agents(token),
                _state(token, now),
            )
            for token in tokens
        ],
    )


@command.command(name="revoke")
@click.argument("token")
@json_option
@pass_store
def revoke(store: Store, token: str, as_json: bool) -> None:
    """Revoke a token: the server refuses it from now on.

    TOKEN is its id, its name, or the name of a worker host. With the token of a host, all its
    tokens end, and its workers count as gone.
    """
    now = time.time()
    known = find_token(store, token, now=now)
    changed = revoke_token(store, known.id, now=now)
    called = f"Token {known.id} ({known.name})"
    lines = [f"{called} is revoked." if changed else f"{called} was revoked before."]
    if JOIN in known.scopes:
        lines.append("Hosts that joined with it stay; `weft token revoke HOST` ends a host.")
    show({"id": known.id, "revoked": changed}, lines, as_json=as_json)


def _agents(token: Token) -> str:
    """Name the agents that a token may send work to."""
    if not token.scopes & {"work", "admin"}:
        return "none"
    if token.agents is None and "admin" not in token.scopes:
        return "all (older token)"
    if token.agents is None or EVERY_AGENT in token.agents:
        return "all"
    return " ".join(sorted(token.agents)) or "open ones"


def _state(token: Token, now: float) -> str:
    if token.revoked is not None:
        return f"revoked {clock(token.revoked)}"
    if token.uses == 0:
        return "used up"
    if token.expires is None:
        return "valid"
    return f"{'expired' if token.expires <= now else 'valid until'} {clock(token.expires)}"


def as_dict(token: Token) -> dict[str, Any]:
    fields = ("id", "name", "tenant", "created", "expires", "revoked", "uses")
    return {
        **{name: getattr(token, name) for name in fields},
        "scopes": sorted(token.scopes),
        "agents": None if token.agents is None else sorted(token.agents),
        "host": token.worker,
    }
