"""The arguments of the tools, with their bounds; other arguments are refused.

Clients show the descriptions to a model before it calls a tool.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from weft import bounds
from weft.api.fields import (
    AckText,
    ClaimedPaths,
    MemberFields,
    Name,
    Number,
    Reason,
    SentFields,
    TaskFields,
    Text,
)
from weft.model import State

Me = Annotated[
    Name | None,
    Field(description="Your id from join_swarm. Leave it out unless your token has several."),
]
Fence = Annotated[
    Number | None,
    Field(
        description="The fence you were given with the task. Leave it out if weft started you: "
        "then it is your own task's."
    ),
]
Ack = Annotated[
    AckText | None,
    Field(description="The `ack` of your last answer; its messages and news do not come again."),
]


class JoinSwarm(MemberFields):
    me: Annotated[
        Name | None, Field(description="Your id from before, to come back as the same member.")
    ] = None


class MyAgentInfo(SentFields):
    me: Me = None


class GetSwarm(SentFields):
    pass


class SendTask(TaskFields):
    me: Me = None


class GetTasks(SentFields):
    state: State | None = None
    agent: Annotated[Name | None, Field(description="Only tasks for this agent.")] = None
    worker: Annotated[Name | None, Field(description="Only tasks this member holds.")] = None
    run: Annotated[Name | None, Field(description="Only tasks of this run.")] = None
    mine: Annotated[bool, Field(description="Only tasks that you sent.")] = False
    after: Annotated[
        int,
        Field(
            ge=0, le=bounds.NUMBER, description="The `next` of the page before; 0 for the first."
        ),
    ] = 0
    most: Annotated[int, Field(ge=1, le=100)] = 20


class GetTask(SentFields):
    task: Annotated[
        Number | None, Field(description="Its number. Left out: the task weft started you for.")
    ] = None


class TaskAction(SentFields):
    action: Annotated[
        Literal["claim", "release", "accept", "reject"],
        Field(
            description="claim a ready task; release a task you hold, for other members; accept or "
            "reject a task you were offered."
        ),
    ]
    task: Annotated[Number, Field(description="Its number.")]
    reason: Annotated[Reason, Field(description="Why, for release and reject.")] = ""
    me: Me = None


class PollTask(SentFields):
    wait_ms: Annotated[
        int, Field(ge=0, le=60_000, description="How long to wait, in milliseconds.")
    ] = 20_000
    ack: Ack = None
    me: Me = None


class StoreProgress(SentFields):
    status: Annotated[
        Literal["progress", "completed", "failed"],
        Field(description="completed and failed end the task; the first of them counts."),
    ] = "progress"
    text: Annotated[Text, Field(description="Your progress so far, or the result.")]
    fence: Fence = None
    ack: Ack = None


class ClaimFiles(SentFields):
    files: ClaimedPaths
    fence: Fence = None


class ReportWork(SentFields):
    work: Annotated[Reason, Field(min_length=1, description="What is to be done, in a sentence.")]
    text: Annotated[Reason, Field(description="More about it: where, and how you noticed.")] = ""
    fence: Fence = None


class HandOver(SentFields):
    agent: Annotated[Name, Field(description="The next agent, from your prompt.")]
    note: Annotated[
        str, Field(max_length=16_000, description="For the next agent: the state, the next thing.")
    ] = ""
    args: Annotated[
        dict[str, str | int | float | bool | list[str]],
        Field(max_length=20, description="The arguments that the next agent asks for."),
    ] = Field(default_factory=dict)


class Ask(SentFields):
    question: Annotated[str, Field(min_length=1, max_length=2_000)]
    options: Annotated[
        list[str], Field(max_length=10, description="Answers to choose from, if there are some.")
    ] = Field(default_factory=list)


class Sleep(SentFields):
    until: Annotated[
        str,
        Field(
            min_length=1,
            max_length=200,
            description="`2h`, `2026-11-17T09:00Z`, `trunk moved` or `task 12 done`.",
        ),
    ]
