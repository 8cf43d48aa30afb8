"""A supervised program: started beside a wrapper, found again after a crash, stopped with all its
descendants.

Leases, prompts and output belong to the caller. weft talks to the wrapper by signals and through
the files of the attempt's directory (`attempt_files`), never as its parent: a restarted weft can do
all that the first process could.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import anyio

from weft.errors import WeftError, find_passing_fault
from weft.process import attempt_files, process_table, wrapper
from weft.process.death_proof import LOST, find_recorded, find_strays, is_proved_dead
from weft.process.launcher import Launcher, LaunchFailed
from weft.process.process_identity import boottime, get_place
from weft.process.process_table import Process

_MARGIN = 5.0  # seconds beyond the grace, for the wrapper to finish a stop
_FIRST_PAUSE, _LAST_PAUSE = 0.02, 0.5


class AlreadyStarted(WeftError):
    """The attempt has been started before; a retry is a new attempt."""


class NoSuchAttempt(WeftError):
    """No attempt was ever started in this directory."""


class StopReason(StrEnum):
    """The reason why the process tree ended."""

    ENDED = wrapper.ENDED  # the agent did
    ASKED = wrapper.ASKED  # weft stopped it
    FORSAKEN = wrapper.FORSAKEN  # weft did not renew for T1
    OUTPUT = wrapper.OUTPUT  # it printed more than it may
    LOST = LOST  # not known: the wrapper was killed too


@dataclass(frozen=True, kw_only=True)
class Spawn:
    argv: tuple[str, ...]
    environment: Mapping[str, str]  # complete; only the marker is added
    cwd: Path
    directory: Path  # the attempt's own, for records and output
    marker: str  # unique for ever
    stdin: bytes = b""
    gone_after: float = 120.0  # T1, since the last renewal was sent
    grace: float = 10.0  # between the first signal and KILL
    first: int = signal.SIGTERM
    output_limit: int = 1 << 30  # bytes of both streams
    memory: int | None = None  # bytes of its control group, where there is one
    processes: int | None = None  # of that group
    scoped: bool = False  # keeps it from abstract sockets of the user's processes
    undo: tuple[str, ...] = ()  # ends its container, which is no descendant of the wrapper


@dataclass(frozen=True, kw_only=True)
class Exit:
    why: StopReason
    code: int | None  # the agent's exit code; None if a signal ended it or it is not known
    signal: int | None
    unstarted: str  # why its program could not be executed at all
    swept: int  # processes that outlived the agent and were ended
    at: float  # by the wall clock


def start(spawn: Spawn, launcher: Launcher, *, renewed: float) -> Running:
    """Start an agent under a lease whose last renewal was sent at boot time `renewed`.

    If the caller is killed at any moment, either no agent was started, or the directory names the
    agent and a watchdog has watched it from the start.
    """
    directory = spawn.directory
    directory.mkdir(parents=True, exist_ok=True)
    try:
        attempt_files.create_record(
            str(directory / attempt_files.ATTEMPT),
            {
                "marker": spawn.marker,
                "boot": get_place().boot,
                "grace": spawn.grace,
                "undo": spawn.undo,
            },
        )
    except FileExistsError as error:
        raise AlreadyStarted from error
    (directory / attempt_files.STDIN).write_bytes(spawn.stdin)
    for name in (attempt_files.STDOUT, attempt_files.STDERR):
        (directory / name).touch(mode=0o600)
    try:
        launcher.launch(make_order(spawn, renewed))
    except LaunchFailed:
        if not (directory / attempt_files.WRAPPER).exists():
            (directory / attempt_files.STDOUT).touch()  # raises a fault of the directory
            raise
    return attach(directory)


def attach(directory: Path) -> Running:
    """Return the agent that any process started in a directory."""
    record = attempt_files.find_record(str(directory / attempt_files.ATTEMPT))
    if record is None:
        raise NoSuchAttempt
    return Running(directory, record["marker"], record["grace"])


class Running:
    """An agent that was started, as any process on its host sees it."""

    def __init__(self, directory: Path, marker: str, grace: float) -> None:
        self.directory = directory
        self.marker = marker
        self._grace = grace
        self._wrapper = find_recorded(directory / attempt_files.WRAPPER)
        self._handle = _open_handle(self._wrapper)
        self._exit: Exit | None = None

    def renew(self, sent: float) -> None:
        """Tell the watchdog that the lease was renewed by a request sent at this boot time."""
        attempt_files.write_record(str(self.directory / attempt_files.RENEWED), {"sent": sent})

    def ended(self) -> Exit | None:
        """Return the exit once all processes of the attempt have ended; do not wait."""
        if self._exit is None:
            record = attempt_files.find_record(str(self.directory / attempt_files.EXIT))
            # Asked in this order: a wrapper's last act is to write the record.
            if record is None and not self._is_watched() and self._is_dead():
                record = attempt_files.find_record(str(self.directory / attempt_files.EXIT))
            if record is not None:
                self._exit = _exit(record)
                self.close()
        return self._exit

    async def wait_ended(self) -> Exit:
        """Wait for the exit. Stop an agent that has lost its wrapper, since it has no other
        watchdog.
        """
        pause = _FIRST_PAUSE
        while (ended := self.ended()) is None:
            if not self._is_watched():
                return await self.stop()
            if self._handle is not None:
                await anyio.wait_readable(self._handle)
            else:
                await anyio.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)
        return ended

    def ask_to_stop(self) -> None:
        """Have the wrapper end the tree: first signal, grace, KILL."""
        self._tell_wrapper(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the tree at once: through the wrapper, or directly if the wrapper is dead."""
        if self._is_watched():
            self._tell_wrapper(signal.SIGQUIT)
        else:
            self._end_strays(set(), signal.SIGKILL)

    async def stop(self) -> Exit:
        """Stop the tree through the wrapper, or directly if need be; return when all have ended."""
        with anyio.CancelScope(shield=True):
            self.ask_to_stop()
            kill_at = boottime() + self._grace
            asked: set[Process] = set()
            pause = _FIRST_PAUSE
            while (ended := self.ended()) is None:
                now = boottime()
                if not self._is_watched() or now > kill_at + _MARGIN:
                    self._end_strays(asked, signal.SIGTERM if now < kill_at else signal.SIGKILL)
                await anyio.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)
            return ended
        raise AssertionError("a shielded scope is left by its end only")

    def close(self) -> None:
        """Let go of the process; it goes on."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _end_strays(self, asked: set[Process], number: int) -> None:
        """Signal the living processes: KILL every time, a gentler signal only the first time."""
        for process in find_strays(self.directory, self.marker):
            if number == signal.SIGKILL or process not in asked:
                asked.add(process)
                process_table.send_signal(process, number)
                process_table.send_signal(process, signal.SIGCONT)

    def _tell_wrapper(self, number: int) -> None:
        if self._wrapper is not None:
            process_table.send_signal(self._wrapper, number)
            process_table.send_signal(self._wrapper, signal.SIGCONT)

    def _is_watched(self) -> bool:
        if self._handle is not None:
            poll = select.poll()
            poll.register(self._handle, select.POLLIN)
            return not poll.poll(0)
        return self._wrapper is not None and process_table.is_alive(self._wrapper)

    def _is_dead(self) -> bool:
        try:
            return is_proved_dead(self.directory, self.marker)
        except OSError as error:
            if find_passing_fault(error) is None:
                raise
            return False  # the proof could not be written


def make_order(spawn: Spawn, renewed: float) -> attempt_files.Record:
    """Return the order for a wrapper; `renewed` is the boot time of the last renewal."""
    return {
        "argv": list(spawn.argv),
        "environment": dict(spawn.environment),
        "cwd": str(spawn.cwd),
        "directory": str(spawn.directory),
        "marker": spawn.marker,
        "renewed": renewed,
        "gone_after": spawn.gone_after,
        "grace": spawn.grace,
        "first": int(spawn.first),
        "output_limit": spawn.output_limit,
        "memory": spawn.memory,
        "processes": spawn.processes,
        "scoped": spawn.scoped,
        "undo": list(spawn.undo),
    }


def _open_handle(process: Process | None) -> int | None:
    """Return a pidfd, which becomes readable when the process ends; None if that is impossible."""
    if process is None or not hasattr(os, "pidfd_open"):
        return None
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if process_table.is_alive(process):
        return handle
    os.close(handle)
    return None


def _exit(record: attempt_files.Record) -> Exit:
    code: int | None = record.get("code")
    number = -code if code is not None and code < 0 else None
    return Exit(
        why=StopReason(record["why"]),
        code=code if number is None else None,
        signal=number,
        unstarted=record.get("unstarted", ""),
        swept=record.get("swept", 0),
        at=record["at"],
    )
