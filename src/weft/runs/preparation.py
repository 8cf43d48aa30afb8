"""Preparation of a run: the tasks of a compiled plan with their needs, claims and requests."""

from __future__ import annotations

import math
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from weft import bounds, git, paths
from weft.admission.capacity import attempt_demand
from weft.agents import spec
from weft.agents.agent import Agent
from weft.config import RunSettings
from weft.errors import InputError
from weft.formats import dollars
from weft.model import HUMAN, NewRun, NewTask, Stage, State, TaskKind, TaskRequest, TeamRequest
from weft.plan.plan_prose import collect_prose
from weft.plan.plan_records import Budget, Compiled, EdgeReason, ItemKind, PlanTask, Source
from weft.planning import forecast
from weft.project.project import Project
from weft.project.site import agent_names, find_stage, parse_agent, read_chain
from weft.runs.plan_check import USUAL_STAGE, CheckedPlan, PlanSource, list_stages
from weft.stages import RULE, find_fault, looks
from weft.teams.team_text import Strategy, Team, name_agents
from weft.workspace.filters import refuse_filters
from weft.workspace.names import OLD_BRANCHES, TRUNKS
from weft.workspace.worktree import find_checkout

_USES: Final = {
    "port": ("host:@/port", 1),
    "ram_mb": ("host:@/ram_mb", 1),
    "ram_gb": ("host:@/ram_mb", 1024),
}


USUAL_AGENT: Final = "implement"


class RunOptions(Struct, frozen=True, kw_only=True):
    """Options of a run beside its plan."""

    agent: str = USUAL_AGENT  # for tasks without an agent
    stages: tuple[str, ...] = ()  # for tasks without stages
    slots: int | None = None
    base: str = "HEAD"
    into: str | None = None  # branch that moves to the result of a complete run
    micro_usd: int | None = None  # budget of the whole run
    tenant: str = "default"
    format: Source | None = None  # of the plan; None: found by its name and content
    take: tuple[str, ...] = ()  # tasks to run although they are held back
    done: tuple[str, ...] = ()  # tasks that landed in an earlier run of the plan
    branch: str | None = None  # the branch it counts as started from; None: that of `base`
    review: bool = False  # a person accepts every candidate before it lands
    preflight: bool = True  # no agent starts before agents, set-up and checks are known to work


def run_budget(dollars: float) -> int:
    """Return a budget in millionths of a dollar."""
    if not 0 < dollars < bounds.DOLLARS:
        raise InputError(f"A budget is dollars, above 0 and below {bounds.DOLLARS:,}.")
    return max(1, round(dollars * 1_000_000))


class PlanUpload(Struct, frozen=True, kw_only=True):
    """A plan on its way to a run, with the specification that lies beside it."""

    source: PlanSource
    stem: str  # beginning of the run's name
    place: str  # of the plan's file
    spec: str  # mostly empty


class PreparedRun(Struct, frozen=True, kw_only=True):
    run: NewRun
    tasks: Sequence[NewTask]
    agents: Mapping[str, Agent]  # agents of the tasks
    settings: RunSettings


def prepare(
    project: Project, checked: CheckedPlan, upload: PlanUpload, options: RunOptions
) -> PreparedRun:
    """Build the rows of a run and write none; raise the reason if the plan cannot be run."""
    if options.stages and (fault := find_fault(options.stages)) is not None:
        raise InputError(f"--stages {','.join(options.stages)}: {fault.why}; {RULE}.")
    common = git.common_directory(project.root)
    if not os.access(common, os.W_OK):
        raise InputError(f"weft cannot write to {common}, where its workspaces and branches are.")
    refuse_filters(project.root)
    base = _base(project.root, options.base)
    if options.into is not None:
        require_target(project.root, options.into, base)
    run = new_run_id(upload.stem)
    builder = _TaskBuilder(project, checked, upload.spec, run, options)
    tasks = builder.build()
    if not tasks:
        raise InputError(f"{checked.name} has nothing left to do.")
    limits: dict[str, int] = {}
    if options.slots is not None:
        limits |= dict.fromkeys(("agents", "test", "implement"), options.slots)
    if options.micro_usd is not None:
        limits["usd"] = options.micro_usd
    new = NewRun(
        id=run,
        repo="",  # the store knows it: `submit_prepared`
        tenant=options.tenant,
        plan=upload.place,
        base=base,
        branch=(git.find_branch(project.root, options.base) or "")
        if options.branch is None
        else options.branch,
        target=options.into or "",
        limits=limits,
        alternates=git.list_alternates(project.root),
    )
    settings = RunSettings(
        gate=project.config.gate,
        workspace=project.config.workspace,
        commit=project.config.commit,
        agents=builder.agent_files,
        agent=options.agent,
        prose=collect_prose(checked.compiled.plan),
    )
    if options.preflight and has_base_check(settings, tasks):
        new = replace(new, untested=True)
    return PreparedRun(run=new, tasks=tasks, agents=builder.agents, settings=settings)


def has_base_check(settings: RunSettings, tasks: Sequence[NewTask]) -> bool:
    """Tell whether a run has a set-up or commands that can be tried on its base."""
    place = settings.workspace
    commands = settings.gate.run or place.setup or any(task.request.check for task in tasks)
    return bool(commands or place.copy or place.link)


def _base(root: Path, name: str) -> str:
    try:
        return git.get_commit(root, name).id
    except git.NoSuchCommit as error:
        raise InputError(
            f"The run cannot start from --base {name}: there is no such commit."
        ) from error


def new_run_id(name: str) -> str:
    """Return a short, readable id that no run has: `plan-3fa1`."""
    stem = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:24] or "run"
    return f"{stem}-{secrets.token_hex(2)}"


class _TaskBuilder:
    """Builder of a plan's tasks; reads each agent file once."""

    def __init__(
        self, project: Project, checked: CheckedPlan, spec: str, run: str, options: RunOptions
    ) -> None:
        self._project = project
        self._compiled: Compiled = checked.compiled
        self._run = run
        self._options = options
        self.agents: dict[str, Agent] = {}  # agents of the tasks
        self.agent_files: dict[str, str] = {}  # the text of each agent file, by name
        self._names = agent_names(project.root)
        self._spec = spec
        self._open = {
            task.id
            for task in self._compiled.plan.tasks
            if not task.settled and task.id not in options.done
        }
        ids = (task.id for task in self._compiled.plan.tasks)
        self._paths = dict(zip(ids, forecast.paths(checked.work), strict=False))
        self._gangs = {
            task: f"g{n}" for n, group in enumerate(checked.compiled.groups) for task in group
        }
        self._reviewed_parts = {
            task.parent for task in self._compiled.plan.tasks if task.review and self._is_part(task)
        }  # stories
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
            before = [task for task in barrier.before if task in self._open]
            after = [task for task in barrier.after if task in needs]
            if before and after:
                name = f"barrier {number + 1}"
                request = TaskRequest(kind=TaskKind.BARRIER)
                barriers.append(NewTask(name=name, needs=tuple(before), request=request))
                for task in after:
                    needs[task].add(name)
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
                kind=TaskKind.STORY,
                title=task.title,
                criteria=task.criteria,
                stages=judging,
                review=self._is_reviewed(task),
                held=self._held(task),
                needs_labels=task.needs_labels,
            )
            return NewTask(**common, request=request)
        if task.manual:
            request = TaskRequest(title=task.title, held=self._held(task))
            return NewTask(**common, agent=HUMAN, request=request)
        team = self._find_team(task)
        if team is not None:
            return self._team_task(task, team, common)
        stages = self._stages(task)
        if common["story"] is not None:  # the story is reviewed as a whole
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

    def _find_team(self, task: PlanTask) -> Team | None:
        """Return the team of a task: its own, or that of its agent's file."""
        if task.team is not None or self._is_part(task) or not task.claims:
            return task.team
        name = task.agent or self._options.agent
        return self._agent(name, task, USUAL_STAGE).team

    def _team_task(self, task: PlanTask, team: Team, common: dict[str, Any]) -> NewTask:
        """Return a task whose stages that make a candidate are the stages of its entrants."""
        first = team.agents[0] if team.agents else task.agent or self._options.agent
        names = name_agents(team, first, self._list_alike(first, task))
        pipelines = [self._stages(replace(task, agent=name)) for name in names]
        making = tuple(tuple(s for s in stages if not looks(s.name)) for stages in pipelines)
        request = self._request(task, [s for s in pipelines[0] if looks(s.name)])
        judge = None if team.judge is None else self._stage(task, team.judge, "judge")
        wanted = TeamRequest(
            strategy=team.strategy.value,
            pipelines=making,
            judge=judge,
            at_once=team.strategy is Strategy.BEST_OF or team.risky,
            micro_usd=self._reserve(task, making),
        )
        return NewTask(
            **common,
            files=task.claims,
            gang=self._gangs.get(task.id),
            request=replace(request, team=wanted),
        )

    def _list_alike(self, first: str, task: PlanTask) -> tuple[str, ...]:
        """List the other agents whose file names the stage of the first agent."""
        stage = self._agent(first, task, USUAL_STAGE).stage or USUAL_STAGE
        return tuple(
            name
            for name in self._names
            if name != first and find_stage(self._project.root, name) == stage
        )

    def _reserve(self, task: PlanTask, pipelines: Sequence[Sequence[Stage]]) -> int:
        """Return the dollars of all entrants and of the attempt after their failures."""
        budget = self._options.micro_usd
        if budget is None:
            return 0
        resource = f"run:{self._run}/usd"
        stages = [stage for pipeline in (*pipelines, pipelines[0]) for stage in pipeline]
        dollars_asked = sum(stage.demand[resource] for stage in stages)
        if dollars_asked > budget:
            raise InputError(
                f"The team of task {task.id} reserves {dollars(dollars_asked)}, and the run has "
                f"{dollars(budget)}: it could never start. Raise --budget, or write `budget:` "
                "under the task."
            )
        return dollars_asked

    def _held(self, task: PlanTask) -> str:
        """Return why the plan holds a task back; empty if it may start."""
        if task.status is not State.BLOCKED or task.id in self._options.take:
            return ""
        return task.note or "the plan holds it back"

    def _stages(self, task: PlanTask) -> list[Stage]:
        names = list_stages(task, self._options.agent, self._options.stages)
        return [self._stage(task, name, stage) for name, stage in names]

    def _stage(self, task: PlanTask, name: str, stage: str) -> Stage:
        agent = self._agent(name, task, stage)
        demand = attempt_demand(
            run=self._run,
            stage=stage,
            agent=name,
            provider=agent.provider,
            uses=self._uses(task, agent),
            labels=(*task.needs_labels, *agent.needs_labels),
        )
        return Stage(name=stage, agent=name, demand=demand)

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
            for member, text in read_chain(self._project.root, name).items():
                self.agent_files[member] = text
                self.agents[member] = parse_agent(text, member)
        return self.agents[name]

    def _uses(self, task: PlanTask, agent: Agent) -> dict[str, int]:
        uses: dict[str, int] = {}
        for name, amount in task.uses.items():
            resource, factor = _USES.get(name, (name, 1))
            uses[resource] = math.ceil(amount * factor)
        if self._options.micro_usd is not None:
            uses[f"run:{self._run}/usd"] = max(
                1, min(self._options.micro_usd, _dollars(task, agent))
            )
        return uses

    def _request(self, task: PlanTask, stages: Sequence[Stage]) -> TaskRequest:
        plan = self._compiled.plan
        phase = self._phases.get(task.phase)
        title = phase.title if phase else ""
        budget = task.budget or Budget()
        literal = [file for file in task.claims if paths.is_literal(file)]
        return TaskRequest(
            title=task.title,
            held=self._held(task),
            plan=plan.title or plan.name,
            phase=title,
            reads=tuple(task.reads),
            criteria=task.criteria,
            spec=spec.choose_excerpt(
                self._spec, task=task.id, phase=task.phase, phase_title=title, files=literal
            ),
            check=task.check or "",
            budget=None if budget.usd is None else round(budget.usd * 1_000_000),
            timeout=None if budget.seconds is None else float(budget.seconds),
            stages=tuple(stages),
            review=self._is_reviewed(task) and not self._is_part(task),
            predicted=task.predicted,
            needs_labels=task.needs_labels,
        )

    def _is_part(self, task: PlanTask) -> bool:
        """Tell whether a task belongs to a story, which is reviewed as a whole."""
        return task.kind is ItemKind.SUBTASK and task.parent in self._open

    def _is_reviewed(self, task: PlanTask) -> bool:
        everything = self._compiled.plan.review or self._options.review
        by_setting = self._project.config.gate.review == "you"
        return everything or by_setting or task.review or task.id in self._reviewed_parts


USUAL_DOLLARS: Final = 2_000_000  # reserved for an attempt without a budget


def _dollars(task: PlanTask, agent: Agent) -> int:
    if task.budget and task.budget.usd is not None:
        return round(task.budget.usd * 1_000_000)
    return agent.budget.micro_usd or USUAL_DOLLARS


def _text(task: PlanTask) -> str:
    return f"{task.text}\n{task.details}".strip()


_HEADS = "refs/heads/"


def require_target(root: Path, branch: str, base: str) -> None:
    """Refuse a branch that could not move forward from `base`."""
    ref = _HEADS + branch
    if not git.is_branch_name(root, branch) or branch.startswith("refs/"):
        raise InputError(f"--into {branch}: no branch can be called that.")
    if ref.startswith((TRUNKS, OLD_BRANCHES)):
        raise InputError(f"--into {branch}: branches that begin so are weft's own.")
    if place := find_checkout(root, ref):
        raise InputError(
            f"--into {branch}: it is checked out in {place}, and its files would not follow; name "
            "another branch, or leave --into away and `weft land` when the run has ended."
        )
    where = git.find_ref(root, ref)
    if where is None:
        _refuse_neighbours(root, branch)
    elif not git.is_ancestor(root, where, base):
        raise InputError(
            f"--into {branch}: it has commits that {base[:12]}, which the run starts from, does "
            f"not have, so it could not move forward; start from it with --base {branch}."
        )


def _refuse_neighbours(root: Path, branch: str) -> None:
    """Refuse a branch beside its own prefix: git keeps branches as files, `a` excludes `a/b`."""
    for ref in git.list_refs(root, _HEADS):
        neighbour = ref.removeprefix(_HEADS)
        if branch.startswith(f"{neighbour}/") or neighbour.startswith(f"{branch}/"):
            raise InputError(f"--into {branch}: git cannot have it beside the branch {neighbour}.")
