"""A program whose input and output are streams of this process, until both have ended."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import Process

_GRACE: Final = 5.0  # seconds


@asynccontextmanager
async def open_program(
    arguments: Sequence[str], *, directory: Path, environment: Mapping[str, str]
) -> AsyncIterator[Process]:
    """Start a program in a session of its own; end what is left of it with the block.

    Its input ends first: git then removes the files that it was writing, which it does not do
    after a signal.
    """
    program = await anyio.open_process(
        list(arguments), cwd=directory, env=dict(environment), start_new_session=True
    )
    try:
        yield program
    finally:
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_GRACE):
                await _end_input(program)
                await program.wait()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            await program.aclose()


async def _end_input(program: Process) -> None:
    assert program.stdin is not None
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await program.stdin.aclose()
