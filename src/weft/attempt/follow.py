"""Following an agent: its output, folded into what matters, and reports of it for the store.

The fold starts at the first byte whenever somebody begins to follow, so that an adopter knows
all that the one before it knew. What was reported before, by the offset in the last report, is
not reported again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from weft.agents import events, usage
from weft.agents.adapters import ADAPTERS
from weft.agents.adapters.base import Reading
from weft.agents.classify import Seen
from weft.agents.events import Event
from weft.agents.usage import Meter, Spent
from weft.attempt.order import Order
from weft.process import records
from weft.process.tail import Line, Tail
from weft.redaction import Redactor

_MOST: Final = 500  # events in one report; of more, the latest
_LARGEST: Final = 200_000  # and characters
_LONGEST: Final = 2_000  # characters of a text
_ERRORS: Final = 4_096  # bytes of standard error that are looked at


class Follower:
    def __init__(self, order: Order, directory: Path, *, hide: Redactor, reported: int = 0) -> None:
        self.seen = Seen()
        self._hide = hide
        self._attempt = order.attempt
        self._adapter = ADAPTERS[order.adapter]
        self._reading = Reading()
        self._meter = Meter(prices=order.prices, before=order.before)
        self._directory = directory
        self._tail = Tail(directory / records.STDOUT)
        self._reported = reported
        self._offset = 0
        self._fresh: deque[dict[str, Any]] = deque()
        self._weight = 0  # characters in these
        self._left_out = 0
        self.size = 0  # of the output, to see whether it grows

    @property
    def spent(self) -> Spent:
        return self._meter.spent

    @property
    def session(self) -> Spent:
        """What its session has used, earlier attempts included."""
        return self._meter.session

    @property
    def said(self) -> str:
        """Its result, or its last words where it gave none."""
        result = self.seen.result
        return (result.text if result else "") or self.seen.last_text

    def look(self) -> bool:
        """Take in what has been printed since; False if there was nothing new."""
        found = self._tail.lines()
        self._take_in(found)
        self.size = self._tail.size() + _size(self._directory / records.STDERR)
        return bool(found)

    def last_words(self) -> Iterator[None]:
        """The agent has ended: take in what is left, a bounded piece for each step."""
        for found in self._tail.rest():
            self._take_in(found)
            yield

    def report(self) -> dict[str, Any] | None:
        """What there is to tell since the last report; None if nothing."""
        if self._offset <= self._reported:
            return None
        spent = self.spent
        told: dict[str, Any] = {
            "attempt": self._attempt,
            "offset": self._offset,
            "events": list(self._fresh),
        }
        if self._left_out:
            told["left_out"] = self._left_out
        if spent.tokens.total:
            told["tokens"] = spent.tokens.total
        if spent.micro_usd is not None:
            told["micro_usd"] = spent.micro_usd
        said_something = bool(self._fresh or self._left_out)
        self._reported, self._left_out, self._weight = self._offset, 0, 0
        self._fresh.clear()
        return told if said_something else None

    def errors(self) -> str:
        """The end of its standard error."""
        try:
            with (self._directory / records.STDERR).open("rb") as file:
                looked_at = _ERRORS + self._hide.reach
                file.seek(max(0, _size(self._directory / records.STDERR) - looked_at))
                end = self._hide.line(file.read(looked_at))[-_ERRORS:]
                return end.decode(errors="replace")
        except FileNotFoundError:
            return ""

    def _take_in(self, found: Sequence[Line]) -> None:
        in_pieces = self._adapter.FACTS.in_pieces
        for line, said in zip(found, shown(found, self._hide), strict=True):
            happened, self._reading = self._adapter.read(said, self._reading)
            self._offset = line.end
            for event in happened:
                event = hidden(event, self._hide) if in_pieces else event
                self.seen = self.seen.after(event)
                self._meter = usage.counted(self._meter, event)
                if line.end > self._reported:
                    self._tell(event)

    def _tell(self, event: Event) -> None:
        said = told(event)
        if said is None:
            return
        self._fresh.append(said)
        self._weight += _weight(said)
        while len(self._fresh) > _MOST or self._weight > _LARGEST:
            self._weight -= _weight(self._fresh.popleft())
            self._left_out += 1


def told(event: Event) -> dict[str, Any] | None:
    """An event as others read it; None for what only matters here."""
    match event:
        case events.Started(session):
            return {"type": "started", "session": session}
        case events.Text(text):
            return {"type": "text", "text": text[:_LONGEST]}
        case events.Tool(name, detail):
            return {"type": "tool", "name": name, "detail": detail[:_LONGEST]}
        case events.RateLimit(until=until, after=after, text=text):
            return {"type": "rate_limit", "until": until, "after": after, "text": text[:_LONGEST]}
        case events.Retrying(kind=kind, text=text):
            return {"type": "retrying", "class": kind, "text": text[:_LONGEST]}
        case events.Error(kind=kind, text=text):
            return {"type": "error", "class": kind, "text": text[:_LONGEST]}
        case events.Result(ok=ok, text=text):
            return {"type": "result", "ok": ok, "text": text[:_LONGEST]}
    return None


def shown(found: Sequence[Line], hide: Redactor) -> list[bytes]:
    """Lines without secrets; where one was cut, without what may be a piece of one."""
    clean = hide.lines([line.text for line in found])
    return [
        said[: -hide.reach] if line.cut else said for line, said in zip(found, clean, strict=True)
    ]


def hidden(event: Event, hide: Redactor) -> Event:
    """An event without secrets that came in pieces and were put together."""
    match event:
        case events.Text(text) | events.Result(text=text) | events.Error(text=text):
            clean = hide.text(text)
            return event if clean is text else replace(event, text=clean)
    return event


def _weight(said: dict[str, Any]) -> int:
    return sum(len(value) for value in said.values() if isinstance(value, str))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
