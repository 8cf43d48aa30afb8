"""What agents printed, read from the directories of their attempts.

An attempt that ran on another host left its output there; what it reported to the store is read
instead, which is less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from weft import git
from weft.agents import events, lines
from weft.agents.adapters import ADAPTERS
from weft.agents.adapters.base import Adapter, Reading
from weft.agents.events import Event
from weft.attempt import order
from weft.attempt.site import home
from weft.errors import InputError, Refused
from weft.model import TERMINAL, Attempt, State, Task
from weft.operations.steering import called
from weft.process import records
from weft.process.tail import Line, Tail
from weft.store import Store
from weft.store.events import history
from weft.store.limits import identity
from weft.store.tasks import get_task, list_attempts

LOOK: Final = 0.25  # seconds between looks at an output that grows

Told = Callable[[Line], list[str]]


class Printed(Struct, frozen=True, kw_only=True):
    """One line of an attempt's output."""

    attempt: int
    text: str


class Output:
    """The output of one attempt, from its first line on."""

    def __init__(self, directory: Path, attempt: int, *, stream: str, told: Told) -> None:
        self._attempt = attempt
        self._tail = Tail(directory / stream)
        self._told = told

    def look(self) -> list[Printed]:
        """The complete lines that were printed since the last look."""
        return self._printed(self._tail.lines())

    def look_to_the_end(self) -> Iterator[Printed]:
        """All that is left, for when its agent has ended."""
        for found in self._tail.rest():
            yield from self._printed(found)

    def _printed(self, found: list[Line]) -> list[Printed]:
        return [
            Printed(attempt=self._attempt, text=text) for line in found for text in self._told(line)
        ]


def raw(line: Line) -> list[str]:
    return [line.text.decode(errors="surrogateescape")]


class Readable:
    """Lines as their adapter understands them."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._reading = Reading()
        self._last = ""  # what was said last: a result often says it again

    def __call__(self, line: Line) -> list[str]:
        happened, self._reading = self._adapter.read(line.text, self._reading)
        return [text for event in happened for text in self._event(event, line)]

    def _event(self, event: Event, line: Line) -> list[str]:
        match event:
            case events.Text(text):
                self._last = text.strip()
                return text.splitlines()
            case events.Tool(name, detail):
                return [f"→ {name} {detail}".rstrip()]
            case events.RateLimit(text=text):
                return [f"! rate limit: {text}".rstrip(": ")]
            case events.Retrying(text=text):
                return [f"! tries again: {text}".rstrip(": ")]
            case events.Error(text=text):
                return [f"! {one}" for one in text.splitlines()]
            case events.Result(ok=ok, text=text) if text.strip() != self._last:
                mark = "✓" if ok else "✗"
                return [f"{mark} {one}" for one in text.splitlines()]
            case events.Unknown() if lines.decode(line.text) is None:
                return [lines.plain(line.text)]  # a warning, a progress bar: no record of ours
        return []


class Log(Struct, frozen=True, kw_only=True):
    """Where the output of a task's attempts is, and how it is read."""

    root: Path
    store: Store
    task: Task
    stream: str  # records.STDOUT or records.STDERR
    raw: bool

    def attempts(self) -> list[Attempt]:
        return list_attempts(self.store, self.task.id)

    def get_attempt(self, number: int | None) -> Attempt:
        """One attempt, or the latest."""
        known = self.attempts()
        if not known:
            raise Refused(f"{called(self.task)} is {self.task.state}: it has not been started yet.")
        for one in known:
            if number in (None, one.number):
                return known[-1] if number is None else one
        raise InputError(
            f"{called(self.task)} has no attempt {number}; its latest is {known[-1].number}."
        )

    def read(self, attempt: Attempt) -> Iterator[Printed]:
        """All that an attempt has printed so far."""
        output = self.find_output(attempt)
        return iter(self._reported(attempt)) if output is None else output.look_to_the_end()

    def find_output(self, attempt: Attempt) -> Output | None:
        """The output of an attempt, if it ran here."""
        common = git.common_directory(self.root)
        directory = home(common, identity(self.store)) / f"{attempt.task}.{attempt.number}"
        ordered = order.find(directory)
        if ordered is None:
            return None
        plain = self.raw or self.stream == records.STDERR
        told = raw if plain else Readable(ADAPTERS[ordered.adapter])
        return Output(directory, attempt.number, stream=self.stream, told=told)

    def _reported(self, attempt: Attempt) -> list[Printed]:
        said = [
            text
            for event in history(self.store, self.task.id)
            if event.kind == "progress" and event.data.get("attempt") == attempt.number
            for one in event.data.get("events", ())
            for text in reported(one)
        ]
        if not said or self.raw or self.stream == records.STDERR:
            raise Refused(
                f"The output of attempt {attempt.number} of task {attempt.task} is not here: it "
                f"ran as {attempt.worker}, or has been cleaned up."
            )
        return [Printed(attempt=attempt.number, text=text) for text in said]

    def follow(self, number: int | None) -> Iterator[Printed]:
        """What is printed until the task ends or needs a person; one attempt, until that ends."""
        first = number or max((one.number for one in self.attempts()), default=1)
        reading: dict[int, Output] = {}
        with self.store.listen("events") as listener:
            while True:
                state = get_task(self.store, self.task.id).state
                wanted = [
                    one
                    for one in self.attempts()
                    if one.number >= first and number in (None, one.number)
                ]
                for attempt in wanted:
                    yield from self._go_on(attempt, reading)
                ended = number is not None and all(one.ended is not None for one in wanted)
                if ended or state in TERMINAL or state is State.BLOCKED:
                    return
                listener.wait(LOOK)

    def _go_on(self, attempt: Attempt, reading: dict[int, Output]) -> Iterator[Printed]:
        if attempt.number not in reading:
            output = self.find_output(attempt)
            if output is None:
                return
            reading[attempt.number] = output
        output = reading[attempt.number]
        yield from output.look() if attempt.ended is None else output.look_to_the_end()


def reported(said: Mapping[str, Any]) -> list[str]:
    """A part of a report as lines."""
    match said.get("type"):
        case "text":
            return str(said["text"]).splitlines()
        case "tool":
            return [f"→ {said['name']} {said['detail']}".rstrip()]
        case "rate_limit" | "retrying" | "error":
            return [f"! {said['text']}"]
    return []
