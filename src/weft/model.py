"""The records weft speaks in: one frozen dataclass per concept.

The store builds them from rows, faces render them, policy decides over them. Nothing here
reads or writes anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import force_setattr

HERE: Final = "@"
"""Stands for the admitting worker or its host in a demand: `worker:@`, `host:@/ram_mb`."""


HUMAN: Final = "human"
"""The agent of a task that asks a person."""


SWARM: Final = "swarm:"
"""Begins the repository, with a tenant after it, of work that is done in none that weft knows:
members of the swarm do it, and tenants do not stand in each other's way."""


LEAD: Final = "lead"
"""The stage of an agent that hands work to others."""


EVERY_AGENT: Final = "*"
"""In the agents of a token: the token sends work to every agent."""


ONE_TASK: Final = "one task, "
"""Begins the name of a worker that was started for one task and takes nothing else."""


class State(StrEnum):
    """Where a task is. One vocabulary for database, command line, API, plan and page."""

    WAITING = "waiting"  # for what it needs, or for its previous attempt to end
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
"""States of a need that let what needs it start."""


class ErrorClass(StrEnum):
    """Why an attempt failed. Decides what becomes of its task."""

    RATE_LIMIT = "rate_limit"  # the provider says when to come back
    OVERLOAD = "overload"  # the provider or the way to it is down
    CAPACITY = "capacity"  # the model has no room just now
    TIMEOUT = "timeout"  # weft's own clock: too long, or too long silent
    CONTEXT = "context"  # the session no longer fits into the model
    AUTH = "auth"  # not logged in, or nobody pays
    CONFIG = "config"  # not installed, or started wrongly
    CRASH = "crash"
    NO_CHANGE = "no_change"  # it ended well and changed nothing
    SCOPE = "scope"  # it changed what it had not claimed
    OTHER = "other"
    STOPPED = "stopped"  # weft itself ended it, which counts as no failure


class Class(IntEnum):
    """How urgent a kind of work is; lower is sooner."""

    INTERACTIVE = 0
    STANDARD = 1
    BATCH = 2


class Priority(IntEnum):
    """How urgent a task is within its class; lower is sooner."""

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


class Stage(Struct, frozen=True, kw_only=True):
    """A step of a task's pipeline."""

    name: str = field(name="stage")
    agent: str
    demand: Demand = field(default_factory=dict)


class TaskRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The author's wishes for a task: text for the prompt, bounds, checks and stages.

    Stored as one JSON column, and shown by every face under the names of its fields. Scheduling
    reads none of it; an attribute that a query needs is a column of its own.
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
    depth: int = 0  # tasks between it and a person, along the senders


class NewTask(Struct, frozen=True, kw_only=True):
    """A task as it is submitted."""

    name: str
    text: str = ""
    request: TaskRequest = TaskRequest()
    attached: Mapping[str, Any] = field(default_factory=dict)  # the sender's own JSON
    files: tuple[str, ...] = ()  # normalised patterns it will claim; empty claims nothing
    demand: Demand = field(default_factory=dict)
    needs: tuple[str, ...] = ()  # names in the same submission, or of the same run
    klass: Class = Class.STANDARD
    priority: Priority = Priority.NORMAL
    agent: str | None = None
    stage: str | None = None
    path_seconds: float = 0.0  # longest remaining path, this task included
    gang: str | None = None  # admitted together with the others of this name, or not at all
    story: str | None = None  # the task whose claims bind everyone but this one
    pinned: str | None = None  # the only worker that may take it
    pin_until: float | None = None  # when that ends, if it is but a preference
    created_by: str | None = None  # the member or token that sent it; None: a plan, or a person


class NewRun(Struct, frozen=True, kw_only=True):
    """One execution of a plan, as it is submitted."""

    id: str
    repo: str
    tenant: str = "default"
    plan: str = ""
    base: str = ""
    target: str = ""  # a branch that moves to what landed, once everything has
    limits: Mapping[str, int] = field(default_factory=dict)  # by name within the run: `agents`
    alternates: tuple[str, ...] = ()  # object stores that the repository borrows from


class TargetState(StrEnum):
    """What became of the branch that a run was to move."""

    OPEN = "open"  # nobody has tried: the run goes on, or nobody is there who serves it
    MOVED = "moved"
    LEFT = "left"  # not everything landed, or nothing had to
    REFUSED = "refused"  # it could not be moved


class Run(Struct, frozen=True, kw_only=True):
    id: str
    repo: str
    tenant: str
    state: str  # waiting for `runs`, running, ended
    submitted: float
    plan: str
    base: str
    revision: int  # number of the settings in force; `weft runs update` adds a revision
    check: tuple[str, ...] | None  # the command line that every landing has to pass
    blocked: str  # why its gate waits for a person
    target: str  # a branch that moves to what landed, once everything has; '': none
    target_state: TargetState
    target_text: str  # what came of it, as a sentence
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
    since: float  # when it entered that state
    reason: str  # why it is there, for people
    until: float | None  # parked or offered: until when
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
    """Which tasks to list; what is None is not asked for."""

    state: State | None = None
    agent: str | None = None
    worker: str | None = None  # who runs it, it is pinned to, or it is offered to
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
    worker: str | None  # who runs it, it is pinned to, or it is offered to
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
    candidate: str | None  # the commit it left on its branch: all it did, finished or not
    base: str | None  # the commit that is made on
    session: str | None  # by which its program can be resumed
    tokens: int
    micro_usd: int


class Lease(Struct, frozen=True, kw_only=True):
    fence: int
    kind: str  # attempt, run, gate, check
    holder: str  # what people call it
    task: int | None
    attempt: int | None
    worker: str | None
    host: str | None
    state: LeaseState
    granted: float
    deadline: float | None
    released: float | None
    ended: str | None  # why it was released


class Grant(Struct, frozen=True, kw_only=True):
    """What an admission gave: the proof of ownership every later effect must carry."""

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
    """What a worker read of one agent file when it registered."""

    name: str
    source: str  # which file on which host
    max_concurrency: int | None = None


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


class NewMember(Struct, frozen=True, kw_only=True):
    """An agent that joins over the API: a worker of the kind `api`."""

    id: str
    name: str
    slots: int
    token: str  # the one it joins with, and nobody else acts for it
    is_lead: bool = False
    role: str = ""
    capabilities: tuple[str, ...] = ()
    tenant: str | None = None  # whose tasks it takes; None: anybody's


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
    # Of members of a swarm:
    role: str = ""
    is_lead: bool = False
    capabilities: tuple[str, ...] = ()
    tenant: str | None = None
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
    """A word to a task that runs, or to a member."""

    id: int
    to_task: int | None
    to_worker: str | None
    sender: str
    text: str
    at: float


class Notice(Struct, frozen=True, kw_only=True):
    """A task has ended: told to who sent it, and to the leads of its tenant."""

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
    """An agent as all processes on the store see it."""

    running: int = 0
    limit: int | None = None  # None: no process has stated one
    stopped: str | None = None  # why nobody may start it before a person has looked


class Token(Struct, frozen=True, kw_only=True):
    """Who may ask something of a server, and what. Its secret is known to its owner alone."""

    id: str
    name: str  # what people call its owner
    scopes: frozenset[str]  # read, work, admin
    tenant: str | None  # the only one whose tasks it sees; None: all
    fence: int | None  # the attempt it was made for and ends with
    task: int | None  # that attempt's
    agents: frozenset[str] | None
    """The agents it sends work to: by name, EVERY_AGENT for all, empty for those whose files say
    `open: yes`; None: it was made before tokens named agents, and sends to all as it did."""
    created: float
    expires: float | None
    revoked: float | None


class Event(Struct, frozen=True, kw_only=True):
    id: int
    at: float
    kind: str
    run: str | None
    task: int | None
    data: Mapping[str, Any]


class Wait(Struct, frozen=True, kw_only=True):
    """One thing a task waits for."""

    # need, limit, file, order, worker, turn, reservation, time, person, run, attempt, gang, drain
    kind: str
    subject: str  # the task, resource, file, worker or tenant in question
    text: str  # for people: `llm 12/12`, `src/a.py held by task 7`


class Entry(Struct, frozen=True, kw_only=True):
    """What asks to land: the work of a task, or of all subtasks of a story."""

    id: str
    run: str
    state: str  # queued, landing, landed, rejected, withdrawn, passed_on
    looked_at: bool  # it goes to review or judge once it passes its checks
    base: str | None  # the tip of trunk when the gate first saw it
    story: int | None
    tasks: tuple[int, ...]
    work: tuple[tuple[str, str], ...]  # commits, each with what it is made on
    needs: frozenset[str]  # entries it builds on
    alone: bool  # in no batch with others


UNCHECKED: Final = "none"
"""Stands for a way of checking where no check is configured, which passes everything."""


class CheckVerdict(Struct, frozen=True, kw_only=True):
    """How one run of the checks on the tree of a combination of entries ended."""

    base: str
    combination: tuple[str, ...]
    purpose: str
    tree: str
    check_id: str
    commands: tuple[tuple[str, ...], ...]  # the command lines that were run
    passed: bool
    seconds: float  # 0 where a verdict that was known already was taken over
    number: int = 0  # among those of its run; 0 until it is recorded

    @property
    def checked(self) -> bool:
        """Whether anything was run for it."""
        return self.check_id != UNCHECKED


class MergeConflict(Struct, frozen=True, kw_only=True):
    """An entry that does not merge on a base once the others are merged."""

    base: str
    entry: str
    others: tuple[str, ...]
    report: str


class Landing(Struct, frozen=True, kw_only=True):
    """Trunk moves from `old` to `new`: intended before it does, landed afterwards."""

    run: str
    sequence: int
    old: str
    new: str
    tree: str
    entries: tuple[str, ...]
    commits: tuple[str, ...]  # of each entry, in that order
    revision: int  # revision of the run's settings used by the check
    every_commit: bool  # all of its commits must have passed, not only the last
    state: str


class GateRows(Struct, frozen=True, kw_only=True):
    """What the gate of a run knows: all of it, or as much as still matters."""

    entries: tuple[Entry, ...]  # in order of arrival
    verdicts: tuple[CheckVerdict, ...]
    conflicts: tuple[MergeConflict, ...]
    landings: tuple[Landing, ...]
    rejected: tuple[bool, ...]  # whether each entry that was settled lately was, oldest first
    revision: int  # revision of the run's settings in force
    blocked: str  # why it waits for a person
    ended: bool  # the run is over

    @property
    def flaky(self) -> frozenset[int]:
        """Verdicts, by number, on trees that were found otherwise before, checked the same way."""
        before: set[tuple[str, str, bool]] = set()
        found = set()
        for one in self.verdicts:
            if (one.tree, one.check_id, not one.passed) in before and one.tree:
                found.add(one.number)
            before.add((one.tree, one.check_id, one.passed))
        return frozenset(found)


class Use(Struct, frozen=True, kw_only=True):
    """What a lease took, whether or not it still does."""

    lease: Lease
    run: str | None  # for which it was
    amounts: Demand


class RunHistory(Struct, frozen=True, kw_only=True):
    """A run from its submission on: all that the store remembers of it, at one moment."""

    run: Run
    tasks: tuple[Task, ...]
    needs: Mapping[int, tuple[int, ...]]
    attempts: tuple[Attempt, ...]
    gate: GateRows
    outputs: Mapping[int, str]  # what failed checks printed, by the number of their verdict
    events: tuple[Event, ...]  # its own, and what happened to limits; no progress of agents
    uses: tuple[Use, ...]  # of attempts and checks meanwhile, those of other runs included
    limits: Mapping[str, int]  # as they are now


class Outcome(Struct, frozen=True, kw_only=True):
    """How an attempt ended, and what becomes of its task.

    `state` is where the task goes: done, failed, blocked, gating, parked (with `until`) or
    ready (to be tried again). `sent_back` gives up the claims of a task that goes on.
    """

    state: State
    kind: str = "success"  # success, or the error class
    reason: str = ""
    until: float | None = None
    result: str = ""
    signature: str = ""  # of a failure, to recognise a pattern
    spent: Demand = field(default_factory=dict)  # settled amounts of consumables
    candidate: str | None = None  # the commit it left, made on `base`
    base: str | None = None
    session: str | None = None
    tokens: int = 0
    micro_usd: int = 0
    then: Stage | None = None  # the step that follows, for a task that goes on
    sent_back: bool = False
    files: tuple[str, ...] | None = None  # a larger claim to ask for next time
    penalises: str | None = None  # the provider whose rate limit it ran into
    stops_agent: str | None = None  # the agent that nobody shall start before a person has looked
