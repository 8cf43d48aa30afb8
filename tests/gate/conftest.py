"""Repositories in memory where there is such a place: these tests make many small files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gate.repositories import Repository

_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as directory:
        yield Path(directory)


@pytest.fixture(scope="module")
def shared(place: Path) -> Repository:
    """One repository for all tests of a file: they only add commits to it."""
    return Repository(place / "shared")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")
