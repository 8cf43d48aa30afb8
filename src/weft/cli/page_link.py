"""Links to the page of a server, with a one-use code in the part of the address that browsers keep
to themselves."""

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

from weft.errors import InputError
from weft.process import start_detached
from weft.project.project import Project
from weft.project.server_address import address_file, read_addresses
from weft.store import Store
from weft.store.page_codes import create_page_code

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
    """Leave the address of this server for `weft page`, and the address for other machines."""
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
