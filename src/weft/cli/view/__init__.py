"""The live view of runs on a terminal. `open_view` is all that commands need of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from weft.cli.view.draw import draw
from weft.cli.view.picture import Picture
from weft.cli.view.picture_builder import Scenery
from weft.cli.view.screen import Screen, is_possible, open_screen
from weft.runs.tracker import RunTracker
from weft.store import Store

__all__ = ["LiveView", "is_possible", "open_view"]

_PACE: Final = 0.25  # seconds between two pictures, at least
_RECENT: Final = 200


class LiveView:
    def __init__(self, store: Store, screen: Screen, log: deque[str]) -> None:
        self._screen = screen
        self._log = log
        self._scenery = Scenery(store=store)
        self._recent: deque[str] = deque(maxlen=_RECENT)
        self._next = 0.0

    def tell(self, line: str) -> None:
        self._recent.append(line)

    def show(self, tracks: Sequence[RunTracker]) -> None:
        """Draw, unless the last picture is younger than the pace."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _PACE
        self._scenery.look(tracks)
        picture = Picture(
            runs=tuple(self._scenery.picture(track) for track in tracks),
            limits=self._scenery.limits,
            recent=tuple(self._recent),
            notice=self._log[-1] if self._log else "",
        )
        self._screen.show(draw(picture, *self._screen.size()))


@contextmanager
def open_view(store: Store) -> Iterator[LiveView]:
    """Show a view while the block lasts, then restore the terminal."""
    log: deque[str] = deque(maxlen=1)
    with open_screen(log) as screen:
        yield LiveView(store, screen, log)
