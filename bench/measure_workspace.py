"""What a workspace costs compared with plain `git worktree add`, and whether starts ever fail."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from bench.figures import figure, median_ratio
from weft import workspace
from weft.workspace import branch_ref

_FILES = 10_000
_STARTS = 1_000
_AT_ONCE = 32


@contextmanager
def repository(files: int) -> Iterator[Path]:
    """A repository of so many files, in memory where there is such a place, with two commits."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        root = Path(directory) / "repository"
        for number in range(files):
            path = root / f"d{number // 100}" / f"f{number % 100}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"def f{number}():\n    return {number}\n" * 20)
        git(root, "init", "-q", "-b", "main")
        commit(root)
        for number in range(0, files, max(1, files // 50)):
            path = root / f"d{number // 100}" / f"f{number % 100}.py"
            path.write_text("# edited\n")
        commit(root)
        yield root


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


def commit(root: Path) -> None:
    who = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
    git(root, "add", "-A")
    git(root, *who, "-c", "gc.auto=0", "commit", "-q", "-m", "work")


@figure("workspace_ratio_10k", "x", at_most=0.25)
def workspace_ratio_10k() -> float:
    """A workspace that is ready for an agent, from the pool, on another base than the last one's.

    Between two of them an agent edits, adds and builds; giving back is not on anybody's way.
    """
    numbers = count()
    with repository(_FILES) as root:

        def recycled() -> float:
            number = next(numbers)
            base = "main" if number % 2 else "main~1"
            begun = time.perf_counter()
            place = workspace.prepare(root, branch_ref("bench", "task", number), base)
            taken = time.perf_counter() - begun
            (place.path / "d1" / "f1.py").write_text(f"# {number}\n")
            (place.path / "new.py").write_text("new\n")
            workspace.release(place)
            return taken

        def plain() -> float:
            number = next(numbers)
            directory = root.parent / f"plain-{number}"
            begun = time.perf_counter()
            git(root, "worktree", "add", "-q", "-b", f"plain-{number}", str(directory))
            taken = time.perf_counter() - begun
            shutil.rmtree(directory)
            return taken

        recycled()
        return median_ratio(recycled, plain, rounds=9)


@figure("workspace_failures", "of 1000", at_most=0)
def workspace_failures() -> float:
    """Starts that failed, of a thousand with 32 at once, each in a process of its own at a time."""
    with repository(100) as root, ThreadPoolExecutor(_AT_ONCE) as threads:
        each = _STARTS // _AT_ONCE + 1
        starts = [min(each, _STARTS - first) for first in range(0, _STARTS, each)]
        return float(sum(threads.map(lambda one: _failures(root, *one), enumerate(starts))))


def _failures(root: Path, process: int, starts: int) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "bench.starter", str(root), str(process), str(starts)],
        capture_output=True,
        text=True,
        check=False,
    )
    sys.stderr.write(done.stderr)
    return starts - int(done.stdout or 0)
