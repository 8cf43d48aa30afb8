"""One server for all tests of a process: each has tasks of its own kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from api_http.git_host import GitHost, joined_host
from api_http.server_process import HASTY, Server, serving


@pytest.fixture(scope="session")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory: Path = tmp_path_factory.mktemp("server")
    with serving(directory, f"sqlite:///{directory / 'weft.db'}") as started:
        yield started


@pytest.fixture
def server(lasting: Server) -> Iterator[Server]:
    """The server of this process; a test leaves no task there that members of a later one take."""
    yield lasting
    lasting.cancel_loose_tasks()


@pytest.fixture(scope="session")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that soon takes the silent for gone."""
    directory: Path = tmp_path_factory.mktemp("hasty")
    url = f"sqlite:///{directory / 'weft.db'}"
    with serving(directory, url, settings=HASTY) as started:
        yield started


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Server]:
    """One for a single test."""
    with serving(tmp_path, f"sqlite:///{tmp_path / 'weft.db'}") as started:
        yield started


@pytest.fixture
def host(server: Server, tmp_path: Path) -> Iterator[GitHost]:
    with joined_host(server, tmp_path) as joined:
        yield joined
