"""One check: commands run on a tree, in a workspace of their own, to a verdict.

Exit code 0 of every command is a pass, and nothing else is: what cannot be started, takes too
long or is killed has failed. Whatever a command leaves running is ended with it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
from anyio.to_thread import run_sync

from weft import git, workspace
from weft.attempt.site import Site
from weft.config import Config
from weft.errors import SetUpFailed
from weft.process import agent as process
from weft.process import records
from weft.process.agent import Exit, Running, Spawn, Why
from weft.process.environment import build
from weft.process.place import boottime
from weft.workspace import Workspace

_TAIL: Final = 16_000  # bytes of output that are kept
_OUTPUT: Final = 64 << 20  # bytes a check may print

Command = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Checked:
    passed: bool
    seconds: float
    output: str


def check_id(commands: Sequence[Command], environment: Mapping[str, str]) -> str:
    """Names a way of checking: two trees checked in one way can be compared."""
    about = [
        list(map(list, commands)),
        sorted(environment.items()),
        platform.machine(),
        platform.system(),
        sys.version_info[:2],
    ]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]


def environment(config: Config, own: Mapping[str, str]) -> dict[str, str]:
    """What checks see of the user's environment: as little as agents do."""
    asked = {name: own[name] for name in config.gate.env if name in own}
    return build(own, asked=(), given={**asked, "WEFT_CHECK": "1"})


class Check:
    """A check under way. Leave it by its end, or cancel it; either way nothing is left of it."""

    def __init__(self, site: Site, fence: int, run: str) -> None:
        self._site = site
        self._fence = fence
        self._directory = site.check_directory(fence)
        self._branch = workspace.branch_ref(run, "check", fence)
        self._running: Running | None = None

    def renew(self, sent: float) -> None:
        if self._running is not None:
            self._running.renew(sent)

    async def carry_out(self, tree: str, base: str, commands: Sequence[Command]) -> Checked:
        started = time.monotonic()
        if not commands:
            return Checked(passed=True, seconds=0.001, output="No check is configured.")
        prepared: Workspace | None = None
        try:
            prepared = await run_sync(self._prepare, tree, base)
            for number, command in enumerate(commands):
                ended = await self._run(prepared, command, number)
                if not ended.passed:
                    return _lasting(ended, started)
            return _lasting(Checked(passed=True, seconds=0, output=ended.output), started)
        except SetUpFailed as error:
            # It may well be the candidates that broke it.
            return _lasting(Checked(passed=False, seconds=0, output=str(error)), started)
        finally:
            with anyio.CancelScope(shield=True):
                await run_sync(self._clear, prepared)

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
        prepared = workspace.prepare(self._site.root, self._branch, commit)
        try:
            workspace.set_up(
                prepared,
                self._site.config.workspace,
                repository=self._site.root,
                environment=environment(self._site.config, self._site.environment),
            )
        except BaseException:
            workspace.release(prepared)
            raise
        return prepared

    async def _run(self, prepared: Workspace, command: Command, number: int) -> Checked:
        spawn = Spawn(
            argv=command,
            environment=environment(self._site.config, self._site.environment),
            cwd=prepared.path,
            directory=self._directory / str(number),
            marker=self._site.check_marker(self._fence),
            gone_after=self._site.config.tuning.gone_after,
            grace=self._site.config.tuning.kill_grace,
            output_limit=_OUTPUT,
            cgroup=self._site.cgroup,
        )
        self._running = await run_sync(_start, spawn, self._site)
        ended: Exit | None = None
        try:
            with anyio.move_on_after(self._site.config.gate.timeout):
                ended = await self._running.wait_ended()
        finally:
            if ended is None:
                stopped = await self._running.stop()
        output = _tail(spawn.directory)
        if ended is None:
            return Checked(
                passed=False, seconds=0, output=f"{output}\nIt took too long ({stopped.why})."
            )
        if ended.unstarted:
            return Checked(passed=False, seconds=0, output=f"It cannot start: {ended.unstarted}")
        return Checked(passed=ended.why is Why.ENDED and ended.code == 0, seconds=0, output=output)

    def _clear(self, prepared: Workspace | None) -> None:
        if prepared is not None:
            workspace.release(prepared)
        shutil.rmtree(self._directory, ignore_errors=True)


def _start(spawn: Spawn, site: Site) -> Running:
    return process.start(spawn, site.launcher, renewed=boottime())


def _lasting(checked: Checked, started: float) -> Checked:
    seconds = max(0.001, time.monotonic() - started)
    return Checked(passed=checked.passed, seconds=seconds, output=checked.output)


def _tail(directory: Path) -> str:
    """The end of what a command printed, errors last."""
    parts = []
    for name in (records.STDOUT, records.STDERR):
        path = directory / name
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL // 2))
            parts.append(file.read(_TAIL // 2).decode(errors="replace"))
    return "\n".join(part.strip("\n") for part in parts if part.strip())
