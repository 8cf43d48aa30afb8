"""The operations by which people steer tasks, runs, agents and limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from weft import bounds
from weft.admission.capacity import MOST, is_consumable
from weft.errors import Forbidden, InputError, Refused
from weft.formats import count, dollars, micro_dollars
from weft.model import ASKED, Run, Stage, State
from weft.model import Task as StoredTask
from weft.operations.identity import ADMIN, WORK, has, may_steer
from weft.operations.registry import Occasion, operation
from weft.paths import normalise
from weft.runs.attention import find_options
from weft.runs.task_names import get_named, get_named_task
from weft.store import Store, admission, runs, tasks
from weft.store.event_log import history
from weft.store.gate import unblock_gate
from weft.store.leases import list_open
from weft.store.limit_table import resume_agent as let_start
from weft.store.limit_table import set_limit as put_limit
from weft.store.messages import retry_with_note
from weft.store.tasks import get_task, list_attempts
from weft.words import describe_task, full_label, task_clause, task_state

_GONE_ON: Final = frozenset({State.WAITING, State.READY, State.RUNNING, State.GATING})
_MOST_OPTIONS: Final = 10
"""Options of a question."""

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


class ControlResult(Struct, frozen=True, kw_only=True):
    text: str  # a sentence for people
    changed: bool = True  # False: the state was the same before
    task: int | None = None
    run: str | None = None
    state: str | None = None  # of the task or run, afterwards
    tasks: tuple[int, ...] = ()  # affected tasks of a run
    landing: tuple[int, ...] = ()  # tasks that can no longer be stopped


@operation("Approve a task", ADMIN)
def approve(setting: Occasion, asked: TaskAsked) -> ControlResult:
    """Approve a task that waits for a person: it counts as done."""
    task = get_named_task(setting.store, str(asked.task))
    changed = tasks.approve(setting.store, task.id, now=setting.now)
    if not changed and task.state is not State.DONE:
        cure = f"`weft retry {full_label(task)}` reopens it"
        raise Refused(f"{describe_task(task)} {task_clause(task)} already; {cure}.")
    return _done(setting.store, task, changed, "is approved; the tasks that need it go on")


@operation("Reject a task", ADMIN)
def reject(setting: Occasion, asked: RejectAsked) -> ControlResult:
    """Reject a question, or the work of a task at the gate, with a reason."""
    if not asked.text.strip():
        raise InputError("Give the reason in a sentence: the agent of the next attempt reads it.")
    task = get_named_task(setting.store, str(asked.task))
    after = tasks.reject(setting.store, task.id, asked.text, now=setting.now)
    blocked = f"waits for you; `weft retry {full_label(task)}` reopens it"
    goes_back = "is done again, and its agent gets your reason"
    return _done(setting.store, task, True, blocked if after is State.BLOCKED else goes_back)


@operation("Skip a task", ADMIN)
def skip(setting: Occasion, asked: TaskAsked) -> ControlResult:
    """Leave out a task; the tasks that need it go on."""
    task = get_named_task(setting.store, str(asked.task))
    changed = tasks.skip(setting.store, task.id, now=setting.now)
    if not changed and task.state is State.DONE:
        raise Refused(f"{describe_task(task)} is done already; there is nothing to skip.")
    return _done(setting.store, task, changed, "is skipped; the tasks that need it go on")


@operation("Answer an agent", ADMIN)
def answer(setting: Occasion, asked: AnswerGiven) -> ControlResult:
    """Answer the question of a task's agent."""
    store = setting.store
    task = get_named_task(store, str(asked.task))
    attempts = list_attempts(store, task.id)
    if task.state is not State.BLOCKED or not attempts or attempts[-1].outcome != ASKED:
        raise Refused(f"{describe_task(task)} {task_clause(task)}; its agent asked no question.")
    options = find_options(history(store, task.id))
    retry_with_note(store, task.id, _choose_option(options, asked.text), now=setting.now)
    return _done(store, task, True, "goes on with your answer")


def _choose_option(options: Sequence[str], text: str) -> str:
    """Return the option with this number; any other text is the answer itself, also `8443`."""
    number = int(text) if text.isdecimal() and len(text) < 3 else 0
    if not options or text in options or not 0 < number <= _MOST_OPTIONS:
        return text
    if number > len(options):
        listing = ", ".join(f"{place} {option}" for place, option in enumerate(options, 1))
        raise InputError(f"There is no option {number}; give a text or choose: {listing}.")
    return options[number - 1]


@operation("Choose a result", ADMIN)
def choose(setting: Occasion, asked: Choice) -> ControlResult:
    """Choose the result of an entrant of a team for its task."""
    from weft.runs.task_diff import get_team  # late: brings git along
    from weft.store.teams import choose_entrant

    task, _ = get_team(setting.store, str(asked.task))
    choose_entrant(setting.store, task.id, asked.entrant, now=setting.now)
    text = f"Entrant {asked.entrant} was chosen for task {full_label(task)}."
    return ControlResult(text=text)


@operation("Try a task again", ADMIN, on_repository=True)
def retry(setting: Occasion, asked: RetryAsked) -> ControlResult:
    """Reopen a task that has ended or needs a person."""
    store = setting.store
    task = get_named_task(store, str(asked.task))
    stage: Stage | None = None
    if asked.agent:
        from weft.operations.run_changes import give_to_agent  # late: brings plans and agents

        stage = give_to_agent(setting.project, store, task, asked.agent)
    granted = tuple(normalise(file) for file in asked.files)
    changed = retry_with_note(
        store, task.id, asked.note, stage=stage, files=granted, now=setting.now
    )
    if not changed and (asked.note or stage or granted):
        raise Refused(
            f"{describe_task(task)} {task_clause(task)}: only a task that has ended or needs you "
            f"is retried. `weft send {full_label(task)} TEXT` reaches a running agent."
        )
    return _done(store, task, changed, "is reopened")


@operation("Pause a task or run", ADMIN)
def pause(setting: Occasion, asked: NamedAsked) -> ControlResult:
    """Keep a task, or all of a run, from starting; running attempts go on to their end."""
    target = get_named(setting.store, str(asked.name))
    if isinstance(target, Run):
        if target.state == "ended":
            raise Refused(f"Run {target.id} has ended already.")
        paused = runs.pause_run(setting.store, target.id, now=setting.now)
        text = (
            f"Run {target.id} is paused, {_count_tasks(paused)}; running agents go on to their end."
        )
        return _of_run(setting.store, target, text, paused, changed=bool(paused))
    changed = tasks.pause(setting.store, target.id, now=setting.now)
    if not changed and target.state is not State.PAUSED:
        raise Refused(f"{describe_task(target)} {task_clause(target)} and cannot be paused.")
    runs_on = (
        "; its agent goes on to its end, no other starts" if target.state is State.RUNNING else ""
    )
    return _done(setting.store, target, changed, f"is paused{runs_on}")


@operation("Resume a task or run", ADMIN)
def resume(setting: Occasion, asked: NamedAsked) -> ControlResult:
    """Let a paused task go on, or a paused run and its gate."""
    target = get_named(setting.store, str(asked.name))
    if isinstance(target, Run):
        return _resume_run(setting.store, target, now=setting.now)
    changed = tasks.resume(setting.store, target.id, now=setting.now)
    if not changed and target.state not in _GONE_ON:
        cure = (
            f"; `weft retry {full_label(target)}` reopens it"
            if target.state is not State.DONE
            else ""
        )
        raise Refused(f"{describe_task(target)} {task_clause(target)}, not paused{cure}.")
    return _done(setting.store, target, changed, "goes on")


def _resume_run(store: Store, run: Run, *, now: float) -> ControlResult:
    if run.state == "ended":
        raise Refused(f"Run {run.id} has ended already.")
    unblocked = unblock_gate(store, run.id, now=now)
    resumed = runs.resume_run(store, run.id, now=now)
    text = f"Run {run.id} goes on, {_count_tasks(resumed)}" + (
        ", and its gate." if unblocked else "."
    )
    return _of_run(store, run, text, resumed, changed=unblocked or bool(resumed))


@operation("Cancel a task or run", WORK)
def cancel(setting: Occasion, asked: CancelAsked) -> ControlResult:
    """Cancel a task that you sent; an admin cancels any task or run."""
    store, now = setting.store, setting.now
    target = get_named(store, str(asked.name))
    if not has(setting.who, ADMIN):
        if isinstance(target, Run):
            raise Forbidden(f"Only an admin cancels run {target.id}.")
        if not may_steer(store, setting.who, target):
            raise Forbidden(f"Task {target.id} was sent by another identity.")
    by = f" by {setting.who.name}" if setting.who.token else ""
    reason = asked.reason or f"cancelled{by}"
    if isinstance(target, Run):
        return _cancel_run(store, target, now=now, reason=reason)
    changed = tasks.cancel(store, target.id, now=now, reason=reason)
    if not changed and target.state is not State.CANCELLED:
        raise Refused(
            f"{describe_task(target)} {task_clause(target)} already and cannot be cancelled."
        )
    runs_on = " Its agent is being stopped." if changed and target.state is State.RUNNING else ""
    done = _done(store, target, changed, "is cancelled")
    return replace(done, text=done.text + runs_on)


def _cancel_run(store: Store, run: Run, *, now: float, reason: str) -> ControlResult:
    cancelled, landing = runs.cancel_run(store, run.id, now=now, reason=reason)
    after = runs.get_run(store, run.id)
    if run.state == "ended":
        text = f"Run {run.id} has ended already."
    elif landing:
        text = (
            f"Run {run.id}: {_count_tasks(cancelled)} cancelled; {_count_tasks(landing)} landing, "
            "which can no longer be stopped: the run ends when that is done."
        )
    else:
        text = f"Run {run.id} is cancelled, {_count_tasks(cancelled)}."
    return ControlResult(
        text=text,
        changed=run.state != "ended",
        run=run.id,
        state=after.state,
        tasks=tuple(cancelled),
        landing=tuple(landing),
    )


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
    if asked.undo:
        changed = admission.undo_drain(setting.store, now=setting.now)
        text = "Tasks start again." if changed else "weft was not drained."
        return ControlResult(text=text, changed=changed)
    changed = admission.drain(setting.store, now=setting.now)
    going = sum(lease.kind == "attempt" for lease in list_open(setting.store))
    still = f"; {count(going, 'agent')} still {'runs' if going == 1 else 'run'}" if going else ""
    text = f"No task starts any more, on any host{still}. `weft drain --undo` lets tasks start."
    return ControlResult(text=text, changed=changed)


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


def _done(store: Store, before: StoredTask, changed: bool, text: str) -> ControlResult:
    after = get_task(store, before.id)
    name, state = describe_task(after), after.state
    now = "" if state in (State.CANCELLED, State.SKIPPED) else f" (now {task_state(after)})"
    return ControlResult(
        text=f"{name} {text}{now}." if changed else f"{name} {task_clause(after)} already.",
        changed=changed,
        task=after.id,
        run=after.run,
        state=state.value,
    )


def _of_run(
    store: Store, run: Run, text: str, concerned: Sequence[int], *, changed: bool
) -> ControlResult:
    return ControlResult(
        text=text,
        changed=changed,
        run=run.id,
        state=runs.get_run(store, run.id).state,
        tasks=tuple(concerned),
    )


def _count_tasks(numbers: Sequence[int]) -> str:
    return count(len(numbers), "task")
