"""What people may do to tasks and runs. Every verb is a row in the store; nobody is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.errors import InputError, Refused
from weft.model import Run, State, Task
from weft.runs.task_names import name_either, name_task
from weft.store import Store, admission, runs, tasks
from weft.store.gate import unblock_gate
from weft.store.leases import list_open
from weft.store.tasks import get_task

_GONE_ON: Final = frozenset({State.WAITING, State.READY, State.RUNNING, State.GATING})


class Done(Struct, frozen=True, kw_only=True):
    """What a verb came to."""

    text: str  # a sentence for people
    changed: bool = True  # False: it was so before
    task: int | None = None
    run: str | None = None
    state: str | None = None  # of the task, or of the run, afterwards
    tasks: tuple[int, ...] = ()  # of a run, those it concerned
    landing: tuple[int, ...] = ()  # and those that can no longer be stopped


def retry(store: Store, name: str, *, now: float) -> Done:
    task = name_task(store, name)
    changed = tasks.retry(store, task.id, now=now)
    return _done(store, task, changed, "is reopened")


def skip(store: Store, name: str, *, now: float) -> Done:
    task = name_task(store, name)
    changed = tasks.skip(store, task.id, now=now)
    if not changed and task.state is State.DONE:
        raise Refused(f"{called(task)} is done already; there is nothing to skip.")
    return _done(store, task, changed, "is skipped: what needs it goes on")


def approve(store: Store, name: str, *, now: float) -> Done:
    task = name_task(store, name)
    changed = tasks.approve(store, task.id, now=now)
    if not changed and task.state is not State.DONE:
        raise Refused(f"{called(task)} is {task.state} already; `weft retry {task.id}` reopens it.")
    return _done(store, task, changed, "is approved: what needs it goes on")


def reject(store: Store, name: str, reason: str, *, now: float) -> Done:
    if not reason.strip():
        raise InputError("Say why, in a sentence: whoever does it again is told.")
    task = name_task(store, name)
    after = tasks.reject(store, task.id, reason, now=now)
    blocked = f"is blocked; `weft retry {task.id}` reopens it"
    goes_back = "goes back to be made again, and is told why"
    return _done(store, task, True, blocked if after is State.BLOCKED else goes_back)


def cancel(store: Store, name: str, *, now: float) -> Done:
    found = name_either(store, name)
    if isinstance(found, Run):
        return _cancel_run(store, found, now=now)
    changed = tasks.cancel(store, found.id, now=now)
    if not changed and found.state is not State.CANCELLED:
        raise Refused(f"{called(found)} is {found.state} already and cannot be cancelled.")
    runs_on = " Its agent is being stopped." if changed and found.state is State.RUNNING else ""
    done = _done(store, found, changed, "is cancelled")
    return replace(done, text=done.text + runs_on)


def _cancel_run(store: Store, run: Run, *, now: float) -> Done:
    cancelled, landing = runs.cancel_run(store, run.id, now=now)
    after = runs.get_run(store, run.id)
    if run.state == "ended":
        text = f"Run {run.id} has ended already."
    elif landing:
        text = (
            f"Run {run.id}: {_many(cancelled)} cancelled; {_many(landing)} landing, which can no "
            "longer be stopped: the run ends when that is done."
        )
    else:
        text = f"Run {run.id} is cancelled, {_many(cancelled)}."
    return Done(
        text=text,
        changed=run.state != "ended",
        run=run.id,
        state=after.state,
        tasks=tuple(cancelled),
        landing=tuple(landing),
    )


def pause(store: Store, name: str, *, now: float) -> Done:
    found = name_either(store, name)
    if isinstance(found, Run):
        if found.state == "ended":
            raise Refused(f"Run {found.id} has ended already.")
        paused = runs.pause_run(store, found.id, now=now)
        text = f"Run {found.id} is paused, {_many(paused)}; what runs goes on to its end."
        return _of_run(store, found, text, paused, changed=bool(paused))
    changed = tasks.pause(store, found.id, now=now)
    if not changed and found.state is not State.PAUSED:
        raise Refused(f"{called(found)} is {found.state} and cannot be paused.")
    runs_on = ": its agent goes on, nothing more starts" if found.state is State.RUNNING else ""
    return _done(store, found, changed, f"is paused{runs_on}")


def resume(store: Store, name: str, *, now: float) -> Done:
    found = name_either(store, name)
    if isinstance(found, Run):
        return _resume_run(store, found, now=now)
    changed = tasks.resume(store, found.id, now=now)
    if not changed and found.state not in _GONE_ON:
        cure = f"; `weft retry {found.id}` reopens it" if found.state is not State.DONE else ""
        raise Refused(f"{called(found)} is {found.state}, not paused{cure}.")
    return _done(store, found, changed, "goes on")


def _resume_run(store: Store, run: Run, *, now: float) -> Done:
    if run.state == "ended":
        raise Refused(f"Run {run.id} has ended already.")
    unblocked = unblock_gate(store, run.id, now=now)
    resumed = runs.resume_run(store, run.id, now=now)
    text = f"Run {run.id} goes on, {_many(resumed)}" + (", and its gate." if unblocked else ".")
    return _of_run(store, run, text, resumed, changed=unblocked or bool(resumed))


def stop_admissions(store: Store, *, now: float) -> Done:
    changed = admission.drain(store, now=now)
    going = sum(lease.kind == "attempt" for lease in list_open(store))
    still = f"; {going} still {'runs' if going == 1 else 'run'}" if going else ""
    return Done(
        text=f"Nothing starts any more, on any host{still}. `weft drain --undo` goes on.",
        changed=changed,
    )


def admit_again(store: Store, *, now: float) -> Done:
    changed = admission.undo_drain(store, now=now)
    return Done(text="Work starts again." if changed else "Nobody had drained.", changed=changed)


def called(task: Task) -> str:
    """A task as people know it, at the beginning of a sentence."""
    return f"Task {task.id} ({task.run}/{task.name})" if task.run else f"Task {task.id}"


def _done(store: Store, before: Task, changed: bool, what: str) -> Done:
    after = get_task(store, before.id)
    now_so = "" if after.state in (State.CANCELLED, State.SKIPPED) else f" (now {after.state})"
    text = f"{called(after)} {what}{now_so}." if changed else f"{called(after)} is {after.state}."
    return Done(text=text, changed=changed, task=after.id, run=after.run, state=after.state.value)


def _of_run(store: Store, run: Run, text: str, concerned: Sequence[int], *, changed: bool) -> Done:
    return Done(
        text=text,
        changed=changed,
        run=run.id,
        state=runs.get_run(store, run.id).state,
        tasks=tuple(concerned),
    )


def _many(numbers: Sequence[int]) -> str:
    return f"{len(numbers)} task{'' if len(numbers) == 1 else 's'}"
