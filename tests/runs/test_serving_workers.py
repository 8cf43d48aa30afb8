"""Who serves a repository: living processes that take whatever is ready there."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from weft.model import ONE_TASK, NewWorker, WorkerKind
from weft.process import process_table
from weft.process.process_identity import get_place
from weft.runs.host_list import is_served
from weft.store import Store
from weft.store.workers import depart, register


def worker(**changes: object) -> NewWorker:
    own = process_table.get_own()
    facts: dict[str, object] = {
        "id": "w",
        "slots": 1,
        "host": get_place().host,
        "boot": get_place().boot,
        "pid": own.pid,
        "pid_start": float(own.start),
        "repos": ("/r",),
    }
    return NewWorker(**{**facts, **changes})  # type: ignore[arg-type]  # every field fits


@pytest.mark.parametrize(
    ("changes", "served"),
    [
        ({}, True),
        ({"repos": None}, True),
        ({"repos": ("/other",)}, False),
        ({"name": f"{ONE_TASK}w"}, False),
        ({"kind": WorkerKind.API}, False),
        ({"host": "elsewhere", "boot": "another", "pid": 1}, True),
        ({"pid_start": 1.0}, False),  # its number belongs to another process now
    ],
)
def test_only_a_living_process_that_takes_anything_here_serves(
    store: Store, changes: dict[str, object], served: bool
) -> None:
    assert not is_served(store, "/r")
    register(store, worker(**changes), now=time.time(), stated={})
    assert is_served(store, "/r") == served
    depart(store, "w", now=time.time())
    assert not is_served(store, "/r")


def test_one_that_was_killed_does_not_serve_although_nobody_said_so(store: Store) -> None:
    program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    found = process_table.find_process(program.pid)
    assert found is not None
    register(
        store,
        worker(pid=found.pid, pid_start=float(found.start)),
        now=time.time(),
        stated={},
    )
    assert is_served(store, "/r")
    program.kill()
    program.wait()
    assert not is_served(store, "/r")


def test_another_host_that_has_been_silent_for_long_does_not_serve(store: Store) -> None:
    silent = time.time() - 2 * store.tuning.gone_after
    register(store, worker(host="elsewhere", boot="another"), now=silent, stated={})
    assert not is_served(store, "/r")
