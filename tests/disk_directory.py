"""Where tests put things that must not be in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory that is not in /dev/shm, where a sandboxed program may always write.

    A module that imports this fixture uses it in place of the usual one.
    """
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="weft-test-") as place:
        yield Path(place).resolve()
