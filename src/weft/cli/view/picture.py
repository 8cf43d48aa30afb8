"""The records of the live view, made by `picture_builder` and drawn by `draw`."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace


class Panel(Struct, frozen=True, kw_only=True):
    """A text over the lower part of the view: help, logs or a diff."""

    title: str
    lines: tuple[str, ...]
    from_end: bool = False  # shows its last lines first
    offset: int = 0  # lines scrolled

    def scroll(self, step: int) -> Panel:
        down = -step if self.from_end else step
        return replace(self, offset=max(0, min(len(self.lines) - 1, self.offset + 5 * down)))


class AgentLine(Struct, frozen=True, kw_only=True):
    """An attempt under way."""

    task: str
    stage: str
    attempt: int
    seconds: float
    micro_usd: int
    doing: str
    title: str = ""


class RunPicture(Struct, frozen=True, kw_only=True):
    run: str
    state: str
    seconds: float  # since it was submitted
    share: float  # of the work that is done
    left: float | None  # seconds, estimated
    guess: bool = False  # some of `left` has no record
    people: bool = False  # `left` leaves out what waits for a person
    checking: bool = False  # a check is under way
    done: int
    all: int
    counts: str  # of tasks that are not done, by state
    micro_usd: int
    needs: tuple[str, ...] = ()  # for a person
    agents: tuple[AgentLine, ...] = ()
    gate: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()


class Picture(Struct, frozen=True, kw_only=True):
    runs: tuple[RunPicture, ...]
    limits: tuple[str, ...] = ()  # lowered by rate limits, in words
    recent: tuple[str, ...] = ()  # events, the latest last
    chosen: str = ""  # the task that keys act on
    answer: str = ""  # to the last key
    panel: Panel | None = None
    hint: str = ""  # the keys there are
    notice: str = ""  # the latest warning of weft
