"""What a run would be, before there is one: all that is refused is refused, nothing is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from weft.config import command_line
from weft.errors import InputError
from weft.model import NewTask
from weft.project.agent_programs import explain_missing, find_program
from weft.project.project import Project
from weft.runs.plan_check import CheckedPlan, History, Setting, check, usual_slots
from weft.runs.submission import Prepared, Sheet, Wishes, prepare, sheet_of
from weft.store.limit_table import require_agreement
from weft.store.server_operations import hosted


class Pipeline(Struct, frozen=True, kw_only=True):
    stages: tuple[str, ...]
    tasks: int  # that go through them


class AtWork(Struct, frozen=True, kw_only=True):
    """An agent that tasks ask for."""

    agent: str
    program: str
    path: str | None  # None: it is not installed
    tasks: int


class Preview(Struct, frozen=True, kw_only=True):
    base: str
    branch: str  # what landed will be there
    into: str | None
    pipelines: tuple[Pipeline, ...]
    agents: tuple[AtWork, ...]
    check: str | None  # the command that all has to pass
    own_checks: int  # tasks that have one of their own
    unchecked: int  # tasks that change something, and land without any
    warnings: tuple[str, ...]


def look_ahead(project: Project, checked: CheckedPlan, path: Path, wishes: Wishes) -> Preview:
    """What a plan that was checked here would be as a run, wherever that is."""
    sheet = sheet_of(project, checked, path)
    if project.server is None:
        return _preview(project, checked, sheet, wishes)
    return look_ahead_there(project, sheet, wishes)


@hosted("read")
def look_ahead_there(project: Project, sheet: Sheet, wishes: Wishes) -> Preview:
    with project.open_store() as store:
        around = Setting(
            slots=usual_slots(project.config), config=project.config, history=History(store)
        )
        checked = check(sheet.source, around, wishes.slots)
    return _preview(project, checked, sheet, wishes)


def _preview(project: Project, checked: CheckedPlan, sheet: Sheet, wishes: Wishes) -> Preview:
    if checked.failed:
        raise InputError(f"{checked.name} has errors; `weft plan check` says which.")
    if project.has_store:
        with project.open_store() as store:
            require_agreement(store, project.config.stated)
    prepared = prepare(project, checked, sheet, wishes)
    command = prepared.settings.gate.run
    found = Preview(
        base=prepared.run.base,
        branch=f"weft/{prepared.run.id.rpartition('-')[0]}-…",
        into=wishes.into,
        pipelines=_pipelines(prepared.tasks),
        agents=tuple(_agents(project, prepared)),
        check=None if command is None else command_line(command),
        own_checks=sum(bool(task.request.check) for task in prepared.tasks),
        unchecked=0 if command else sum(_lands_unchecked(task) for task in prepared.tasks),
        warnings=(),
    )
    return replace(found, warnings=tuple(_warnings(project, prepared, found)))


def _lands_unchecked(task: NewTask) -> bool:
    return bool(task.files) and not task.request.check


def _pipelines(tasks: Sequence[NewTask]) -> tuple[Pipeline, ...]:
    often = Counter(
        tuple(stage.name for stage in task.request.stages) for task in tasks if task.request.stages
    )
    return tuple(Pipeline(stages=names, tasks=number) for names, number in often.most_common())


def _agents(project: Project, prepared: Prepared) -> list[AtWork]:
    often = Counter(
        name for task in prepared.tasks for name in {stage.agent for stage in task.request.stages}
    )
    found = []
    for name, agent in prepared.agents.items():
        program = find_program(agent, project.root, project.environment)
        found.append(AtWork(agent=name, program=program.name, path=program.path, tasks=often[name]))
    return found


def _warnings(project: Project, prepared: Prepared, found: Preview) -> list[str]:
    missing = [
        f"Agent {one.agent}: "
        + explain_missing(agent, find_program(agent, project.root, project.environment))
        for one in found.agents
        if one.path is None and (agent := prepared.agents[one.agent])
    ]
    if not found.unchecked:
        return missing
    who = (
        f"{found.unchecked} of the tasks land without a check: they have none of their own"
        if found.own_checks
        else "Nothing is checked before it lands: no task has a check of its own"
    )
    return [f"{who}, and `run` in [gate] of weft.toml is empty.", *missing]
