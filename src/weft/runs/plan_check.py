"""The check of a plan: its problems, its graph and its forecast.

Estimates come from the store, if there is one; a check makes none.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from weft import config, git, plan
from weft.config import Config
from weft.errors import InputError, WeftError
from weft.formats import count, duration
from weft.git import NotARepository
from weft.git.repository import find_repository_id
from weft.host_labels import describe_labels
from weft.plan import plan_json
from weft.plan.critics import list_unmarked, warn_of_mistyped
from weft.plan.plan_records import (
    NO_FILES,
    Compiled,
    ItemKind,
    ParsedPlan,
    Plan,
    PlanTask,
    Problem,
    ReaderOptions,
    Severity,
    Source,
)
from weft.plan.problems import Problems
from weft.planning import forecast
from weft.planning.claim_choice import order_doubtful
from weft.planning.forecast import Forecast, ForecastWork, Saving
from weft.process import ProgramMissing
from weft.project.project import Project, get_project
from weft.project.site import AGENTS, agent_names, read_agent
from weft.runs import plan_file
from weft.runs.file_prediction import (
    PlanPrediction,
    is_predictable,
    open_predictor,
    predict_plan,
)
from weft.runs.outlook import (
    CHECK_SECONDS,
    PERSON_SECONDS,
    count_labelled_slots,
    expect_check,
    read_estimates,
)
from weft.store import Store
from weft.store.gate import list_check_seconds

log = logging.getLogger(__name__)

USUAL_STAGE: Final = "implement"
"""The stage of a task without stages; its agent is the agent of the run."""

_WORTH_SAYING: Final = 0.8  # share of the time that a parallel plan may take at most

_MOST_COMPARED: Final = 1_000  # tasks of a plan that is forecast once more with parallel phases

_SIMULATED: Final = 30_000
"""Jobs that may be simulated in search of savings; they take about two seconds."""


@dataclass(frozen=True, kw_only=True)
class PlanSource:
    name: str  # as the user wrote it, for messages
    data: bytes
    take: tuple[str, ...] = ()  # issues to take although they are held back
    format: Source | None = None  # None: found by its name and content


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The configuration and the records by which plans are checked."""

    slots: int
    config: Config
    store: Store | None
    repo: str = ""  # name of the repository in the store; empty without one
    root: Path | None = None  # of the repository, if there is one here
    warning: str = ""  # reason for which there is no store, if that is unusual


@dataclass(frozen=True, kw_only=True)
class CheckedPlan:
    source: PlanSource
    reading: ParsedPlan
    compiled: Compiled
    work: ForecastWork
    forecast: Forecast
    guesses: tuple[str, ...]  # the values that are guesses, for people
    warning: str  # reason for which estimates are defaults
    prediction: PlanPrediction | None = None  # None: no task needs any

    @property
    def name(self) -> str:
        return self.reading.plan.name

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        return plan_json.list_problems(self.reading, self.compiled)

    @property
    def failed(self) -> bool:
        return any(problem.severity is Severity.ERROR for problem in self.problems)

    @cached_property
    def seconds(self) -> Mapping[str, float]:
        """Return the estimate of each task; 0 for a task that takes no slot."""
        tasks = self.compiled.plan.tasks
        return {task.id: job.seconds for task, job in zip(tasks, self.work.jobs, strict=False)}

    @cached_property
    def width(self) -> int:
        """Return how many tasks run at the busiest moment if there are slots for all."""
        return forecast.forecast(self.work, max(1, len(self.work.jobs))).at_once

    @cached_property
    def critical_path(self) -> list[str]:
        return plan_json.find_critical_path(self.compiled, self.seconds)

    @cached_property
    def parallel_note(self) -> str:
        """Return the annotation that would let tasks run together that run one by one.

        Empty if there is none, or if it would save less than a fifth of the time.
        """
        whole = self.compiled.plan
        if whole.source is not Source.MARKDOWN or len(whole.tasks) > _MOST_COMPARED or self.failed:
            return ""
        sizes = Counter(task.phase for task in whole.tasks if _is_work(task))
        phases = [each for each in whole.phases if not each.annotated and sizes[each.label] > 1]
        labels = {phase.label for phase in phases}
        free = replace(
            whole,
            phases=tuple(
                replace(phase, parallel=phase.parallel or phase.label in labels)
                for phase in whole.phases
            ),
        )
        named = replace(
            free, tasks=tuple(replace(task, files=task.files or ()) for task in whole.tasks)
        )
        for changed, files in ((free, ""), (named, " and `<!-- files: … -->` under each task")):
            seconds = self._forecast_seconds(changed) if labels else math.inf
            if seconds <= _WORTH_SAYING * self.forecast.seconds:
                heading = phases[0].heading or "a heading `## Phase 1: …`"
                more = f" and {count(len(phases) - 1, 'more heading')}" if phases[1:] else ""
                advice = f"; `weft plan annotate {self.name}` proposes both" if files else ""
                return (
                    f"Tasks run one by one, about {duration(self.forecast.seconds)}; with "
                    f"`<!-- execution: parallel -->` under {heading!r}{more}{files} about "
                    f"{duration(seconds)}{advice}."
                )
        return ""

    def _forecast_seconds(self, whole: Plan) -> float:
        check = max((job.tail for job in self.work.jobs), default=0.0)
        work = forecast.work_of(
            plan.compile(whole), self.seconds, check=check, person=PERSON_SECONDS
        )
        return forecast.forecast(work, self.forecast.slots).seconds

    @cached_property
    def savings(self) -> list[Saving]:
        """List the best ways to shorten the run; the larger the plan, the fewer are tried."""
        tries = min(12, max(2, _SIMULATED // max(1, len(self.work.jobs))))
        return forecast.savings(self.work, self.forecast.slots, tries=tries)


def _is_work(task: PlanTask) -> bool:
    return not (task.settled or task.manual) and task.kind is not ItemKind.SUBTASK


def load(
    directory: Path, name: str, take: Sequence[str] = (), format: Source | None = None
) -> PlanSource:
    data = plan_file.read(directory / name)
    return PlanSource(name=name, data=data, take=tuple(take), format=format)


def read_source(source: PlanSource) -> ParsedPlan:
    options = ReaderOptions(format=source.format, take=frozenset(source.take), now=time.time())
    return plan.read(source.name, source.data, options)


@contextmanager
def setting(directory: Path, environment: Mapping[str, str]) -> Iterator[Setting]:
    """Find the setting of a directory, which need not be in a repository."""
    project = _project(directory, environment)
    store, warning = _open(project)
    try:
        yield setting_of(project, store, warning)
    finally:
        if store is not None:
            store.close()


def setting_of(project: Project, store: Store | None, warning: str = "") -> Setting:
    try:
        repo = find_repository_id(git.common_directory(project.root)) or ""
        root = project.root if project.server is None else None
    except (NotARepository, ProgramMissing):
        repo, root = "", None
    return Setting(
        slots=usual_slots(project.config),
        config=project.config,
        store=store,
        repo=repo,
        root=root,
        warning=warning,
    )


def _project(directory: Path, environment: Mapping[str, str]) -> Project:
    try:
        return get_project(directory, environment)
    except (NotARepository, ProgramMissing):
        settings = config.load(directory, environment)
        return Project(
            root=directory,
            config=settings,
            environment=environment,
            store_url=settings.store or "",
        )


def _open(project: Project) -> tuple[Store | None, str]:
    if not project.store_url:
        return None, ""
    try:
        return (project.open_store(), "") if project.has_store else (None, "")
    except (WeftError, OSError) as error:
        return None, str(error)


def usual_slots(settings: Config) -> int:
    """Return the number of tasks that a run works on at once; a paused limit counts as 1."""
    limits = (settings.limits["run/agents"], settings.limits["stage/implement"])
    return max(1, min(settings.worker_slots, *limits))


def check(
    source: PlanSource,
    around: Setting,
    slots: int | None = None,
    *,
    agent: str = USUAL_STAGE,
    stages: Sequence[str] = (),
) -> CheckedPlan:
    """Read and compile a plan, and forecast its run.

    `agent` and `stages` are those of tasks that name none.
    """
    slots = slots or around.slots
    reading, prediction = _predict(read_source(source), around, slots)
    reading = _warn_of_unchecked_teams(reading, around.config)
    if around.root is not None:
        unknown = find_unknown_agents(reading, around.root)
        mistyped = _find_mistyped(reading.plan, around.root)
        reading = replace(reading, problems=(*reading.problems, *unknown, *mistyped))
    compiled = plan.compile(reading.plan, capacity=slots)
    tasks = compiled.plan.tasks
    labels = _find_labels(tasks, around.root, agent, stages)
    known, seconds, rooms, warning = _estimate(tasks, around, agent, stages, labels.values())
    checked = around.config.gate.run is not None or any(task.check for task in tasks)
    usual = (CHECK_SECONDS if seconds is None else seconds) if checked else 0.0
    work = forecast.work_of(compiled, known, check=usual, person=PERSON_SECONDS)
    work = replace(
        work,
        jobs=tuple(replace(job, labels=labels.get(job.name, job.labels)) for job in work.jobs),
        rooms={room: number for room, number in rooms.items() if number},
    )
    return CheckedPlan(
        source=source,
        reading=reading,
        compiled=compiled,
        work=work,
        forecast=forecast.forecast(work, slots, tuning=around.config.tuning),
        guesses=(
            *_guesses(tasks, known, has_check=seconds is not None or not checked),
            *(f"a worker with {describe_labels(room)}" for room, n in rooms.items() if not n),
        ),
        warning=warning,
        prediction=prediction,
    )


def _find_mistyped(whole: Plan, root: Path) -> tuple[Problem, ...]:
    missing = {path for path in list_unmarked(whole) if not os.path.lexists(root / path)}
    return warn_of_mistyped(whole, missing, git.list_tracked_files(root)) if missing else ()


def _warn_of_unchecked_teams(reading: ParsedPlan, settings: Config) -> ParsedPlan:
    """Warn of teams whose candidates no check would tell apart."""
    teams = [task for task in reading.plan.tasks if task.team is not None and not task.settled]
    if settings.gate.run is not None or all(task.check for task in teams):
        return reading
    problems = Problems(reading.plan.name)
    for task in teams:
        if not task.check:
            problems.warn(
                (task.line, task.column),
                "unchecked-team",
                f"No check can choose among the candidates of {task.id}: there is none.",
                "Set `run` of [gate] in weft.toml, or write `check:` under the task.",
            )
    return replace(reading, problems=(*reading.problems, *problems.sorted()))


def _predict(
    reading: ParsedPlan, around: Setting, slots: int
) -> tuple[ParsedPlan, PlanPrediction | None]:
    """Give predicted files to the tasks that name none; without a history all stays as it is."""
    if around.root is None or not around.config.plan.predict:
        return reading, None
    if not any(is_predictable(task) or task.parallel for task in reading.plan.tasks):
        return reading, None
    try:
        predictor = open_predictor(around.root, around.store, around.repo)
    except WeftError as error:  # the store is broken
        log.warning("could not predict the files of %s: %s", reading.plan.name, error)
        return reading, None
    if predictor is None:
        return reading, None
    believed, doubts = order_doubtful(reading.plan, predictor.knowledge.history)
    reading = replace(reading, plan=believed, problems=(*reading.problems, *doubts))
    if not any(map(is_predictable, reading.plan.tasks)):
        return reading, None
    predicted, prediction = predict_plan(predictor, reading.plan, slots)
    lines = {task.line for task in predicted.tasks if task.predicted}
    rest = any(is_predictable(task) and not task.predicted for task in predicted.tasks)
    problems = tuple(
        problem
        for problem in reading.problems
        if problem.code not in (NO_FILES, "parallel-without-files")
        or (rest and problem.line not in lines)
    )
    return replace(reading, plan=predicted, problems=problems), prediction


def list_stages(task: PlanTask, agent: str, stages: Sequence[str]) -> list[tuple[str, str]]:
    """List the (agent, stage) pairs of a task; `agent` and `stages` serve a task without any.

    A task names the agent of its main stage; other stages are named after their agents.
    """
    names = task.stages or stages or (USUAL_STAGE,)
    return [((task.agent or agent) if name == USUAL_STAGE else name, name) for name in names]


def _find_labels(
    tasks: Sequence[PlanTask], root: Path | None, agent: str, stages: Sequence[str]
) -> dict[str, frozenset[str]]:
    """Map the tasks that agents are still to do to the labels that they and their agents need."""

    @cache
    def find_labels_of_agent(name: str) -> tuple[str, ...]:
        try:
            return () if root is None else read_agent(root, name).needs_labels
        except InputError:
            return ()  # `weft plan check` and `weft agents` name the file that is missing or broken

    return {
        task.id: frozenset(task.needs_labels).union(
            *(find_labels_of_agent(name) for name, _ in list_stages(task, agent, stages))
        )
        for task in tasks
        if not (task.settled or task.manual or task.kind in (ItemKind.STORY, ItemKind.EPIC))
    }


def _estimate(
    tasks: Sequence[PlanTask],
    around: Setting,
    agent: str,
    stages: Sequence[str],
    needs: Iterable[frozenset[str]],
) -> tuple[dict[str, float], float | None, dict[frozenset[str], int], str]:
    """Estimate tasks and a check from the store's records, and count the slots with labels.

    `needs` are the sets of labels that tasks need of their workers. A broken store costs the
    estimates alone; the last value is its error.
    """
    if around.store is None:
        return {}, None, {}, around.warning
    estimates = read_estimates(around.store)
    try:
        pairs = [
            (task.id, estimates.of_stages(list_stages(task, agent, stages), len(task.claims)))
            for task in tasks
        ]
        check = expect_check(list_check_seconds(around.store, around.repo))
        rooms = count_labelled_slots(around.store, needs, now=time.time())
    except WeftError as error:
        return {}, None, {}, str(error)
    known = {task: seconds for task, seconds in pairs if seconds is not None}
    return known, check, rooms, around.warning


def _guesses(
    tasks: Sequence[PlanTask], known: Mapping[str, float], *, has_check: bool
) -> Iterator[str]:
    """Name the values of a forecast that no record backs."""
    left = [task for task in tasks if not task.settled]
    work = [
        task
        for task in left
        if not task.manual and task.kind not in (ItemKind.STORY, ItemKind.EPIC)
    ]
    unknown = [task for task in work if task.id not in known]
    if unknown:
        which = "each task" if len(unknown) == len(work) else count(len(unknown), "task")
        yield f"{duration(plan_json.DEFAULT_SECONDS)} for {which}"
    if work and not has_check:
        yield f"{duration(CHECK_SECONDS)} for each check"
    steps = sum(task.manual for task in left)
    if steps:
        yield f"{duration(PERSON_SECONDS)} for {count(steps, 'step')} of yours"


def as_json(checked: CheckedPlan) -> dict[str, Any]:
    """Return the check for programs; times are seconds."""
    bounds = checked.forecast.bounds
    return {
        **plan_json.as_json(checked.reading, checked.compiled, checked.seconds),
        "bounds": {
            "critical_path": round(bounds.critical_path, 3),
            "work_per_slot": round(bounds.work_per_slot, 3),
            "busiest_file": round(bounds.busiest_file, 3),
            "file": bounds.file,
            "lower": round(bounds.lower, 3),
        },
        "predicted_seconds": round(checked.forecast.seconds, 3),
        "guesses": list(checked.guesses),
        "prediction": None
        if checked.prediction is None
        else {"used": checked.prediction.used, "note": checked.prediction.note},
        "parallel_note": checked.parallel_note,
        "width": checked.width,
        "slots": checked.forecast.slots,
    }


def find_unknown_agents(reading: ParsedPlan, root: Path) -> tuple[Problem, ...]:
    """Find the agents of open tasks that have no file; none before `weft init` wrote any."""
    known = agent_names(root)
    if not known:
        return ()
    problems = Problems(reading.plan.name)
    for task in reading.plan.tasks:
        unknown = [] if task.settled else [each for each in _list_named(task) if each not in known]
        for name in dict.fromkeys(unknown):
            problems.error(
                (task.line, task.column),
                "unknown-agent",
                f"Task {task.id} names the agent {name!r}, which has no file in {AGENTS}.",
                problems.suggest(name, known, f"There are: {', '.join(known)}."),
            )
    return problems.sorted()


def _list_named(task: PlanTask) -> Iterator[str]:
    if task.agent is not None and not task.manual:
        yield task.agent
    yield from (stage for stage in task.stages if stage != USUAL_STAGE)
    if task.team is not None:
        yield from task.team.agents
        if task.team.judge is not None:
            yield task.team.judge
