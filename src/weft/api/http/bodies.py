"""The bodies of requests, with their bounds."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import Path, Query
from pydantic import ConfigDict, Field, JsonValue

from weft import bounds
from weft.api.fields import (
    AckText,
    ClaimedPaths,
    MemberFields,
    Name,
    Number,
    PlanFields,
    Reason,
    SentFields,
    TaskFields,
)
from weft.model import ErrorClass
from weft.operations.dispatch import Format
from weft.operations.member_records import TaskResult

LONGEST_WAIT: Final = 300_000  # milliseconds
LONGEST_PAGE: Final = 200
_ATTACHED: Final = 64  # names in a JSON object of a client's own

LongText = Annotated[str, Field(max_length=bounds.TEXT)]
Amount = Annotated[int, Field(ge=0, le=bounds.NUMBER)]
TaskNumber = Annotated[int, Path(ge=1, le=bounds.NUMBER, description="A task's number.")]
Ack = Annotated[str | None, Query(max_length=bounds.ACK)]
Most = Annotated[int, Query(ge=1, le=LONGEST_PAGE, description="How many at once.")]
After = Annotated[
    str | None,
    Query(min_length=1, max_length=200, description="The `after` of the page before."),
]
WaitMs = Annotated[int, Field(ge=0, le=LONGEST_WAIT)]

_STRICT: Final = ConfigDict(strict=True)


class Body(SentFields):
    model_config = _STRICT


class Join(MemberFields):
    """A member joins, or comes back: by its id, or by the same name with the same token."""

    model_config = _STRICT

    id: Name | None = None


class Poll(Body):
    """Wait for work. A task is claimed for the member before it is returned."""

    wait_ms: WaitMs = 60_000
    ack: AckText | None = Field(default=None, description="The ack of the answer before.")
    holding: Annotated[list[Number], Field(max_length=100)] | None = Field(
        default=None,
        description="The fences it knows; a granted task that never arrived comes again.",
    )


class NewTaskBody(TaskFields):
    """A task for the pool or for a member."""

    model_config = _STRICT

    uses: dict[Name, Number] = Field(default={}, max_length=20)
    attached: Annotated[dict[Name, JsonValue], Field(max_length=_ATTACHED)] = Field(
        default={},
        alias="details",
        description="JSON of your own; the member gets it with the task.",
    )
    tenant: Name | None = None
    wait_ms: WaitMs = Field(default=0, description="How long to wait for the member's capacity.")


class ReasonBody(Body):
    reason: Reason = ""


class Release(Body):
    fence: Number
    reason: Reason = ""


class ProgressBody(Body):
    fence: Number
    text: LongText = ""
    data: Annotated[dict[str, JsonValue], Field(max_length=_ATTACHED)] | None = None
    ack: AckText | None = None


class Finish(Body):
    """The end of an attempt; the first end that arrives counts."""

    fence: Number
    status: Literal["completed", "failed"]
    text: LongText = Field(default="", description="The result; of a failure, why.")
    kind: Annotated[ErrorClass, Field(strict=False)] = ErrorClass.OTHER
    reset: Annotated[float, Field(ge=0, le=bounds.NUMBER)] | None = None
    tokens: Amount = 0
    micro_usd: Amount = 0
    spent: dict[Name, Amount] = Field(default={}, max_length=20)

    def result(self) -> TaskResult:
        return TaskResult(**self.values_for(TaskResult))


class FilesBody(Body):
    fence: Number
    files: ClaimedPaths


class NewMessage(Body):
    text: Annotated[str, Field(min_length=1, max_length=bounds.MESSAGE)]


class NewToken(Body):
    name: Name
    scopes: Annotated[list[Literal["read", "work", "admin"]], Field(min_length=1, max_length=3)]
    tenant: Name | None = Field(
        default=None, description="Its tasks take turns with those of other tenants."
    )
    agents: Annotated[list[Name], Field(max_length=100)] = Field(
        default=[],
        description="The agents it sends work to, `*` for all; none: those that are `open: yes`.",
    )
    expires_in: Annotated[float, Field(gt=0, le=bounds.NUMBER)] | None = Field(
        default=None, description="Seconds; never, if left out."
    )


class NewRunBody(PlanFields):
    """A plan, as text, to be run on the server's repository; for the rest, see `weft run -h`."""

    model_config = _STRICT

    format: Format | None = Field(
        default=None, description="The plan's format; left out, its first line tells."
    )
    base: Annotated[str, Field(pattern=rf"^[^\s\x00-\x1f\x7f]{{1,{bounds.REF}}}$")] = Field(
        default="HEAD", description="The commit or branch it starts from."
    )
