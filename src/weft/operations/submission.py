"""Submission of a checked plan as a new run, here or on the server that has the project.

A plan is checked and prepared once: `draft_run` does both before a store is made, and the draft is
then previewed or submitted. With a server the server checks and prepares, once for each request.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft import git, paths
from weft.agents.agent import Agent
from weft.config import command_line
from weft.errors import InputError
from weft.project.agent_programs import Program, explain_all_missing, find_program
from weft.project.own_repository import get_repository
from weft.project.project import Project
from weft.runs.agent_readiness import find_offers, require_agents
from weft.runs.plan_check import CheckedPlan, check, setting_of
from weft.runs.preparation import PlanUpload, PreparedRun, RunOptions, prepare
from weft.runs.progress import qualify_path
from weft.runs.wanted_projections import find_file_projections, list_first_projections
from weft.store import Store
from weft.store.limit_table import require_agreement
from weft.store.projections import NewProjection
from weft.store.runs import submit_run
from weft.store.server_operations import hosted

_SPEC: Final = "spec.md"
_LONGEST_SPEC: Final = 1_000_000
_FILES: Final = 5  # uncommitted files that are named


class RunDraft(Struct, frozen=True, kw_only=True):
    upload: PlanUpload
    options: RunOptions
    prepared: PreparedRun | None  # None: the server prepares it
    plan_files: tuple[NewProjection, ...]  # of the plan file that follows the run
    state_file: NewProjection | None = None  # of `--state`


class Submitted(Struct, frozen=True, kw_only=True):
    run: str
    tasks: Mapping[str, int]  # numbers by the plan's ids
    base: str


def draft_run(project: Project, checked: CheckedPlan, path: Path, options: RunOptions) -> RunDraft:
    """Prepare a run of a plan file, or raise the reason against it; write no row and no file."""
    here = project.server is None
    upload = PlanUpload(
        source=checked.source,
        stem=path.stem,
        place=str(path.resolve()) if here else qualify_path(path),
        spec=_read_spec(path, project.root),
    )
    prepared = prepare(project, checked, upload, options) if here else None
    whole = checked.reading.plan
    files = find_file_projections(path, whole, options.format) if here else ()
    return RunDraft(upload=upload, options=options, prepared=prepared, plan_files=files)


def preview_draft(project: Project, draft: RunDraft) -> Preview:
    if draft.prepared is None:
        return preview_upload(project, draft.upload, draft.options)
    if not project.has_store:
        return describe(project, None, draft.prepared)
    with project.open_store() as store:
        require_agreement(store, project.config.stated)
        return describe(project, store, draft.prepared)


def submit_draft(project: Project, store: Store, draft: RunDraft) -> tuple[Submitted, Preview]:
    if draft.prepared is None:
        return submit_upload(project, draft.upload, draft.options)
    state = () if draft.state_file is None else (draft.state_file,)
    files = (*draft.plan_files, *state)
    submitted = submit_prepared(project, store, draft.prepared, files)
    return submitted, describe(project, store, draft.prepared)


@hosted("read")
def preview_upload(project: Project, upload: PlanUpload, options: RunOptions) -> Preview:
    with project.open_store() as store:
        require_agreement(store, project.config.stated)
        return describe(project, store, _prepare(project, store, upload, options))


@hosted("write")
def submit_upload(
    project: Project, upload: PlanUpload, options: RunOptions
) -> tuple[Submitted, Preview]:
    with project.open_store() as store:
        prepared = _prepare(project, store, upload, options)
        if options.preflight:
            require_agents(project, store, prepared.agents)
        return submit_prepared(project, store, prepared), describe(project, store, prepared)


def _prepare(
    project: Project, store: Store, upload: PlanUpload, options: RunOptions
) -> PreparedRun:
    checked = check(
        upload.source,
        setting_of(project, store),
        options.slots,
        agent=options.agent,
        stages=options.stages,
    )
    if checked.failed:
        raise InputError(f"{checked.name} has errors; `weft plan check` says which.")
    return prepare(project, checked, upload, options)


def submit_prepared(
    project: Project,
    store: Store,
    prepared: PreparedRun,
    files: Sequence[NewProjection] = (),
) -> Submitted:
    require_agreement(store, project.config.stated)
    numbers = submit_run(
        store,
        replace(prepared.run, repo=get_repository(project.root, store)),
        prepared.tasks,
        settings=prepared.settings,
        projections=list_first_projections(project, files),
        now=time.time(),
    )
    return Submitted(run=prepared.run.id, tasks=numbers, base=prepared.run.base)


def _read_spec(plan_path: Path, root: Path) -> str:
    """Read the specification beside a plan, at most a megabyte of it; mostly there is none.

    A link that leads out of the repository is not followed: an agent in a sandbox would read a
    file that it has no right to.
    """
    path = plan_path.parent / _SPEC
    try:
        real = path.resolve()
        inside = any(real.is_relative_to(place.resolve()) for place in (root, plan_path.parent))
        if not inside or not real.is_file():
            return ""
        with real.open("rb") as file:
            return file.read(_LONGEST_SPEC).decode("utf-8", "replace")
    except (OSError, RuntimeError):
        return ""


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
