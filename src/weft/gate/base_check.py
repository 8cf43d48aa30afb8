"""A check of the base of a run, before agents work on it.

The command of the gate must pass on the base, in a workspace with its set-up. The checks of single
tasks are only started there: they may fail before the work is done, but their programs must exist.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.candidate_records import UNCHECKED
from weft.config import Config
from weft.errors import SetUpFailed
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
from weft.model import TERMINAL, NewTask, Task
from weft.store import Store
from weft.store.gate import find_pass
from weft.workspace import Workspace

_START: Final = 10.0  # seconds after which a check of a task counts as started


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
