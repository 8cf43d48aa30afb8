"""A check: commands that run on a tree, in their own workspace, until a verdict.

Only exit code 0 of every command is a pass: a command that cannot start, takes too long or is
killed has failed. Processes that a command leaves are ended before its verdict is known.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import re
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

import anyio
from anyio.to_thread import run_sync
from msgspec import Struct
from msgspec.structs import replace

from weft import git, workspace
from weft.candidate_records import UNCHECKED
from weft.config import BoxKind, Config
from weft.errors import SetUpFailed, WeftError
from weft.gate.policy.failed_tests import FailedTests, are_known, find_failed_tests
from weft.git import gc_lock
from weft.model import Task
from weft.paths import quote
from weft.process import agent_process as process
from weft.process import attempt_files, process_table
from weft.process.agent_process import Exit, Running, Spawn, StopReason
from weft.process.box import Box
from weft.process.commands import waits
from weft.process.death_proof import find_strays, is_proved_dead
from weft.process.environment import build_environment
from weft.process.launcher import LaunchFailed
from weft.process.process_identity import boottime
from weft.project.boxes import enter_box
from weft.project.site import Site
from weft.redaction import Redactor
from weft.workspace import Terms, Workspace
from weft.workspace.quarantine import make_quarantine
from weft.workspace.worktree import is_sparse

log = logging.getLogger(__name__)

_TAIL: Final = 16_000  # bytes of output that are kept
_TESTS: Final = 2 << 20  # bytes of output in which the names of failed tests are looked for
_ENDED: Final = "It ended with "
_UNSTARTED: Final = "It cannot start: "
_CANNOT_RUN: Final = re.compile(r"^make.*\bError 12[67]$", re.MULTILINE)
_COUNTS: Final = ("# cancelled ", "# skipped ", "# todo ", "# duration_ms ")  # of `node --test`
_FRAMES: Final = (_ENDED, "make: ", "make[", *_COUNTS)  # lines without a cause
_LINE: Final = 120  # characters of the telling line
_OUTPUT: Final = 64 << 20  # bytes a command may print
_PATIENCE: Final = 1.0  # seconds to wait for the end of killed processes

Command = tuple[str, ...]


class CheckResult(Struct, frozen=True, kw_only=True):
    passed: bool
    seconds: float
    output: str
    ran: tuple[Command, ...] = ()  # the commands up to the one that failed
    failed_tests: FailedTests = FailedTests()  # of a failed command
    host: str = ""  # the worker host that ran it; '': home


class CheckLost(Exception):
    """The watchdog ended a check because its weft was silent for too long: there is no verdict."""


def commands_of(gate: Command | None, tasks: Iterable[Task]) -> tuple[Command, ...]:
    """List the command lines that tasks have to pass: the gate's, and the tasks' own."""
    own = [("sh", "-c", task.request.check) for task in tasks if task.request.check]
    return tuple(dict.fromkeys([*([gate] if gate else []), *own]))


def check_id(
    commands: Sequence[Command], config: Config, environment: Mapping[str, str], files: str
) -> str:
    """Return the id of a check: verdicts with the same id are about the same commands, settings,
    machine and set-up files (`files` is their name)."""
    if not commands:
        return UNCHECKED
    settings = config.workspace
    about: list[object] = [
        commands,
        sorted(environment.items()),
        (settings.copy, settings.link, settings.setup),
        files,
        platform.machine(),
        platform.system(),
        sys.version_info[:2],
    ]
    if config.known_red:
        about.append(config.known_red)
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]


def describe_machine() -> str:
    """Return the kind of this machine; a check of a gate counts on machines of its kind alone."""
    return f"{platform.system()} {platform.machine()}"


def commit_to_check(root: Path, tree: str, base: str) -> str:
    """Make the commit of a tree that is to follow a base; equal trees and bases give equal ids."""
    return git.commit_tree(
        root,
        tree,
        [base],
        "A combination of candidates, to be checked\n",
        name="weft",
        email="weft@localhost",
        date="1000000000 +0000",
    )


def environment(config: Config, own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of checks, as small as that of agents."""
    return build_environment(own, asked=config.gate.env, given={"WEFT_CHECK": "1"})


def read_exit(ended: Exit | None, output: str) -> CheckResult:
    """Return the result of a command; `ended` is None after a timeout."""
    if ended is None:
        why = "It took too long and was ended."
    elif ended.unstarted:
        why = f"{_UNSTARTED}{ended.unstarted}"
    elif ended.why is StopReason.OUTPUT:
        why = f"It printed more than {_OUTPUT >> 20} MiB and was ended."
    elif ended.why is not StopReason.ENDED:
        why = f"It was ended from outside ({ended.why})."
    elif ended.signal is not None:
        why = f"It was killed by signal {ended.signal}."
    elif ended.code != 0:
        why = f"{_ENDED}{ended.code}."
    else:
        return CheckResult(passed=True, seconds=0, output=output)
    return CheckResult(passed=False, seconds=0, output=f"{output}\n{why}".lstrip("\n"))


def is_set_up_failure(output: str) -> bool:
    """Tell from a failed command's output whether a program was missing or not executable: exit
    code 126 or 127, also of a command that `make` ran."""
    last = output.rstrip().rpartition("\n")[2]
    if last in (f"{_ENDED}126.", f"{_ENDED}127.") or last.startswith(_UNSTARTED):
        return True
    return _CANNOT_RUN.search(output) is not None


def find_telling_line(output: str) -> str:
    """Return the line of a failed check's output that is most likely the cause: the last, without
    lines that only repeat the failure."""
    lines = [line.strip() for line in output.splitlines() if any(map(str.isalnum, line))]
    telling = [line for line in lines if not line.startswith(_FRAMES)]
    last = (telling or lines or [""])[-1]
    return last if len(last) <= _LINE else last[: _LINE - 1] + "…"


class CheckRun:
    """A check with its workspace and processes, all of which end with it or its cancellation."""

    def __init__(self, site: Site, fence: int, run: str) -> None:
        self.site = site
        self._fence = fence
        self.directory = site.check_directory(fence)  # deleted with the workspace
        self._branch = workspace.check_ref(run, fence)
        self._environment = environment(site.config, site.environment)
        self._running: Running | None = None
        self._started = 0  # commands, each with a directory of its own

    def renew(self, sent: float) -> None:
        """Tell the watchdog that the lease was renewed at this boot time."""
        if self._running is not None:
            try:
                self._running.renew(sent)
            except OSError as error:
                log.warning("could not renew the watchdog of check %s: %s", self._fence, error)

    async def check(self, tree: str, base: str, commands: Sequence[Command]) -> CheckResult:
        """Check a tree that is to follow `base`; raise `CheckLost` if its watchdog ended it."""
        started = time.monotonic()
        if not commands:
            return CheckResult(passed=True, seconds=0.001, output="No check is configured.")
        result = await self._check(tree, base, commands)
        return replace(result, seconds=max(0.001, time.monotonic() - started))

    async def _check(self, tree: str, base: str, commands: Sequence[Command]) -> CheckResult:
        try:
            async with self.open_workspace(tree, base) as place:
                await self.set_up(place)
                return await self._run_all(place, commands)
        except SetUpFailed as error:
            # The entries broke the set-up, unless it fails on the base too: then this raises.
            bare = await run_sync(git.get_commit, self.site.root, base)
            async with self.open_workspace(bare.tree, base) as place:
                await self.set_up(place)
            return CheckResult(passed=False, seconds=0, output=str(error))

    @asynccontextmanager
    async def open_workspace(self, tree: str, base: str) -> AsyncIterator[Workspace]:
        place = await run_sync(self._prepare, tree, base)
        try:
            yield place
        finally:
            with anyio.CancelScope(shield=True):
                await run_sync(self._clear, place)

    def _prepare(self, tree: str, base: str) -> Workspace:
        gc_lock.guard(self.site.common)
        commit = commit_to_check(self.site.root, tree, base)
        settings = git.read_settings(self.site.root)
        try:
            place = workspace.prepare(
                self.site.root,
                self._branch,
                commit,
                owner=self.site.check_marker(self._fence),
                settings=settings,
                terms=self._terms(),
                claims=_changed(self.site.root, base, commit) if is_sparse(settings) else (),
            )
        except git.NoSuchCommit as error:  # it was there a moment ago
            raise git.ObjectsGone(str(error)) from error
        if place.terms.box.kind is not BoxKind.OFF:
            make_quarantine(place)
        return place

    def _terms(self) -> Terms:
        """Return the rules of a check's workspace: those of attempts, but without kept
        directories, so that a check finds only its own set-up."""
        terms = self.site.terms()
        return replace(terms, rules=replace(terms.rules, keep=()))

    def _clear(self, place: Workspace) -> None:
        try:
            workspace.discard(place)
        except (WeftError, OSError) as error:
            log.warning("could not discard the workspace of check %s: %s", self._fence, error)
        shutil.rmtree(self.directory, ignore_errors=True)

    async def set_up(self, place: Workspace) -> None:
        settings = self.site.config.workspace
        files = replace(settings, setup=None)
        await run_sync(
            lambda: workspace.set_up(
                place, files, repository=self.site.root, environment=self._environment
            )
        )
        if settings.setup:
            result = await self.run_command(place, settings.setup, settings.timeout)
            if not result.passed:
                raise SetUpFailed(f"The set-up command failed.\n{result.output}")

    async def _run_all(self, place: Workspace, commands: Sequence[Command]) -> CheckResult:
        ran = []
        for command in commands:
            ran.append(command)
            result = await self.run_command(place, command, self.site.config.gate.timeout)
            result = self.forgive(command, result)
            if not result.passed:
                break
        return replace(result, ran=tuple(ran))

    def forgive(self, command: Command, result: CheckResult) -> CheckResult:
        """Count a failure of the gate's command as a pass if only tests failed that fail on the
        run's base."""
        config = self.site.config
        if result.passed or command != config.gate.run or not config.known_red:
            return result
        if not are_known(result.failed_tests, config.known_red):
            return result
        number = len(result.failed_tests.names)
        text = f"Allowed: {number} failed tests fail on the base of the run too."
        return replace(result, passed=True, output=f"{result.output}\n{text}")

    async def run_command(
        self,
        place: Workspace,
        command: Command,
        seconds: float,
        variables: Mapping[str, str] = MappingProxyType({}),
        box: Box | None = None,
    ) -> CheckResult:
        """Run a command until the end of the last process that it started.

        `variables` are added to the environment of checks; `box` replaces their usual box.
        """
        self._started += 1
        spawn = Spawn(
            argv=command,
            environment={**self._environment, **variables},
            cwd=place.path,
            directory=self.directory / str(self._started),
            marker=self.site.check_marker(self._fence),
            gone_after=self.site.config.tuning.gone_after,
            grace=self.site.config.tuning.kill_grace,
            output_limit=_OUTPUT,
        )
        self._running = await self._start(enter_box(spawn, box or place.terms.box, place))
        ended: Exit | None = None
        try:
            for wait in waits(seconds):
                with anyio.move_on_after(wait):
                    ended = await self._running.wait_ended()
                    break
        finally:
            if ended is None:
                await self._running.stop()
            self._running = None
        if ended is not None and ended.why is StopReason.FORSAKEN:
            raise CheckLost
        hide = self.site.store.redactor
        result = read_exit(ended, _tail(spawn.directory, hide, _TAIL))
        if result.passed:
            return result
        failed_tests = find_failed_tests(_tail(spawn.directory, hide, _TESTS))
        return replace(result, failed_tests=failed_tests)

    async def _start(self, spawn: Spawn) -> Running:
        try:
            return await run_sync(
                lambda: process.start(spawn, self.site.launcher, renewed=boottime())
            )
        except (LaunchFailed, OSError):
            # Its wrapper may be about to start the command.
            if (spawn.directory / attempt_files.ATTEMPT).exists():
                await process.attach(spawn.directory).stop()
            raise


def _changed(root: Path, base: str, commit: str) -> list[str]:
    """List the changed paths, which a check must find even in a sparse checkout."""
    changes = git.compare_trees(root, base, commit)
    return [quote(path) for change in changes for path in change.paths]


def end_orphaned_check(site: Site, run: str, fence: int) -> str | None:
    """End a check whose worker has died, and discard its workspace.

    Return the proof of its end, or None if a process is left: then call again.
    """
    directory = site.check_directory(fence)
    marker = site.check_marker(fence)
    try:
        commands = sorted(directory.iterdir()) if directory.is_dir() else []
        places = [*(place for place in commands if place.is_dir()), directory]
        if not all(_is_ended(place, marker) for place in places):
            return None
    except (FileNotFoundError, FileExistsError):  # another worker clears it away meanwhile
        return None
    workspace.discard_abandoned(site.root, workspace.check_ref(run, fence), terms=site.terms())
    shutil.rmtree(directory, ignore_errors=True)
    return "no process of it is left"


def _is_ended(directory: Path, marker: str) -> bool:
    """Kill the processes of a command; return whether all have ended."""
    give_up = time.monotonic() + _PATIENCE
    while not is_proved_dead(directory, marker):
        if time.monotonic() > give_up:
            return False
        _kill(directory, marker)
        time.sleep(0.02)
    return True


def _kill(directory: Path, marker: str) -> None:
    if (directory / attempt_files.ATTEMPT).exists():
        running = process.attach(directory)
        running.kill()
        running.close()
    else:
        for stray in find_strays(directory, marker):
            process_table.send_signal(stray, signal.SIGKILL)


def read_running_check(directory: Path, hide: Redactor) -> str:
    """Return the end of the output of a check under way on this host; '' if it is not here."""
    try:
        started = sorted(
            (place for place in directory.iterdir() if place.name.isdecimal()),
            key=lambda place: int(place.name),
        )
        return _tail(started[-1], hide, _TAIL) if started else ""
    except OSError:  # on another host, or ended meanwhile
        return ""


def _tail(directory: Path, hide: Redactor, size: int) -> str:
    """Return the end of a command's output, errors last, without secrets."""
    most = size // 2
    parts = []
    for name in (attempt_files.STDOUT, attempt_files.STDERR):
        path = directory / name
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most - hide.reach))
            parts.append(
                hide.redact_line(file.read(most + hide.reach))[-most:].decode(errors="replace")
            )
    return "\n".join(part.strip("\n") for part in parts if part.strip())
