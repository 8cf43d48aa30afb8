"""The operations by which people steer tasks, runs, agents and limits."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from weft import bounds
from weft.admission.capacity import MOST, is_consumable
from weft.errors import Forbidden, InputError, Refused
from weft.formats import dollars, micro_dollars
from weft.model import Run
from weft.operations.identity import ADMIN, WORK, has, may_steer
from weft.operations.registry import Occasion, operation
from weft.runs import control
from weft.runs.control import ControlResult
from weft.runs.task_names import get_named
from weft.store.limit_table import resume_agent as let_start
from weft.store.limit_table import set_limit as put_limit

Words = Annotated[str, Meta(max_length=bounds.MESSAGE)]
Named = Annotated[str, Meta(min_length=1, max_length=200)]
Number = Annotated[int, Meta(ge=1, le=bounds.NUMBER)]
Task = Annotated[Number | Named, Meta(description="Its number, or its name such as `run/1.2`.")]
TaskOrRun = Annotated[Number | Named, Meta(description="A task by number or name, or a run.")]


class TaskAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task: Task


class RejectAsked(TaskAsked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: Annotated[Words, Meta(description="The reason; the agent of the next attempt reads it.")]


class AnswerGiven(TaskAsked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: Annotated[Words, Meta(description="The answer, or the number of an option.")]


class Choice(TaskAsked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    entrant: Number


class RetryAsked(TaskAsked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    note: Annotated[Words, Meta(description="A sentence for the agent of the next attempt.")] = ""
    agent: Annotated[
        str, Meta(max_length=100, description="The agent that does it from now on.")
    ] = ""
    files: Annotated[
        list[Named], Meta(max_length=100, description="Files that it may change besides its own.")
    ] = []


class NamedAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: TaskOrRun


class CancelAsked(NamedAsked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Annotated[
        str, Meta(max_length=bounds.REASON, description="A sentence for the log.")
    ] = ""


class AgentAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    agent: Named


class LimitAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    resource: Named
    capacity: Annotated[
        Annotated[int, Meta(ge=0, le=MOST)] | Annotated[str, Meta(max_length=30)],
        Meta(description="A number; of a budget, micro-dollars, or dollars as a text."),
    ]


class DrainAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    undo: Annotated[bool, Meta(description="Let tasks start again.")] = False


class MessageSent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task: Number
    text: Annotated[str, Meta(min_length=1, max_length=bounds.MESSAGE)]


class LandAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run: Annotated[str, Meta(max_length=200, description="Left out: the only run to land.")] = ""
    onto: Annotated[
        str, Meta(max_length=bounds.REF, description="The branch; left out: that of the run.")
    ] = ""


@operation("Approve a task", ADMIN)
def approve(setting: Occasion, asked: TaskAsked) -> ControlResult:
    """Approve a task that waits for a person: it counts as done."""
    return control.approve(setting.store, str(asked.task), now=setting.now)


@operation("Reject a task", ADMIN)
def reject(setting: Occasion, asked: RejectAsked) -> ControlResult:
    """Reject a question, or the work of a task at the gate, with a reason."""
    return control.reject(setting.store, str(asked.task), asked.text, now=setting.now)


@operation("Skip a task", ADMIN)
def skip(setting: Occasion, asked: TaskAsked) -> ControlResult:
    """Leave out a task; the tasks that need it go on."""
    return control.skip(setting.store, str(asked.task), now=setting.now)


@operation("Answer an agent", ADMIN)
def answer(setting: Occasion, asked: AnswerGiven) -> ControlResult:
    """Answer the question of a task's agent."""
    return control.answer(setting.store, str(asked.task), asked.text, now=setting.now)


@operation("Choose a result", ADMIN)
def choose(setting: Occasion, asked: Choice) -> ControlResult:
    """Choose the result of an entrant of a team for its task."""
    from weft.runs.task_diff import choose_candidate  # late: brings git along

    name = choose_candidate(setting.store, str(asked.task), asked.entrant)
    return ControlResult(text=f"Entrant {asked.entrant} was chosen for task {name}.")


@operation("Try a task again", ADMIN, on_repository=True)
def retry(setting: Occasion, asked: RetryAsked) -> ControlResult:
    """Reopen a task that has ended or needs a person."""
    name = str(asked.task)
    if not asked.agent:
        return control.retry(
            setting.store, name, now=setting.now, note=asked.note, files=asked.files
        )
    from weft.runs.agent_change import retry_with_agent  # late: brings plans and agents along

    return retry_with_agent(setting.project, name, asked.agent, asked.note, tuple(asked.files))


@operation("Pause a task or run", ADMIN)
def pause(setting: Occasion, asked: NamedAsked) -> ControlResult:
    """Keep a task, or all of a run, from starting; running attempts go on to their end."""
    return control.pause(setting.store, str(asked.name), now=setting.now)


@operation("Resume a task or run", ADMIN)
def resume(setting: Occasion, asked: NamedAsked) -> ControlResult:
    """Let a paused task go on, or a paused run and its gate."""
    return control.resume(setting.store, str(asked.name), now=setting.now)


@operation("Cancel a task or run", WORK)
def cancel(setting: Occasion, asked: CancelAsked) -> ControlResult:
    """Cancel a task that you sent; an admin cancels any task or run."""
    target = get_named(setting.store, str(asked.name))
    if not has(setting.who, ADMIN):
        if isinstance(target, Run):
            raise Forbidden(f"Only an admin cancels run {target.id}.")
        if not may_steer(setting.store, setting.who, target):
            raise Forbidden(f"Task {target.id} was sent by another identity.")
    by = f" by {setting.who.name}" if setting.who.token else ""
    reason = asked.reason or f"cancelled{by}"
    return control.cancel(setting.store, str(asked.name), now=setting.now, reason=reason)


@operation("Let an agent start again", ADMIN)
def resume_agent(setting: Occasion, asked: AgentAsked) -> ControlResult:
    """Let an agent start again that was stopped."""
    changed = let_start(setting.store, asked.agent, now=setting.now)
    return ControlResult(text=f"Agent {asked.agent} may start again.", changed=changed)


@operation("Set a limit", ADMIN)
def set_limit(setting: Occasion, asked: LimitAsked) -> ControlResult:
    """Set a limit for every process. A lower limit stops no running task; 0 pauses."""
    amount = _read_amount(asked)
    before = put_limit(setting.store, asked.resource, amount, now=setting.now)
    write = dollars if is_consumable(asked.resource) else str
    was = "not set" if before is None else write(before)
    text = f"The limit {asked.resource} is {write(amount)} from now on; it was {was}."
    return ControlResult(text=text, changed=before != amount)


def _read_amount(asked: LimitAsked) -> int:
    if isinstance(asked.capacity, int):
        return asked.capacity
    text = asked.capacity
    if is_consumable(asked.resource):
        amount, kind = micro_dollars(text), "in dollars, 0 or more and below a million"
    else:
        amount = int(text) if text.isascii() and text.isdecimal() else None
        kind = f"a whole number, 0 or more and at most {MOST}"
    if amount is None or amount > MOST:
        raise InputError(f"The limit {asked.resource} is {kind}, not {text!r}; 0 pauses it.")
    return amount


@operation("Drain weft", ADMIN)
def drain(setting: Occasion, asked: DrainAsked) -> ControlResult:
    """Start no more tasks, on any host; or start them again."""
    verb = control.admit_again if asked.undo else control.stop_admissions
    return verb(setting.store, now=setting.now)


@operation("Write to a task", WORK)
def message(setting: Occasion, asked: MessageSent) -> ControlResult:
    """Write a message to the agent or member of a task."""
    from weft.operations import inbox  # late: brings agent files along

    root = setting.project.root
    inbox.send_message(
        setting.store, setting.who, asked.text, root=root, task=asked.task, now=setting.now
    )
    return ControlResult(text="The message is sent; the agent gets it at its next step.")


@operation("Land a run", ADMIN, on_repository=True)
def land(setting: Occasion, asked: LandAsked) -> ControlResult:
    """Land a run on a branch that no checkout has."""
    from weft.gate.run_landing import land_at_home  # late: brings the gate along

    done = land_at_home(setting.project, asked.run or None, asked.onto or None)
    if not done.landed:
        raise Refused(f"Run {done.run} cannot land on {done.branch}; `weft land` there says why.")
    return ControlResult(text=f"Run {done.run} is on {done.branch}.", run=done.run)
