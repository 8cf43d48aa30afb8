"""A reader of an agent's output: use, signs of trouble, and reports for the store.

Every reader starts at the first byte, so an adopter knows as much as the first worker. Output
before the offset of the last report is not reported again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from weft.agents import events, usage
from weft.agents.adapters import ADAPTERS
from weft.agents.adapters.adapter import ReaderState
from weft.agents.classify import AttemptEnd
from weft.agents.events import Event
from weft.agents.json_lines import shorten_line
from weft.agents.usage import Meter, Spent
from weft.attempt.start_record import Order
from weft.process import attempt_files
from weft.process.output_tail import OutputLine, Tail
from weft.redaction import Redactor

_MOST: Final = 500  # events in a report; the latest are kept
_LARGEST: Final = 200_000  # characters in a report
_LONGEST: Final = 2_000  # characters of a text
_ERRORS: Final = 4_096  # bytes read from the end of standard error
_JOURNAL: Final = 1 << 20  # bytes read from the end of a journal
_ANSWER: Final = 200_000  # characters kept of an answer without a result event


class OutputReader:
    def __init__(
        self, order: Order, directory: Path, *, hide: Redactor, reported: int | None = None
    ) -> None:
        """Follow an agent's output; `reported` is the position up to which an adopted attempt
        was reported."""
        self.seen = AttemptEnd()
        self._hide = hide
        self._attempt = order.attempt
        self._adapter = ADAPTERS[order.adapter]
        self._reading = ReaderState()
        self._meter = Meter(prices=order.prices, before=order.before)
        self._directory = directory
        self._tail = Tail(directory / attempt_files.STDOUT)
        # Failures before an adoption may be long over: the output in between is unknown.
        stale = 0 if reported is None else _size(directory / attempt_files.STDERR)
        self._error_tail = Tail(directory / attempt_files.STDERR, stale)
        self._spoken: deque[str] = deque()  # the last lines of a program that reports no result
        self._spoken_size = 0
        self._reported = reported or 0
        self._offset = 0
        self._fresh: deque[dict[str, Any]] = deque()
        self._weight = 0  # characters in the fresh events
        self._left_out = 0
        self.size = 0  # bytes of output, to notice growth

    @property
    def spent(self) -> Spent:
        return self._meter.spent

    @property
    def session(self) -> Spent:
        """The use of the whole session, earlier attempts included."""
        return self._meter.session

    @property
    def said(self) -> str:
        """The result, or the last text without a result."""
        result = self.seen.result
        return (result.text if result else "") or self.seen.last_text

    @property
    def answer(self) -> str:
        """Return the result, or the last lines of a program that prints plain text."""
        return "\n".join(self._spoken) or self.said

    def look(self) -> bool:
        """Read the output since the last look; return False if there was none."""
        lines = self._tail.lines()
        self._take_in(lines)
        if self._adapter.FACTS.read_error:
            self._take_in_errors(self._error_tail.lines())
        self.size = self._tail.size() + _size(self._directory / attempt_files.STDERR)
        return bool(lines)

    def last_words(self) -> Iterator[None]:
        """Read the rest of the output of an ended agent, a bounded piece per step."""
        for lines in self._tail.rest():
            self._take_in(lines)
            yield
        if self._adapter.FACTS.read_error:
            for lines in self._error_tail.rest():
                self._take_in_errors(lines)
                yield
        if journal := self._adapter.FACTS.journal:
            for event in journal.read(self._end_of(self._directory / journal.path, _JOURNAL)):
                self.seen = self.seen.after(event)

    def report(self) -> dict[str, Any] | None:
        """Return the news since the last report, or None."""
        if self._offset <= self._reported:
            return None
        spent = self.spent
        report: dict[str, Any] = {
            "attempt": self._attempt,
            "offset": self._offset,
            "events": list(self._fresh),
        }
        if self._left_out:
            report["left_out"] = self._left_out
        if spent.tokens.total:
            report["tokens"] = spent.tokens.total
        if spent.micro_usd is not None:
            report["micro_usd"] = spent.micro_usd
        has_news = bool(self._fresh or self._left_out)
        self._reported, self._left_out, self._weight = self._offset, 0, 0
        self._fresh.clear()
        return report if has_news else None

    def errors(self) -> str:
        return self._end_of(self._directory / attempt_files.STDERR, _ERRORS)

    def _end_of(self, path: Path, size: int) -> str:
        try:
            with path.open("rb") as file:
                looked_at = size + self._hide.reach
                file.seek(max(0, _size(path) - looked_at))
                return self._hide.redact_line(file.read(looked_at))[-size:].decode(errors="replace")
        except FileNotFoundError:
            return ""

    def _take_in_errors(self, lines: Sequence[OutputLine]) -> None:
        assert self._adapter.FACTS.read_error is not None
        for text in shown(lines, self._hide):
            for event in self._adapter.FACTS.read_error(text):
                self.seen = self.seen.after(event)

    def _speak(self, event: Event) -> None:
        """Keep the end of a program's text: a verdict may have many lines."""
        if not isinstance(event, events.TextEvent):
            return
        self._spoken.append(event.text)
        self._spoken_size += len(event.text) + 1
        while self._spoken_size > _ANSWER and len(self._spoken) > 1:
            self._spoken_size -= len(self._spoken.popleft()) + 1

    def _take_in(self, lines: Sequence[OutputLine]) -> None:
        in_pieces, says_result = self._adapter.FACTS.in_pieces, self._adapter.FACTS.says_result
        for line, text in zip(lines, shown(lines, self._hide), strict=True):
            if line.cut and says_result:
                text = shorten_line(text, self._hide.redact_line(line.last)[self._hide.reach :])
            happened, self._reading = self._adapter.read(text, self._reading)
            self._offset = line.end
            for event in happened:
                event = hidden(event, self._hide) if in_pieces else event
                self.seen = self.seen.after(event)
                self._meter = usage.count_event(self._meter, event)
                if not says_result:
                    self._speak(event)
                if line.end > self._reported:
                    self._tell(event)

    def _tell(self, event: Event) -> None:
        record = as_record(event)
        if record is None:
            return
        self._fresh.append(record)
        self._weight += _weight(record)
        while len(self._fresh) > _MOST or self._weight > _LARGEST:
            self._weight -= _weight(self._fresh.popleft())
            self._left_out += 1


def as_record(event: Event) -> dict[str, Any] | None:
    """Return an event as stored in reports; None for an event that is not reported."""
    match event:
        case events.Started(session):
            return {"type": "started", "session": session}
        case events.TextEvent(text):
            return {"type": "text", "text": text[:_LONGEST]}
        case events.ToolEvent(name, detail):
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


def shown(lines: Sequence[OutputLine], hide: Redactor) -> list[bytes]:
    """Remove secrets from lines; shorten a cut line, which may end inside a secret."""
    clean = hide.redact_lines([line.text for line in lines])
    return [
        text[: -hide.reach] if line.cut else text for line, text in zip(lines, clean, strict=True)
    ]


def hidden(event: Event, hide: Redactor) -> Event:
    """Remove secrets that an event joins from several pieces of output."""
    match event:
        case events.TextEvent(text) | events.Result(text=text) | events.Error(text=text):
            clean = hide.redact_text(text)
            return event if clean is text else replace(event, text=clean)
    return event


def _weight(record: dict[str, Any]) -> int:
    return sum(len(value) for value in record.values() if isinstance(value, str))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
