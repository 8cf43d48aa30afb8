"""The check of a plan: its problems, its graph and its forecast.

Estimates come from the store, if there is one; a check makes none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from weft import config, forecast, plan
from weft.config import Config
from weft.errors import WeftError
from weft.forecast import Forecast, ForecastWork, Saving
from weft.git import NotARepository
from weft.plan import plan_json
from weft.plan.plan_records import Compiled, ParsedPlan, PlanTask, Problem, Severity
from weft.process import ProgramMissing
from weft.project.project import Project, get_project
from weft.runs import plan_file
from weft.runs.duration_estimates import DurationEstimates
from weft.store import Store
from weft.store.leases import durations

USUAL_STAGE: Final = "implement"
"""The stage of a task without stages."""

_SIMULATED: Final = 30_000
"""Jobs that may be simulated in search of savings; they take about two seconds."""


@dataclass(frozen=True, kw_only=True)
class PlanSource:
    name: str  # as the user wrote it, for messages
    data: bytes


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The configuration and the records by which plans are checked."""

    slots: int
    config: Config
    store: Store | None
    warning: str = ""  # reason for which there is no store, if that is unusual


@dataclass(frozen=True, kw_only=True)
class CheckedPlan:
    source: PlanSource
    reading: ParsedPlan
    compiled: Compiled
    work: ForecastWork
    forecast: Forecast
    warning: str  # reason for which estimates are defaults

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
    def critical_path(self) -> list[str]:
        return plan_json.find_critical_path(self.compiled, self.seconds)

    @cached_property
    def savings(self) -> list[Saving]:
        """List the best ways to shorten the run; the larger the plan, the fewer are tried."""
        tries = min(12, max(2, _SIMULATED // max(1, len(self.work.jobs))))
        return forecast.savings(self.work, self.forecast.slots, tries=tries)


def load(directory: Path, name: str) -> PlanSource:
    return PlanSource(name=name, data=plan_file.read(directory / name))


@contextmanager
def setting(directory: Path, environment: Mapping[str, str]) -> Iterator[Setting]:
    """Find the setting of a directory, which need not be in a repository."""
    project = _project(directory, environment)
    store, warning = _open(project)
    try:
        yield Setting(
            slots=usual_slots(project.config), config=project.config, store=store, warning=warning
        )
    finally:
        if store is not None:
            store.close()


def setting_of(project: Project, store: Store) -> Setting:
    return Setting(slots=usual_slots(project.config), config=project.config, store=store)


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


def check(source: PlanSource, around: Setting, slots: int | None = None) -> CheckedPlan:
    """Read and compile a plan, and forecast its run."""
    slots = slots or around.slots
    reading = plan.read(source.name, source.data)
    compiled = plan.compile(reading.plan, capacity=slots)
    seconds, warning = _estimate(compiled.plan.tasks, around)
    work = forecast.work_of(compiled, seconds)
    return CheckedPlan(
        source=source,
        reading=reading,
        compiled=compiled,
        work=work,
        forecast=forecast.forecast(work, slots, tuning=around.config.tuning),
        warning=warning,
    )


def _estimate(tasks: Iterable[PlanTask], around: Setting) -> tuple[dict[str, float], str]:
    """Estimate tasks from the store's records; a broken store costs the estimates alone."""
    store = around.store
    if store is None:
        return {}, around.warning
    estimates = DurationEstimates(lambda agent, stage: durations(store, agent, stage))
    known: dict[str, float] = {}
    try:
        for task in tasks:
            stages = [(task.agent or "", stage) for stage in task.stages or (USUAL_STAGE,)]
            seconds = estimates.of_stages(stages, len(task.claims))
            if seconds is not None:
                known[task.id] = seconds
    except WeftError as error:
        return {}, str(error)
    return known, ""


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
        "slots": checked.forecast.slots,
    }
