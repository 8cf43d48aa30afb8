"""The records of weft: a frozen struct per concept.

The store builds them from rows, policy decides over them, faces show them. This module does no
input or output.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

ObjectId = Annotated[str, Meta(pattern=r"\A(?:[0-9A-Za-z_][^\s:]*)?\Z")]
"""The id of an object of git. From another machine it could be an option to git, or two names."""

RandomId = Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
"""The id of a store or a repository, which is part of paths on worker hosts."""

HERE: Final = "@"
"""The admitting worker or its host in a demand: `worker:@`, `host:@/ram_mb`."""


HUMAN: Final = "human"
"""The agent of a task that asks a person."""


SWARM: Final = "swarm:"
"""The start of the repository of a task that members do outside any repository."""


LEAD: Final = "lead"
"""The stage of an agent that sends tasks to other agents."""


PLAN: Final = "plan"
"""The stage of an agent that writes plans."""


EVERY_AGENT: Final = "*"
"""In the agents of a token: all agents."""


ONE_TASK: Final = "one task, "
"""The start of the name of a worker that serves a single task."""


class State(StrEnum):
    """The state of a task, under the same name in the database, commands, API, plan and page."""

    WAITING = "waiting"  # for its needs, or for the end of its previous attempt
    READY = "ready"
    OFFERED = "offered"
    RUNNING = "running"
    PARKED = "parked"  # until a stated time
    PAUSED = "paused"
    BLOCKED = "blocked"  # needs a person
    GATING = "gating"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    EVICTED = "evicted"


TERMINAL: Final = frozenset(
    {State.DONE, State.FAILED, State.CANCELLED, State.SKIPPED, State.EVICTED}
)
MET: Final = frozenset({State.DONE, State.SKIPPED})
"""States of a need that let its dependents start."""


class ErrorClass(StrEnum):
    """The cause of a failed attempt; it decides the next state of the task."""

    RATE_LIMIT = "rate_limit"  # the provider names a time to come back
    OVERLOAD = "overload"  # the provider or the network is down
    CAPACITY = "capacity"  # the model has no room just now
    TIMEOUT = "timeout"  # weft's own clock: too long, or too long silent
    CONTEXT = "context"  # the session no longer fits into the model
    AUTH = "auth"  # not logged in, or without credit
    CONFIG = "config"  # not installed, or started wrongly
    CRASH = "crash"
    NO_CHANGE = "no_change"  # it ended well without a change
    SCOPE = "scope"  # it changed files outside its claims
    OTHER = "other"
    STOPPED = "stopped"  # weft itself ended it; not counted as a failure


class Class(IntEnum):
    """The urgency of a kind of work; lower is sooner."""

    INTERACTIVE = 0
    STANDARD = 1
    BATCH = 2


class Priority(IntEnum):
    """The urgency of a task within its class; lower is sooner."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3
    BACKGROUND = 4


class LeaseState(StrEnum):
    HELD = "held"
    SUSPECT = "suspect"  # past its deadline or its worker found dead; still counts
    RELEASED = "released"


class WorkerKind(StrEnum):
    PROCESS = "process"  # a weft process with agents of its own; freed by proof of death
    API = "api"  # an agent registered over the API; freed after silence


Demand = Mapping[str, int]
"""Amounts by resource name."""


class TaskKind(StrEnum):
    WORK = "work"  # an agent, a member or a person does it
    STORY = "story"  # holds subtasks, and ends with them
    BARRIER = "barrier"  # stands between the phases of a plan
    ENTRANT = "entrant"  # works on the task of its team, beside the other entrants
    COMPARISON = "comparison"  # a judge compares two candidates of a team


BELOW_TEAM: Final = frozenset({TaskKind.ENTRANT, TaskKind.COMPARISON})
"""Tasks that a team adds below its own task; a failure of theirs is no failure of the run."""


class Stage(Struct, frozen=True, kw_only=True):
    """A step of a task's pipeline."""

    name: str = field(name="stage")
    agent: str
    demand: Demand = field(default_factory=dict)


class BranchMerge(Struct, frozen=True, kw_only=True):
    """A merge of trunk with a branch of the user, made by weft, that a repair task completes."""

    commit: ObjectId  # conflicts are marked in its files; its parents are `trunk` and `tip`
    trunk: ObjectId
    tip: ObjectId  # of the branch


class PredictedFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that a task will probably change."""

    path: str
    probability: float
    reason: str  # for people, without a full stop
    clues: Mapping[str, float]  # the probability that each clue gives it (`predict.Clue`)
    may_touch: bool = False  # a hub: never claimed, merged at the gate
    claimed: bool = False  # by the task, since that costs less than a redo


class AttemptFiles(Struct, frozen=True, kw_only=True):
    """The files of an attempt; predictions learn from them."""

    task: int
    attempt: int
    predicted: tuple[PredictedFile, ...]  # for a task that names no files
    declared: tuple[str, ...]  # patterns that the task names
    asked: tuple[str, ...]  # patterns that the attempt had to claim besides
    changed: tuple[str, ...]


class TeamRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A team that works on a task: the stages of each entrant, and the agent that compares."""

    strategy: str  # hedge or best-of
    pipelines: tuple[tuple[Stage, ...], ...]  # the stages of each entrant that make its candidate
    judge: Stage | None = None
    at_once: bool = True  # all entrants start together; a hedge starts them one by one
    micro_usd: int = 0  # reserved for all entrants; 0: the run has no budget


class CandidatePair(Struct, frozen=True, kw_only=True):
    """Two candidates of a team that a judge compares, in the order in which it sees them."""

    team: int  # its task
    first: int  # number of the entrant
    second: int
    commits: tuple[str, str]
    bases: tuple[str, str]


class TaskRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The author's wishes for a task: text for the prompt, bounds, checks and stages.

    Stored as a single JSON column, and shown by every face under the names of its fields.
    Scheduling does not read it: an attribute that a query needs is a column of its own.
    """

    kind: TaskKind = TaskKind.WORK
    title: str = ""
    plan: str = ""  # the plan's title
    phase: str = ""  # the phase's title
    reads: tuple[str, ...] = ()  # files to read first
    criteria: tuple[str, ...] = ()  # acceptance criteria
    spec: str = ""  # the parts of the specification that matter to it
    check: str = ""  # a shell command that the candidate has to pass besides the gate's
    budget: int | None = None  # micro-dollars for an attempt
    timeout: float | None = None  # seconds for an attempt
    stages: tuple[Stage, ...] = ()
    review: bool = False  # a person accepts its candidate before it lands
    merge: BranchMerge | None = None  # of a repair task: the merge it starts from
    depth: int = 0  # tasks between it and a person, along the senders
    confined: bool = False  # a change outside its files is refused, not claimed
    held: str = ""  # why the plan holds it back; it is blocked until a person lets it go on
    predicted: tuple[PredictedFile, ...] = ()  # its files, where it names none and claims some
    continues: int | None = None  # the task whose session its agent goes on with
    team: TeamRequest | None = None  # several entrants work on it
    compares: CandidatePair | None = None  # of a comparison
    needs_labels: tuple[str, ...] = ()  # of its worker, besides those of its agents


class NewTask(Struct, frozen=True, kw_only=True):
    """A task as it is submitted."""

    name: str
    text: str = ""
    request: TaskRequest = TaskRequest()
    attached: Mapping[str, Any] = field(default_factory=dict)  # the sender's own JSON
    files: tuple[str, ...] = ()  # normalised patterns to claim; empty: no claims
    demand: Demand = field(default_factory=dict)
    needs: tuple[str, ...] = ()  # names in the same submission, or of the same run
    klass: Class = Class.STANDARD
    priority: Priority = Priority.NORMAL
    agent: str | None = None
    stage: str | None = None
    path_seconds: float = 0.0  # longest remaining path, this task included
    gang: str | None = None  # all tasks of this name are admitted together
    story: str | None = None  # the story, or the task of its team, whose claims it shares
    pinned: str | None = None  # the only worker that may take it
    pin_until: float | None = None  # end of the pin, if it is a preference
    created_by: str | None = None  # the sending member or token; None: a plan or a person


class NewRun(Struct, frozen=True, kw_only=True):
    """An execution of a plan, as it is submitted."""

    id: str
    repo: str
    tenant: str = "default"
    plan: str = ""
    base: ObjectId = ""
    branch: str = ""  # the branch it starts from, where `weft land` lands; '': none
    target: str = ""  # a branch that moves to trunk once all tasks have landed
    limits: Mapping[str, int] = field(default_factory=dict)  # by name within the run: `agents`
    alternates: tuple[str, ...] = ()  # object stores that the repository borrows from
    untested: bool = False  # its gate checks the base before an agent starts


class TargetState(StrEnum):
    """The fate of the branch that a run was to move."""

    OPEN = "open"  # not tried: the run goes on, or no worker serves it
    MOVED = "moved"
    LEFT = "left"  # some tasks did not land, or none had to
    REFUSED = "refused"  # git refused to move it


class Run(Struct, frozen=True, kw_only=True):
    id: str
    repo: str
    tenant: str
    state: str  # waiting for `runs`, running, ended
    submitted: float
    plan: str
    base: ObjectId
    branch: str  # the branch it started from; '': none
    revision: int  # number of the settings in force; `weft runs update` adds a revision
    check: tuple[str, ...] | None  # the command line that every landing has to pass
    blocked: str  # the reason why its gate waits for a person
    target: str  # a branch that moves to trunk once all tasks have landed; '': none
    target_state: TargetState
    target_text: str  # the result, as a sentence
    alternates: tuple[str, ...] = ()  # object stores borrowed at the submission


class Task(Struct, frozen=True, kw_only=True):
    id: int
    run: str | None
    name: str
    repo: str
    tenant: str
    text: str
    request: TaskRequest
    attached: Mapping[str, Any]  # the sender's own JSON
    state: State
    since: float  # time of the last change of state
    reason: str  # the cause of the state, for people
    until: float | None  # end of being parked or offered
    klass: Class
    priority: Priority
    agent: str | None
    stage: str | None
    demand: Demand
    files: tuple[str, ...]
    path_seconds: float
    submitted: float
    story: int | None
    gang: str | None
    pinned: str | None
    offered_to: str | None
    result: str
    pin_until: float | None = None
    created_by: str | None = None


class Filter(Struct, frozen=True, kw_only=True):
    """A filter of tasks; a field that is None does not filter."""

    state: State | None = None
    agent: str | None = None
    worker: str | None = None  # the worker that runs it, or that it is pinned or offered to
    run: str | None = None
    tenant: str | None = None
    created_by: str | None = None
    klass: Class | None = None


class Summary(Struct, frozen=True, kw_only=True):
    """A task in a list."""

    id: int
    name: str
    run: str | None
    tenant: str
    state: State
    reason: str
    since: float
    agent: str | None
    stage: str | None
    klass: Class
    priority: Priority
    worker: str | None  # the worker that runs it, or that it is pinned or offered to
    created_by: str | None
    submitted: float


class Attempt(Struct, frozen=True, kw_only=True):
    task: int
    number: int
    fence: int
    worker: str
    agent: str | None
    stage: str | None
    started: float
    ended: float | None
    outcome: str | None
    led_to: State | None = None  # the state its outcome gave its task; None: it was handed back
    candidate: ObjectId | None  # the commit on its branch: all its work, finished or not
    base: ObjectId | None  # the parent of the candidate
    session: str | None  # id of the program's session, to resume it
    tokens: int
    micro_usd: int

    @property
    def failed(self) -> bool:
        """Tell whether its agent failed; an attempt that was handed back did not."""
        return self.led_to is not None and self.outcome not in ("success", *STEPS)


class Lease(Struct, frozen=True, kw_only=True):
    fence: int
    kind: str  # attempt, run, gate, check
    holder: str  # name for people
    task: int | None
    attempt: int | None
    worker: str | None
    host: str | None
    state: LeaseState
    granted: float
    deadline: float | None
    released: float | None
    ended: str | None  # the reason of the release


class Grant(Struct, frozen=True, kw_only=True):
    """The proof of ownership that an admission gives; every later write must carry its fence."""

    fence: int
    task: int
    name: str
    run: str | None
    attempt: int
    worker: str
    agent: str | None
    stage: str | None
    deadline: float
    demand: Demand
    files: tuple[str, ...]
    units: Mapping[str, tuple[int, ...]]  # numbered units, such as ports


class AgentFile(Struct, frozen=True, kw_only=True):
    """An agent file, as a worker read it when it registered."""

    name: str
    source: str  # which file on which host
    max_concurrency: int | None = None
    able: bool = True  # the worker has its program


NO_CHECKS: Final = "no"
"""Stated by a worker at home that leaves the checks of its gates to hosts."""


class NewWorker(Struct, frozen=True, kw_only=True):
    id: str
    slots: int
    host: str
    name: str = ""
    kind: WorkerKind = WorkerKind.PROCESS
    boot: str = ""  # boot id and pid namespace: whether this host's processes can be looked at
    pid: int | None = None
    pid_start: float | None = None  # tells a reused pid apart
    agents: tuple[AgentFile, ...] | None = None  # None: may run any
    repos: tuple[str, ...] | None = None  # the repositories it can work on; None: any
    host_limits: Mapping[str, int] = field(default_factory=dict)  # `ram_mb`, `port`
    gates: bool = True  # it serves the gates of its repositories; False: home does
    lacks: Mapping[str, str] = field(default_factory=dict)  # what its host lacks, by agent
    labels: tuple[str, ...] = ()  # for tasks that ask for them
    alone: bool = False  # its process does nothing else: `weft worker`
    checks: str = ""  # the kind of its machine, if it takes checks of gates elsewhere; NO_CHECKS


class NewMember(Struct, frozen=True, kw_only=True):
    """A member as it joins."""

    id: str
    name: str
    slots: int
    token: str  # joins with it; other tokens do not act for the member
    is_lead: bool = False
    role: str = ""
    capabilities: tuple[str, ...] = ()


class Capacity(Struct, frozen=True, kw_only=True):
    current: int
    max: int
    available: int = 0  # computed

    def __post_init__(self) -> None:
        force_setattr(self, "available", max(0, self.max - self.current))


class Worker(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    kind: WorkerKind
    host: str
    boot: str
    pid: int | None
    pid_start: float | None
    heartbeat: int  # counts up; compared for change, never with a clock
    seen: float
    left: float | None
    capacity: Capacity
    status: str  # idle, busy or offline: derived, never stored
    silent_since: float | None = None  # set when the last sign of life is older than a lease
    gates: bool = True  # it serves the gates of its repositories
    lacks: Mapping[str, str] = field(default_factory=dict)  # what its host lacks, by agent
    labels: tuple[str, ...] = ()  # for tasks that ask for them
    alone: bool = False  # its process does nothing else: `weft worker`
    checks: str = ""  # the kind of its machine, if it takes checks of gates elsewhere; NO_CHECKS
    # Of members of a swarm:
    role: str = ""
    is_lead: bool = False
    capabilities: tuple[str, ...] = ()
    token: str | None = None


class Held(Struct, frozen=True, kw_only=True):
    """A task that a member has claimed and not ended."""

    task: int
    name: str
    fence: int
    attempt: int
    deadline: float | None
    current: bool  # False: it was cancelled meanwhile, and only needs to be released


class Message(Struct, frozen=True, kw_only=True):
    """A message to a running task or to a member."""

    id: int
    to_task: int | None
    to_worker: str | None
    sender: str
    text: str
    at: float


class Notice(Struct, frozen=True, kw_only=True):
    """The end of a task, for its sender and for leads."""

    event: int
    task: int
    name: str
    state: State
    reason: str
    result: str
    at: float


class Limit(Struct, frozen=True, kw_only=True):
    resource: str
    capacity: int
    effective: int  # after penalties
    used: int
    owner: str | None  # the worker, host or agent file that sets it; None: `weft limits set`


class AgentUse(Struct, frozen=True, kw_only=True):
    """The use of an agent by all processes on the store."""

    running: int = 0
    limit: int | None = None  # None: no process has stated a limit
    stopped: str | None = None  # the reason why it waits for a person


class Token(Struct, frozen=True, kw_only=True):
    """The rights of a caller of a server. Only the owner knows the secret."""

    id: str
    name: str  # of the owner, for people
    scopes: frozenset[str]  # read, work, admin
    tenant: str | None  # for which its tasks take turns; None: `default`
    fence: int | None  # the attempt it was made for and ends with
    task: int | None  # the task of that attempt
    agents: frozenset[str] | None
    """The agents it sends work to, by name; EVERY_AGENT for all; empty for those whose files say
    `open: yes`; None for a token from before tokens named agents: it sends to all."""
    created: float
    expires: float | None
    revoked: float | None
    uses: int | None = None  # how many hosts may still join with it; None: it lets none join
    worker: str | None = None  # the host that it was given to


class Event(Struct, frozen=True, kw_only=True):
    id: int
    at: float
    kind: str
    run: str | None
    task: int | None
    data: Mapping[str, Any]


class Wait(Struct, frozen=True, kw_only=True):
    """A cause that keeps a task waiting."""

    # need, limit, file, order, worker, label, turn, reservation, time, person, run, attempt, gang,
    # drain
    kind: str
    subject: str  # the task, resource, file, worker, labels or tenant in question
    text: str  # for people: `llm 12/12`, `src/a.py held by task 7`


class CommentAnswer(Struct, frozen=True, kw_only=True):
    """An agent's answer to a comment."""

    id: int
    answer: Literal["handled", "answered"]
    reason: str


ArgValue = str | int | float | bool | tuple[str, ...]
"""An argument of a hand-over."""


class Hop(Struct, frozen=True, kw_only=True):
    """A hand-over of a task from the agent of an attempt to its next agent."""

    number: int  # among those of its task, from 1
    attempt: int  # ended with it
    giver: str
    agent: str  # the next agent
    note: str
    args: Mapping[str, ArgValue]
    tree: ObjectId  # the work at that moment
    candidate: ObjectId | None  # the commit of the work so far; None: no agent has changed a file
    base: ObjectId | None
    counts: bool  # False: a person has reopened the task since
    at: float


class NewHop(Struct, frozen=True, kw_only=True):
    """A hand-over as the outcome of an attempt; the store adds the rest."""

    agent: str
    note: str
    args: Mapping[str, ArgValue]
    tree: ObjectId


class WakingEvent(Struct, frozen=True, kw_only=True):
    """An event that wakes a sleeping task."""

    kind: Literal["trunk_moved", "task_ended"]
    subject: str  # the run, or the number of the task


HANDED_OVER: Final = "handed_over"
ASKED: Final = "asked"
SLEPT: Final = "slept"
PROPOSAL: Final = "proposal"
"""Outcome of an attempt whose proposal of a next step was refused."""

STEPS: Final = frozenset({HANDED_OVER, ASKED, SLEPT})
"""Outcomes of attempts that ended well with a next step instead of finished work."""

GOES_ON: Final = frozenset({ASKED, SLEPT, PROPOSAL})
"""Outcomes after which the same agent goes on with its session and its work."""

RESUMED: Final = frozenset({ErrorClass.RATE_LIMIT, ErrorClass.OVERLOAD, ErrorClass.CAPACITY})
"""Failures after which the next attempt resumes the session and the work."""


class Outcome(Struct, frozen=True, kw_only=True):
    """The end of an attempt, and the next state of its task.

    `state` is done, failed, blocked, gating, parked (with `until`) or ready (for another attempt).
    `sent_back` gives up the claims of a task that goes on.
    """

    state: State
    kind: str = "success"  # success, a step, or the error class
    reason: str = ""
    until: float | None = None
    result: str = ""
    signature: str = ""  # of a failure, to recognise a pattern
    spent: Demand = field(default_factory=dict)  # settled amounts of consumables
    candidate: ObjectId | None = None  # the commit it left, made on `base`
    base: ObjectId | None = None
    session: str | None = None
    tokens: int = 0
    micro_usd: int = 0
    then: Stage | None = None  # the step that follows, for a task that goes on
    sent_back: bool = False
    files: tuple[str, ...] | None = None  # a larger claim to ask for next time
    penalises: str | None = None  # the provider whose rate limit it ran into
    stops_agent: str | None = None  # an agent that waits for a person
    answers: tuple[CommentAnswer, ...] = ()  # to the comments of a review
    asked: tuple[str, ...] = ()  # patterns that it had to claim besides its own
    changed: tuple[str, ...] | None = None  # its files; None: not known
    hop: NewHop | None = None  # the hand-over that ends the attempt
    options: tuple[str, ...] = ()  # answers to choose from, if it asks a person
    wake: WakingEvent | None = None  # ends a sleep before `until`
