"""Short commands. Argument lists only: weft never starts a shell."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Final

from weft.errors import WeftError

_WAIT: Final = 0.25  # length of a single wait in seconds


class ProgramMissing(WeftError):
    """A program weft needs is not installed."""


class BrokenOff(WeftError):
    """A command of weft's was broken off."""


class Breaker:
    """A switch that ends the commands under it within a moment and lets no more of them start."""

    def __init__(self, parent: Breaker | None = None) -> None:
        """Make a breaker that also breaks when `parent` does."""
        self._parent = parent
        self._broken = False

    @property
    def is_broken(self) -> bool:
        return self._broken or (self._parent is not None and self._parent.is_broken)

    def break_off(self) -> None:
        self._broken = True

    def check(self) -> None:
        if self.is_broken:
            raise BrokenOff


@dataclass(frozen=True, kw_only=True)
class Completed:
    status: int
    output: str
    errors: str


def run(
    arguments: Sequence[str],
    *,
    directory: Path,
    environment: Mapping[str, str],
    input: bytes = b"",
    seconds: float = 60,
    holds: Sequence[int] = (),
    breaker: Breaker | None = None,
) -> Completed:
    """Run a short command to its end and return its output.

    The command gets a copy of the file numbers in `holds`: a lock is then held until the command
    has ended too. `seconds` are counted while this process runs; see `waits`. Raise `BrokenOff`
    when `breaker` is broken.
    """
    breaker = breaker or Breaker()
    breaker.check()
    try:
        with _opened(input) as given:
            child = subprocess.Popen(
                list(arguments),
                cwd=directory,
                env=dict(environment),
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=holds,
                process_group=0,  # so that its child processes can be ended with it
            )
    except FileNotFoundError as error:
        missing = arguments[0] if directory.is_dir() else str(directory)
        raise ProgramMissing(f"{missing} was not found; install it or check the path.") from error
    with child:
        try:
            output, errors = _read(child, arguments[0], seconds, breaker)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            raise
    return Completed(
        status=child.returncode,
        output=output.decode(errors="surrogateescape"),
        errors=errors.decode(errors="replace"),
    )


def run_attached(
    arguments: Sequence[str], *, directory: Path, environment: Mapping[str, str]
) -> int:
    """Run a command on this terminal and return its exit status.

    Ctrl-C reaches the command too, so its end is awaited.
    """
    with subprocess.Popen(list(arguments), cwd=directory, env=dict(environment)) as child:
        while True:
            with contextlib.suppress(KeyboardInterrupt):
                return child.wait()


def start_detached(
    arguments: Sequence[str], *, directory: Path, environment: Mapping[str, str], log: Path
) -> int:
    """Start a command that outlives this process and its terminal; return its process id."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            list(arguments),
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    return child.pid


def waits(seconds: float) -> Iterator[float]:
    """Divide a time limit into short waits, each counted at its nominal length.

    The count stands still while the process is stopped (Ctrl-Z). After the stop the next short wait
    finds an answer that came meanwhile; a single long wait would only find that its time is over.
    An extra wait follows the limit, in case the process was stopped during the last wait.
    """
    count = max(1, ceil(seconds / _WAIT))
    yield from [seconds / count] * (count + 1)


@contextlib.contextmanager
def _opened(input: bytes) -> Iterator[int]:
    """Open the input of a command as a file.

    Through a pipe, `communicate` loses the rest of a long input at its first time-out, and a
    program that does not read could block weft.
    """
    if not input:
        yield subprocess.DEVNULL
        return
    if sys.platform == "linux":
        number = os.memfd_create("weft-input")
    else:
        import tempfile  # late: slower to import than a call of git

        number, name = tempfile.mkstemp(prefix="weft-input-")
        os.unlink(name)
    with os.fdopen(number, "w+b") as file:
        file.write(input)
        file.seek(0)
        yield number


def _read(
    child: subprocess.Popen[bytes], name: str, seconds: float, breaker: Breaker
) -> tuple[bytes, bytes]:
    """Read all output; raise when the time is over."""
    for wait in waits(seconds):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.communicate(timeout=wait)
        breaker.check()
    raise WeftError(f"{name} did not answer within {seconds:.0f} s.")


def _wait(child: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Wait for the exit status; return None when the time is over."""
    for wait in waits(seconds):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(timeout=wait)
    return None


def run_logged(
    arguments: Sequence[str],
    *,
    directory: Path,
    environment: Mapping[str, str],
    log: Path,
    seconds: float,
    input: bytes = b"",
    errors: Path | None = None,
) -> int | None:
    """Run a command in a new session, with output to a file; return None if its time ran out.

    Standard error goes to the same file unless `errors` names another file. Processes of its group
    that are left at the end are killed.
    """
    with (
        log.open("wb") as output,
        contextlib.nullcontext(output) if errors is None else errors.open("wb") as complaints,
        _opened(input) as given,
    ):
        try:
            child = subprocess.Popen(
                list(arguments),
                cwd=directory,
                env=dict(environment),
                stdin=given,
                stdout=output,
                stderr=complaints,
                start_new_session=True,
            )
        except (FileNotFoundError, PermissionError) as error:
            raise ProgramMissing(f"{arguments[0]} cannot be started: {error}.") from error
    try:
        return _wait(child, seconds)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
