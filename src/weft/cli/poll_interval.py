"""The times between two looks at the store, for the followers of runs and tasks."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

NET: Final = 1.0  # seconds


class Rhythm(Struct, frozen=True, kw_only=True):
    rest: float  # seconds between two looks; less where looking costs little
    net: float  # seconds between two looks without a ring


ONE_TASK: Final = Rhythm(rest=0.0, net=NET)
A_RUN: Final = Rhythm(rest=0.1, net=NET)  # with many talkative tasks
LIVE: Final = Rhythm(rest=0.1, net=0.15)  # the time is shown too
