"""One check: commands run on a tree, in a workspace of their own, to a verdict.

Exit code 0 of every command is a pass, and nothing else is: what cannot be started, takes too
long or is killed has failed. Whatever a command leaves running is ended with it, before anybody
learns the verdict. When and what to check is the gate's to say.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio.to_thread import run_sync
from msgspec import Struct
from msgspec.structs import replace

from weft import git, workspace
from weft.config import Config
from weft.errors import SetUpFailed, WeftError
from weft.model import UNCHECKED, Task
from weft.paths import quote
from weft.process import agent_process as process
from weft.process import attempt_files, process_table
from weft.process.agent_process import Exit, Running, Spawn, StopReason
from weft.process.commands import waits
from weft.process.death_proof import find_strays, is_proved_dead
from weft.process.environment import build_environment
from weft.process.launcher import LaunchFailed
from weft.process.process_identity import boottime
from weft.project.site import Site
from weft.redaction import Redactor
from weft.workspace import Terms, Workspace
from weft.workspace.worktree import is_sparse

log = logging.getLogger(__name__)

_TAIL: Final = 16_000  # bytes of output that are kept
_ENDED: Final = "It ended with "
_FRAMES: Final = (_ENDED, "make: ", "make[")  # lines that say no more than that it failed
_POINT: Final = 120  # characters of the line that tells most
_OUTPUT: Final = 64 << 20  # bytes a command may print
_PATIENCE: Final = 1.0  # seconds for which to wait for the end of what was killed

Command = tuple[str, ...]


class CheckResult(Struct, frozen=True, kw_only=True):
    """How a check ended."""

    passed: bool
    seconds: float
    output: str


class Forsaken(Exception):
    """weft was silent for too long, and its watchdog ended the check: nobody can tell."""


def commands_of(gate: Command | None, tasks: Iterable[Task]) -> tuple[Command, ...]:
    """List the command lines that tasks have to pass: the gate's, and the tasks' own."""
    own = [("sh", "-c", task.request.check) for task in tasks if task.request.check]
    return tuple(dict.fromkeys([*([gate] if gate else []), *own]))


def check_id(
    commands: Sequence[Command], config: Config, environment: Mapping[str, str], brought: str
) -> str:
    """Names a way of checking: two trees checked in one way can be compared.

    `brought` names what workspaces get besides their tree.
    """
    if not commands:
        return UNCHECKED
    settings = config.workspace
    about = [
        commands,
        sorted(environment.items()),
        (settings.copy, settings.link, settings.setup),
        brought,
        platform.machine(),
        platform.system(),
        sys.version_info[:2],
    ]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]


def environment(config: Config, own: Mapping[str, str]) -> dict[str, str]:
    """What checks see of the user's environment: as little as agents do."""
    return build_environment(own, asked=config.gate.env, given={"WEFT_CHECK": "1"})


def judge(ended: Exit | None, output: str) -> CheckResult:
    """What the end of a command says. None: its time was up."""
    if ended is None:
        why = "It took too long and was ended."
    elif ended.unstarted:
        why = f"It cannot start: {ended.unstarted}"
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


def point_of(output: str) -> str:
    """The line of a failed check's output that tells most: the last that is no mere frame."""
    lines = [one.strip() for one in output.splitlines() if any(map(str.isalnum, one))]
    telling = [one for one in lines if not one.startswith(_FRAMES)]
    found = (telling or lines or [""])[-1]
    return found if len(found) <= _POINT else found[: _POINT - 1] + "…"


class CheckRun:
    """A check under way. Leave it by its end, or cancel it; either way nothing is left of it."""

    def __init__(self, site: Site, fence: int, run: str) -> None:
        self._site = site
        self._fence = fence
        self._directory = site.check_directory(fence)
        self._branch = workspace.check_ref(run, fence)
        self._environment = environment(site.config, site.environment)
        self._running: Running | None = None
        self._started = 0  # commands, each with a directory of its own

    def renew(self, sent: float) -> None:
        """Tell the watchdog of what runs that the lease was renewed at this boot time."""
        if self._running is not None:
            try:
                self._running.renew(sent)
            except OSError as error:
                log.warning("the watchdog of check %s cannot be told: %s", self._fence, error)

    async def carry_out(self, tree: str, base: str, commands: Sequence[Command]) -> CheckResult:
        """Check a tree that is to follow `base`; raises `Forsaken` if nobody can tell."""
        started = time.monotonic()
        if not commands:
            return CheckResult(passed=True, seconds=0.001, output="No check is configured.")
        found = await self._check(tree, base, commands)
        return replace(found, seconds=max(0.001, time.monotonic() - started))

    async def _check(self, tree: str, base: str, commands: Sequence[Command]) -> CheckResult:
        try:
            async with self._workspace(tree, base) as place:
                await self._set_up(place)
                return await self._run_all(place, commands)
        except SetUpFailed as error:
            # The candidates broke it, unless it fails without them too: nobody can tell then.
            bare = await run_sync(git.get_commit, self._site.root, base)
            async with self._workspace(bare.tree, base) as place:
                await self._set_up(place)
            return CheckResult(passed=False, seconds=0, output=str(error))

    @asynccontextmanager
    async def _workspace(self, tree: str, base: str) -> AsyncIterator[Workspace]:
        place = await run_sync(self._prepare, tree, base)
        try:
            yield place
        finally:
            with anyio.CancelScope(shield=True):
                await run_sync(self._clear, place)

    def _prepare(self, tree: str, base: str) -> Workspace:
        commit = git.commit_tree(
            self._site.root,
            tree,
            [base],
            "A combination of candidates, to be checked\n",
            name="weft",
            email="weft@localhost",
            date="1000000000 +0000",
        )
        settings = self._site.looks.settings(self._site.root)
        return workspace.prepare(
            self._site.root,
            self._branch,
            commit,
            owner=self._site.check_marker(self._fence),
            settings=settings,
            terms=self._terms(),
            claims=_changed(self._site.root, base, commit) if is_sparse(settings) else (),
        )

    def _terms(self) -> Terms:
        """Return the rules of a check's workspace: those of attempts, but without kept
        directories, so that a check finds only its own set-up."""
        terms = self._site.terms()
        return replace(terms, rules=replace(terms.rules, keep=()))

    def _clear(self, place: Workspace) -> None:
        try:
            workspace.discard(place)
        except (WeftError, OSError) as error:  # the verdict is none the worse for that
            log.warning("the workspace of check %s stays: %s", self._fence, error)
        shutil.rmtree(self._directory, ignore_errors=True)

    async def _set_up(self, place: Workspace) -> None:
        settings = self._site.config.workspace
        files = replace(settings, setup=None)
        await run_sync(
            lambda: workspace.set_up(
                place, files, repository=self._site.root, environment=self._environment
            )
        )
        if settings.setup:
            found = await self._run(place, settings.setup, settings.timeout)
            if not found.passed:
                raise SetUpFailed(f"The set-up command failed.\n{found.output}")

    async def _run_all(self, place: Workspace, commands: Sequence[Command]) -> CheckResult:
        for command in commands:
            found = await self._run(place, command, self._site.config.gate.timeout)
            if not found.passed:
                break
        return found

    async def _run(self, place: Workspace, command: Command, seconds: float) -> CheckResult:
        """One command, to the end of the last process it started."""
        self._started += 1
        spawn = Spawn(
            argv=command,
            environment=self._environment,
            cwd=place.path,
            directory=self._directory / str(self._started),
            marker=self._site.check_marker(self._fence),
            gone_after=self._site.config.tuning.gone_after,
            grace=self._site.config.tuning.kill_grace,
            output_limit=_OUTPUT,
        )
        self._running = await self._start(spawn)
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
            raise Forsaken
        return judge(ended, _tail(spawn.directory, self._site.store.redactor))

    async def _start(self, spawn: Spawn) -> Running:
        try:
            return await run_sync(_start, spawn, self._site)
        except (LaunchFailed, OSError):
            # Its wrapper may have been about to begin: nothing is left, and nothing comes after.
            if (spawn.directory / attempt_files.ATTEMPT).exists():
                await process.attach(spawn.directory).stop()
            raise


def _changed(root: Path, base: str, commit: str) -> list[str]:
    """List the changed paths, which a check must find even in a sparse checkout."""
    changes = git.compare_trees(root, base, commit)
    return [quote(path) for change in changes for path in change.paths]


def _start(spawn: Spawn, site: Site) -> Running:
    return process.start(spawn, site.launcher, renewed=boottime())


def bury(site: Site, run: str, fence: int) -> str | None:
    """Put an end to a check whose worker has died; the proof, once nothing is left of it.

    To be called again until then. Nobody is left who would hear its verdict.
    """
    directory = site.check_directory(fence)
    marker = site.check_marker(fence)
    try:
        commands = sorted(directory.iterdir()) if directory.is_dir() else []
        places = [*(one for one in commands if one.is_dir()), directory]
        if not all(_is_ended(one, marker) for one in places):
            return None
    except FileNotFoundError:  # another worker has just cleared it away
        return None
    workspace.discard_abandoned(site.root, workspace.check_ref(run, fence), terms=site.terms())
    shutil.rmtree(directory, ignore_errors=True)
    return "no process of it is left"


def _is_ended(directory: Path, marker: str) -> bool:
    """Whether a command has come to its end, now or by being killed."""
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
        for one in find_strays(directory, marker):
            process_table.send_signal(one, signal.SIGKILL)


def _tail(directory: Path, hide: Redactor) -> str:
    """The end of what a command printed, errors last, without secrets."""
    most = _TAIL // 2
    parts = []
    for name in (attempt_files.STDOUT, attempt_files.STDERR):
        path = directory / name
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most - hide.reach))
            parts.append(hide.line(file.read(most + hide.reach))[-most:].decode(errors="replace"))
    return "\n".join(part.strip("\n") for part in parts if part.strip())
