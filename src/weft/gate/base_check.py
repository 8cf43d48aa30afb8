"""A check of the base of a run, before agents work on it.

The command of the gate must pass on the base, in a workspace with its set-up. The checks of single
tasks are only started there: they may fail before the work is done, but their programs must exist.
The report on a base that is not in order has its fault, the last lines, and the usual cures.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft import git
from weft.candidate_records import UNCHECKED
from weft.config import Config, WorkspaceSettings, command_line
from weft.errors import SetUpFailed
from weft.formats import count, duration
from weft.gate.check_run import (
    CheckResult,
    CheckRun,
    Command,
    check_id,
    environment,
    is_set_up_failure,
)
from weft.gate.import_probe import ImportProbe
from weft.gate.policy.failed_tests import FailedTests
from weft.git import Commit
from weft.git.repository import find_ignored
from weft.model import TERMINAL, NewTask, Task
from weft.project.site import Site
from weft.store import Store
from weft.store.gate import find_pass
from weft.workspace import Workspace

_START: Final = 10.0  # seconds after which a check of a task counts as started
_LINES: Final = 15  # of the output
_SHORT: Final = 7  # letters of a commit id
_MISSING: Final = re.compile(
    r"not found|no such file or directory|no module named|cannot find (?:module|package)"
    r"|command not found|ModuleNotFoundError|ERR_MODULE_NOT_FOUND",
    re.IGNORECASE,
)
_ENVIRONMENTS: Final[Mapping[str, str]] = {
    ".venv": "python3 -m venv .venv && .venv/bin/pip install -e .",
    "venv": "python3 -m venv venv && venv/bin/pip install -e .",
    "node_modules": "npm ci",
    "vendor": "make vendor",
}
_SETUPS: Final = (  # a lock file, and the command that installs from it
    ("uv.lock", "uv sync"),
    ("poetry.lock", "poetry install"),
    ("pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
    ("yarn.lock", "yarn install --frozen-lockfile"),
    ("bun.lock", "bun install --frozen-lockfile"),
    ("composer.lock", "composer install"),
    ("Gemfile.lock", "bundle install"),
)
_PROJECT_FILES: Final = (
    *("package.json", "pyproject.toml", "setup.py", "Makefile", "Cargo.toml", "go.mod"),
    *("pom.xml", "build.gradle", "build.gradle.kts", "Gemfile", "composer.json", "justfile"),
)
_DOTENV: Final = (".env", ".env.local", ".env.test", ".envrc")


class BaseFault(StrEnum):
    SET_UP = "set-up"  # the workspace cannot be set up
    RED = "red"  # the gate's command fails
    UNSTARTED = "unstarted"  # the check of a task cannot start
    STOPPED = "stopped"  # a person ended the check before its verdict
    FOREIGN = "foreign"  # the gate's command tests the user's checkout


class BaseCommands(Struct, frozen=True, kw_only=True):
    gate: Command | None = None  # must pass
    own: tuple[Command, ...] = ()  # checks of tasks: must start


class BaseResult(Struct, frozen=True, kw_only=True):
    fault: BaseFault | None = None  # None: the base is in order
    command: Command | None = None  # with the fault
    output: str = ""
    seconds: float = 0.0
    failed_tests: FailedTests = FailedTests()
    imported: tuple[str, ...] = ()  # files of the user's checkout that the check imported


class BaseIds(Struct, frozen=True, kw_only=True):
    """The check ids of a base check: equal ids, equal commands, environment and set-up files."""

    gate: str  # the id of a landing's check too
    own: str


def base_ids(commands: BaseCommands, config: Config, own: Mapping[str, str], files: str) -> BaseIds:
    variables = environment(config, own)
    started = (("weft", "start"), *commands.own) if commands.own else ()
    gate = (commands.gate,) if commands.gate else ()
    if not gate and _is_set_up(config):
        gate = (("weft", "set-up"),)
    return BaseIds(
        gate=check_id(gate, config, variables, files),
        own=check_id(started, config, variables, files),
    )


def is_base_known(store: Store, tree: str, ids: BaseIds) -> bool:
    """Tell whether a tree needs no base check: it has no commands, or passed them before."""
    return all(
        id == UNCHECKED or find_pass(store, tree, id) is not None for id in (ids.gate, ids.own)
    )


def list_own_checks(tasks: Iterable[Task | NewTask]) -> tuple[Command, ...]:
    """List the distinct checks of tasks that have not ended."""
    return tuple(
        dict.fromkeys(
            ("sh", "-c", task.request.check)
            for task in tasks
            if task.request.check and not (isinstance(task, Task) and task.state in TERMINAL)
        )
    )


def _is_set_up(config: Config) -> bool:
    settings = config.workspace
    return bool(settings.setup or settings.copy or settings.link)


async def check_base(check: CheckRun, commit: Commit, commands: BaseCommands) -> BaseResult:
    """Check a base in a workspace; raise `CheckLost` if the watchdog of the check ended it."""
    started = time.monotonic()
    try:
        async with check.open_workspace(commit.tree, commit.id) as place:
            await check.set_up(place)
            result = await _run_commands(check, place, commit, commands)
    except SetUpFailed as error:
        result = BaseResult(
            fault=BaseFault.SET_UP, command=check.site.config.workspace.setup, output=str(error)
        )
    seconds = max(0.001, time.monotonic() - started)
    return replace(result, seconds=seconds)


async def _run_commands(
    check: CheckRun, place: Workspace, commit: Commit, commands: BaseCommands
) -> BaseResult:
    passed = BaseResult()
    if commands.gate is not None:
        passed = await _run_gate(check, place, commit, commands.gate)
        if passed.fault is not None:
            return passed
    return await _start_own(check, place, commands.own) or passed


async def _run_gate(
    check: CheckRun, place: Workspace, commit: Commit, command: Command
) -> BaseResult:
    probe = ImportProbe(check.site, check.directory / "imports")
    variables = probe.arm() if probe.is_needed() else {}
    box = probe.open_box(place.terms.box) if variables else None
    seconds = check.site.config.gate.timeout
    result = await check.run_command(place, command, seconds, variables, box)
    result = check.forgive(command, result)
    imported = tuple(probe.list_imported(commit)) if variables else ()
    fault = BaseFault.FOREIGN if imported else None if result.passed else BaseFault.RED
    return BaseResult(
        fault=fault,
        command=command,
        output=result.output,
        failed_tests=result.failed_tests,
        imported=imported,
    )


async def _start_own(
    check: CheckRun, place: Workspace, commands: Sequence[Command]
) -> BaseResult | None:
    for command in commands:
        result: CheckResult = await check.run_command(place, command, _START)
        if not result.passed and is_set_up_failure(result.output):
            return BaseResult(fault=BaseFault.UNSTARTED, command=command, output=result.output)
    return None


class Surroundings(Struct, frozen=True, kw_only=True):
    """The names in the user's checkout that the hints depend on."""

    ignored: frozenset[str]  # of the environments and .env files that exist and git ignores
    at_top: frozenset[str]  # project and lock files
    below: Mapping[str, tuple[str, ...]]  # project files of direct subdirectories, by directory


def describe_base(
    site: Site, commit: str, name: str, result: BaseResult, after: str | None = None
) -> str:
    """Return the fault of a base with its cures; "" if it has none. `after` ends the text, or the
    ways to start a run nevertheless."""
    if result.fault is None:
        return ""
    where = _where(site.root, commit, name)
    hints = find_hints(result, site.config.workspace, look_around(site.root))
    lines = [] if result.fault is BaseFault.FOREIGN else _last_lines(result.output)
    return "\n".join(
        [
            _headline(result, where),
            *(f"  {line}" for line in lines),
            *hints,
            *(_ways_on(result) if after is None else [after]),
        ]
    )


def _ways_on(result: BaseResult) -> list[str]:
    again = "`weft doctor --check` tries it again; "
    if result.fault is not BaseFault.RED:
        return [f"{again}`--no-preflight` starts the run anyway."]
    if not result.failed_tests.fault:
        number = count(len(result.failed_tests.names), "test")
        return [
            f"{again}`weft run PLAN --allow-red` starts the run and allows the {number} that "
            "failed here to fail; `--no-preflight` starts it unchecked."
        ]
    return [
        f"{again}`--no-preflight` starts the run unchecked.",
        "`--allow-red` cannot be used: it needs the name of each failed test, and "
        f"{result.failed_tests.fault}. It reads a single run of pytest (add `-rfE` to it) or "
        "unittest.",
    ]


def _where(root: Path, commit: str, name: str) -> str:
    if name == "HEAD" or name == commit:
        name = git.find_branch(root, "HEAD") or "HEAD"
        if git.find_ref(root, f"refs/heads/{name}") != commit:
            return commit[:_SHORT]
    return f"{name} ({commit[:_SHORT]})"


def _headline(result: BaseResult, where: str) -> str:
    command = "" if result.command is None else f"`{command_line(result.command)}`"
    match result.fault:
        case BaseFault.SET_UP:
            return f"A workspace of {where} cannot be set up, before any agent has touched it:"
        case BaseFault.UNSTARTED:
            return f"A task's check, {command}, cannot start on {where}:"
        case BaseFault.STOPPED:
            return f"You stopped the check of {where} after {duration(result.seconds)}: {command}"
        case BaseFault.FOREIGN:
            return (
                f"Your check, {command}, does not test its workspace: it imports "
                f"{_some(result.imported)} from your checkout."
            )
        case _:
            return f"Your tests fail on {where} before any agent has touched it: {command}"


def _some(files: tuple[str, ...]) -> str:
    more = f" and {len(files) - 1} more files" if len(files) > 1 else ""
    return files[0] + more


def _last_lines(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.strip()][-_LINES:]


def look_around(root: Path) -> Surroundings:
    """Read the names in the checkout that tell the usual causes."""
    there = [name for name in (*_ENVIRONMENTS, *_DOTENV) if (root / name).exists()]
    names = (*_PROJECT_FILES, *(lock for lock, _ in _SETUPS))
    below: dict[str, tuple[str, ...]] = {}
    for directory in sorted(root.iterdir()):
        if (
            directory.is_dir()
            and not directory.name.startswith(".")
            and directory.name not in there
        ):
            files = tuple(name for name in _PROJECT_FILES if (directory / name).is_file())
            if files:
                below[directory.name] = files
    return Surroundings(
        ignored=frozenset(find_ignored(root, there) if there else ()),
        at_top=frozenset(name for name in names if (root / name).is_file()),
        below=below,
    )


def find_hints(result: BaseResult, settings: WorkspaceSettings, around: Surroundings) -> list[str]:
    """Name the edits of `weft.toml` that cure the usual causes of this failure."""
    if result.fault is BaseFault.FOREIGN:
        return [_cure_imports(result)]
    if result.fault is BaseFault.STOPPED:
        return ["Name a quicker check as `run` under [gate] in weft.toml."]
    brought = {name.rstrip("/") for name in (*settings.copy, *settings.link, *settings.keep)}
    output = result.output
    missing = is_set_up_failure(output) or _MISSING.search(output) is not None
    hints: list[str] = []
    if missing and settings.setup is None:
        hints += _environments(around, brought)
    hints += _dotenvs(around, brought)
    if missing and result.command is not None:
        hints += _directories(around, result.command)
    return hints


def _environments(around: Surroundings, brought: set[str]) -> Iterator[str]:
    for name, usual in _ENVIRONMENTS.items():
        if name in around.ignored and name not in brought:
            setup = next((line for lock, line in _SETUPS if lock in around.at_top), usual)
            yield (
                f"Your checkout has {name}, which git ignores, so workspaces lack it. Add "
                f'`link = ["{name}"]` (shared) or `setup = "{setup}"` (its own) to [workspace] '
                "in weft.toml."
            )


def _dotenvs(around: Surroundings, brought: set[str]) -> Iterator[str]:
    missing = [name for name in _DOTENV if name in around.ignored and name not in brought]
    if missing:
        names = ", ".join(f'"{name}"' for name in missing)
        yield (
            f"Your checkout has {', '.join(missing)}, which git ignores, so workspaces lack it. "
            f"If the check reads it, add `copy = [{names}]` to [workspace] in weft.toml."
        )


def _directories(around: Surroundings, command: Command) -> Iterator[str]:
    if around.at_top.intersection(_PROJECT_FILES) or not around.below:
        return
    directory, files = next(iter(around.below.items()))
    line = command_line(command)
    yield (
        f"Checks run at the top of the repository, which has none of your project files; "
        f'{directory}/{files[0]} exists. Perhaps: `run = "cd {directory} && {line}"` in [gate] '
        "of weft.toml."
    )


def _cure_imports(result: BaseResult) -> str:
    """Return the cure for an editable install that leads to the user's checkout."""
    line = command_line(result.command or ())
    source = _source_directory(result.imported)
    return (
        "An editable install (`pip install -e`) leads there, so the check would pass whatever "
        "agents write.\n"
        f"Put the workspace first: `run = 'export PYTHONPATH=\"$PWD{source}\" && {line}'` in "
        '[gate] of weft.toml; or give each workspace its own environment: `setup = "python3 -m '
        'venv .venv && .venv/bin/pip install -e ."` in [workspace], without .venv in `link`.'
    )


def _source_directory(imported: tuple[str, ...]) -> str:
    """Return the directory above the first imported package, with a slash before it."""
    directory = imported[0].rpartition("/")[0]
    while f"{directory}/__init__.py" in imported:
        directory = directory.rpartition("/")[0]
    return directory and f"/{directory}"
