from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from end_to_end.run_project import Yard


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    """On SQLite."""
    made = Yard(tmp_path)
    yield made
    made.close()


@pytest.fixture
def either(tmp_path: Path, url: str) -> Iterator[Yard]:
    """On each kind of store in turn."""
    made = Yard(tmp_path, url)
    yield made
    made.close()
