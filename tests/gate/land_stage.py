"""Ended runs whose work `weft land` takes into a branch, in this and in other processes."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gate.gate_run import NOBODY_BROKEN, Stage, candidate, drive, run_git, task
from weft.cli.land import check_merged
from weft.config import Config
from weft.gate.run_landing import (
    LandContext,
    LandOutcome,
    choose_branch,
    choose_run,
    complete_interrupted,
    hold_land_lock,
    land_run,
)
from weft.project.project import Project
from weft.store import Store
from weft.store.runs import end_finished

Files = Mapping[str, str | None]


def finish_run(stage: Stage, files: Files, *, run: str = "r1", base: str = "main") -> Stage:
    """Let a run of one task, from the present `main`, land these files on its trunk and end."""
    ended = dataclasses.replace(stage, run=run)
    ended.submit([task("a", *files)])
    ended.bring("a", files)
    drive(ended, lambda: ended.are(a="done"))
    end_finished(stage.store, now=time.time())
    return ended


def commit_on_main(root: Path, files: Files, message: str = "Mine") -> str:
    """Commit as the user would, in the checkout of `main`."""
    for name, text in files.items():
        path = root / name
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", message)
    return run_git(root, "rev-parse", "HEAD")


def move_main_aside(root: Path, files: Files) -> str:
    """Move `main` while another branch is checked out; return its new tip."""
    tip = candidate(
        root, run_git(root, "rev-parse", "main"), files, "Theirs", ref="refs/heads/main"
    )
    run_git(root, "update-ref", "refs/heads/main", tip)
    return tip


def project_of(root: Path, store: Store) -> Project:
    config = Config(tuning=store.tuning)
    return Project(root=root, config=config, environment=os.environ, store_url=store.url)


@contextmanager
def land_context(
    root: Path, store: Store, *, at: Callable[[str], None] = lambda point: None
) -> Iterator[LandContext]:
    place = project_of(root, store)
    with hold_land_lock(root, lambda: None) as lock:
        yield LandContext(
            project=place,
            store=store,
            check=lambda move, job: check_merged(place, store, move, job),
            lock=lock,
            at=at,
        )


def land(
    root: Path,
    store: Store,
    run: str | None = None,
    *,
    onto: str | None = None,
    at: Callable[[str], None] = lambda point: None,
) -> LandOutcome:
    """Do what `weft land` does, with its points for crashes."""
    with land_context(root, store, at=at) as context:
        complete_interrupted(context)
        chosen = choose_run(store, run)
        return land_run(context, chosen, choose_branch(root, chosen, onto))


class LandProcesses:
    """Processes that land, forked from a process that has imported everything."""

    def __init__(self) -> None:
        self._program = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("land_program.py"))],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, stage: Stage, **order: Any) -> None:
        """`point`: where the process is killed; `onto` and `run` as of `weft land`."""
        assert self._program.stdin is not None
        about = {"root": str(stage.root), "store": stage.store.url, **order}
        self._program.stdin.write(json.dumps(about) + "\n")
        self._program.stdin.flush()

    def wait(self) -> int:
        """Return the status of the next process that ended; below 0 the signal that killed it."""
        assert self._program.stdout is not None
        return int(self._program.stdout.readline())

    def land(self, stage: Stage, **order: Any) -> int:
        self.start(stage, **order)
        return self.wait()

    def close(self) -> None:
        self._program.communicate()


CHECK = NOBODY_BROKEN
"""The check of these runs: no file below `src` contains `broken`."""
