"""`weft serve`"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import socket
from typing import Any, Final

import anyio
import click
from fastapi import FastAPI

from weft.api.http.app import create_app, stop_waiting
from weft.api.http.auth import keep_own_token
from weft.api.http.guard import LOOPBACK
from weft.api.http.member_expiry import tend
from weft.api.http.socket import bind as listen_at
from weft.api.http.socket import listen
from weft.api.mcp.http_transport import MCP, McpApp
from weft.cli.output import json_option, say, worker_slots_option
from weft.cli.page_link import drop_address, keep_address, open_page
from weft.cli.worker import WorkerLog
from weft.cli.worker_loops import run_until_asked, serve
from weft.errors import InputError
from weft.process.service_manager import notify_ready
from weft.project.project import Project, get_local_project
from weft.project.server_address import token_file
from weft.project.site import Site
from weft.store import Store
from weft.store.event_log import last_event
from weft.worker.engine import Interrupted, guard

_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_EVERYWHERE: Final = ("0.0.0.0", "::", "")  # noqa: S104  # refused unless a person insists


@click.command(name="serve")
@click.option("--bind", default="127.0.0.1:7337", show_default=True, metavar="HOST:PORT")
@click.option("--no-work", is_flag=True, help="Answer requests only; run no agents.")
@worker_slots_option
@click.option(
    "--host-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="A name by which it may be reached, such as a proxy's. Can be repeated.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in your browser.")
@click.option("--expose", is_flag=True, help="Listen at an address that other machines can reach.")
@json_option
@click.pass_obj
def command(
    directory: Path,
    bind: str,
    no_work: bool,
    slots: int | None,
    names: tuple[str, ...],
    opens: bool,
    expose: bool,
    as_json: bool,
) -> int:
    """Serve the page, the API and the tools, and run tasks.

    It works until interrupted. The page is at /: --open opens it, `weft open` prints a link to it.

    Agents and programs show a token (`weft token create`); one for you is left in a file that
    only you can read, where `weft --server` finds it. Any number of servers may share one store.

    The API is at /v1, the tools for agents are at /mcp. Agents that it runs are given them, with
    a token that ends with their attempt; all others name the address and a token themselves.

    weft speaks HTTP. For other machines put a proxy with TLS in front of it, and tell its name
    with --host-name.
    """
    host, port = _address(bind, expose=expose)
    project = get_local_project(directory, os.environ)
    with project.open_store() as store, listen_at(host, port) as listening:
        token = token_file(project.store_file, project.store_url, project.environment)
        keep_own_token(store, token, now=time.time())
        named = f"[{host}]" if ":" in host else host
        own = () if host in _EVERYWHERE else (named,)
        tools = McpApp(project, store)
        hosts = (*LOOPBACK, *own, *names)
        app = create_app(project, store, hosts=hosts, mounted={MCP: tools})
        number = listening.getsockname()[1]
        near = "127.0.0.1" if host in _EVERYWHERE else named  # for programs on this machine
        url = f"http://{near}:{number}"
        _tell(f"http://{named}:{number}", token, as_json=as_json)
        with _addressed(project, url, _outside(url, names, number, expose=expose)):
            if opens:
                open_page(store, url)
            if no_work:
                _only_serve(store, app, tools, listening)
            else:
                mcp = f"{url}{MCP}"
                _serve_and_work(
                    project, store, app, tools, listening, slots, mcp=mcp, as_json=as_json
                )
    return 0


@contextmanager
def _addressed(project: Project, url: str, outside: str) -> Iterator[None]:
    """Leave the address for `weft open` and for advice while this server listens."""
    keep_address(project, url, outside)
    try:
        yield
    finally:
        drop_address(project, url)


def _outside(url: str, names: Sequence[str], port: int, *, expose: bool) -> str:
    """Return the address for other machines: that of a proxy, if --host-name tells its name."""
    if not names:
        return url
    return f"http://{names[0]}:{port}" if expose else f"https://{names[0]}"


def _address(bind: str, *, expose: bool) -> tuple[str, int]:
    host, colon, port = bind.rpartition(":")
    host = host.strip("[]")
    if not colon or not (port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise InputError(f"--bind must be HOST:PORT, such as 127.0.0.1:7337, not {bind!r}.")
    if host not in _LOOPBACK and not expose:
        raise InputError(
            f"Other machines could reach {bind}, and weft speaks no TLS: let a proxy with TLS "
            "speak to 127.0.0.1, or say --expose if you trust that network."
        )
    return host, int(port)


def _tell(url: str, token: Path, *, as_json: bool) -> None:
    if as_json:
        say(json.dumps({"event": "serving", "url": url, "token_file": str(token)}))
    else:
        say(f"weft serves {url} (`weft open` prints a link); a token for you is in {token}")


def _serve_and_work(
    project: Project,
    store: Store,
    app: FastAPI,
    tools: McpApp,
    listening: socket,
    slots: int | None,
    *,
    mcp: str,
    as_json: bool,
) -> None:
    async def beside(site: Site, worker: str) -> None:
        await _answer(app, tools, listening, guard, site, worker)

    journal = WorkerLog(store, after=last_event(store), as_json=as_json)
    with suppress(Interrupted):
        serve(
            project,
            store,
            journal.begin,
            slots=slots or project.config.worker_slots,
            beside=beside,
            leaving=lambda: stop_waiting(app),
            mcp=mcp,
        )
    journal.read()


def _only_serve(store: Store, app: FastAPI, tools: McpApp, listening: socket) -> None:
    async def work() -> None:
        notify_ready()  # the socket listens already
        await _answer(app, tools, listening, tend, store)

    run_until_asked(work, lambda: stop_waiting(app))


async def _answer(
    app: FastAPI,
    tools: McpApp,
    listening: socket,
    beside: Callable[..., Coroutine[Any, Any, None]],
    *arguments: object,
) -> None:
    """Answer requests, and run `beside` as long."""
    async with tools.running(), anyio.create_task_group() as group:
        group.start_soon(listen, app, listening)
        group.start_soon(tools.answer_at_the_end)
        group.start_soon(beside, *arguments)
