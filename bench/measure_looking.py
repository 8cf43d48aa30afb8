"""How long people wait for a glance at what is under way."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from msgspec.structs import replace

from bench.figures import figure
from bench.stores import tasks
from weft.model import NewRun, NewWorker
from weft.project.project import get_project
from weft.store.admission import admit
from weft.store.runs import submit_run
from weft.store.workers import register

_TASKS = 1000
_RUNNING = 12
_LOOKS = 21


def fill(directory: Path) -> None:
    """A repository whose store has a run of many tasks, some of them running."""
    subprocess.run(["git", "init", "--quiet"], cwd=directory, check=True)
    now = time.time()
    with get_project(directory, os.environ).open_store() as store:
        register(store, NewWorker(id="w", slots=_RUNNING, host="h"), now=now, stated={})
        work = [replace(task, agent="a") for task in tasks(_TASKS)]
        submit_run(store, NewRun(id="r", repo="repository"), work, now=now)
        for _ in range(_RUNNING):
            admit(store, "w", now=now)


def glance(directory: Path) -> float:
    """Milliseconds from the call of `weft ps` to its end."""
    # As installed: pip compiles what it installs, and a checkout must not be read anew each time.
    compiled = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "weft", "ps"],
        cwd=directory,
        env=compiled,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return (time.perf_counter() - began) * 1000


@figure("ps_ms", "ms", at_most=150)
def ps_ms() -> float:
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as made:
        directory = Path(made)
        fill(directory)
        glance(directory)
        return statistics.median(glance(directory) for _ in range(_LOOKS))
