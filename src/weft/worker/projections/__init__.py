"""Projections of the event log: plan marks, issue trackers, notifications and `--into`.

A projection brings a file, a branch or another program up to date with a run. The worker that
holds its lease carries it out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from weft.model import Event
from weft.runs.progress import RunProgress


class News(Struct, frozen=True, kw_only=True):
    """A run at a point in time, with the events that led there."""

    progress: RunProgress
    events: Sequence[Event] = ()  # since the last update
    confirm: Callable[[], None] = lambda: None  # raises StaleFence once the lease is lost
    deadline: float = math.inf  # monotonic time at which this process leaves


class Projection(Protocol):
    """A projection of a run. Applying the same news twice has the effect of applying it once."""

    def wants(self, progress: RunProgress, changed: bool) -> bool:
        """Tell whether an update may be due; `changed` by the events since the last update."""
        ...

    def apply(self, news: News) -> Sequence[str]:
        """Bring the world up to date; return the texts to give to the next holder.

        Call `news.confirm` before each effect. Raise WeftError or OSError to be called again.
        """
        ...
