"""`weft open`, and links to the page of a server.

The one-use code of a link is in the part of the address that browsers keep to themselves.
"""

from __future__ import annotations

import os
import sys
import time
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from weft.cli.command_arguments import optional_task_argument, pass_project
from weft.cli.output import json_option, show
from weft.errors import InputError
from weft.process import run_attached, start_detached
from weft.project.project import Project, get_local_project
from weft.project.server_address import address_file, read_addresses
from weft.runs.task_diff import get_workspace
from weft.store import Store
from weft.store.tokens import create_page_code

OPENED: Final = 60.0  # seconds for a browser that weft opens
PRINTED: Final = 600.0  # seconds for a person who copies a link
_ANSWERS: Final = 2.0  # seconds for a server to answer
_STARTS: Final = 30.0  # seconds for a server to start
_LOOK: Final = 0.1


def make_link(store: Store, url: str, scopes: Iterable[str], seconds: float) -> str:
    code = create_page_code(store, scopes=scopes, seconds=seconds, now=time.time())
    return f"{url}/#code={code}"


def open_page(store: Store, url: str) -> None:
    """Open the page in a browser; without a browser, print the link."""
    link = make_link(store, url, ("admin",), OPENED)
    if not (_has_browser() and webbrowser.open(link)):
        _note(f"no browser opened; within {OPENED:.0f} s this link works once: {link}")


def _has_browser() -> bool:
    """Tell whether a browser with a window can be opened; a browser in this terminal would hide the
    lines of weft."""
    if sys.platform != "linux":
        return True
    return any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))


def _note(text: str) -> None:
    click.echo(f"weft: {text}", err=True)


def get_server_url(project: Project) -> str:
    """Return the address of the server of this project; raise if none answers."""
    if project.server is not None:
        return project.server.url
    url = find_server_url(project)
    if url is None:
        raise InputError("No server of this repository answers; `weft serve --open` starts one.")
    return url


def find_server_url(project: Project) -> str | None:
    """Return the address that the latest server of this store left, if it answers."""
    addresses = read_addresses(_address(project))
    if not addresses:
        return None
    url = addresses[0]
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=_ANSWERS) as answer:  # noqa: S310  # our own file
            return url if answer.status == 200 else None
    except (OSError, ValueError):
        return None


def keep_address(project: Project, url: str, outside: str) -> None:
    """Leave the address of this server for `weft open`, and the address for other machines."""
    _address(project).write_text(f"{url}\n{outside}\n", encoding="utf-8")


def drop_address(project: Project, url: str) -> None:
    """Remove the address of this server, unless another server left its own meanwhile."""
    file = _address(project)
    if read_addresses(file)[:1] == [url]:
        file.unlink(missing_ok=True)


def _address(project: Project) -> Path:
    return address_file(project.store_file, project.store_url, project.environment)


def serve_in_background(project: Project, slots: int | None) -> str:
    """Return the address of a server of this project; start a server if none answers."""
    url = find_server_url(project)
    if url is not None:
        return url
    log = _address(project).with_suffix(".log")
    words = [sys.executable, "-m", "weft", "serve", "--bind", "127.0.0.1:0"]
    pid = start_detached(
        [*words, *(["--slots", str(slots)] if slots else [])],
        directory=project.root,
        environment=project.environment,
        log=log,
    )
    until = time.monotonic() + _STARTS
    while time.monotonic() < until:
        url = find_server_url(project)
        if url is not None:
            _note(
                f"process {pid} serves {url} and goes on after this command; `kill {pid}` ends it"
            )
            return url
        time.sleep(_LOOK)
    raise InputError(f"The server for the page did not start; its log is {log}.")


@click.command(name="open")
@optional_task_argument
@click.option("--with", "program", metavar="PROGRAM", help="Start this program on the workspace.")
@click.option("--read", is_flag=True, help="A link that shows everything and decides nothing.")
@json_option
@click.pass_obj
@pass_project
def command(
    project: Project,
    directory: Path,
    name: str | None,
    program: str | None,
    read: bool,
    as_json: bool,
) -> int:
    """Print a link to the page, or the workspace of a task.

    The link works once, within 10 minutes, in any browser that reaches the server. Its code is
    exchanged for a token, which the browser forgets with its last tab. `weft --server URL open`
    prints a link to a server behind a proxy.

    The workspace of TASK is there while an agent works and until another attempt needs it. Look,
    but do not edit while the agent is working: it would take your edits for its own.

    Example: weft open 2.3 --with code
    """
    if name is None:
        if program is not None:
            raise InputError("--with opens the workspace of a task: name a task.")
        _print_link(project, ("read",) if read else ("admin",), as_json=as_json)
        return 0
    if read:
        raise InputError("--read is for the link to the page: give no task with it.")
    here = get_local_project(directory, os.environ)
    with here.open_store() as store:
        workspace = get_workspace(here, store, name)
    if program is not None and not as_json:
        return _start(program, workspace.path)
    fields = {
        "task": workspace.task,
        "attempt": workspace.attempt,
        "workspace": str(workspace.path),
        "running": workspace.running,
    }
    show(fields, [str(workspace.path)], as_json=as_json)
    return 0


def _print_link(project: Project, scopes: tuple[str, ...], *, as_json: bool) -> None:
    url = get_server_url(project)
    with project.open_store() as store:
        link = make_link(store, url, scopes, PRINTED)
    show({"url": link, "seconds": PRINTED}, [link], as_json=as_json)


def _start(program: str, path: Path) -> int:
    try:
        return run_attached([program, str(path)], directory=path, environment=os.environ)
    except OSError as error:
        raise InputError(f"{program} cannot start: {error.strerror}.") from error
