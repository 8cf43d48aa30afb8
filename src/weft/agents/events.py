"""What a line of an agent's output can mean, whichever program wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from weft.model import ErrorClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens by price. `input` is what was read outside the cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write


class Extent(StrEnum):
    """What a reported use covers."""

    STEP = "step"  # one answer of the model: adds to what was reported before
    RUN = "run"  # this process so far: takes the place of what was reported before
    SESSION = "session"  # the session so far, processes before this one included


@dataclass(frozen=True, slots=True)
class Started:
    session: str  # what the program can be resumed by


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    extent: Extent
    tokens: Tokens | None = None  # None: this report says nothing of tokens
    micro_usd: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """The provider asks to come back later; the program may be waiting by itself."""

    until: float | None = None  # seconds since 1970
    after: float | None = None  # seconds from now
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrying:
    """The program met a failure and tries again by itself."""

    kind: ErrorClass | None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    kind: ErrorClass | None  # None: only its text can tell
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The program's last word."""

    ok: bool
    text: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A line that means nothing to us. It stays in the log."""

    size: int


Event = Started | Text | Tool | Usage | RateLimit | Retrying | Error | Result | Unknown
