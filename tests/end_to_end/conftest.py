from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from end_to_end.run_project import RunProject


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
