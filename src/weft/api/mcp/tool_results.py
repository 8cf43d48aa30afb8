"""The answers of the tools: records without the fields that a model has no use for.

A model pays for every field it reads. Numbers are called as the tools take them back: a task's
`id` is `task`, the end of a page is `next`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from weft.api.shapes import Face, Shape
from weft.model import MET, Held, Message, Notice, State, Summary, Task
from weft.operations.dispatch import PlanSent
from weft.operations.member_records import Claimed, Member, Offer, Page
from weft.operations.reading import Why


class MyMembers(Struct, frozen=True, kw_only=True):
    """The members of the caller's token, or the task that weft started it for."""

    members: tuple[Member, ...]
    task: int | None
    fence: int | None


class SwarmMembers(Struct, frozen=True, kw_only=True):
    members: tuple[Member, ...]


class PollResult(Struct, frozen=True, kw_only=True):
    kind: str  # task, offer, messages, finished or nothing
    task: Claimed | None
    offer: Offer | None
    messages: tuple[Message, ...]
    finished: tuple[Notice, ...]
    ack: str | None  # for the next poll


class ActionResult(Struct, frozen=True, kw_only=True):
    task: int
    action: str
    claimed: Claimed | None


class ProgressResult(Struct, frozen=True, kw_only=True):
    task: int | None
    state: State
    messages: tuple[Message, ...]
    ack: str | None


class FilesResult(Struct, frozen=True, kw_only=True):
    granted: bool
    held: Mapping[str, int]  # the files that other tasks hold, with the number of the task


class ReportedWork(Struct, frozen=True, kw_only=True):
    task: int  # that it was found in
    work: str


class StepResult(Struct, frozen=True, kw_only=True):
    task: int
    step: str


def _current(member: Member) -> int:
    return member.capacity.current


def _max(member: Member) -> int:
    return member.capacity.max


def _end(notice: Notice) -> str:
    return notice.result if notice.state in MET and notice.result else notice.reason


def _run(sent: PlanSent) -> str:
    return sent.submitted.run


def _numbers(sent: PlanSent) -> Mapping[str, int]:
    return sent.submitted.tasks


UNREAD: Final = frozenset(
    {"repo", "tenant", "request", "attached", "since", "until", "klass", "priority", "stage"}
    | {"demand", "path_seconds", "submitted", "story", "gang", "pinned", "offered_to", "pin_until"}
    | {"created_by"}
)
"""Fields of a task for people and programs; its text tells a model the rest."""

FACE: Final = Face(
    {
        Task: Shape(renamed={"id": "task"}, hidden=UNREAD),
        Summary: Shape(
            name="ListedTask", renamed={"id": "task"}, hidden=UNREAD & {*Summary.__struct_fields__}
        ),
        Page: Shape(renamed={"after": "next"}),
        Member: Shape(
            hidden=frozenset({"seen", "capacity"}),
            computed={"current": _current, "max": _max},
        ),
        Held: Shape(hidden=frozenset({"attempt", "deadline", "current"})),
        Claimed: Shape(hidden=frozenset({"details", "attempt", "deadline", "messages"})),
        Offer: Shape(hidden=frozenset({"until"})),
        Message: Shape(hidden=frozenset({"id", "to_task", "to_worker", "at"})),
        Notice: Shape(
            name="Finished",
            hidden=frozenset({"event", "reason", "result", "at"}),
            computed={"text": _end},
        ),
        Why: Shape(
            name="Reasons", hidden=frozenset({"since", "until", "place", "attempts", "team"})
        ),
        PlanSent: Shape(
            name="SubmittedRun",
            hidden=frozenset({"submitted"}),
            computed={"run": _run, "tasks": _numbers},
        ),
    }
)
