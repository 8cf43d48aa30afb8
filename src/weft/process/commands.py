"""Starting programs. Argument lists only: nothing here ever goes through a shell."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.errors import WeftError


class ProgramMissing(WeftError):
    """A program weft needs is not installed."""


@dataclass(frozen=True, kw_only=True)
class Finished:
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
) -> Finished:
    """Run a short command to its end and keep what it printed.

    `holds` are file numbers it gets a copy of: a lock is then held until it ended too.
    """
    try:
        done = subprocess.run(
            list(arguments),
            cwd=directory,
            env=dict(environment),
            input=input,
            pass_fds=holds,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError as error:
        missing = arguments[0] if directory.is_dir() else str(directory)
        raise ProgramMissing(f"{missing} was not found; install it or check the path.") from error
    except subprocess.TimeoutExpired as error:
        raise WeftError(f"{arguments[0]} did not answer within {seconds:.0f} s.") from error
    return Finished(
        status=done.returncode,
        output=done.stdout.decode(errors="surrogateescape"),
        errors=done.stderr.decode(errors="replace"),
    )


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
    """Run a command in a session of its own, its output going to a file; None: out of time.

    What it says of errors goes there, too, unless `errors` names another file. Whatever is left
    of its process group is killed when it ends.
    """
    import tempfile  # late: nothing else here needs it, and it takes longer than asking git

    # A file, not a pipe: whoever does not read it cannot keep us waiting.
    with (
        log.open("wb") as output,
        contextlib.nullcontext(output) if errors is None else errors.open("wb") as complaints,
        tempfile.TemporaryFile() as given,
    ):
        given.write(input)
        given.seek(0)
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
        return child.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
