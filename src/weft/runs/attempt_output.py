"""The output of agents, read from the directories of their attempts.

The output of an attempt on another host stays there; its stored reports, which hold less, are read
instead.
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
from weft.agents.adapters.adapter import Adapter, ReaderState
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
from weft.store.event_log import history
from weft.store.limit_table import identity
from weft.store.server_operations import hosted
from weft.store.tasks import get_task, list_attempts
from weft.words import full_label, task_state

log = logging.getLogger(__name__)

LOOK: Final = 0.25  # seconds between looks at an output that grows
_PROMPT: Final = 1 << 20  # bytes of a prompt that are shown
_AWAY: Final = 1.0  # seconds before a server is asked again that was not there

Stream = Literal["stdout", "stderr"]
LineReader = Callable[[OutputLine], list[str]]


class LogLine(Struct, frozen=True, kw_only=True):
    attempt: int
    text: str


class OutputPiece(Struct, frozen=True, kw_only=True):
    """A part of an attempt's output, as its program printed it."""

    adapter: str  # that understands it
    lines: tuple[OutputLine, ...]
    more: bool  # there is more by now


class AttemptName(Struct, frozen=True, kw_only=True):
    task: int
    number: int


@hosted("read")
def read_piece(
    project: Project, store: str, attempt: AttemptName, *, stream: Stream, offset: int, ended: bool
) -> OutputPiece | None:
    """Return the output after an offset; None if the attempt ran on another host.

    `store` is the identity of the store. The last line of an agent that has `ended` may lack its
    newline.
    """
    if not store.isalnum() or offset < 0:
        raise InputError(f"There is no output {store[:100]!r} from {offset} on.")
    directory = home(_common(project.root), store) / f"{attempt.task}.{attempt.number}"
    ordered = start_record.find(directory)
    if ordered is None:
        return None
    tail = Tail(directory / stream, offset)
    printed = next((lines for lines in tail.rest() if lines), []) if ended else _next(tail)
    hide = make_redactor(project, ordered.agent)
    clean = zip(printed, shown(printed, hide), strict=True)
    lines = tuple(line._replace(text=text) for line, text in clean)
    return OutputPiece(adapter=ordered.adapter, lines=lines, more=tail.is_behind())


def read_prompt(log: TaskLog, attempt: Attempt) -> str:
    """Return the prompt that an agent of this host was given; '' if it is not here."""
    directory = home(_common(log.project.root), log.home) / f"{attempt.task}.{attempt.number}"
    try:
        with (directory / attempt_files.STDIN).open("rb") as file:
            given = file.read(_PROMPT)
    except OSError:
        return ""
    text = given.decode(errors="replace")
    return make_redactor(log.project, attempt.agent or "").redact_text(text)


def make_redactor(project: Project, agent: str) -> Redactor:
    """Make a redactor for an agent's secrets, as far as this process's environment has them."""
    values = list_secrets(project.environment, project.config.gate.env)
    with suppress(InputError):  # its file is gone or broken: secrets known by name remain
        values += secrets_of(read_agent(project.root, agent), project.environment)
    return Redactor(values)


@cache
def _common(root: Path) -> Path:
    return git.common_directory(root)


def _next(tail: Tail) -> list[OutputLine]:
    """Read the next complete lines; a long line takes several looks."""
    while not (lines := tail.lines()) and tail.is_behind():
        pass
    return lines


class OutputCursor:
    """The output of an attempt, from its first line on."""

    def __init__(self, log: TaskLog, attempt: Attempt) -> None:
        self._log = log
        self._attempt = AttemptName(task=attempt.task, number=attempt.number)
        self._reader: LineReader | None = None
        self._offset = 0
        self._over = False  # its agent had ended, and all was read

    def look(self, *, ended: bool) -> Iterator[LogLine] | None:
        """Return the lines since the last look; None if the attempt ran on another host."""
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
            if self._reader is None:
                self._reader = self._log.reader(piece.adapter)
            for line in piece.lines:
                self._offset = line.end
                for text in self._reader(line):
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
        self._last = ""  # the latest text: a result often repeats it

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
                return [f"{mark} {line}" for line in text.splitlines()]
            case events.Unknown() if json_lines.decode(line.text) is None:
                return [json_lines.plain(line.text)]  # a warning, a progress bar: no record of ours
        return []


class TaskLog(Struct, frozen=True, kw_only=True, dict=True):
    """The output of a task's attempts."""

    project: Project
    store: Store
    task: Task
    stream: Stream
    raw: bool

    @cached_property
    def home(self) -> str:
        """The identity of the store, which names the directory of its attempts."""
        return identity(self.store)

    @property
    def plain(self) -> bool:
        return self.raw or self.stream == attempt_files.STDERR

    def reader(self, adapter: str) -> LineReader:
        if self.plain:
            return raw
        return ReadableLines(ADAPTERS[adapter], make_redactor(self.project, self.task.agent or ""))

    def attempts(self) -> list[Attempt]:
        return list_attempts(self.store, self.task.id)

    def get_attempt(self, number: int | None) -> Attempt:
        """Return the attempt with this number, or the latest."""
        known = self.attempts()
        if not known:
            name = describe_task(self.task)
            raise Refused(f"{name} is {task_state(self.task)}: it has not been started yet.")
        for attempt in known:
            if number in (None, attempt.number):
                return known[-1] if number is None else attempt
        raise InputError(
            f"{describe_task(self.task)} has no attempt {number}; its latest is {known[-1].number}."
        )

    def read(self, attempt: Attempt) -> Iterator[LogLine]:
        """Return the lines of an attempt so far."""
        lines = OutputCursor(self, attempt).look(ended=True)
        return iter(self._reported(attempt)) if lines is None else lines

    def _reported(self, attempt: Attempt) -> list[LogLine]:
        lines = [
            text
            for event in history(self.store, self.task.id)
            if event.kind == "progress" and event.data.get("attempt") == attempt.number
            for report in event.data.get("events", ())
            for text in list_report_lines(report)
        ]
        if not lines or self.plain:
            raise Refused(
                f"The output of attempt {attempt.number} of task {full_label(self.task)} is not "
                f"here: it ran as {attempt.worker}, or `weft clean` has removed it."
            )
        return [LogLine(attempt=attempt.number, text=text) for text in lines]

    def follow(self, number: int | None) -> Iterator[LogLine]:
        """Yield new lines until the task ends or needs a person, or until attempt `number` ends."""
        first = number or max((attempt.number for attempt in self.attempts()), default=1)
        reading: dict[int, OutputCursor] = {}
        away = ""  # the error of a server that does not answer
        with self.store.listen("events") as listener:
            while True:
                try:
                    state = get_task(self.store, self.task.id).state
                    wanted = [
                        attempt
                        for attempt in self.attempts()
                        if attempt.number >= first and number in (None, attempt.number)
                    ]
                    for attempt in wanted:
                        output = reading.setdefault(attempt.number, OutputCursor(self, attempt))
                        yield from output.look(ended=attempt.ended is not None) or ()
                except NoAnswer as error:  # goes on when the server is back
                    if away != str(error):
                        log.warning("cannot read the output of the task just now: %s", error)
                    away = str(error)
                    listener.wait(_AWAY)
                    continue
                away = ""
                ended = number is not None and all(attempt.ended is not None for attempt in wanted)
                if ended or state in TERMINAL or state is State.BLOCKED:
                    return
                listener.wait(LOOK)
