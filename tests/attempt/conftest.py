from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from attempt.ground import Ground


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    """On SQLite."""
    made = Ground(tmp_path / "project", f"sqlite:///{tmp_path / 'store' / 'weft.db'}")
    yield made
    made.close()


@pytest.fixture
def either(tmp_path: Path, url: str) -> Iterator[Ground]:
    """On each kind of store in turn."""
    made = Ground(tmp_path / "project", url)
    yield made
    made.close()
