"""`weft doctor`: examine git, configuration, agents, store and limits.

Some findings are only informative and no problem.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from weft import git
from weft.agents.agent import Agent
from weft.config import BoxKind, command_line
from weft.errors import InputError, WeftError
from weft.git.repository import find_repository_id
from weft.model import Limit
from weft.process import box, cgroup, run
from weft.process.process_identity import get_place
from weft.project.agent_list import describe_unboxed, explain_stopped
from weft.project.agent_programs import Program, explain_all_unreachable, find_program
from weft.project.boxes import find_container
from weft.project.project import Project, get_project
from weft.project.site import agent_names, read_agent, read_agent_file
from weft.runs.host_list import explain_silence, is_dead_here
from weft.store import Store
from weft.store.limit_table import differences, list_limits, list_stopped
from weft.store.server_operations import hosted
from weft.store.workers import list_silent
from weft.workspace.place import find_place, is_hidden
from weft.workspace.workspace_records import WorkspacePool

PREFLIGHT: Final = "preflight"


OWN: Final = "weft-agents"
"""The name of weft's own distribution."""


class Finding(Struct, frozen=True, kw_only=True):
    name: str
    good: bool
    text: str
    notable: bool = False  # in order, but worth a look
    loud: bool = False  # in order, but dangerous


def examine(directory: Path, environment: Mapping[str, str], *, now: float) -> list[Finding]:
    """Make all checks; a failed check does not hide the rest."""
    return [*_programs(), *_project(directory, environment, now)]


@hosted("read")
def examine_project(project: Project, *, now: float) -> list[Finding]:
    """Make all checks where the project is."""
    return examine(project.root, project.environment, now=now)


@hosted("write")
def try_checkout(project: Project) -> list[Finding]:
    """Try the set-up and the check in a separate weft process, for a caller on another machine."""
    limit = project.config.gate.timeout + project.config.workspace.timeout
    unfinished = "The check of the checkout did not end."
    answer = ask_weft(project, ["doctor", "--check", "--json"], 2 * limit, unfinished)
    return [
        Finding(name=check["name"], good=check["ok"], text=check["text"])
        for check in answer["checks"]
        if check["name"] == PREFLIGHT
    ]


def ask_weft(
    project: Project, arguments: Sequence[str], seconds: float, unfinished: str
) -> dict[str, Any]:
    """Run a command in a separate weft process; return the JSON that it prints.

    Raise `InputError` with its error, or with the sentence `unfinished` if it has none.
    """
    done = run(
        [sys.executable, "-m", "weft", *arguments],
        directory=project.root,
        environment=project.environment,
        seconds=seconds,
    )
    try:
        answer: dict[str, Any] = json.loads(done.output)
    except ValueError:
        message = done.errors.strip().removeprefix("weft: ")
        raise InputError(message or unfinished) from None
    return answer


def _programs() -> Iterator[Finding]:
    running = ".".join(str(part) for part in sys.version_info[:3])
    yield Finding(name="python", good=True, text=running)
    yield from _installation()
    try:
        installed = git.get_version()
    except WeftError as error:
        yield Finding(name="git", good=False, text=str(error))
        return
    text = ".".join(str(part) for part in installed)
    if installed < git.OLDEST:
        needed = ".".join(str(part) for part in git.OLDEST)
        text = f"{text} is too old: weft needs {needed} (merge-tree --write-tree); upgrade git."
    yield Finding(name="git", good=installed >= git.OLDEST, text=text)


def _installation() -> Iterator[Finding]:
    """Report another package that installed a module `weft` into the same environment."""
    own = {OWN, "weft"}  # the second is its name before it was renamed
    owners = {*metadata.packages_distributions().get("weft", [])} - own
    if owners:
        yield Finding(
            name="install",
            good=False,
            text=f"{', '.join(sorted(owners))} is installed in the same environment and has a "
            "module called weft too; they overwrite each other's files. Install each into an "
            "environment of its own: docs/install.md.",
        )


def _machine(place: Project) -> Iterator[Finding]:
    """Report the machine's optional parts (sandboxes, control groups); weft works without them."""
    try:
        yield _boxes(box.available(find_container(place.config.sandbox, place.root)))
    except InputError as error:  # of a devcontainer.json
        yield Finding(name="sandbox", good=False, text=str(error))
    group = cgroup.find_parent()
    yield Finding(
        name="cgroup",
        good=True,
        text=f"agents get groups below {group}"
        if group
        else "none may be made; agents are found by their marks and locks alone",
    )


def _boxes(able: box.Able) -> Finding:
    kind = able.resolve(BoxKind.ON)
    lacks = able.lacks(kind)
    text = f"{kind}; {lacks}" if lacks else str(kind)
    return Finding(
        name="sandbox", good=True, text=text, notable=bool(lacks), loud=kind is BoxKind.OFF
    )


def _project(directory: Path, environment: Mapping[str, str], now: float) -> Iterator[Finding]:
    try:
        place = get_project(directory, environment)
    except WeftError as error:
        yield Finding(name="repository", good=False, text=str(error))
        return
    id = find_repository_id(git.common_directory(place.root))
    text = f"{place.root}, id {id or 'not given yet (the first run or worker gives it)'}"
    yield Finding(name="repository", good=True, text=text)
    yield from _machine(place)
    yield Finding(
        name="watchdog",
        good=True,
        text=f"ends an agent {place.config.tuning.gone_after:g} s after its weft was last heard of",
    )
    yield _workspaces(place)
    yield _check(place)
    yield from _agents(place)
    if not place.has_store:
        file = place.store_file
        yield Finding(
            name="store", good=True, text=f"{file} (the first command that needs it makes it)"
        )
        return
    try:
        with place.open_store() as store:
            yield from _store(place, store, now)
    except WeftError as error:
        yield Finding(name="store", good=False, text=str(error))


def _workspaces(place: Project) -> Finding:
    """Report the directory of workspaces; a dot directory on its path is worth a look."""
    common = git.common_directory(place.root)
    try:
        trees = find_place(common, place.config.workspace.root)
    except WeftError as error:
        return Finding(name="workspaces", good=False, text=str(error))
    directory = trees or WorkspacePool(common=common).directory
    text = str(directory)
    if is_hidden(directory):
        text += "; tools that skip dot directories miss files there: set root in [workspace]"
    return Finding(name="workspaces", good=True, text=text, notable=is_hidden(directory))


def _check(place: Project) -> Finding:
    command = place.config.gate.run
    text = (
        command_line(command)
        if command
        else (
            "none: `run` in [gate] of weft.toml is empty, so only a task with a `check:` of its "
            "own is checked before it lands"
        )
    )
    return Finding(name="check", good=True, text=text, notable=command is None)


def _agents(place: Project) -> Iterator[Finding]:
    """A file that is broken is a problem; a program that is not installed may be meant so."""
    programs: dict[Program, list[str]] = {}
    agents: dict[str, str] = {}
    boxed: list[tuple[Agent, Program]] = []
    for name in agent_names(place.root):
        try:
            agent = read_agent(place.root, name)
        except InputError as error:
            yield Finding(name="agents", good=False, text=str(error))
            continue
        agents[name] = read_agent_file(place.root, name)
        program = find_program(agent, place.root, place.environment)
        programs.setdefault(program, []).append(name)
        boxed.append((agent, program))
    for program, names in programs.items():
        state = program.path or f"not installed; weft looked for it {program.searched}"
        yield Finding(
            name="agents",
            good=True,
            text=f"{', '.join(names)}: {program.name}, {state}",
            notable=program.path is None,
        )
    try:
        for who, reason in explain_all_unreachable(
            boxed, place.config, place.environment, place.root
        ):
            yield Finding(name="agents", good=False, text=f"{who} cannot start: {reason}")
    except InputError:
        pass  # of a devcontainer.json, which is reported above
    if unboxed := describe_unboxed(place.config.gate, agents):
        yield Finding(name="sandbox", good=True, text=unboxed, loud=True)
    if not programs:
        text = "none yet; `weft init` writes a useful set"
        yield Finding(name="agents", good=True, text=text, notable=True)


def _store(place: Project, store: Store, now: float) -> Iterator[Finding]:
    damage = store.database.check()
    yield Finding(
        name="store",
        good=damage is None,
        text=damage or f"{store.database.version()}, {store.database.place}",
    )
    limits = list_limits(store, now=now)
    reached = [limit for limit in limits if limit.used >= limit.effective]
    different = differences(store, place.config.stated)
    for difference in different:
        yield Finding(name="limits", good=False, text=difference)
    if not different:
        text = f"{len(limits)} set, {len(reached) or 'none'} reached; this configuration agrees"
        yield Finding(name="limits", good=True, text=text)
    for worker in list_silent(store, now=now):
        silence = explain_silence(worker, get_place(), gone=is_dead_here(worker))
        text = f"{silence.fact}; {silence.advice}"
        yield Finding(name="workers", good=True, text=text, notable=True)
    stopped = list_stopped(store, now=now)
    for name, reason in stopped.items():
        yield Finding(name="agents", good=True, text=explain_stopped(name, reason), notable=True)
    for limit in reached:
        if limit.resource.removeprefix("agent:") not in stopped:
            yield Finding(name="limits", good=True, text=_reached(limit), notable=True)


def _reached(limit: Limit) -> str:
    if limit.capacity == 0:
        return f"{limit.resource} is paused (`weft limits set {limit.resource} N` resumes it)"
    lowered = f", lowered from {limit.capacity} by rate limits"
    return f"{limit.resource} is reached, {limit.used} of {limit.effective}" + (
        lowered if limit.effective < limit.capacity else ""
    )
