"""What the tools take: every length, number and choice has its bounds, and nothing else is taken.

The descriptions are what a model reads before it calls a tool.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from weft import bounds

Name = Annotated[str, Field(min_length=1, max_length=bounds.NAME)]
Number = Annotated[int, Field(ge=1, le=bounds.NUMBER)]
Path = Annotated[str, Field(min_length=1, max_length=bounds.PATH)]
Text = Annotated[str, Field(min_length=1, max_length=bounds.TEXT)]
Short = Annotated[str, Field(max_length=bounds.REASON)]

Me = Annotated[
    Name | None,
    Field(description="Your id from join_swarm. Leave it out unless your token has several."),
]
Mine = Annotated[
    Number | None,
    Field(
        description="The fence you were given with the task. Leave it out if weft started you: "
        "then it is your own task's."
    ),
]
Ack = Annotated[
    Annotated[str, Field(max_length=bounds.ACK)] | None,
    Field(description="The `ack` you were last answered: what came with it is not told again."),
]
State = Literal[
    "waiting",
    "ready",
    "offered",
    "running",
    "parked",
    "paused",
    "blocked",
    "gating",
    "done",
    "failed",
    "cancelled",
    "skipped",
    "evicted",
]


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class JoinSwarm(Arguments):
    name: Annotated[Name, Field(description="What the others call you.")]
    role: Annotated[
        Annotated[str, Field(max_length=bounds.NAME)],
        Field(description="What you are for, in a few words."),
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
    max_tasks: Annotated[
        int | None, Field(ge=1, le=bounds.TASKS, description="How many tasks you work on at once.")
    ] = None
    me: Annotated[
        Name | None, Field(description="Your id from before, to come back as the same member.")
    ] = None


class MyAgentInfo(Arguments):
    me: Me = None


class GetSwarm(Arguments):
    pass


class SendTask(Arguments):
    text: Annotated[Text, Field(description="All that whoever does it has to know.")]
    title: Annotated[
        Annotated[str, Field(max_length=bounds.TITLE)], Field(description="The same in a line.")
    ] = ""
    agent: Annotated[
        Name | None,
        Field(
            description="The agent file or capability that shall do it, such as `implement`. "
            "Left out, only members of the swarm take it."
        ),
    ] = None
    to: Annotated[Name | None, Field(description="A member's id, for every `how` but pool.")] = None
    how: Annotated[
        Literal["pool", "assign", "queue", "offer", "prefer"],
        Field(
            description="pool: whoever is free. assign: `to`, who must have room now. queue: `to`, "
            "when there is room. offer: `to` may decline. prefer: `to`, but somebody else when "
            "it stays busy."
        ),
    ] = "pool"
    needs: Annotated[
        list[Number],
        Field(max_length=bounds.NEEDS, description="Tasks that must be done before it starts."),
    ] = []
    files: Annotated[
        list[Path],
        Field(
            max_length=bounds.FILES,
            description="Paths or patterns it may change, such as `src/**`. None: it may change "
            "nothing, and its last message is the result.",
        ),
    ] = []
    priority: Literal["critical", "high", "normal", "low", "background"] = "normal"
    klass: Annotated[
        Literal["interactive", "standard", "batch"],
        Field(alias="class", description="The kind of hurry."),
    ] = "standard"
    me: Me = None


class GetTasks(Arguments):
    state: State | None = None
    agent: Annotated[Name | None, Field(description="Only tasks for this agent.")] = None
    worker: Annotated[Name | None, Field(description="Only tasks this member holds.")] = None
    run: Annotated[Name | None, Field(description="Only tasks of this run.")] = None
    mine: Annotated[bool, Field(description="Only tasks that you sent.")] = False
    after: Annotated[
        Annotated[int, Field(ge=0, le=bounds.NUMBER)],
        Field(description="The `next` of the page before; 0 begins."),
    ] = 0
    most: Annotated[int, Field(ge=1, le=100)] = 20


class GetTask(Arguments):
    task: Annotated[
        Number | None, Field(description="Its number. Left out: the one weft started you for.")
    ] = None


class TaskAction(Arguments):
    action: Annotated[
        Literal["claim", "release", "accept", "reject"],
        Field(
            description="claim a ready task; release one you hold, for others; accept or reject "
            "one you were offered."
        ),
    ]
    task: Annotated[Number, Field(description="Its number.")]
    reason: Annotated[Short, Field(description="Why, for release and reject.")] = ""
    me: Me = None


class PollTask(Arguments):
    wait_ms: Annotated[
        int,
        Field(ge=0, le=60_000, description="How long to wait for something, in milliseconds."),
    ] = 20_000
    ack: Ack = None
    me: Me = None


class StoreProgress(Arguments):
    status: Annotated[
        Literal["progress", "completed", "failed"],
        Field(description="completed and failed end the task; the first of them stands."),
    ] = "progress"
    text: Annotated[Text, Field(description="What you have done, or the result.")]
    fence: Mine = None
    ack: Ack = None


class ClaimFiles(Arguments):
    files: Annotated[
        list[Path],
        Field(
            min_length=1,
            max_length=bounds.FILES,
            description="Paths or patterns, such as `src/a.py`.",
        ),
    ]
    fence: Mine = None


class WhyArguments(GetTask):
    pass


class SubmitPlan(Arguments):
    plan: Annotated[
        str,
        Field(
            min_length=1,
            max_length=bounds.PLAN,
            description="The text of a plan.md: `## Phase 1: …`, `- [ ] Task 1: …`, and under a "
            "task `<!-- files: … -->` and `<!-- depends: task1 -->`. Or of a prd.json.",
        ),
    ]
    name: Annotated[str, Field(pattern=bounds.RUN_NAME, description="What the run is called.")] = (
        "plan"
    )
    agent: Annotated[Name, Field(description="Who does tasks that name nobody.")] = "implement"
    stages: Annotated[
        list[Name],
        Field(max_length=bounds.STAGES, description="Of tasks that name none: test, implement."),
    ] = []
    slots: Annotated[int | None, Field(ge=1, le=bounds.SLOTS, description="Agents at a time.")] = (
        None
    )
    budget_usd: Annotated[
        float | None,
        Field(gt=0, lt=bounds.DOLLARS, description="What the whole run may spend."),
    ] = None
