"""The operations of members: join, take tasks, report, end, read and write messages."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from weft import bounds
from weft.errors import AlreadyEnded, InputError, NotFound, Refused
from weft.model import ErrorClass, Message, State
from weft.operations import inbox, member_work, membership
from weft.operations.identity import (
    ADMIN,
    OWN,
    READ,
    WORK,
    Identity,
    find_own_members,
    has,
)
from weft.operations.member_records import Claimed, Heard, Member, TaskResult
from weft.operations.reading import Number, PageAsked, TaskNumber
from weft.operations.registry import Occasion, operation
from weft.project.site import agent_names
from weft.store import Store

_ATTACHED = 64  # names in a JSON object of a client's own

Name = Annotated[str, Meta(min_length=1, max_length=bounds.NAME)]
MemberId = Annotated[str, Meta(min_length=1, max_length=100, description="A member's id.")]
LongText = Annotated[str, Meta(max_length=bounds.TEXT)]
Reason = Annotated[str, Meta(max_length=bounds.REASON)]
Amount = Annotated[int, Meta(ge=0, le=bounds.NUMBER)]
AckText = Annotated[str, Meta(max_length=bounds.ACK)]
MessageText = Annotated[str, Meta(min_length=1, max_length=bounds.MESSAGE)]
Me = Annotated[
    str | None,
    Meta(description="The member that acts, by id or name, where a token has several."),
]


class MemberJoins(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[Name, Meta(description="The name that other members call you by.")]
    role: Annotated[
        str, Meta(max_length=bounds.NAME, description="Your purpose, in a few words.")
    ] = ""
    capabilities: Annotated[
        list[Name],
        Meta(
            max_length=bounds.CAPABILITIES,
            description="Kinds of tasks you can do, such as `python`.",
        ),
    ] = []
    is_lead: Annotated[
        bool, Meta(description="Whether you hand out work and want to hear how it ends.")
    ] = False
    max_tasks: Annotated[
        Annotated[int, Meta(ge=1, le=bounds.TASKS)] | None,
        Meta(
            description="Tasks you work on at once; default: MAX_CONCURRENT_TASKS of the server, "
            "or 1."
        ),
    ] = None
    id: Name | None = None


class OneMember(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: MemberId


class MessageToMember(OneMember, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: MessageText


class ActingMember(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    me: Me = None


class InboxAsked(ActingMember, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ack: AckText | None = None


class TaskTaken(ActingMember, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: TaskNumber


class TaskDeclined(TaskTaken, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Reason = ""


class HeldTaskAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: TaskNumber
    fence: Number


class TaskReleased(HeldTaskAsked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Reason = ""


class ProgressMade(HeldTaskAsked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: LongText = ""
    data: Annotated[dict[str, Any], Meta(max_length=_ATTACHED)] | None = None
    ack: AckText | None = None


class TaskFinished(HeldTaskAsked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The end of an attempt; the first end that arrives counts."""

    status: Literal["completed", "failed"]
    text: Annotated[LongText, Meta(description="The result; of a failure, why.")] = ""
    kind: Annotated[str, Meta(max_length=50, description="The class of a failure.")] = "other"
    reset: Annotated[float, Meta(ge=0, le=bounds.NUMBER)] | None = None
    tokens: Amount = 0
    micro_usd: Amount = 0
    spent: Annotated[dict[Name, Amount], Meta(max_length=20)] = field(default_factory=dict)


class FilesAsked(HeldTaskAsked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    files: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=bounds.PATH)]],
        Meta(
            min_length=1,
            max_length=bounds.FILES,
            description="Paths or patterns, such as `src/a.py`.",
        ),
    ]


class MessageToTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: TaskNumber
    text: MessageText


class TaskInboxAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: TaskNumber
    ack: AckText | None = None


class MemberPage(Struct, frozen=True, kw_only=True):
    agents: tuple[Member, ...]
    after: str | None  # for the next page; null: this was the last


class MemberSelf(Struct, frozen=True, kw_only=True):
    token: Identity
    agent: Member | None  # the member that acts, if that is clear
    agents: tuple[Member, ...]


class Closed(Struct, frozen=True, kw_only=True):
    id: str
    closed: bool


class Inbox(Struct, frozen=True, kw_only=True):
    messages: tuple[Message, ...]
    ack: str | None  # confirms them, with the next request


class SentMessage(Struct, frozen=True, kw_only=True):
    message: Message


class TaskState(Struct, frozen=True, kw_only=True):
    task: int
    state: State


class TaskChange(Struct, frozen=True, kw_only=True):
    task: int
    changed: bool  # false: it was so before


class HeldFiles(Struct, frozen=True, kw_only=True):
    """The files that could not be claimed, and the task that holds each; none: all were."""

    held: dict[str, int]


def get_acting_member(store: Store, who: Identity, named: str | None, *, now: float) -> str:
    """Return the member that a request acts as: the named member, or the only member of the
    token."""
    if named is not None and has(who, ADMIN):
        return membership.get_member(store, who, named, now=now).id
    return _get_own(store, who, named)


def _get_own(store: Store, who: Identity, named: str | None) -> str:
    own = find_own_members(store, who, named)
    if len(own) == 1:
        return own[0]
    if not own:
        which = "" if named is None else f" {named!r}"
        raise NotFound(f"This token has no member{which}; join first (POST /v1/agents).")
    raise InputError("This token has several members; name one by the header X-Weft-Agent.")


def _get_acting(setting: Occasion, asked: ActingMember) -> str:
    return get_acting_member(setting.store, setting.who, asked.me, now=setting.now)


@operation("Join", WORK, http="POST /agents", status=201, says=str, is_tool=False)
def join(setting: Occasion, asked: MemberJoins) -> Member:
    """Join the swarm, or come back to it: by the id, or by the same name with the same token. The
    new description replaces the old."""
    return membership.join(
        setting.store,
        setting.who,
        name=asked.name,
        role=asked.role,
        capabilities=asked.capabilities,
        is_lead=asked.is_lead,
        max_tasks=asked.max_tasks,
        id=asked.id,
        usual_tasks=setting.project.config.api_slots,
        agent_files=agent_names(setting.project.root),
        now=setting.now,
    )


@operation("List members", READ, http="GET /agents", says=str, is_tool=False)
def list_members(setting: Occasion, asked: PageAsked) -> MemberPage:
    """The members of the swarm and their tasks, by id; `after` is for the next page."""
    members, more = membership.page_members(
        setting.store, setting.who, after=asked.after, most=asked.most, now=setting.now
    )
    return MemberPage(agents=tuple(members), after=more)


@operation("Show a member", READ, http="GET /agents/{id}", says=str, is_tool=False)
def get_member(setting: Occasion, asked: OneMember) -> Member:
    """A member, with its capacity and its tasks."""
    return membership.get_member(setting.store, setting.who, asked.id, now=setting.now)


@operation("Give a sign of life", WORK, http="POST /agents/{id}/ping", says=str, is_tool=False)
def ping(setting: Occasion, asked: OneMember) -> Member:
    """A sign of life. A member that polls need not ping."""
    return membership.ping(setting.store, setting.who, asked.id, now=setting.now)


@operation("Leave", WORK, http="POST /agents/{id}/close", says=str, is_tool=False)
def close_member(setting: Occasion, asked: OneMember) -> Closed:
    """Leave the swarm; the member's tasks go back to the pool."""
    membership.close(setting.store, setting.who, asked.id, now=setting.now)
    return Closed(id=asked.id, closed=True)


@operation("Who am I", OWN, http="GET /me", says=str, is_tool=False)
def me(setting: Occasion, asked: ActingMember) -> MemberSelf:
    """The caller's token and its members. `X-Weft-Agent` names the acting member."""
    store, who = setting.store, setting.who
    own = membership.find_own(store, who, now=setting.now) if has(who, WORK) else []
    id = _get_own(store, who, asked.me) if asked.me is not None or len(own) == 1 else None
    acting = [member for member in own if member.id == id]
    return MemberSelf(token=who, agent=acting[0] if acting else None, agents=tuple(own))


@operation("Read messages", WORK, http="GET /messages", says=str, is_tool=False, confirms=True)
def read_messages(setting: Occasion, asked: InboxAsked) -> Inbox:
    """Messages to the member, until it confirms them by `ack`."""
    messages, confirms = inbox.read_messages(
        setting.store,
        setting.who,
        member=_get_acting(setting, asked),
        ack=asked.ack,
        now=setting.now,
    )
    return Inbox(messages=messages, ack=confirms)


@operation(
    "Write to a member",
    WORK,
    http="POST /agents/{id}/messages",
    status=201,
    says=str,
    is_tool=False,
)
def write_to_member(setting: Occasion, asked: MessageToMember) -> SentMessage:
    """Write a message to a member; its next poll brings it."""
    message = inbox.send_message(
        setting.store, setting.who, asked.text, member=asked.id, now=setting.now
    )
    return SentMessage(message=message)


@operation("Claim a task", WORK, http="POST /tasks/{id}/claim", says=str, is_tool=False)
def claim(setting: Occasion, asked: TaskTaken) -> Claimed:
    """Claim a task from the pool; the member must have room for it."""
    acting = _get_acting(setting, asked)
    return member_work.claim(setting.store, setting.who, acting, asked.id, now=setting.now)


@operation("Accept a task", WORK, http="POST /tasks/{id}/accept", says=str, is_tool=False)
def accept(setting: Occasion, asked: TaskTaken) -> Claimed | Refused:
    """Accept an offered task."""
    acting = _get_acting(setting, asked)
    return member_work.accept(setting.store, setting.who, acting, asked.id, now=setting.now)


@operation("Decline a task", WORK, http="POST /tasks/{id}/reject", says=str, is_tool=False)
def decline(setting: Occasion, asked: TaskDeclined) -> TaskChange:
    """Reject an offered task."""
    acting = _get_acting(setting, asked)
    member_work.reject(
        setting.store, setting.who, acting, asked.id, reason=asked.reason, now=setting.now
    )
    return TaskChange(task=asked.id, changed=True)


@operation("Hand a task back", OWN, http="POST /tasks/{id}/release", says=str, is_tool=False)
def release(setting: Occasion, asked: TaskReleased) -> TaskChange:
    """Hand a task back to the pool."""
    changed = member_work.release(
        setting.store,
        setting.who,
        asked.fence,
        task=asked.id,
        reason=asked.reason,
        now=setting.now,
    )
    return TaskChange(task=asked.id, changed=changed)


@operation("Report progress", OWN, http="POST /tasks/{id}/progress", says=str, is_tool=False)
def progress(setting: Occasion, asked: ProgressMade) -> Heard:
    """Report progress, which is also a sign of life; the answer brings messages."""
    return member_work.progress(
        setting.store,
        setting.who,
        asked.fence,
        task=asked.id,
        text=asked.text,
        data=asked.data,
        ack=asked.ack,
        now=setting.now,
    )


@operation("End a task", OWN, http="POST /tasks/{id}/finish", says=str, is_tool=False)
def finish(setting: Occasion, asked: TaskFinished) -> TaskState | AlreadyEnded:
    """End an attempt: the first result stands."""
    if asked.kind not in {*ErrorClass}:
        raise InputError(f"A failure is one of {', '.join(sorted(ErrorClass))}.")
    result = TaskResult(
        status=asked.status,
        text=asked.text,
        kind=ErrorClass(asked.kind),
        reset=asked.reset,
        tokens=asked.tokens,
        micro_usd=asked.micro_usd,
        spent=asked.spent,
    )
    ended = member_work.finish(
        setting.store, setting.who, asked.fence, result, task=asked.id, now=setting.now
    )
    if isinstance(ended, AlreadyEnded):
        return ended
    return TaskState(task=asked.id, state=ended)


@operation("Ask for files", OWN, http="POST /tasks/{id}/files", says=str, is_tool=False)
def claim_task_files(setting: Occasion, asked: FilesAsked) -> HeldFiles:
    """Claim more files: all of them, or none if another task holds any."""
    held = member_work.claim_files(
        setting.store, setting.who, asked.fence, asked.files, task=asked.id, now=setting.now
    )
    return HeldFiles(held=held)


@operation(
    "Write to the agent of a task",
    OWN,
    http="POST /tasks/{id}/messages",
    status=201,
    says=str,
    is_tool=False,
)
def write_to_task(setting: Occasion, asked: MessageToTask) -> SentMessage:
    """Write a message to the agent or member of a task."""
    root = setting.project.root
    message = inbox.send_message(
        setting.store, setting.who, asked.text, root=root, task=asked.id, now=setting.now
    )
    return SentMessage(message=message)


@operation(
    "Read the messages to a task",
    OWN,
    http="GET /tasks/{id}/messages",
    says=str,
    is_tool=False,
    confirms=True,
)
def read_task_messages(setting: Occasion, asked: TaskInboxAsked) -> Inbox:
    """Messages to a task, until its agent confirms them by `ack`."""
    messages, confirms = inbox.read_messages(
        setting.store, setting.who, task=asked.id, ack=asked.ack, now=setting.now
    )
    return Inbox(messages=messages, ack=confirms)
