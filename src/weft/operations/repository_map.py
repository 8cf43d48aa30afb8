"""The map of a repository for a planner: its files, its tests and the time that work takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from weft import git
from weft.config import command_line
from weft.formats import count, duration, plain
from weft.planning.history import History, group_files
from weft.planning.predictor import is_test
from weft.project.history_index import read_index
from weft.project.own_repository import get_repository
from weft.project.project import Project
from weft.runs.file_prediction import open_predictor
from weft.runs.outlook import expect_check, read_estimates
from weft.runs.plan_check import USUAL_STAGE
from weft.runs.preparation import USUAL_AGENT
from weft.store import Store
from weft.store.gate import list_check_seconds

_LONGEST: Final = 12_000  # characters
_DIRECTORIES: Final = 40
_FILES: Final = 60
MOST_HUBS: Final = 20
_BUSY: Final = 150  # files that are looked at for clusters
_CLUSTERS: Final = 12
_CLUSTER_FILES: Final = 8
_PREDICTED: Final = 12
_SIZES: Final = (1, 3, 8)  # files of a task whose time is told


def write_map(project: Project, store: Store, goal: str) -> str:
    """Describe the repository in some dozen lines."""
    paths = git.list_tracked_files(project.root)
    history = read_history(project.root)
    parts = [
        _list_directories(paths),
        _list_tests(paths),
        _list_hubs(history),
        _list_clusters(history, frozenset(paths)),
        _list_predicted(goal, project, store),
        _describe_times(project, store),
    ]
    lines = [line for part in parts for line in (*part, "")]
    return "\n".join(map(plain, lines)).strip()[:_LONGEST]


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
    tests = Counter(str(PurePosixPath(path).parent) for path in paths if is_test(path))
    if tests:
        yield "Tests:"
        yield from (
            f"  {place}/ ({count(number, 'file')})" for place, number in tests.most_common(10)
        )


def read_history(root: Path) -> History:
    """Return the history of HEAD."""
    if not git.has_commits(root):
        return History()
    return read_index(root, git.get_commit(root, "HEAD").id).history


def _list_hubs(history: History) -> Iterator[str]:
    hubs = history.list_hubs()[:MOST_HUBS]
    if hubs:
        yield "Hub files, which many commits change; no two parallel tasks may share one:"
        yield from (f"  {path} ({history.share(path):.0%} of the commits)" for path in hubs)


def _list_clusters(history: History, there: frozenset[str]) -> Iterator[str]:
    """Yield groups of busy files that change together."""
    busiest = sorted(range(len(history.paths)), key=lambda file: -len(history.touched[file]))
    busy = [history.paths[file] for file in busiest[:_BUSY] if history.paths[file] in there]
    groups = [group for group in group_files(history, busy) if len(group) > 1][:_CLUSTERS]
    if groups:
        yield "Files that change together:"
        for group in groups:
            more = ", …" if len(group) > _CLUSTER_FILES else ""
            yield f"  {', '.join(group[:_CLUSTER_FILES])}{more}"


def _list_predicted(goal: str, project: Project, store: Store) -> Iterator[str]:
    repo = get_repository(project.root, store)
    predictor = open_predictor(project.root, store, repo)
    files = () if predictor is None else predictor.predict({"goal": goal})["goal"]
    likely = [file for file in files if not file.may_touch][:_PREDICTED]
    if likely:
        yield "Files that the goal may change, by its words and the history:"
        for file in likely:
            yield f"  {file.path} ({file.probability:.0%}: {file.reason})"


def _describe_times(project: Project, store: Store) -> Iterator[str]:
    gate = project.config.gate
    if gate.run is not None:
        yield f"Every change must also pass: {command_line(gate.run)}"
    check = expect_check(list_check_seconds(store, get_repository(project.root, store)))
    if check is not None:
        yield f"That takes about {duration(check)}."
    estimates = read_estimates(store)
    for size in _SIZES:
        seconds = estimates.of_stages([(USUAL_AGENT, USUAL_STAGE)], size)
        if seconds is not None:
            yield f"A task of {count(size, 'file')} took about {duration(seconds)}."
