"""The meanings of an output line, for all programs."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from weft.model import ErrorClass


class TokenCount(Struct, frozen=True, kw_only=True):
    """Tokens by price. `input` counts tokens outside the cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write


class Extent(StrEnum):
    """The extent of a reported use."""

    STEP = "step"  # an answer of the model: adds to earlier reports
    RUN = "run"  # this process so far: replaces earlier reports
    SESSION = "session"  # the session so far, earlier processes included


class Started(Struct, frozen=True):
    session: str  # the id to resume the program by


class TextEvent(Struct, frozen=True):
    text: str


class ToolEvent(Struct, frozen=True):
    name: str
    detail: str = ""


class Usage(Struct, frozen=True, kw_only=True):
    extent: Extent
    tokens: TokenCount | None = None  # None: no tokens in this report
    micro_usd: int | None = None


class RateLimit(Struct, frozen=True, kw_only=True):
    """The provider asks to come back later; the program may be waiting by itself."""

    until: float | None = None  # seconds since 1970
    after: float | None = None  # seconds from now
    clock: str = ""  # words that name a time of day
    text: str = ""

    @property
    def says_when(self) -> bool:
        return self.until is not None or self.after is not None or bool(self.clock)


class Retrying(Struct, frozen=True, kw_only=True):
    """The program met a failure and tries again by itself."""

    kind: ErrorClass | None
    text: str = ""


class Error(Struct, frozen=True, kw_only=True):
    kind: ErrorClass | None  # None: only its text can tell
    text: str


class Result(Struct, frozen=True, kw_only=True):
    """The program's last word."""

    ok: bool
    text: str = ""


class Unknown(Struct, frozen=True):
    """A line without a known meaning. It stays in the log."""

    size: int


Event = Started | TextEvent | ToolEvent | Usage | RateLimit | Retrying | Error | Result | Unknown
