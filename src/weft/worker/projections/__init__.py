"""Projections of the event log: plan marks, issue trackers, notifications and `--into`.

Each brings something outside the store up to date with a run, in whichever worker holds its lease.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from weft.model import Event
from weft.runs.progress import RunProgress


def _confirm_nothing() -> None:
    pass


class News(Struct, frozen=True, kw_only=True):
    """A run at one moment, with the events that led there."""

    progress: RunProgress
    events: Sequence[Event] = ()  # since the last update
    confirm: Callable[[], None] = _confirm_nothing  # raises StaleFence once the lease is lost
    deadline: float = math.inf  # monotonic time at which this process leaves


class Projection(Protocol):
    """One projection of one run. Applying the same news twice does what once does."""

    def wants(self, progress: RunProgress, changed: bool) -> bool:
        """Tell whether there may be something to do; `changed` by the events since the last
        update."""
        ...

    def apply(self, news: News) -> Sequence[str]:
        """Bring the world up to date; return the texts to give to the next holder.

        Call `news.confirm` before each effect. Raise WeftError or OSError to be called again.
        """
        ...
