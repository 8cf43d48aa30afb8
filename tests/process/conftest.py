from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from process.stage import Stage
from weft.process.launcher import Launcher


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    with Launcher() as launcher:
        yield launcher


@pytest.fixture
def stage(tmp_path: Path, launcher: Launcher) -> Iterator[Stage]:
    stage = Stage(tmp_path / "attempt", launcher)
    yield stage
    stage.clear()
