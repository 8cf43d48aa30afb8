"""Runs with their settings, and changes of these settings."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from weft.config import RunSettings, command_line
from weft.errors import InputError
from weft.model import Run, TaskKind
from weft.project.project import Project
from weft.project.site import read_chain
from weft.store import Store
from weft.store.branch_landings import list_landed_branches
from weft.store.runs import get_settings, list_runs
from weft.store.server_operations import hosted
from weft.store.tasks import list_run


class ListedRun(Struct, frozen=True, kw_only=True):
    run: Run
    tasks: Mapping[str, int]  # number of tasks in each state
    settings: RunSettings
    landed: tuple[str, ...]  # the branches that `weft land` moved to its work
    differences: tuple[str, ...]  # between the settings of an unfinished run and the checkout
    own_checks: int = 0  # tasks with a check of their own


@hosted("read")
def list_runs_with_settings(project: Project) -> list[ListedRun]:
    """List every run, newest first."""
    with project.open_store() as store:
        return [_listed(project, store, run) for run in list_runs(store)]


def _listed(project: Project, store: Store, run: Run) -> ListedRun:
    work = [task for task in list_run(store, run.id) if task.request.kind is TaskKind.WORK]
    settings = get_settings(store, run.id)
    ended = run.state == "ended"
    return ListedRun(
        run=run,
        tasks=dict(Counter(task.state.value for task in work)),
        settings=settings,
        landed=tuple(list_landed_branches(store, run.id)),
        differences=() if ended else _differences(settings, project),
        own_checks=sum(bool(task.request.check) for task in work),
    )


@hosted("read")
def list_differences(project: Project, run: str) -> tuple[str, ...]:
    """List the differences between a run's settings and the present weft.toml and agent files."""
    with project.open_store() as store:
        return _differences(get_settings(store, run), project)


def read_settings(project: Project, settings: RunSettings) -> RunSettings:
    """Return the settings of a run as weft.toml and the agent files are now."""
    files = {
        member: text
        for name in settings.agents
        for member, text in read_chain(project.root, name).items()
    }
    return RunSettings(
        gate=project.config.gate,
        workspace=project.config.workspace,
        commit=project.config.commit,
        agents=files,
        agent=settings.agent,
        known_red=settings.known_red,
        prose=settings.prose,
    )


def _differences(settings: RunSettings, project: Project) -> tuple[str, ...]:
    try:
        return compare_settings(settings, read_settings(project, settings))
    except InputError as error:  # the agent file was deleted; the run has its own copy
        return (str(error),)


def compare_settings(before: RunSettings, after: RunSettings) -> tuple[str, ...]:
    """Name each difference, commands with their old and new line."""
    old, new = _flat(before), _flat(after)
    return tuple(
        f"{name} was {old.get(name, 'nothing')}, is {new[name]}"
        if name in ("the check", "the set-up")
        else f"{name} is another"
        for name in new
        if old.get(name) != new[name]
    )


def _flat(settings: RunSettings) -> dict[str, str]:
    gate, place = settings.gate, settings.workspace
    return {
        "the check": _quoted(gate.run),
        "the set-up": _quoted(place.setup),
        "style of [commit]": settings.commit.style,
        **{
            f"{key} of [gate]": repr(getattr(gate, key))
            for key in gate.__struct_fields__
            if key not in ("run", "slots")
        },
        **{
            f"{key} of [workspace]": repr(getattr(place, key))
            for key in place.__struct_fields__
            if key != "setup"
        },
        **{f"the agent file {name}": text for name, text in settings.agents.items()},
    }


def _quoted(command: tuple[str, ...] | None) -> str:
    return "nothing" if command is None else f"`{command_line(command)}`"


def as_dict(listed: ListedRun) -> dict[str, Any]:
    run, settings = listed.run, listed.settings
    return {
        "run": run.id,
        "state": run.state,
        "tenant": run.tenant,
        "submitted": run.submitted,
        "plan": run.plan,
        "base": run.base,
        "branch": run.branch or None,
        "landed": list(listed.landed),
        "into": run.target or None,
        "blocked": run.blocked or None,
        "tasks": dict(listed.tasks),
        "revision": run.revision,
        "check": run.check and command_line(run.check),
        "setup": settings.workspace.setup and command_line(settings.workspace.setup),
        "agents": {name: _digest(text) for name, text in sorted(settings.agents.items())},
        "differences": list(listed.differences),
    }


def _digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
