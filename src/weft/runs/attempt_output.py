"""The output of agents, read from the directories of their attempts.

The output of an attempt on another host stays there; its stored reports, which hold less, are read
instead. Lines as the program printed them are fetched from the host when a reader wants them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Final, get_args

from msgspec import Struct
from msgspec.structs import replace

from weft import git
from weft.agents import events, json_lines
from weft.agents.adapters import ADAPTERS
from weft.agents.adapters.adapter import Adapter, ReaderState
from weft.agents.events import Event
from weft.attempt import start_record
from weft.attempt.output_reader import hidden, shown
from weft.attempt.start_record import Order
from weft.errors import InputError, NoAnswer, Refused
from weft.model import TERMINAL, Attempt, State, Task
from weft.process import attempt_files
from weft.process.output_tail import OutputLine, Tail
from weft.project.project import Project
from weft.project.site import home, read_agent, secrets_of
from weft.redaction import Redactor, list_secrets
from weft.runs.event_text import list_report_lines
from weft.runs.host_output import AttemptName, OutputPiece, Stream, ask_host
from weft.store import Store
from weft.store.event_log import history, last_event
from weft.store.limit_table import identity
from weft.store.server_operations import hosted
from weft.store.tasks import get_task, list_attempts
from weft.words import describe_task, full_label, task_state

log = logging.getLogger(__name__)

LOOK: Final = 0.25  # seconds between looks at an output that grows
_PROMPT: Final = 1 << 20  # characters of a prompt that are shown
_AWAY: Final = 1.0  # seconds before a server is asked again that was not there

LineReader = Callable[[OutputLine], list[str]]


class LogLine(Struct, frozen=True, kw_only=True):
    attempt: int
    text: str


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
    piece = read_lines(directory, ordered, stream=stream, offset=offset, ended=ended)
    return hide_secrets(piece, make_redactor(project, ordered.agent))


def read_lines(
    directory: Path, order: Order, *, stream: Stream, offset: int, ended: bool
) -> OutputPiece:
    """Read the output after an offset from the directory of an attempt, with its secrets."""
    tail = Tail(directory / stream, offset)
    lines = next((lines for lines in tail.rest() if lines), []) if ended else _next(tail)
    return OutputPiece(adapter=order.adapter, lines=tuple(lines), more=tail.is_behind())


def hide_secrets(piece: OutputPiece, hide: Redactor) -> OutputPiece:
    clean = zip(piece.lines, shown(piece.lines, hide), strict=True)
    return replace(piece, lines=tuple(line._replace(text=text) for line, text in clean))


@hosted("read")
def fetch_piece(
    project: Project, attempt: AttemptName, *, stream: Stream, offset: int, ended: bool
) -> OutputPiece | None:
    """Fetch output of an attempt from its host; return None if that host is this host.

    Raise `Refused` with the place of the output if the host is away or does not answer.
    """
    if stream not in get_args(Stream) or offset < 0:
        raise InputError(f"There is no output {stream[:100]!r} from {offset} on.")
    with project.open_store() as store:
        piece = ask_host(store, attempt, stream=stream, offset=offset, ended=ended)
        if piece is None:
            return None
        agent = get_task(store, attempt.task).agent or ""
    return hide_secrets(piece, make_redactor(project, agent))


def read_prompt(log: TaskLog, attempt: Attempt) -> str:
    """Return the prompt of an attempt, from its host if that is another host.

    Raise `Refused` with the place of the prompt if the host is away or does not answer.
    """
    prompt = ""
    for line in replace(log, stream="stdin", raw=True).read(attempt):
        prompt += f"{line.text}\n"
        if len(prompt) > _PROMPT:
            break
    return prompt.encode(errors="replace").decode()


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
        self._seen: int | None = None  # the last event when reports were read
        self._shown = 0  # reported lines that were returned

    def look(self, *, ended: bool) -> Iterator[LogLine] | None:
        """Return the lines since the last look; None if there is no output of the attempt here."""
        if self._over:
            return iter(())
        piece = self._read(ended)
        return self._reported() if piece is None else self._printed(piece, ended)

    def _read(self, ended: bool) -> OutputPiece | None:
        return self._log.read_output(self._attempt, offset=self._offset, ended=ended)

    def _reported(self) -> Iterator[LogLine] | None:
        """Return the lines that were reported from another host since the last look."""
        if self._log.plain:
            return None
        latest = last_event(self._log.store)
        if latest == self._seen:
            return iter(())
        self._seen = latest
        lines = self._log.list_reported(self._attempt.number)
        if not lines:
            return None
        fresh, self._shown = lines[self._shown :], len(lines)
        return iter([LogLine(attempt=self._attempt.number, text=text) for text in fresh])

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
        if adapter not in ADAPTERS:
            raise InputError(
                f"This weft does not know {adapter!r}; `weft logs --raw` shows its lines."
            )
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
        if lines is None:
            raise self.miss_output(attempt)
        return lines

    def read_output(self, attempt: AttemptName, *, offset: int, ended: bool) -> OutputPiece | None:
        """Read output here, or fetch it from its host if plain lines are wanted."""
        piece = read_piece(
            self.project, self.home, attempt, stream=self.stream, offset=offset, ended=ended
        )
        if piece is None and self.plain:
            return fetch_piece(
                self.project, attempt, stream=self.stream, offset=offset, ended=ended
            )
        return piece

    def miss_output(self, attempt: Attempt) -> Refused:
        return Refused(
            f"The output of attempt {attempt.number} of task {full_label(self.task)} is not "
            f"here: it ran as {attempt.worker}, or `weft clean` has removed it."
        )

    def list_reported(self, number: int) -> list[str]:
        return [
            text
            for event in history(self.store, self.task.id)
            if event.kind == "progress" and event.data.get("attempt") == number
            for report in event.data.get("events", ())
            for text in list_report_lines(report)
        ]

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
