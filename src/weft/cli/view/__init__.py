"""The live view of runs on a terminal. `open_view` is all that commands need of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from weft.cli.view.controls import HINT, Controls, list_choices
from weft.cli.view.draw import draw
from weft.cli.view.picture import Picture
from weft.cli.view.picture_builder import Scenery
from weft.cli.view.screen import Screen, is_possible, open_screen
from weft.formats import listed
from weft.project.project import Project
from weft.runs.tracker import RunTracker
from weft.store import Store

__all__ = ["LiveView", "is_possible", "open_view"]

_PACE: Final = 0.25  # seconds between two pictures, at least
_RECENT: Final = 200


class LiveView:
    def __init__(self, project: Project, store: Store, screen: Screen, log: deque[str]) -> None:
        self._screen = screen
        self._controls = Controls(project, store)
        self._needs: set[str] = set()
        self._log = log
        self._scenery = Scenery(store=store)
        self._recent: deque[str] = deque(maxlen=_RECENT)
        self._next = 0.0

    def tell(self, line: str) -> None:
        self._recent.append(line)

    @property
    def leaves(self) -> bool:
        """True once the person has asked to leave the view."""
        return self._controls.leaves

    def close(self) -> None:
        """Give the terminal back before the block ends."""
        self._screen.leave()

    def show(self, tracks: Sequence[RunTracker]) -> None:
        """Draw, unless the last picture is younger than the pace."""
        keys = self._screen.read_keys()
        self._controls.press(keys, tracks)
        self._ring(tracks)
        now = time.monotonic()
        if now < self._next and not keys:
            return
        self._next = now + _PACE
        self._scenery.look(tracks)
        chosen = self._controls.find_chosen(list_choices(tracks))
        picture = Picture(
            runs=tuple(self._scenery.picture(track) for track in tracks),
            chosen="" if chosen is None else f"{chosen.name}: {chosen.request.title}",
            answer=self._controls.answer,
            panel=self._controls.read_panel(),
            hint=HINT,
            limits=self._scenery.limits,
            recent=tuple(self._recent),
            notice=self._log[-1] if self._log else "",
        )
        self._screen.show(draw(picture, *self._screen.size()))

    def _ring(self, tracks: Sequence[RunTracker]) -> None:
        """Ring the terminal's bell for each new thing that needs the person."""
        needs = {str(need) for track in tracks for need in track.progress.questions}
        if needs - self._needs:
            self._screen.ring(f"weft: {listed([track.run for track in tracks])} needs you")
        self._needs = needs


@contextmanager
def open_view(project: Project, store: Store) -> Iterator[LiveView]:
    """Show a view while the block lasts, then restore the terminal."""
    log: deque[str] = deque(maxlen=1)
    with open_screen(log) as screen:
        yield LiveView(project, store, screen, log)
