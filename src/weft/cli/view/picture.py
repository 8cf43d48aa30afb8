"""What the live view shows, as plain records. How it looks is `draw`'s, where from `scenery`'s."""

from __future__ import annotations

from msgspec import Struct


class AgentLine(Struct, frozen=True, kw_only=True):
    """An attempt under way."""

    task: str
    stage: str
    attempt: int
    seconds: float
    micro_usd: int
    doing: str


class RunPicture(Struct, frozen=True, kw_only=True):
    run: str
    state: str
    seconds: float  # since it was submitted
    share: float  # of the work that is done
    left: float | None  # seconds, as far as anybody knows
    done: int
    all: int
    counts: str  # of tasks that are not done, by state
    micro_usd: int
    needs: tuple[str, ...] = ()  # what a person is needed for
    agents: tuple[AgentLine, ...] = ()
    gate: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()


class Picture(Struct, frozen=True, kw_only=True):
    runs: tuple[RunPicture, ...]
    limits: tuple[str, ...] = ()  # what rate limits leave, in words
    recent: tuple[str, ...] = ()  # what happened last, the latest last
    notice: str = ""  # what weft itself has to say
