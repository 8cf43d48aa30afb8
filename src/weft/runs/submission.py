"""From a compiled plan to a run in the store: what each task asks for, claims, and is told."""

from __future__ import annotations

import math
import os
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from weft import bounds, forecast, git, paths
from weft.admission.capacity import attempt_demand
from weft.agents import spec
from weft.agents.agent import Agent
from weft.config import RunSettings
from weft.errors import InputError
from weft.model import HUMAN, NewRun, NewTask, Stage, TaskKind, TaskRequest
from weft.plan.plan_records import Budget, Compiled, EdgeReason, ItemKind, PlanTask
from weft.project.project import Project
from weft.project.site import agent_names, parse_agent, read_agent_file
from weft.runs.plan_check import (
    USUAL_STAGE,
    CheckedPlan,
    History,
    PlanSource,
    Setting,
    check,
    usual_slots,
)
from weft.runs.progress import from_afar
from weft.runs.target_branch import require_target
from weft.stages import RULE, find_fault, looks
from weft.store import Store
from weft.store.limit_table import require_agreement
from weft.store.runs import submit_run
from weft.store.server_operations import hosted
from weft.workspace.filters import refuse_filters

_SPEC: Final = "spec.md"
_USES: Final = {
    "port": ("host:@/port", 1),
    "ram_mb": ("host:@/ram_mb", 1),
    "ram_gb": ("host:@/ram_mb", 1024),
}


class Wishes(Struct, frozen=True, kw_only=True):
    """What the user asked for besides the plan."""

    agent: str = "implement"  # for tasks that name none
    stages: tuple[str, ...] = ()  # for tasks that name none
    slots: int | None = None
    base: str = "HEAD"
    into: str | None = None  # a branch that moves to what landed, once everything has
    micro_usd: int | None = None  # what the whole run may spend
    tenant: str = "default"


def micro_dollars(dollars: float) -> int:
    """A budget, as it is counted."""
    if not 0 < dollars < bounds.DOLLARS:
        raise InputError(f"A budget is dollars, above 0 and below {bounds.DOLLARS:,}.")
    return max(1, round(dollars * 1_000_000))


class Submitted(Struct, frozen=True, kw_only=True):
    run: str
    tasks: Mapping[str, int]  # numbers by the plan's ids
    base: str


class Sheet(Struct, frozen=True, kw_only=True):
    """A plan as it is handed in, with what lies beside it."""

    source: PlanSource
    stem: str  # of its file's name, which the run's begins with
    place: str  # where the file is
    spec: str  # its specification; mostly there is none


def hand_in(
    project: Project, store: Store, checked: CheckedPlan, path: Path, wishes: Wishes
) -> Submitted:
    """Submit a plan that was checked here as a new run, wherever that is."""
    sheet = sheet_of(project, checked, path)
    if project.server is None:
        return submit(project, store, checked, sheet, wishes)
    return submit_sheet(project, sheet, wishes)


def sheet_of(project: Project, checked: CheckedPlan, path: Path) -> Sheet:
    place = str(path.resolve()) if project.server is None else from_afar(path)
    spec = _read(path.parent / _SPEC)
    return Sheet(source=checked.source, stem=path.stem, place=place, spec=spec)


@hosted("write")
def submit_sheet(project: Project, sheet: Sheet, wishes: Wishes) -> Submitted:
    """Submit a plan that nobody has checked here yet."""
    with project.open_store() as store:
        around = Setting(
            slots=usual_slots(project.config), config=project.config, history=History(store)
        )
        checked = check(sheet.source, around, wishes.slots)
        if checked.failed:
            raise InputError(f"{checked.name} has errors; `weft plan check` says which.")
        return submit(project, store, checked, sheet, wishes)


def submit(
    project: Project, store: Store, checked: CheckedPlan, sheet: Sheet, wishes: Wishes
) -> Submitted:
    """Submit a checked plan as a new run."""
    require_agreement(store, project.config.stated)
    prepared = prepare(project, checked, sheet, wishes)
    numbers = submit_run(
        store, prepared.run, prepared.tasks, settings=prepared.settings, now=time.time()
    )
    return Submitted(run=prepared.run.id, tasks=numbers, base=prepared.run.base)


class Prepared(Struct, frozen=True, kw_only=True):
    """A run that only has to be written down."""

    run: NewRun
    tasks: Sequence[NewTask]
    agents: Mapping[str, Agent]  # that will be at work
    settings: RunSettings  # settings by which the run is worked on and checked


def prepare(project: Project, checked: CheckedPlan, sheet: Sheet, wishes: Wishes) -> Prepared:
    """A plan as a run, or what is in its way; nothing is written."""
    if wishes.stages and (fault := find_fault(wishes.stages)) is not None:
        raise InputError(f"--stages {','.join(wishes.stages)}: {fault.why}; {RULE}.")
    common = git.common_directory(project.root)
    if not os.access(common, os.W_OK):
        raise InputError(f"weft cannot write to {common}, where its workspaces and branches are.")
    refuse_filters(project.root)
    base = _base(project.root, wishes.base)
    if wishes.into is not None:
        require_target(project.root, wishes.into, base)
    run = _new_id(sheet.stem)
    building = _Tasks(project, checked, sheet.spec, run, wishes)
    tasks = building.build()
    if not tasks:
        raise InputError(f"{checked.name} has nothing left to do.")
    limits: dict[str, int] = {}
    if wishes.slots is not None:
        limits |= dict.fromkeys(("agents", "test", "implement"), wishes.slots)
    if wishes.micro_usd is not None:
        limits["usd"] = wishes.micro_usd
    new = NewRun(
        id=run,
        repo=str(common),
        tenant=wishes.tenant,
        plan=sheet.place,
        base=base,
        target=wishes.into or "",
        limits=limits,
        alternates=git.list_alternates(project.root),
    )
    settings = RunSettings(
        gate=project.config.gate, workspace=project.config.workspace, agents=building.agent_files
    )
    return Prepared(run=new, tasks=tasks, agents=building.agents, settings=settings)


def _base(root: Path, name: str) -> str:
    try:
        return git.get_commit(root, name).id
    except git.NoSuchCommit as error:
        raise InputError(
            f"The run cannot start from --base {name}: there is no such commit."
        ) from error


def _new_id(name: str) -> str:
    """Short, readable, and not used before: `plan-3fa1`."""
    stem = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:24] or "run"
    return f"{stem}-{secrets.token_hex(2)}"


class _Tasks:
    """Builds the tasks of one plan; reads each agent file once."""

    def __init__(
        self, project: Project, checked: CheckedPlan, spec: str, run: str, wishes: Wishes
    ) -> None:
        self._project = project
        self._compiled: Compiled = checked.compiled
        self._run = run
        self._wishes = wishes
        self.agents: dict[str, Agent] = {}  # those that tasks ask for
        self.agent_files: dict[str, str] = {}  # the text of each agent file, by name
        self._names = agent_names(project.root)
        self._spec = spec
        self._open = {task.id for task in self._compiled.plan.tasks if not task.settled}
        work = forecast.work_of(self._compiled, checked.seconds)
        longest = forecast.paths(work)
        self._paths = dict(
            zip((task.id for task in self._compiled.plan.tasks), longest, strict=False)
        )
        self._gangs = {
            one: f"g{n}" for n, group in enumerate(checked.compiled.groups) for one in group
        }
        self._phases = {phase.label: phase for phase in self._compiled.plan.phases}

    def build(self) -> list[NewTask]:
        needs: dict[str, set[str]] = {task: set() for task in self._open}
        for edge in self._compiled.edges:
            if (
                edge.why is not EdgeReason.OVERLAP
                and edge.before in self._open
                and edge.after in needs
            ):
                needs[edge.after].add(edge.before)
        barriers = []
        for number, barrier in enumerate(self._compiled.barriers):
            before = [one for one in barrier.before if one in self._open]
            after = [one for one in barrier.after if one in needs]
            if before and after:
                name = f"barrier {number + 1}"
                request = TaskRequest(kind=TaskKind.BARRIER)
                barriers.append(NewTask(name=name, needs=tuple(before), request=request))
                for one in after:
                    needs[one].add(name)
        tasks = [
            self._task(task, tuple(sorted(needs[task.id])))
            for task in self._compiled.plan.tasks
            if task.id in self._open
        ]
        return [*tasks, *barriers]

    def _task(self, task: PlanTask, needs: tuple[str, ...]) -> NewTask:
        story = task.parent if task.kind is ItemKind.SUBTASK else None
        common: dict[str, Any] = {
            "name": task.id,
            "text": _text(task),
            "needs": needs,
            "klass": task.klass,
            "priority": task.priority,
            "path_seconds": self._paths.get(task.id, 0.0),
            "story": story if story in self._open else None,
        }
        if task.kind in (ItemKind.STORY, ItemKind.EPIC):
            judging = tuple(stage for stage in self._stages(task) if looks(stage.name))
            request = TaskRequest(
                kind=TaskKind.STORY, title=task.text, criteria=task.criteria, stages=judging
            )
            return NewTask(**common, request=request)
        if task.manual:
            return NewTask(**common, agent=HUMAN, request=TaskRequest(title=task.text))
        stages = self._stages(task)
        if common["story"] is not None:  # its story is looked at as one
            stages = [stage for stage in stages if not looks(stage.name)]
        first = stages[0]
        return NewTask(
            **common,
            files=task.claims,
            gang=self._gangs.get(task.id),
            agent=first.agent,
            stage=first.name,
            demand=first.demand,
            request=self._request(task, stages),
        )

    def _stages(self, task: PlanTask) -> list[Stage]:
        names = task.stages or self._wishes.stages or (USUAL_STAGE,)
        found = []
        for stage in names:
            # The agent a task names makes the change; the other stages have their own.
            name = (task.agent or self._wishes.agent) if stage == USUAL_STAGE else stage
            agent = self._agent(name, task, stage)
            demand = attempt_demand(
                run=self._run,
                stage=stage,
                agent=name,
                provider=agent.provider,
                uses=self._uses(task, agent),
            )
            found.append(Stage(name=stage, agent=name, demand=demand))
        return found

    def _agent(self, name: str, task: PlanTask, stage: str) -> Agent:
        if name not in self.agents:
            if name not in self._names:
                known = ", ".join(self._names) or "none; `weft init` writes a useful set"
                where = "" if task.stages else " of --stages"
                asks = f"the agent {name!r}" + (
                    f" for the stage {stage}{where}" if stage != USUAL_STAGE else ""
                )
                raise InputError(
                    f"Task {task.id} asks for {asks}, which has no file in "
                    f".weft/agents (there are: {known})."
                )
            self.agent_files[name] = read_agent_file(self._project.root, name)
            self.agents[name] = parse_agent(self.agent_files[name], name)
        return self.agents[name]

    def _uses(self, task: PlanTask, agent: Agent) -> dict[str, int]:
        uses: dict[str, int] = {}
        for name, amount in task.uses.items():
            resource, factor = _USES.get(name, (name, 1))
            uses[resource] = math.ceil(amount * factor)
        if self._wishes.micro_usd is not None:
            uses[f"run:{self._run}/usd"] = max(
                1, min(self._wishes.micro_usd, _dollars(task, agent))
            )
        return uses

    def _request(self, task: PlanTask, stages: Sequence[Stage]) -> TaskRequest:
        plan = self._compiled.plan
        phase = self._phases.get(task.phase)
        title = phase.title if phase else ""
        budget = task.budget or Budget()
        literal = [file for file in task.claims if paths.is_literal(file)]
        return TaskRequest(
            title=task.text,
            plan=plan.title or plan.name,
            phase=title,
            reads=tuple(task.reads),
            criteria=task.criteria,
            spec=spec.relevant(
                self._spec, task=task.id, phase=task.phase, phase_title=title, files=literal
            )
            if self._spec
            else "",
            check=task.check or "",
            budget=None if budget.usd is None else round(budget.usd * 1_000_000),
            timeout=None if budget.seconds is None else float(budget.seconds),
            stages=tuple(stages),
        )


_USUAL_DOLLARS: Final = 2_000_000  # reserved for an attempt that nobody gave a budget


def _dollars(task: PlanTask, agent: Agent) -> int:
    if task.budget and task.budget.usd is not None:
        return round(task.budget.usd * 1_000_000)
    return agent.budget.micro_usd or _USUAL_DOLLARS


def _text(task: PlanTask) -> str:
    return f"{task.text}\n{task.details}".strip()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # most plans have no specification beside them
