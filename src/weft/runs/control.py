"""The verbs by which people control tasks and runs; each only writes rows of the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from weft.errors import InputError, Refused
from weft.formats import count
from weft.model import ASKED, TERMINAL, Event, Run, Stage, State, Task
from weft.paths import normalise
from weft.runs.task_names import get_named, get_named_run, get_named_task
from weft.store import Store, admission, runs, tasks
from weft.store.event_log import history
from weft.store.gate import unblock_gate
from weft.store.leases import list_open
from weft.store.messages import retry_with_note
from weft.store.overview import read_prospects
from weft.store.tasks import get_task, list_attempts
from weft.words import full_label, task_clause, task_label, task_state

_GONE_ON: Final = frozenset({State.WAITING, State.READY, State.RUNNING, State.GATING})
_MOST_OPTIONS: Final = 10
"""Options of a question."""


class TaskOperation(Protocol):
    """An operation on the task or run of a name."""

    def __call__(self, store: Store, name: str, *, now: float) -> ControlResult: ...


class ControlResult(Struct, frozen=True, kw_only=True):
    text: str  # a sentence for people
    changed: bool = True  # False: the state was the same before
    task: int | None = None
    run: str | None = None
    state: str | None = None  # of the task or run, afterwards
    tasks: tuple[int, ...] = ()  # affected tasks of a run
    landing: tuple[int, ...] = ()  # tasks that can no longer be stopped


def retry(
    store: Store,
    name: str,
    *,
    now: float,
    note: str = "",
    stage: Stage | None = None,
    files: Sequence[str] = (),
) -> ControlResult:
    """Reopen a task; `note` is for its next agent, `stage` replaces its present stage, and it may
    change `files` besides its own."""
    task = get_named_task(store, name)
    granted = tuple(normalise(file) for file in files)
    changed = retry_with_note(store, task.id, note, stage=stage, files=granted, now=now)
    if not changed and (note or stage or files):
        raise Refused(
            f"{describe_task(task)} {task_clause(task)}: only a task that has ended or needs you "
            f"is retried. `weft send {full_label(task)} TEXT` reaches a running agent."
        )
    return _done(store, task, changed, "is reopened")


def answer(store: Store, name: str, text: str, *, now: float) -> ControlResult:
    """Answer the question of a task's agent, by a text or by the number of an option."""
    task = get_named_task(store, name)
    attempts = list_attempts(store, task.id)
    if task.state is not State.BLOCKED or not attempts or attempts[-1].outcome != ASKED:
        raise Refused(f"{describe_task(task)} {task_clause(task)}; its agent asked no question.")
    options = find_options(history(store, task.id))
    retry_with_note(store, task.id, _choose(options, text), now=now)
    return _done(store, task, True, "goes on with your answer")


def _choose(options: Sequence[str], text: str) -> str:
    """Return the option with this number; any other text is the answer itself, also `8443`."""
    number = int(text) if text.isdecimal() and len(text) < 3 else 0
    if not options or text in options or not 0 < number <= _MOST_OPTIONS:
        return text
    if number > len(options):
        listing = ", ".join(f"{place} {option}" for place, option in enumerate(options, 1))
        raise InputError(f"There is no option {number}; give a text or choose: {listing}.")
    return options[number - 1]


def find_options(events: Sequence[Event]) -> list[str]:
    """Return the answers to choose from of the last question."""
    asked = [event for event in events if event.kind == "attempt_finished"]
    return [str(option) for option in asked[-1].data.get("options", ())] if asked else []


def skip(store: Store, name: str, *, now: float) -> ControlResult:
    task = get_named_task(store, name)
    changed = tasks.skip(store, task.id, now=now)
    if not changed and task.state is State.DONE:
        raise Refused(f"{describe_task(task)} is done already; there is nothing to skip.")
    return _done(store, task, changed, "is skipped; the tasks that need it go on")


def approve(store: Store, name: str, *, now: float) -> ControlResult:
    task = get_named_task(store, name)
    changed = tasks.approve(store, task.id, now=now)
    if not changed and task.state is not State.DONE:
        cure = f"`weft retry {full_label(task)}` reopens it"
        raise Refused(f"{describe_task(task)} {task_clause(task)} already; {cure}.")
    return _done(store, task, changed, "is approved; the tasks that need it go on")


def reject(store: Store, name: str, reason: str, *, now: float) -> ControlResult:
    if not reason.strip():
        raise InputError("Give the reason in a sentence: the agent of the next attempt reads it.")
    task = get_named_task(store, name)
    after = tasks.reject(store, task.id, reason, now=now)
    blocked = f"waits for you; `weft retry {full_label(task)}` reopens it"
    goes_back = "is done again, and its agent gets your reason"
    return _done(store, task, True, blocked if after is State.BLOCKED else goes_back)


def cancel(store: Store, name: str, *, now: float, reason: str = "cancelled") -> ControlResult:
    target = get_named(store, name)
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


def pause(store: Store, name: str, *, now: float) -> ControlResult:
    target = get_named(store, name)
    if isinstance(target, Run):
        if target.state == "ended":
            raise Refused(f"Run {target.id} has ended already.")
        paused = runs.pause_run(store, target.id, now=now)
        text = (
            f"Run {target.id} is paused, {_count_tasks(paused)}; running agents go on to their end."
        )
        return _of_run(store, target, text, paused, changed=bool(paused))
    changed = tasks.pause(store, target.id, now=now)
    if not changed and target.state is not State.PAUSED:
        raise Refused(f"{describe_task(target)} {task_clause(target)} and cannot be paused.")
    runs_on = (
        "; its agent goes on to its end, no other starts" if target.state is State.RUNNING else ""
    )
    return _done(store, target, changed, f"is paused{runs_on}")


def resume(store: Store, name: str, *, now: float) -> ControlResult:
    target = get_named(store, name)
    if isinstance(target, Run):
        return _resume_run(store, target, now=now)
    changed = tasks.resume(store, target.id, now=now)
    if not changed and target.state not in _GONE_ON:
        cure = (
            f"; `weft retry {full_label(target)}` reopens it"
            if target.state is not State.DONE
            else ""
        )
        raise Refused(f"{describe_task(target)} {task_clause(target)}, not paused{cure}.")
    return _done(store, target, changed, "goes on")


def _resume_run(store: Store, run: Run, *, now: float) -> ControlResult:
    if run.state == "ended":
        raise Refused(f"Run {run.id} has ended already.")
    unblocked = unblock_gate(store, run.id, now=now)
    resumed = runs.resume_run(store, run.id, now=now)
    text = f"Run {run.id} goes on, {_count_tasks(resumed)}" + (
        ", and its gate." if unblocked else "."
    )
    return _of_run(store, run, text, resumed, changed=unblocked or bool(resumed))


def stop_admissions(store: Store, *, now: float) -> ControlResult:
    changed = admission.drain(store, now=now)
    going = sum(lease.kind == "attempt" for lease in list_open(store))
    still = f"; {count(going, 'agent')} still {'runs' if going == 1 else 'run'}" if going else ""
    return ControlResult(
        text=f"No task starts any more, on any host{still}. `weft drain --undo` lets tasks start.",
        changed=changed,
    )


def admit_again(store: Store, *, now: float) -> ControlResult:
    changed = admission.undo_drain(store, now=now)
    text = "Tasks start again." if changed else "weft was not drained."
    return ControlResult(text=text, changed=changed)


def list_stuck(store: Store, run: str | None, *, now: float) -> list[str]:
    """List the tasks that need a person or have failed, of a run or of all."""
    return _list_asked(store, run, ("blocked", "failed", "evicted", "cancelled"), now=now)


def list_questions(store: Store, run: str | None, *, now: float) -> list[str]:
    """List the tasks that ask a person, of a run or of all."""
    return _list_asked(store, run, ("ready",), now=now)


def _list_asked(store: Store, run: str | None, states: Sequence[str], *, now: float) -> list[str]:
    if run is not None:
        get_named_run(store, run)
    return [
        task_label(asked.task, asked.run, asked.name)
        for asked in read_prospects(store, now=now).asked
        if asked.state in states and run in (None, asked.run)
    ]


def list_unfinished(store: Store, run: str | None, *, now: float) -> list[str]:
    """List the run, or every unfinished run and every unfinished task without a run."""
    if run is not None:
        return [get_named_run(store, run).id]
    unended = [listed.id for listed in runs.list_runs(store) if listed.state != "ended"]
    single = tasks.list_tasks(store, set(State) - TERMINAL)
    return [*unended, *(str(task.id) for task in single if task.run is None)]


def describe_task(task: Task) -> str:
    """Return a task's name for the beginning of a sentence."""
    return f"Task {full_label(task)}"


def _done(store: Store, before: Task, changed: bool, text: str) -> ControlResult:
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
