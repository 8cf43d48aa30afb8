"""A preview of a prepared run: its branch, stages, agents and checks, and warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from weft import git, paths
from weft.agents.agent import Agent
from weft.config import command_line
from weft.project.agent_programs import Program, explain_all_missing, find_program
from weft.project.project import Project
from weft.runs.agent_readiness import find_offers
from weft.runs.preparation import PreparedRun
from weft.store import Store

_FILES: Final = 5  # uncommitted files that are named


class Pipeline(Struct, frozen=True, kw_only=True):
    stages: tuple[str, ...]
    tasks: int  # tasks that go through these stages


class PreviewAgent(Struct, frozen=True, kw_only=True):
    agent: str
    program: str
    path: str | None  # None: it is not installed here
    hosts: tuple[str, ...] = ()  # other hosts that have it
    tasks: int


class Preview(Struct, frozen=True, kw_only=True):
    base: str
    branch: str  # branch of the result
    into: str | None
    pipelines: tuple[Pipeline, ...]
    agents: tuple[PreviewAgent, ...]
    check: str | None  # command that every combination has to pass
    own_checks: int  # tasks that have a check of their own
    unchecked: int  # tasks that change files and land without a check
    warnings: tuple[str, ...]


def describe(project: Project, store: Store | None, prepared: PreparedRun) -> Preview:
    tasks = prepared.tasks
    command = prepared.settings.gate.run
    programs = {
        name: find_program(agent, project.root, project.environment)
        for name, agent in prepared.agents.items()
    }
    offers = {} if store is None else find_offers(project, store, programs)
    pipelines = Counter(
        tuple(stage.name for stage in task.request.stages) for task in tasks if task.request.stages
    )
    agents = Counter(
        name for task in tasks for name in {stage.agent for stage in task.request.stages}
    )
    own_checks = sum(bool(task.request.check) for task in tasks)
    unchecked = sum(bool(task.files) and not task.request.check for task in tasks)
    if command is not None:
        unchecked = 0
    return Preview(
        base=prepared.run.base,
        branch=f"weft/{prepared.run.id.rpartition('-')[0]}-…",
        into=prepared.run.target or None,
        pipelines=tuple(
            Pipeline(stages=names, tasks=number) for names, number in pipelines.most_common()
        ),
        agents=tuple(
            PreviewAgent(
                agent=name,
                program=program.name,
                path=program.path,
                hosts=tuple(offers.get(name, ())),
                tasks=agents[name],
            )
            for name, program in programs.items()
        ),
        check=None if command is None else command_line(command),
        own_checks=own_checks,
        unchecked=unchecked,
        warnings=(
            *_unchecked(unchecked, own_checks),
            *_missing(
                (prepared.agents[name], program)
                for name, program in programs.items()
                if not offers.get(name)
            ),
            *_uncommitted(project, prepared),
        ),
    )


def _unchecked(unchecked: int, own_checks: int) -> Iterator[str]:
    if unchecked:
        tasks = (
            f"{unchecked} of the tasks land without a check: they have none of their own"
            if own_checks
            else "Nothing is checked before it lands: no task has a check of its own"
        )
        yield f"{tasks}, and `run` in [gate] of weft.toml is empty."


def _uncommitted(project: Project, prepared: PreparedRun) -> Iterator[str]:
    """Name the files of tasks that have uncommitted changes in the checkout."""
    claims = {claim for task in prepared.tasks for claim in task.files}
    changed = git.list_uncommitted(project.root) if claims else []
    files = [
        path
        for path in changed
        if any(paths.conflicts(paths.quote(path.rstrip("/")), claim) for claim in claims)
    ]
    if files:
        more = f" and {len(files) - _FILES} more" if len(files) > _FILES else ""
        yield (
            f"Uncommitted changes in {', '.join(files[:_FILES])}{more}: agents work from the "
            f"commit {prepared.run.base[:7]} and do not see them."
        )


def _missing(programs: Iterable[tuple[Agent, Program]]) -> Iterator[str]:
    for names, reason in explain_all_missing(programs):
        yield f"{names}: {reason}"
