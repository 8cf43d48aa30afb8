"""The step that an agent proposes at its end: hand the task over, ask a person, or sleep.

A program with weft's tools proposes by a tool. Any other program ends its output with a block:

```weft
{"step": "hand_over", "agent": "review", "note": "Done, please look.", "args": {"issue": "7"}}
```

An agent's words are hostile input: bounded, strictly parsed, and checked against the agent files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from weft.agents.agent import Agent
from weft.agents.file_values import Unexpected, parse_seconds
from weft.agents.frontmatter import Field
from weft.errors import InputError
from weft.model import ArgValue
from weft.paths import normalise

LANGUAGE: Final = "weft"
MOST_REFUSED: Final = 3
"""Refused proposals of a task that go back into the session of its agent."""

LONGEST_SLEEP: Final = 7 * 86_400.0
"""Seconds after which a task wakes although the event it sleeps for has not come."""

_LONGEST: Final = 64_000  # characters of a block
_FENCE: Final = "```"

Short = Annotated[str, Meta(min_length=1, max_length=200)]
Line = Annotated[str, Meta(max_length=4_000)]
Value = Line | Annotated[int, Meta(ge=-(2**53), le=2**53)] | float | bool | list[Short]


class HandOverStep(
    Struct, frozen=True, kw_only=True, tag="hand_over", tag_field="step", forbid_unknown_fields=True
):
    """A hand-over of the task to another agent."""

    agent: Short
    note: Annotated[str, Meta(max_length=16_000)] = ""
    args: Annotated[dict[Short, Value], Meta(max_length=20)] = {}


class AskStep(
    Struct, frozen=True, kw_only=True, tag="ask", tag_field="step", forbid_unknown_fields=True
):
    """A question to a person, with answers to choose from or without."""

    question: Annotated[str, Meta(min_length=1, max_length=2_000)]
    options: Annotated[list[Short], Meta(max_length=10)] = []


class SleepStep(
    Struct, frozen=True, kw_only=True, tag="sleep", tag_field="step", forbid_unknown_fields=True
):
    """A wait of the task for a time or an event."""

    until: Short


Proposal = HandOverStep | AskStep | SleepStep
_DECODER: Final[msgspec.json.Decoder[Proposal]] = msgspec.json.Decoder(Proposal)


class WakeTime(Struct, frozen=True, kw_only=True):
    """The end of a sleep."""

    at: float  # the latest time
    trunk: bool = False  # or as soon as trunk moves
    task: str = ""  # or as soon as this task has ended


def split_block(text: str) -> tuple[str, str | None]:
    """Return a text without the block at its end, and the content of the block; None: no block."""
    body = text.rstrip()
    if not body.endswith(f"\n{_FENCE}"):
        return text, None
    start = body.rfind(f"{_FENCE}{LANGUAGE}", 0, len(body) - len(_FENCE))
    opening, newline, content = body[start:-4].partition("\n") if start >= 0 else ("", "", "")
    at_line_start = start == 0 or (start > 0 and body[start - 1] == "\n")
    if not at_line_start or not newline or opening.rstrip() != f"{_FENCE}{LANGUAGE}":
        return text, None
    return body[:start].rstrip(), content


def parse_block(content: str) -> Proposal:
    """Read the content of a block; raise InputError that says how it is written."""
    if len(content) > _LONGEST:
        raise InputError(f"The block is longer than {_LONGEST:,} characters.")
    return decode(content)


def decode(content: str | bytes) -> Proposal:
    try:
        return _DECODER.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise InputError(f"The block `{LANGUAGE}` cannot be read: {error}. {EXAMPLE}") from error


def convert(value: Mapping[str, object]) -> Proposal:
    """Read a proposal from the arguments of a tool or from an event."""
    try:
        step: Proposal = msgspec.convert(value, Proposal)
    except msgspec.ValidationError as error:
        raise InputError(f"The proposal cannot be read: {error}.") from error
    return step


EXAMPLE: Final = (
    'It is one JSON object: {"step": "hand_over", "agent": "NAME", "note": "…", "args": {}} or '
    '{"step": "ask", "question": "…", "options": []} or {"step": "sleep", "until": "2h"}.'
)


def find_problem(step: HandOverStep, giver: Agent, receiver: Agent | None) -> str:
    """Return the reason to refuse a hand-over; empty if the agent files allow it."""
    if step.agent not in giver.hands_to or receiver is None:
        allowed = ", ".join(giver.hands_to) or "no agent"
        return f"{giver.name} may not hand over to {step.agent!r}, only to {allowed}."
    if unknown := [name for name in step.args if name not in receiver.takes]:
        known = ", ".join(receiver.takes) or "none"
        return f"{receiver.name} has no argument {unknown[0]!r}; its arguments are: {known}."
    if missing := [name for name in receiver.takes if name not in step.args]:
        return f"{receiver.name} needs the argument {missing[0]!r} ({receiver.takes[missing[0]]})."
    wrong = [name for name, kind in receiver.takes.items() if not _fits(step.args[name], kind)]
    if wrong:
        return f"The argument {wrong[0]!r} of {receiver.name} is a {receiver.takes[wrong[0]]}."
    return _find_bad_path(claimed_files(step, receiver))


def _fits(value: object, kind: str) -> bool:
    match kind:
        case "text":
            return isinstance(value, str)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
    return isinstance(value, list) and (kind == "list" or bool(value))


def claimed_files(step: HandOverStep, receiver: Agent) -> tuple[str, ...]:
    """Return the files that the task claims by the arguments of a hand-over."""
    return tuple(
        file
        for name, kind in receiver.takes.items()
        if kind == "files" and isinstance(files := step.args.get(name), list)
        for file in files
    )


def _find_bad_path(files: tuple[str, ...]) -> str:
    for file in files:
        try:
            normalise(file)
        except InputError as error:
            return str(error)
    return ""


def stored_args(step: HandOverStep) -> dict[str, ArgValue]:
    """Return the arguments as the store keeps them."""
    return {name: _storable(value) for name, value in step.args.items()}


def _storable(value: str | float | bool | list[str]) -> ArgValue:
    if isinstance(value, list):
        return tuple(item.replace("\0", "\ufffd") for item in value)
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


_TASK: Final = re.compile(r"task ([A-Za-z0-9][A-Za-z0-9_./-]{0,99}) (?:is )?done")


def parse_until(text: str, *, now: float) -> WakeTime:
    """Read the end of a sleep; raise InputError with the forms it may have."""
    words = " ".join(text.split())
    latest = now + LONGEST_SLEEP
    if words == "trunk moved":
        return WakeTime(at=latest, trunk=True)
    if match := _TASK.fullmatch(words):
        return WakeTime(at=latest, task=match[1])
    at = _find_time(words, now)
    if at is None:
        raise InputError(
            f"{text!r} is no end of a sleep; it is a time such as 2h or 2026-11-17T09:00Z, "
            "`trunk moved`, or `task 12 done`."
        )
    if not now < at <= latest:
        raise InputError(f"{text!r} is not within the next {LONGEST_SLEEP / 86_400:.0f} days.")
    return WakeTime(at=at)


def _find_time(words: str, now: float) -> float | None:
    try:
        return now + parse_seconds(Field(words, 1))
    except Unexpected:
        pass
    try:
        moment = datetime.fromisoformat(words)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()
