from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from end_to_end.run_project import RunProject
from end_to_end.worker_hosts import WorkerHosts, open_hosts


@pytest.fixture
def project(tmp_path: Path) -> Iterator[RunProject]:
    """On SQLite."""
    made = RunProject(tmp_path)
    yield made
    made.close()


@pytest.fixture
def either(tmp_path: Path, url: str) -> Iterator[RunProject]:
    """On each kind of store in turn."""
    made = RunProject(tmp_path, url)
    yield made
    made.close()


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[WorkerHosts]:
    """A home with one slot, which the test may serve to other hosts."""
    with open_hosts(tmp_path, "--slots", "1") as opened:
        yield opened
