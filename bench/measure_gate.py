"""What merging costs without a working tree, against `git merge` in one; and what landing does."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
from anyio.to_thread import run_sync

from bench.figures import figure, median_ratio
from weft.config import Config, GateSettings, RunSettings
from weft.gate.gate_loop import Gate
from weft.gate.merge import MergeCandidate, merge
from weft.gate.trunk import LandingCommit, commit_chain
from weft.git.object_store import open_object_store
from weft.model import NewRun, NewTask, NewWorker, Outcome, State
from weft.project.site import Site
from weft.store import open_store
from weft.store.admission import admit_task
from weft.store.attempt_end import finish
from weft.store.runs import submit_run
from weft.store.tasks import count_states
from weft.store.workers import register
from weft.worker.engine import open_site

_FILES = 10_000
_PER_DIRECTORY = 100
_LINES = 300
_BRANCHES = 50
_SHARED = 3
"""Files that every branch of the overlapping kind edits, each branch at a place of its own."""
_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "bench",
    "GIT_AUTHOR_EMAIL": "bench@localhost",
    "GIT_COMMITTER_NAME": "bench",
    "GIT_COMMITTER_EMAIL": "bench@localhost",
}


@figure("merge_50_ratio", "x", at_most=0.1)
def merge_50_ratio() -> float:
    return _ratio({number: _own_edits(number) for number in range(_BRANCHES)})


@figure("merge_50_overlap_ratio", "x", at_most=0.15)
def merge_50_overlap_ratio() -> float:
    return _ratio({number: _shared_edits(number) for number in range(_BRANCHES)})


@figure("land_ms", "ms")
def land_ms() -> float:
    """What one of many candidates costs from the gate's queue to trunk, with a check that does
    nothing."""
    tasks = [
        NewTask(name=f"t{number}", files=(f"new/n{number}.py",)) for number in range(_BRANCHES)
    ]
    with _repository() as root, open_store(f"sqlite:///{root / 'weft.db'}") as store:
        base = _import(root, {number: _own_edits(number) for number in range(_BRANCHES)})
        config = Config(gate=GateSettings(run=("true",)))
        limits = {"agents": _BRANCHES, "implement": _BRANCHES}
        run = NewRun(id="r", repo=str(root), base=base, limits=limits)
        register(store, NewWorker(id="w", slots=_BRANCHES, host="h"), now=0, stated={})
        numbers = submit_run(store, run, tasks, settings=RunSettings(gate=config.gate), now=0)
        for place, number in enumerate(numbers.values()):
            [grant] = admit_task(store, "w", number, now=1)
            commit = _git(root, "rev-parse", f"b{place}")
            done = Outcome(state=State.GATING, candidate=commit, base=base)
            finish(store, grant.fence, done, now=2)
        with open_site(store, root, config, dict(_ENVIRONMENT)) as site:
            return anyio.run(_land_all, site) / _BRANCHES * 1000


async def _land_all(site: Site) -> float:
    started = time.perf_counter()
    with site.store.listen("work") as listener:
        async with anyio.create_task_group() as group:
            group.start_soon(Gate(site, "w", "r").serve, listener)
            while (await run_sync(count_states, site.store)).get(State.DONE, 0) < _BRANCHES:
                await anyio.sleep(0.005)
            seconds = time.perf_counter() - started
            group.cancel_scope.cancel()
    return seconds


def _ratio(edits: dict[int, dict[str, str]]) -> float:
    """Merging without a working tree, commits included, over `git merge` of each in one."""
    with _repository() as original:
        base = _import(original, edits)
        branches = [_git(original, "rev-parse", f"b{number}") for number in edits]
        trees = set()

        def ours() -> float:
            with _copy(original) as repository:
                started = time.perf_counter()
                tip = _merge_without_worktree(repository, base, branches)
                seconds = time.perf_counter() - started
                trees.add(_git(repository, "rev-parse", f"{tip}^{{tree}}"))
                return seconds

        def theirs() -> float:
            with _copy(original) as repository:
                worktree = repository / "worktree"
                _git(repository, "worktree", "add", "-q", "--detach", str(worktree), base)
                started = time.perf_counter()
                for branch in branches:
                    _git(worktree, "merge", "-q", "--no-ff", "-m", "merge", branch)
                seconds = time.perf_counter() - started
                trees.add(_git(worktree, "rev-parse", "HEAD^{tree}"))
                return seconds

        ratio = median_ratio(ours, theirs, rounds=3)
        assert len(trees) == 1, "the figure means nothing if the trees differ"
        return ratio


def _merge_without_worktree(repository: Path, base: str, branches: list[str]) -> str:
    with open_object_store(repository) as objects:
        candidates = [MergeCandidate(commit=branch, base=base) for branch in branches]
        steps = merge(objects, base, candidates)
        landings = [
            LandingCommit(tree=one.tree, candidates=(one.candidate.commit,)) for one in steps
        ]
        return commit_chain(objects, base, landings, committed=1)[-1]


def _own_edits(number: int) -> dict[str, str]:
    """A branch that changes three files nobody else does, and adds one."""
    places = [number * 3 + offset for offset in range(3)]
    changed = {_name(place * 66): _text(place * 66, line=7) for place in places}
    return {**changed, f"new/n{number}.py": "new\n"}


def _shared_edits(number: int) -> dict[str, str]:
    """A branch that changes one line of files that every branch changes elsewhere."""
    step = _LINES // _BRANCHES
    return {
        _name(place * 1600): _text(place * 1600, line=number * step) for place in range(_SHARED)
    }


def _name(number: int) -> str:
    return f"src/d{number // _PER_DIRECTORY:03}/f{number % _PER_DIRECTORY:03}.py"


def _text(number: int, line: int = -1) -> str:
    return "".join(f"{number} {at}{' changed' * (at == line)}\n" for at in range(_LINES))


def _import(repository: Path, edits: dict[int, dict[str, str]]) -> str:
    """One base commit with every file, and one branch per set of edits."""
    stream = [_commit("base", {_name(number): _text(number) for number in range(_FILES)})]
    for number, files in edits.items():
        stream.append(_commit(f"b{number}", files, parent="refs/heads/base"))
    _git(repository, "fast-import", "--quiet", stdin="".join(stream))
    return _git(repository, "rev-parse", "base")


def _commit(branch: str, files: dict[str, str], parent: str = "") -> str:
    who = "bench <bench@localhost> 1700000000 +0000"
    parts = [f"commit refs/heads/{branch}\ncommitter {who}\ndata 2\nm\n"]
    if parent:
        parts.append(f"from {parent}\n")
    parts += [f"M 100644 inline {name}\ndata {len(text)}\n{text}\n" for name, text in files.items()]
    return "".join(parts)


@contextmanager
def _repository() -> Iterator[Path]:
    with _place() as directory:
        _git(directory, "init", "-q")
        yield directory


@contextmanager
def _copy(repository: Path) -> Iterator[Path]:
    with _place() as directory:
        shutil.copytree(repository, directory, dirs_exist_ok=True)
        yield directory


@contextmanager
def _place() -> Iterator[Path]:
    """In memory, where there is such a place: file systems differ more than programs do."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="weft-bench-", dir=memory if memory.is_dir() else None
    ) as directory:
        yield Path(directory)


def _git(directory: Path, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=directory,
        env=_ENVIRONMENT,
        input=stdin,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()
