from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from process.supervision import Stage
from weft.process import cgroup
from weft.process.launcher import Launcher


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    with Launcher() as launcher:
        yield launcher


@pytest.fixture
def grouped(tmp_path: Path) -> Iterator[Stage]:
    """Agents in control groups of their own, where such can be made."""
    parent = cgroup.find_parent()
    if parent is None:
        pytest.skip("no control group can be made here")
    with Launcher(parent) as launcher:
        stage = Stage(tmp_path / "grouped", launcher)
        yield stage
        stage.clear()


@pytest.fixture
def stage(tmp_path: Path, launcher: Launcher) -> Iterator[Stage]:
    stage = Stage(tmp_path / "attempt", launcher)
    yield stage
    stage.clear()
