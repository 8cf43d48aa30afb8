"""Tasks sent into the swarm: to the pool, or to a member in four ways.

Every refusal comes before the first write. The depth of leads that send work to leads is bounded,
so that no chain of them goes on for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from weft import bounds, paths, plan
from weft.admission.capacity import attempt_demand
from weft.errors import AtCapacity, Forbidden, InputError, Refused
from weft.git import NoSuchCommit
from weft.model import MET, SWARM, Capacity, NewTask, TaskRequest, Worker
from weft.operations.identity import (
    ADMIN,
    WORK,
    Identity,
    get_called,
    get_sender,
    get_visible_task,
    has,
    need,
    need_agent,
)
from weft.operations.member_records import Dispatched, NewWork
from weft.operations.registry import Occasion, operation
from weft.operations.submission import Submitted, submit_prepared
from weft.plan.plan_records import Problem, Severity
from weft.project.own_repository import get_repository
from weft.project.project import Project
from weft.project.site import agent_names, read_agent
from weft.runs.agent_readiness import require_agents
from weft.runs.plan_check import CheckedPlan, PlanSource, check, setting_of
from weft.runs.preparation import PlanUpload, RunOptions, prepare, run_budget
from weft.store import Store
from weft.store.members import assign, find_room, offer
from weft.store.store import writes
from weft.store.tasks import get_task, submit
from weft.store.tokens import refuse_revoked

DEFAULT_TENANT: Final = "default"

_OWNED: Final = ("worker:", "host:", "run:", "stage:", "team:", "gate:")
"""Resources of a worker, host, run or gate: only an admin makes a task use them."""

DEEPEST: Final = 3
"""Most tasks between a task that an agent sent and the task that a person sent."""


def address(store: Store, who: Identity, project: Project, work: NewWork) -> NewWork:
    """Return the task with the repository and the settings of the agent file it names, if any.

    The name of an agent file wins over a capability of the same name. Raise `Forbidden` if this
    identity may not send work to that agent.
    """
    if work.agent is None or work.to is not None or work.agent not in agent_names(project.root):
        return work
    agent = read_agent(project.root, work.agent)
    need_agent(who, agent)
    return replace(
        work,
        repo=get_repository(project.root, store),
        stage=agent.stage or "implement",
        provider=agent.provider,
        agent_labels=agent.needs_labels,
    )


@writes
def send(store: Store, who: Identity, work: NewWork, *, now: float) -> Dispatched:
    """Submit a task for the pool, or assign, queue or offer it to a member, or prefer a member.

    Raise `AtCapacity` if it is assigned to a member without room; `queue` waits for room.
    """
    need(who, WORK)
    refuse_revoked(store, who.token, now=now)
    _refuse_unusable(who, work)
    if who.fence is not None:  # an agent wrote it, and another agent will read it as its prompt
        hide = store.redactor.redact_text
        work = replace(work, title=hide(work.title), text=hide(work.text))
    sender = get_sender(store, who, work.sender, now=now)
    member = None if work.to is None else get_called(store, work.to, now=now)
    tenant = _tenant(who, work)
    for number in work.needs:
        get_visible_task(store, who, number)
    if member is not None:
        _refuse_unfit(store, work, member, now=now)
    task = submit(
        store,
        _new_task(
            work,
            member,
            sender,
            depth=_depth(store, who),
            until=now + store.tuning.preference,
        ),
        repo=f"{SWARM}{DEFAULT_TENANT}" if work.repo is None else work.repo,
        tenant=tenant,
        now=now,
    )
    if member is not None:
        match work.how:
            case "assign" | "queue":
                assign(store, task, member.id, now=now, or_queue=True)
            case "offer":
                offer(store, task, member.id, now=now)
    about = get_task(store, task)
    return Dispatched(task=task, name=about.name, state=about.state)


def _refuse_unusable(who: Identity, work: NewWork) -> None:
    if not work.text.strip():
        raise InputError("Say what is to be done: the text is empty.")
    if len(work.title) > bounds.TITLE or not work.title.isprintable():
        raise InputError(f"A title has up to {bounds.TITLE} printable characters.")
    if (work.how == "pool") != (work.to is None):
        raise InputError("Work for the pool names no member; all other work names a member.")
    if work.repo is not None and (work.to is not None or work.agent is None):
        raise InputError("What is done in a repository names its agent, and is for no member.")
    if work.needs_labels and work.repo is None:
        raise InputError("Members have no labels; only a task for an agent file may ask for some.")
    for resource in work.uses:
        if resource.startswith(_OWNED) and not has(who, ADMIN):
            raise Forbidden(f"{resource} belongs to others; only an admin's task may use it.")


def _depth(store: Store, who: Identity) -> int:
    """Count the tasks between this task and a person; raise if there are too many."""
    if who.task is None:
        return 0
    depth = 1 + get_task(store, who.task).request.depth
    if depth > DEEPEST:
        raise Refused(
            f"Tasks send tasks at most {DEEPEST} deep, and this task is that deep. Report the "
            "rest of the work in your result, and let the sender decide."
        )
    return depth


def _tenant(who: Identity, work: NewWork) -> str:
    """Return the tenant whose turns the task takes; raise `Forbidden` if those are not its
    sender's."""
    tenant = work.tenant or who.tenant or DEFAULT_TENANT
    if who.tenant not in (None, tenant):
        raise Forbidden("Work is sent for one's own tenant.")
    return tenant


def _refuse_unfit(store: Store, work: NewWork, member: Worker, *, now: float) -> None:
    """Refuse a task that this member may not or cannot take, or not now."""
    if work.agent is not None and work.agent not in member.capabilities:
        raise Refused(f"{member.id} cannot do {work.agent}.")
    if work.how == "assign":
        room = find_room(store, member.id, now=now)
        if not room.available:
            raise AtCapacity(_full(member, room))
    if work.how == "offer":
        unmet = [need for need in work.needs if get_task(store, need).state not in MET]
        if unmet:
            raise Refused(
                f"What needs task {unmet[0]} cannot be offered before that is done; "
                "prefer or queue it instead."
            )


def _full(member: Worker, room: Capacity) -> str:
    return (
        f"{member.name} is at capacity ({room.current}/{room.max} tasks). "
        "Offer or queue it, or wait until a task of its has ended."
    )


def _new_task(
    work: NewWork, member: Worker | None, sender: str, *, depth: int, until: float
) -> NewTask:
    prefers = work.how == "prefer" and member is not None
    return NewTask(
        name=_name(work),
        text=work.text,
        request=TaskRequest(depth=depth, needs_labels=work.needs_labels),
        attached=work.attached,
        files=tuple(paths.normalise(file) for file in work.files),
        demand=attempt_demand(
            run=None,
            stage=None,
            agent=work.agent,
            provider=work.provider,
            uses=work.uses,
            labels=(*work.needs_labels, *work.agent_labels),
        ),
        needs=tuple(map(str, work.needs)),
        klass=work.klass,
        priority=work.priority,
        agent=work.agent,
        stage=work.stage,
        pinned=member.id if prefers and member is not None else None,
        pin_until=until if prefers else None,
        created_by=sender,
    )


def _name(work: NewWork) -> str:
    """Return the title, or a name for the branch; without both, the store numbers the task."""
    if work.repo is None:
        return work.title.strip()
    from weft.operations.single_task import choose_name  # late: it brings git and workspaces along

    return choose_name(work.title or work.text)


Name = Annotated[str, Meta(min_length=1, max_length=bounds.NAME)]
Format = Literal["plan.md", "prd.json", "beads"]
_SUFFIXES: Final[Mapping[Format, str]] = {"plan.md": "md", "prd.json": "json", "beads": "jsonl"}


class PlanSent(Struct, frozen=True, kw_only=True):
    submitted: Submitted
    warnings: tuple[str, ...]


class NewPlan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan as text, with the wishes of its sender."""

    plan: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=bounds.PLAN,
            description="The text of a plan.md: `## Phase 1: …`, `- [ ] Task 1: …`, and under a "
            "task `<!-- files: … -->` and `<!-- depends: task1 -->`. Or of a prd.json.",
        ),
    ]
    name: Annotated[str, Meta(pattern=bounds.RUN_NAME, description="Begins the run's id.")] = "plan"
    agent: Annotated[Name, Meta(description="The agent for tasks that name none.")] = "implement"
    stages: Annotated[
        list[Name],
        Meta(max_length=bounds.STAGES, description="Of tasks that name none: test, implement."),
    ] = []
    slots: Annotated[
        Annotated[int, Meta(ge=1, le=bounds.SLOTS)] | None, Meta(description="Agents at a time.")
    ] = None
    budget_usd: Annotated[
        Annotated[float, Meta(gt=0, lt=bounds.DOLLARS)] | None,
        Meta(description="Dollars for the whole run."),
    ] = None
    review: Annotated[
        bool, Meta(description="Whether a person accepts every candidate before it lands.")
    ] = False
    format: Annotated[
        Format | None, Meta(description="The plan's format; left out, its first line tells.")
    ] = None
    base: Annotated[
        str,
        Meta(
            pattern=rf"^[^\s\x00-\x1f\x7f]{{1,{bounds.REF}}}$",
            description="The commit or branch it starts from.",
        ),
    ] = "HEAD"

    def options(self) -> RunOptions:
        dollars = self.budget_usd
        return RunOptions(
            agent=self.agent,
            stages=tuple(self.stages),
            slots=self.slots,
            review=self.review,
            base=self.base,
            micro_usd=None if dollars is None else run_budget(dollars),
        )


@operation(
    "Submit a plan",
    ADMIN,
    http="POST /runs",
    status=201,
    says=lambda sent: f"Run {sent.submitted.run} has {len(sent.submitted.tasks)} task(s).",
    on_repository=True,
)
def submit_plan(setting: Occasion, asked: NewPlan) -> PlanSent:
    """Submit a plan as a run: its tasks start as their needs allow, and land when they pass their
    checks.

    Only an admin may, since a plan chooses agents and brings commands (`check:`). Follow it with
    get_tasks and its run.
    """
    return submit_text(setting.store, setting.who, setting.project, asked)


def submit_text(store: Store, who: Identity, project: Project, new: NewPlan) -> PlanSent:
    wanted = new.options()
    source = _source(new)
    checked = check(source, setting_of(project, store), wanted.slots)
    _refuse_unsound(checked)
    place = f"{who.subject}:{source.name}"
    upload = PlanUpload(source=source, stem=new.name, place=place, spec="")
    options = replace(wanted, tenant=who.tenant or DEFAULT_TENANT)
    try:
        prepared = prepare(project, checked, upload, options)
    except NoSuchCommit as error:  # which says where the repository is
        raise InputError(f"{options.base!r} is no commit of the repository.") from error
    if options.preflight:
        require_agents(project, store, prepared.agents)
    submitted = submit_prepared(project, store, prepared)
    return PlanSent(
        submitted=submitted, warnings=tuple(_describe(problem) for problem in checked.problems)
    )


def _source(new: NewPlan) -> PlanSource:
    data = new.plan.encode()
    suffix = plan.suffix_for(data) if new.format is None else _SUFFIXES[new.format]
    return PlanSource(name=f"{new.name}.{suffix}", data=data)


def _refuse_unsound(checked: CheckedPlan) -> None:
    wrong = [
        _describe(problem) for problem in checked.problems if problem.severity is Severity.ERROR
    ]
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise InputError(f"The plan cannot be run: {wrong[0]}{more}")


def _describe(problem: Problem) -> str:
    return f"line {problem.line}: {problem.message}"
