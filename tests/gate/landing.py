"""A run whose candidates are commits that a test makes, and its gate in this process."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from weft import git
from weft.attempt.site import Site
from weft.config import Config, GateSettings
from weft.engine import open_site
from weft.gate.loop import Gate
from weft.model import NewRun, NewTask, NewWorker, Outcome, State
from weft.store import Store
from weft.store.admission import admit_task
from weft.store.leases import finish
from weft.store.runs import submit_run
from weft.store.tasks import get_task
from weft.store.workers import register
from weft.workspace.names import trunk_ref

RUN = "r1"
WORKER = "w"
IDENTITY = {
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
}


def run_git(root: Path, *arguments: str) -> str:
    import os

    done = subprocess.run(
        ["git", *arguments],
        cwd=root,
        env={**os.environ, **IDENTITY},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def make_repository(root: Path, files: Mapping[str, str]) -> str:
    root.mkdir(parents=True, exist_ok=True)
    run_git(root, "init", "-q", "-b", "main", ".")
    return commit(root, files, "first")


def commit(root: Path, files: Mapping[str, str | None], message: str) -> str:
    """Commit files onto what is checked out."""
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


def candidate(root: Path, base: str, files: Mapping[str, str | None], message: str) -> str:
    """A commit on a base, on no branch; the checkout is where it was afterwards."""
    run_git(root, "checkout", "-q", "--detach", base)
    made = commit(root, files, message)
    run_git(root, "checkout", "-q", "main")
    return made


@contextmanager
def gate_site(store: Store, root: Path, **gate: Any) -> Iterator[Site]:
    import os

    config = Config(gate=replace(GateSettings(slots=2), **gate), tuning=store.tuning)
    with open_site(store, root, config, dict(os.environ)) as site:
        register(store, NewWorker(id=WORKER, slots=50, host="h"), now=0, stated={})
        yield site


def submit(store: Store, root: Path, tasks: Sequence[NewTask]) -> dict[str, int]:
    base = git.get_commit(root, "main").id
    run = NewRun(id=RUN, repo=str(root), base=base, limits={"agents": 100, "implement": 100})
    return submit_run(store, run, tasks, now=0)


def offer_candidate(store: Store, task: int, commit: str, base: str) -> None:
    """Let a task's attempt end with this commit."""
    [grant] = admit_task(store, WORKER, task, now=1)
    done = Outcome(state=State.GATING, candidate=commit, base=base)
    finish(store, grant.fence, done, now=2)


def drive(site: Site, until: Callable[[], bool], *, at: Any = None, seconds: float = 60) -> None:
    """Run the gate until something holds."""

    async def main() -> None:
        gate = Gate(site, WORKER, RUN, **({"at": at} if at else {}))
        with site.store.listen("work") as listener, anyio.fail_after(seconds):
            async with anyio.create_task_group() as group:
                group.start_soon(gate.serve, listener)
                while not await anyio.to_thread.run_sync(until):
                    await anyio.sleep(0.02)
                group.cancel_scope.cancel()

    anyio.run(main)


def states(store: Store, numbers: Mapping[str, int]) -> dict[str, str]:
    return {name: get_task(store, number).state.value for name, number in numbers.items()}


def trunk(root: Path) -> str:
    found = git.find_ref(root, trunk_ref(RUN))
    assert found is not None
    return found
