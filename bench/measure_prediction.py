"""Prediction of files: how right it is, what it costs, and what it does to a schedule.

The history is generated with a fixed seed; `REPO=path` measures a real repository instead.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from bench.figures import figure
from bench.planted_history import (
    CHANGELOG,
    PlantedCommit,
    plant_commits,
    plant_topics,
    write_repository,
)
from weft import git
from weft.model import PredictedFile
from weft.plan.plan_records import list_claims
from weft.planning.claim_choice import TaskFiles
from weft.planning.forecast import ForecastJob, ForecastWork, Stint, forecast
from weft.planning.score import Score
from weft.project.file_knowledge import score_history
from weft.project.history_index import index_directory, read_index
from weft.runs.file_prediction import Predictor, open_predictor

_OWN = Path(__file__).parent.parent
_COMMITS = 3_000
_TOPICS = 60
_PLANS = 20
_SLOTS = 4
_MINUTES = 600.0


@contextmanager
def history_of(commits: Sequence[PlantedCommit]) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="weft-bench-"))
    try:
        write_repository(place / "repository", commits)
        yield place / "repository"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _commits(count: int) -> list[PlantedCommit]:
    return list(plant_commits(count, plant_topics(_TOPICS)))


def _score(root: Path) -> Score:
    return score_history(root, read_index(root, git.get_commit(root, "HEAD").id))


@cache
def measured_score() -> Score:
    """Score the repository named by REPO, or a generated history."""
    if repository := os.environ.get("REPO"):
        return _score(Path(repository))
    with history_of(_commits(_COMMITS)) as root:
        return _score(root)


@figure("predict_recall_at_5", "ratio", at_least=0.0 if os.environ.get("REPO") else 0.6)
def predict_recall_at_5() -> float:
    result = measured_score()
    assert result.recall > result.named_recall, "paths in the text predict better"
    return result.recall


@figure("predict_recall_at_5_named", "ratio")
def predict_recall_at_5_named() -> float:
    """The baseline: recall of the files that messages name."""
    return measured_score().named_recall


@figure("predict_recall_at_5_weft", "ratio", at_least=0.0)
def predict_recall_at_5_weft() -> float:
    """The recall on weft's own history, if this is a clone of it with its history."""
    if not (_OWN / ".git").exists():
        return 0.0
    result = _score(_OWN)
    assert not result.cases or result.recall > result.named_recall
    return result.recall


@figure("predict_all_files", "ratio", at_least=0.0 if os.environ.get("REPO") else 0.4)
def predict_all_files() -> float:
    return measured_score().all_files


@figure("history_index_s_per_10k", "s", at_most=12.0)
def history_index_s_per_10k() -> float:
    commits = _commits(10_000)
    with history_of(commits) as root:
        tip = git.get_commit(root, "HEAD").id
        begun = time.perf_counter()
        history = read_index(root, tip).history
        seconds = time.perf_counter() - begun
        assert history.size > 9_000
    return seconds


@figure("history_index_10_more_ms", "ms", at_most=150.0)
def history_index_10_more_ms() -> float:
    commits = _commits(3_100)
    times = []
    with history_of(commits[:3_000]) as root:
        read_index(root, git.get_commit(root, "HEAD").id)
        for first in range(3_000, 3_100, 10):
            write_repository(root, commits[first : first + 10], first)
            tip = git.get_commit(root, "HEAD").id
            begun = time.perf_counter()
            read_index(root, tip)
            times.append(time.perf_counter() - begun)
    return 1_000 * statistics.median(times)


@figure("predict_ms", "ms", at_most=400.0)
def predict_ms() -> float:
    """From a text to its files, in a process that has nothing open: 50,000 commits."""
    commits = _commits(50_000)
    times = []
    with history_of(commits) as root:
        open_predictor(root, None, "")
        for commit in commits[-9:]:
            begun = time.perf_counter()
            predictor = open_predictor(root, None, "")
            assert predictor is not None
            predictor.predict({"": commit.message})
            times.append(time.perf_counter() - begun)
        shutil.rmtree(index_directory(git.common_directory(root)))
    return 1_000 * statistics.median(times)


@cache
def makespans() -> Mapping[str, float]:
    """Simulate plans of commits that are still to come, by the claims that their tasks have.

    Two tasks that run at the same time and change the same file unclaimed cost a redo: the later
    task is done again, with all its files claimed.
    """
    commits = _commits(_COMMITS + 20 * _PLANS)
    known, ahead = commits[:_COMMITS], commits[_COMMITS:]
    sums = dict.fromkeys(("declared", "predicted", "none"), 0.0)
    with history_of(known) as root:
        predictor = open_predictor(root, None, "")
        assert predictor is not None
        for number in range(_PLANS):
            plan = [c for c in ahead[number * 20 : number * 20 + 20] if len(c.files) <= 30]
            files = [tuple(file for file in c.files if file != CHANGELOG) for c in plan]
            sums["declared"] += _simulate([(own, own) for own in files])
            sums["predicted"] += _simulate(list(zip(_predict(predictor, plan), files, strict=True)))
            sums["none"] += _simulate([(("**",), own) for own in files])
    return sums


def _predict(predictor: Predictor, plan: Sequence[PlantedCommit]) -> list[tuple[str, ...]]:
    texts = {str(number): commit.message for number, commit in enumerate(plan)}
    predicted: Mapping[str, tuple[PredictedFile, ...]] = predictor.predict(texts)
    tasks = {name: TaskFiles(predicted=files) for name, files in predicted.items()}
    chosen = predictor.choose_claims(tasks, _SLOTS)
    return [list_claims(chosen[name]) if name in chosen else ("**",) for name in texts]


def _simulate(tasks: Sequence[tuple[tuple[str, ...], tuple[str, ...]]]) -> float:
    """Return the makespan of tasks with claims and changed files, redone work included."""
    claims = [own for own, _ in tasks]
    seconds = [_MINUTES] * len(tasks)
    for _ in range(len(tasks) + 1):
        jobs = tuple(
            ForecastJob(name=str(node), seconds=seconds[node], claims=claims[node])
            for node in range(len(tasks))
        )
        result = forecast(ForecastWork(jobs=jobs, successors=[()] * len(jobs)), _SLOTS)
        redone = _find_redo(result.schedule, [changed for _, changed in tasks], seconds)
        if redone is None:
            break
        seconds[redone] += _MINUTES
        claims[redone] = tuple({*claims[redone], *tasks[redone][1]})
    return result.seconds


def _find_redo(
    schedule: Sequence[Stint], changed: Sequence[tuple[str, ...]], seconds: Sequence[float]
) -> int | None:
    """Find a task that is done again, because a task beside it changed the same file."""
    stints = sorted(schedule, key=lambda stint: -stint.end)
    for place, later in enumerate(stints):
        for earlier in stints[place + 1 :]:
            pair = int(later.name), int(earlier.name)
            if earlier.end > later.start and set(changed[pair[0]]) & set(changed[pair[1]]):
                first = [node for node in pair if seconds[node] == _MINUTES]
                if first:
                    return first[0]
    return None


@figure("makespan_predicted_ratio", "ratio", at_most=2.0)
def makespan_predicted_ratio() -> float:
    """Predicted against declared files."""
    return makespans()["predicted"] / makespans()["declared"]


@figure("makespan_undeclared_ratio", "ratio")
def makespan_undeclared_ratio() -> float:
    """No files at all, so that each task runs alone, against declared files."""
    return makespans()["none"] / makespans()["declared"]
