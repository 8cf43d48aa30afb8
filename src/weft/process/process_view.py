"""A process, and what one look at it shows."""

from __future__ import annotations

from typing import NamedTuple


class Process(NamedTuple):
    """A pid together with its start, since pids are used again."""

    pid: int
    start: int  # hundredths of a second, after whatever the platform counts from


class ProcessView(NamedTuple):
    process: Process
    parent: int
    session: int
