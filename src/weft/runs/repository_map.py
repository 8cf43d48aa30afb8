"""The map of a repository for a planner: its files, its tests and the time that work takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from weft import git
from weft.config import command_line
from weft.formats import count, duration, plain
from weft.project.project import Project
from weft.runs.duration_estimates import expect_check, read_estimates
from weft.runs.plan_check import USUAL_STAGE
from weft.runs.preparation import USUAL_AGENT
from weft.store import Store
from weft.store.gate import list_check_seconds

_LONGEST: Final = 12_000  # characters
_DIRECTORIES: Final = 40
_FILES: Final = 60
_SIZES: Final = (1, 3, 8)  # files of a task whose time is told


def write_map(project: Project, store: Store, goal: str) -> str:
    """Describe the repository in some dozen lines."""
    paths = git.list_tracked_files(project.root)
    parts = [
        _list_directories(paths),
        _list_tests(paths),
        _describe_times(project, store),
    ]
    return plain_lines("\n\n".join("\n".join(part) for part in map(list, parts) if part))


def plain_lines(text: str) -> str:
    return "\n".join(plain(line) for line in text.splitlines())[:_LONGEST]


def _list_directories(paths: Sequence[str]) -> Iterator[str]:
    yield f"{count(len(paths), 'tracked file')}."
    if len(paths) <= _FILES:
        yield from (f"  {path}" for path in paths)
        return
    directories = Counter(str(PurePosixPath(path).parent) for path in paths)
    yield "Directories with most files:"
    for directory, number in sorted(directories.most_common(_DIRECTORIES)):
        yield f"  {directory}/ ({count(number, 'file')})"


def _list_tests(paths: Sequence[str]) -> Iterator[str]:
    tests = Counter(
        str(PurePosixPath(path).parent) for path in paths if is_test(PurePosixPath(path))
    )
    if tests:
        yield "Tests:"
        yield from (
            f"  {place}/ ({count(number, 'file')})" for place, number in tests.most_common(10)
        )


def is_test(path: PurePosixPath) -> bool:
    name = path.name.lower()
    return (
        name.startswith("test_")
        or any(mark in name for mark in ("_test.", ".test.", "_spec.", ".spec."))
        or not {"test", "tests", "spec", "__tests__"}.isdisjoint(path.parts[:-1])
    )


def _describe_times(project: Project, store: Store) -> Iterator[str]:
    gate = project.config.gate
    if gate.run is not None:
        yield f"Every change must also pass: {command_line(gate.run)}"
    check = expect_check(list_check_seconds(store, str(git.common_directory(project.root))))
    if check is not None:
        yield f"That takes about {duration(check)}."
    estimates = read_estimates(store)
    for size in _SIZES:
        seconds = estimates.of_stages([(USUAL_AGENT, USUAL_STAGE)], size)
        if seconds is not None:
            yield f"A task of {count(size, 'file')} took about {duration(seconds)}."
