"""Repositories in memory where there is such a place: these tests make many small files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from databases import sqlite_store
from gate.gate_run import HASTY, GateProcesses, Stage, make_project
from gate.repositories import Repository
from weft.store import open_store

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


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory of one test."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as directory:
        yield Path(directory)


@pytest.fixture
def stage(home: Path) -> Iterator[Stage]:
    """A repository with a run that has no tasks yet; its store is a file."""
    with open_store(sqlite_store(home / "weft.db"), tuning=HASTY) as store:
        yield Stage(store, make_project(home / "project"))


@pytest.fixture
def processes(home: Path) -> Iterator[GateProcesses]:
    made = GateProcesses(home)
    yield made
    made.close()
