"""Checking a plan: what it says, what is wrong with it, and how long it would take.

Looks at the store for how long similar tasks took, and never makes one just for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from weft.project import project
from weft.project.project import Project
from weft.runs import plan_file
from weft.store import Store
from weft.store.leases import durations

USUAL_STAGE: Final = "implement"
"""The stage of a task that names none."""

_SIMULATED: Final = 30_000
"""How many jobs may be simulated, in all, in search of savings: some two seconds."""


@dataclass(frozen=True, kw_only=True)
class PlanSource:
    """A plan file as it was found."""

    name: str  # as the user wrote it, for messages
    data: bytes


class History:
    """How long tasks took before; knows nothing without a store."""

    def __init__(self, store: Store | None = None, warning: str = "") -> None:
        self._store = store
        self.warning = warning  # why it knows nothing, if that is news
        self._known: dict[tuple[str, str], list[tuple[int, float]]] = {}

    def estimate(self, task: PlanTask) -> float | None:
        """The stages of the task one after the other, as far as anything is known of them."""
        size = len(task.claims)
        found = [
            seconds
            for stage in task.stages or (USUAL_STAGE,)
            if (seconds := forecast.estimate(self._alike(task.agent or "", stage), size))
            is not None
        ]
        return sum(found) if found else None

    def _alike(self, agent: str, stage: str) -> list[tuple[int, float]]:
        key = (agent, stage)
        if key not in self._known:
            try:
                found = durations(self._store, agent, stage) if self._store else []
            except WeftError as error:
                self._store, self.warning, found = None, str(error), []
            self._known[key] = found
        return self._known[key]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Where plans are checked: the numbers that count there, and what is remembered."""

    slots: int
    config: Config
    history: History


@dataclass(frozen=True, kw_only=True)
class CheckedPlan:
    """A plan, its graph and its forecast."""

    source: PlanSource
    reading: ParsedPlan
    compiled: Compiled
    work: ForecastWork
    forecast: Forecast

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
        """What each task is taken to last; nothing for what takes no slot."""
        tasks = self.compiled.plan.tasks
        return {task.id: job.seconds for task, job in zip(tasks, self.work.jobs, strict=False)}

    @cached_property
    def critical_path(self) -> list[str]:
        return plan_json.find_critical_path(self.compiled, self.seconds)

    @cached_property
    def savings(self) -> list[Saving]:
        """What would shorten it most; the larger the plan, the fewer ways are tried."""
        tries = min(12, max(2, _SIMULATED // max(1, len(self.work.jobs))))
        return forecast.savings(self.work, self.forecast.slots, tries=tries)


def load(directory: Path, name: str) -> PlanSource:
    """Read a plan file, named as from that directory."""
    return PlanSource(name=name, data=plan_file.read(directory / name))


@contextmanager
def setting(directory: Path, environment: Mapping[str, str]) -> Iterator[Setting]:
    """What is known around a directory, which need not be in a repository."""
    found = _project(directory, environment)
    store, warning = _open(found)
    try:
        yield Setting(
            slots=usual_slots(found.config),
            config=found.config,
            history=History(store, warning=warning),
        )
    finally:
        if store is not None:
            store.close()


def _project(directory: Path, environment: Mapping[str, str]) -> Project:
    try:
        return project.find(directory, environment)
    except (NotARepository, ProgramMissing):
        settings = config.load(directory, environment)
        return Project(
            root=directory,
            config=settings,
            environment=environment,
            store_url=settings.store or "",
        )


def _open(found: Project) -> tuple[Store | None, str]:
    if not found.store_url:
        return None, ""
    try:
        return (found.open_store(), "") if found.has_store else (None, "")
    except (WeftError, OSError) as error:
        return None, str(error)


def usual_slots(settings: Config) -> int:
    """How many tasks of one run are worked on at once; a limit that is paused counts as one."""
    limits = (settings.limits["run/agents"], settings.limits["stage/implement"])
    return max(1, min(settings.worker_slots, *limits))


def check(source: PlanSource, around: Setting, slots: int | None = None) -> CheckedPlan:
    """Read and compile a plan, and predict how it would run."""
    slots = slots or around.slots
    reading = plan.read(source.name, source.data)
    compiled = plan.compile(reading.plan, capacity=slots)
    seconds = {
        task.id: known
        for task in compiled.plan.tasks
        if (known := around.history.estimate(task)) is not None
    }
    work = forecast.work_of(compiled, seconds)
    return CheckedPlan(
        source=source,
        reading=reading,
        compiled=compiled,
        work=work,
        forecast=forecast.forecast(work, slots, tuning=around.config.tuning),
    )


def as_json(checked: CheckedPlan) -> dict[str, Any]:
    """All of it for programs; times in seconds."""
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
