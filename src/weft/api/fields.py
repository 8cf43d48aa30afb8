"""Fields and bodies that a client sends, with their bounds; HTTP and MCP share the fields.

MCP clients show the descriptions to a model before it calls a tool.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import Path, Query
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from weft import bounds, host_labels
from weft.model import Class, Priority
from weft.operations.member_records import NewWork

Name = Annotated[str, Field(min_length=1, max_length=bounds.NAME)]
Text = Annotated[str, Field(min_length=1, max_length=bounds.TEXT)]
Label = Annotated[str, Field(pattern=host_labels.PATTERN)]
Reason = Annotated[str, Field(max_length=bounds.REASON)]
FilePath = Annotated[str, Field(min_length=1, max_length=bounds.PATH)]
Number = Annotated[int, Field(ge=1, le=bounds.NUMBER)]
AckText = Annotated[str, Field(max_length=bounds.ACK)]
ClaimedPaths = Annotated[
    list[FilePath],
    Field(
        min_length=1,
        max_length=bounds.FILES,
        description="Paths or patterns, such as `src/a.py`.",
    ),
]

ClassName = Literal["interactive", "standard", "batch"]
PriorityName = Literal["critical", "high", "normal", "low", "background"]


class SentFields(BaseModel):
    model_config = ConfigDict(extra="forbid")

    def values_for(self, record: type[Struct]) -> dict[str, Any]:
        """Return the fields that a record has too, under the same names."""
        shared = [name for name in record.__struct_fields__ if name in type(self).model_fields]
        values = {name: getattr(self, name) for name in shared}
        return {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }


class MemberFields(SentFields):
    name: Annotated[Name, Field(description="The name that other members call you by.")]
    role: Annotated[
        str, Field(max_length=bounds.NAME, description="Your purpose, in a few words.")
    ] = ""
    capabilities: Annotated[
        list[Name],
        Field(
            max_length=bounds.CAPABILITIES,
            description="Kinds of tasks you can do, such as `python`.",
        ),
    ] = []
    is_lead: Annotated[
        bool, Field(description="Whether you hand out work and want to hear how it ends.")
    ] = False
    max_tasks: Annotated[int, Field(ge=1, le=bounds.TASKS)] | None = Field(
        default=None,
        description="Tasks you work on at once; default: MAX_CONCURRENT_TASKS of the server, or 1.",
    )

    def description(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in MemberFields.model_fields}


class TaskFields(SentFields):
    text: Annotated[Text, Field(description="Everything that the agent or member has to know.")]
    title: Annotated[str, Field(max_length=bounds.TITLE, description="The same in a line.")] = ""
    agent: Annotated[
        Name | None,
        Field(
            description="The agent file or capability that shall do it, such as `implement`. "
            "Left out, only members of the swarm take it."
        ),
    ] = None
    to: Annotated[
        Name | None, Field(description="A member, by id or name, for every `how` but pool.")
    ] = None
    how: Annotated[
        Literal["pool", "assign", "queue", "offer", "prefer"],
        Field(
            description="pool: any free member. assign: `to`, who must have room now. queue: `to`, "
            "when there is room. offer: `to` may decline. prefer: `to`, but another member when "
            "it stays busy."
        ),
    ] = "pool"
    needs: Annotated[
        list[Number],
        Field(max_length=bounds.NEEDS, description="Tasks that must be done before it starts."),
    ] = []
    files: Annotated[
        list[FilePath],
        Field(
            max_length=bounds.FILES,
            description="Paths or patterns it may change, such as `src/**`. None: it may change "
            "nothing, and its last message is the result.",
        ),
    ] = []
    needs_labels: Annotated[
        list[Label],
        Field(
            max_length=host_labels.MOST,
            description="Labels that the worker of its agent must have, such as `gpu`.",
        ),
    ] = []
    priority: PriorityName = "normal"
    klass: Annotated[ClassName, Field(alias="class", description="The kind of hurry.")] = "standard"

    def work(self, *, sender: str | None = None) -> NewWork:
        values = self.values_for(NewWork) | {
            "klass": Class[self.klass.upper()],
            "priority": Priority[self.priority.upper()],
        }
        return NewWork(**values, sender=sender)


LONGEST_WAIT: Final = 300_000  # milliseconds
LONGEST_PAGE: Final = 200
_ATTACHED: Final = 64  # names in a JSON object of a client's own

TaskNumber = Annotated[int, Path(ge=1, le=bounds.NUMBER, description="A task's number.")]
Most = Annotated[int, Query(ge=1, le=LONGEST_PAGE, description="How many at once.")]
WaitMs = Annotated[int, Field(ge=0, le=LONGEST_WAIT)]

_STRICT: Final = ConfigDict(strict=True)


class Body(SentFields):
    model_config = _STRICT


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
