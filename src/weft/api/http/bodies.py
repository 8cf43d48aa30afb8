"""What may be sent: the bodies of requests, with their bounds."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from weft import bounds
from weft.errors import InputError
from weft.model import Class, ErrorClass, Priority
from weft.runs.submission import Wishes, micro_dollars
from weft.swarm.sent_plan import Format, NewPlan
from weft.swarm.swarm_records import NewWork, TaskResult

LONGEST_WAIT: Final = 300_000  # milliseconds
LONGEST_PAGE: Final = 200
_DETAILS: Final = 64  # names of a task's details

Name = Annotated[str, Field(min_length=1, max_length=bounds.NAME)]
Text = Annotated[str, Field(max_length=bounds.TEXT)]
Short = Annotated[str, Field(max_length=bounds.REASON)]
FilePath = Annotated[str, Field(min_length=1, max_length=bounds.PATH)]
Number = Annotated[int, Field(ge=1, le=bounds.NUMBER)]
Amount = Annotated[int, Field(ge=0, le=bounds.NUMBER)]
TaskNumber = Annotated[int, Path(ge=1, le=bounds.NUMBER, description="A task's number.")]
Ack = Annotated[str | None, Query(max_length=bounds.ACK)]
Confirmed = Annotated[str, Field(max_length=bounds.ACK)] | None
Most = Annotated[int, Query(ge=1, le=LONGEST_PAGE, description="How many at once.")]
After = Annotated[
    str | None,
    Query(min_length=1, max_length=200, description="The `after` of the page before."),
]
WaitMs = Annotated[int, Field(ge=0, le=LONGEST_WAIT)]

ClassName = Literal["interactive", "standard", "batch"]
PriorityName = Literal["critical", "high", "normal", "low", "background"]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Join(Body):
    """An agent joins, or comes back: by its id, or by the same name with the same token."""

    name: Name
    id: Name | None = None
    is_lead: bool = False
    role: Annotated[str, Field(max_length=bounds.NAME)] = ""
    capabilities: Annotated[list[Name], Field(max_length=bounds.CAPABILITIES)] = []
    max_tasks: Annotated[int, Field(ge=1, le=bounds.TASKS)] | None = Field(
        default=None, description="Default: MAX_CONCURRENT_TASKS of the server, or 1."
    )


class Poll(Body):
    """Wait for something to do. A task is claimed for the agent before it is returned."""

    wait_ms: WaitMs = 60_000
    ack: Confirmed = Field(default=None, description="The ack of what was returned before.")
    holding: Annotated[list[Number], Field(max_length=100)] | None = Field(
        default=None, description="The fences it knows of: what it was given and never got is told."
    )


class NewTaskBody(Body):
    """A task: for everybody, or for one agent."""

    text: Annotated[str, Field(min_length=1, max_length=bounds.TEXT)]
    title: Annotated[str, Field(max_length=bounds.TITLE)] = ""
    to: Name | None = Field(default=None, description="The agent it is for, by id or name.")
    how: Literal["pool", "assign", "queue", "offer", "prefer"] = "pool"
    needs: Annotated[list[Number], Field(max_length=bounds.NEEDS)] = []
    priority: PriorityName = "normal"
    klass: ClassName = Field(default="standard", alias="class")
    files: Annotated[list[FilePath], Field(max_length=bounds.FILES)] = []
    agent: Name | None = Field(default=None, description="What whoever takes it must be able to.")
    uses: Annotated[
        dict[Name, Annotated[int, Field(ge=1, le=bounds.NUMBER)]], Field(max_length=20)
    ] = {}
    details: Annotated[dict[Name, JsonValue], Field(max_length=_DETAILS)] = {}
    tenant: Name | None = None
    wait_ms: WaitMs = Field(default=0, description="How long to wait for the agent's capacity.")

    def work(self) -> NewWork:
        if self.how != "pool" and self.to is None:
            raise InputError(f"To {self.how} a task, say to whom (`to`).")
        return NewWork(
            text=self.text,
            title=self.title,
            to=self.to,
            how=self.how,
            needs=tuple(self.needs),
            priority=Priority[self.priority.upper()],
            klass=Class[self.klass.upper()],
            files=tuple(self.files),
            agent=self.agent,
            uses=self.uses,
            attached=self.details,
            tenant=self.tenant,
        )


class ReasonBody(Body):
    reason: Short = ""


class Let(Body):
    fence: Number
    reason: Short = ""


class ProgressBody(Body):
    fence: Number
    text: Text = ""
    data: Annotated[dict[str, JsonValue], Field(max_length=_DETAILS)] | None = None
    ack: Confirmed = None


class Finish(Body):
    """The one end of an attempt: the first that arrives counts."""

    fence: Number
    status: Literal["completed", "failed"]
    text: Text = Field(default="", description="The result; of a failure, why.")
    kind: Annotated[ErrorClass, Field(strict=False)] = ErrorClass.OTHER
    reset: Annotated[float, Field(ge=0, le=bounds.NUMBER)] | None = None
    tokens: Amount = 0
    micro_usd: Amount = 0
    spent: Annotated[dict[Name, Amount], Field(max_length=20)] = {}

    def result(self) -> TaskResult:
        return TaskResult(
            status=self.status,
            text=self.text,
            kind=self.kind,
            reset=self.reset,
            tokens=self.tokens,
            micro_usd=self.micro_usd,
            spent=self.spent,
        )


class FilesBody(Body):
    fence: Number
    files: Annotated[list[FilePath], Field(min_length=1, max_length=bounds.FILES)]


class NewMessage(Body):
    text: Annotated[str, Field(min_length=1, max_length=bounds.MESSAGE)]


class Drain(Body):
    undo: bool = False


class NewLimit(Body):
    capacity: Annotated[int, Field(ge=0, le=2**50)]


class NewToken(Body):
    name: Name
    scopes: Annotated[list[Literal["read", "work", "admin"]], Field(min_length=1, max_length=3)]
    tenant: Name | None = None
    agents: Annotated[list[Name], Field(max_length=100)] = Field(
        default=[],
        description="The agents it sends work to, `*` for all; none: those that are `open: yes`.",
    )
    expires_in: Annotated[float, Field(gt=0, le=bounds.NUMBER)] | None = Field(
        default=None, description="Seconds; never, if left out."
    )


class NewRunBody(Body):
    """A plan, as text, to be run on the server's repository; for the rest, see `weft run -h`."""

    plan: Annotated[str, Field(min_length=1, max_length=bounds.PLAN)]
    name: Annotated[str, Field(pattern=bounds.RUN_NAME)] = "plan"
    format: Format | None = Field(
        default=None, description="What the plan is; left out, its first line tells."
    )
    agent: Name = Field(default="implement", description="Who does tasks that name nobody.")
    stages: Annotated[list[Name], Field(max_length=bounds.STAGES)] = Field(
        default=[], description="Of tasks that name none, such as test and implement."
    )
    slots: Annotated[int, Field(ge=1, le=bounds.SLOTS)] | None = Field(
        default=None, description="Agents at a time."
    )
    base: Annotated[str, Field(pattern=rf"^[^\s\x00-\x1f\x7f]{{1,{bounds.REF}}}$")] = Field(
        default="HEAD", description="The commit or branch it starts from."
    )
    budget_usd: Annotated[float, Field(gt=0, lt=bounds.DOLLARS)] | None = Field(
        default=None, description="What the whole run may spend."
    )

    def new(self) -> NewPlan:
        dollars = self.budget_usd
        return NewPlan(
            text=self.plan,
            name=self.name,
            format=self.format,
            wishes=Wishes(
                agent=self.agent,
                stages=tuple(self.stages),
                slots=self.slots,
                base=self.base,
                micro_usd=None if dollars is None else micro_dollars(dollars),
            ),
        )
