"""A process and its place in the tree."""

from __future__ import annotations

from typing import NamedTuple


class Process(NamedTuple):
    """A pid together with its start, since pids are used again."""

    pid: int
    start: int  # hundredths of a second, from an origin that depends on the platform


class ProcessView(NamedTuple):
    process: Process
    parent: int
    session: int
