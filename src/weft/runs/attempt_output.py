"""What agents printed, read from the directories of their attempts.

An attempt that ran on another host left its output there; what it reported to the store is read
instead, which is less.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from weft import git
from weft.agents import events, json_lines
from weft.agents.adapters import ADAPTERS
from weft.agents.adapters.base import Adapter, ReaderState
from weft.agents.events import Event
from weft.attempt import start_record
from weft.attempt.output_reader import hidden, shown
from weft.errors import InputError, NoAnswer, Refused
from weft.model import TERMINAL, Attempt, State, Task
from weft.process import attempt_files
from weft.process.output_tail import OutputLine, Tail
from weft.project.project import Project
from weft.project.site import home, read_agent, secrets_of
from weft.redaction import Redactor, list_secrets
from weft.runs.agent_reports import list_report_lines
from weft.runs.control import describe_task
from weft.store import Store
from weft.store.events import history
from weft.store.limit_table import identity
from weft.store.server_operations import hosted
from weft.store.tasks import get_task, list_attempts

log = logging.getLogger(__name__)

LOOK: Final = 0.25  # seconds between looks at an output that grows
_AWAY: Final = 1.0  # seconds before a server is asked again that was not there

Stream = Literal["stdout", "stderr"]
Told = Callable[[OutputLine], list[str]]


class LogLine(Struct, frozen=True, kw_only=True):
    """One line of an attempt's output."""

    attempt: int
    text: str


class OutputPiece(Struct, frozen=True, kw_only=True):
    """A part of an attempt's output, as its program printed it."""

    adapter: str  # who understands it
    lines: tuple[OutputLine, ...]
    more: bool  # there is more by now


class AttemptName(Struct, frozen=True, kw_only=True):
    """Which attempt is meant."""

    task: int
    number: int


@hosted("read")
def read_piece(
    project: Project, store: str, attempt: AttemptName, *, stream: Stream, offset: int, ended: bool
) -> OutputPiece | None:
    """What was printed after an offset; None if it ran elsewhere. Once the agent has `ended`, its
    last line may lack its newline. `store` is the identity of the store."""
    if not store.isalnum() or offset < 0:
        raise InputError(f"There is no output {store[:100]!r} from {offset} on.")
    directory = home(_common(project.root), store) / f"{attempt.task}.{attempt.number}"
    ordered = start_record.find(directory)
    if ordered is None:
        return None
    tail = Tail(directory / stream, offset)
    found = next((one for one in tail.rest() if one), []) if ended else _next(tail)
    hide = _hiding(project, ordered.agent)
    clean = zip(found, shown(found, hide), strict=True)
    printed = tuple(line._replace(text=said) for line, said in clean)
    return OutputPiece(adapter=ordered.adapter, lines=printed, more=tail.is_behind())


def _hiding(project: Project, agent: str) -> Redactor:
    """What takes out an agent's secrets, as far as whoever looks knows them himself."""
    values = list_secrets(project.environment, project.config.gate.env)
    with suppress(InputError):  # its file is gone since, or broken: what names tell is known
        values += secrets_of(read_agent(project.root, agent), project.environment)
    return Redactor(values)


@cache
def _common(root: Path) -> Path:
    return git.common_directory(root)


def _next(tail: Tail) -> list[OutputLine]:
    """The next complete lines, a long one included, which takes several looks."""
    while not (found := tail.lines()) and tail.is_behind():
        pass
    return found


class OutputCursor:
    """The output of one attempt, from its first line on."""

    def __init__(self, log: TaskLog, attempt: Attempt) -> None:
        self._log = log
        self._attempt = AttemptName(task=attempt.task, number=attempt.number)
        self._told: Told | None = None
        self._offset = 0
        self._over = False  # its agent had ended, and all was read

    def look(self, *, ended: bool) -> Iterator[LogLine] | None:
        """What was printed since the last look; None if it ran elsewhere."""
        if self._over:
            return iter(())
        piece = self._read(ended)
        return None if piece is None else self._printed(piece, ended)

    def _read(self, ended: bool) -> OutputPiece | None:
        log, at = self._log, self._offset
        return read_piece(
            log.project, log.home, self._attempt, stream=log.stream, offset=at, ended=ended
        )

    def _printed(self, piece: OutputPiece | None, ended: bool) -> Iterator[LogLine]:
        while piece is not None:
            if self._told is None:
                self._told = self._log.reader(piece.adapter)
            for line in piece.lines:
                self._offset = line.end
                for text in self._told(line):
                    yield LogLine(attempt=self._attempt.number, text=text)
            piece = self._read(ended) if piece.lines and (piece.more or ended) else None
        self._over = ended


def raw(line: OutputLine) -> list[str]:
    return [line.text.decode(errors="surrogateescape")]


class ReadableLines:
    """Lines as their adapter understands them."""

    def __init__(self, adapter: Adapter, hide: Redactor) -> None:
        self._adapter = adapter
        self._hide = hide
        self._reading = ReaderState()
        self._last = ""  # what was said last: a result often says it again

    def __call__(self, line: OutputLine) -> list[str]:
        happened, self._reading = self._adapter.read(line.text, self._reading)
        clean = (hidden(event, self._hide) for event in happened)
        return [text for event in clean for text in self._event(event, line)]

    def _event(self, event: Event, line: OutputLine) -> list[str]:
        match event:
            case events.TextEvent(text):
                self._last = text.strip()
                return text.splitlines()
            case events.ToolEvent(name, detail):
                return list_report_lines({"type": "tool", "name": name, "detail": detail})
            case events.RateLimit(text=text):
                return list_report_lines({"type": "rate_limit", "text": text})
            case events.Retrying(text=text):
                return list_report_lines({"type": "retrying", "text": text})
            case events.Error(text=text):
                return list_report_lines({"type": "error", "text": text})
            case events.Result(ok=ok, text=text) if text.strip() != self._last:
                mark = "✓" if ok else "✗"
                return [f"{mark} {one}" for one in text.splitlines()]
            case events.Unknown() if json_lines.decode(line.text) is None:
                return [json_lines.plain(line.text)]  # a warning, a progress bar: no record of ours
        return []


class TaskLog(Struct, frozen=True, kw_only=True, dict=True):
    """Where the output of a task's attempts is, and how it is read."""

    project: Project
    store: Store
    task: Task
    stream: Stream
    raw: bool

    @cached_property
    def home(self) -> str:
        """Whose attempts they are: the identity of the store."""
        return identity(self.store)

    @property
    def plain(self) -> bool:
        return self.raw or self.stream == attempt_files.STDERR

    def reader(self, adapter: str) -> Told:
        """What makes text of lines."""
        if self.plain:
            return raw
        return ReadableLines(ADAPTERS[adapter], _hiding(self.project, self.task.agent or ""))

    def attempts(self) -> list[Attempt]:
        return list_attempts(self.store, self.task.id)

    def get_attempt(self, number: int | None) -> Attempt:
        """One attempt, or the latest."""
        known = self.attempts()
        if not known:
            name = describe_task(self.task)
            raise Refused(f"{name} is {self.task.state}: it has not been started yet.")
        for one in known:
            if number in (None, one.number):
                return known[-1] if number is None else one
        raise InputError(
            f"{describe_task(self.task)} has no attempt {number}; its latest is {known[-1].number}."
        )

    def read(self, attempt: Attempt) -> Iterator[LogLine]:
        """All that an attempt has printed so far."""
        found = OutputCursor(self, attempt).look(ended=True)
        return iter(self._reported(attempt)) if found is None else found

    def _reported(self, attempt: Attempt) -> list[LogLine]:
        said = [
            text
            for event in history(self.store, self.task.id)
            if event.kind == "progress" and event.data.get("attempt") == attempt.number
            for one in event.data.get("events", ())
            for text in list_report_lines(one)
        ]
        if not said or self.plain:
            raise Refused(
                f"The output of attempt {attempt.number} of task {attempt.task} is not here: it "
                f"ran as {attempt.worker}, or has been cleaned up."
            )
        return [LogLine(attempt=attempt.number, text=text) for text in said]

    def follow(self, number: int | None) -> Iterator[LogLine]:
        """What is printed until the task ends or needs a person; one attempt, until that ends."""
        first = number or max((one.number for one in self.attempts()), default=1)
        reading: dict[int, OutputCursor] = {}
        away = ""  # why the server was last not there
        with self.store.listen("events") as listener:
            while True:
                try:
                    state = get_task(self.store, self.task.id).state
                    wanted = [
                        one
                        for one in self.attempts()
                        if one.number >= first and number in (None, one.number)
                    ]
                    for attempt in wanted:
                        output = reading.setdefault(attempt.number, OutputCursor(self, attempt))
                        yield from output.look(ended=attempt.ended is not None) or ()
                except NoAnswer as error:  # goes on when the server is back
                    if away != str(error):
                        log.warning("what is printed cannot be seen just now: %s", error)
                    away = str(error)
                    listener.wait(_AWAY)
                    continue
                away = ""
                ended = number is not None and all(one.ended is not None for one in wanted)
                if ended or state in TERMINAL or state is State.BLOCKED:
                    return
                listener.wait(LOOK)
