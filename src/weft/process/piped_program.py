"""A program whose input and output are streams of this process, until both have ended."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import Process


@asynccontextmanager
async def open_program(
    arguments: Sequence[str], *, directory: Path, environment: Mapping[str, str]
) -> AsyncIterator[Process]:
    """Start a program in a session of its own; end what is left of it with the block."""
    program = await anyio.open_process(
        list(arguments), cwd=directory, env=dict(environment), start_new_session=True
    )
    try:
        yield program
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await program.aclose()
