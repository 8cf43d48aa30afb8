"""The ready tasks: how a task becomes ready, is set aside, and leaves.

Ready tasks with the same origin, urgency and demand are in the same *bucket*, so that a single test
of the limits serves all of them. A task that waits for the files of another task, or for its turn
after another task, is *set aside* for that task: no admission examines it again before the other
task gives up files or leaves the queue. The files of the ready tasks of runs are listed by path, so
that a task finds the earlier tasks of its run that share a file.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from weft.model import TERMINAL, State
from weft.paths import home
from weft.store import row_records
from weft.store.claims import STALLED, Claims, bring_all_back, bring_back, family, give_up
from weft.store.database import Row, Transaction, encode, encode_keys
from weft.store.entries import enter_each, enter_rest, withdraw
from weft.store.store import writes
from weft.store.team_rows import is_entrant


def settle(tx: Transaction, ids: Iterable[int], *, now: float) -> None:
    """Make those of these tasks ready whose needs are met and whose last attempt has ended."""
    startable = _startable(tx, ids)
    alone = [row for row in startable if row["gang"] is None]
    gangs = {row["gang"] for row in startable if row["gang"] is not None}
    for gang in sorted(gangs):
        alone += _complete_gang(tx, gang)
    if alone:
        _enqueue(tx, alone, now=now)
        tx.wake()


def settle_dependents(tx: Transaction, task: int, *, now: float) -> None:
    settle(tx, [row["id"] for row in tx.all("dependents", task=task)], now=now)


def _startable(tx: Transaction, ids: Iterable[int]) -> Sequence[Row]:
    keys = [str(number) for number in ids]
    return tx.all("startable", ids=encode_keys(keys)) if keys else []


def _complete_gang(tx: Transaction, gang: str) -> Sequence[Row]:
    """Return the waiting tasks of a gang if all of them could start now, else none."""
    waiting = [r["id"] for r in tx.all("gang_members", gang=gang) if r["state"] == State.WAITING]
    startable = _startable(tx, waiting)
    return startable if len(startable) == len(waiting) else []


def _enqueue(tx: Transaction, rows: Sequence[Row], *, now: float) -> None:
    if _keep_stories_whole(tx, rows, now=now):
        rows = _startable(tx, [row["id"] for row in rows])
    preferred = now + tx.tuning.preference
    tx.many(
        "enqueue",
        [
            {"id": row["id"], "now": now, "preferred": preferred, "bucket": _bucket(row)}
            for row in rows
        ],
    )
    holders = {row["task"] for row in tx.all("claim_holders")}
    files = [
        {"run": row["run"], "urgency": _urgency(row), "task": row["id"], "paths": _paths_of(row)}
        for row in rows
        # A task that already holds its files holds back no task that waits for them.
        if row["run"] is not None and not _goes_on(row, holders)
    ]
    if files:
        tx.many("add_ready_files", files)


def _goes_on(row: Row, holders: Container[int]) -> bool:
    """Tell whether a task continues with files that it, or its team, holds already."""
    return row["id"] in holders or (row["story"] in holders and is_entrant(row))


def _bucket(row: Row) -> str:
    """Return the key of a bucket: every column on which the limits, the worker and the turn of a
    task depend."""
    columns = "repo run tenant class priority demand agent pinned gang story"
    return encode({column: row[column] for column in columns.split()})


def _urgency(row: Row) -> str:
    return f"{row['class']}/{row['priority']}"


def _keep_stories_whole(tx: Transaction, rows: Sequence[Row], *, now: float) -> bool:
    """Let each story hold the files of all its waiting subtasks, or none.

    A subtask that wants more than its story holds (it was sent back with more files, or reopened)
    gets it for the story at once, or the story gives up its files: no task waits for claims while
    holding claims. Return whether a story gave up its files.
    """
    broke_up = False
    subtasks = [row for row in rows if row["story"] is not None]
    holders = {row["task"] for row in tx.all("claim_holders")} if subtasks else set()
    for row in subtasks:
        if row["story"] not in holders:
            continue
        relatives = family(tx, row["story"])
        kin = {relative["id"] for relative in relatives}
        files = row_records.files(row["files"])
        if Claims(tx).held(row["repo"], files, own=kin):
            _break_up(tx, row["story"], now=now)
            holders.discard(row["story"])
            broke_up = True
        else:
            tx.run("add_claims", task=row["story"], repo=row["repo"], patterns=row["files"])
            if any(
                relative["id"] == row["story"] and relative["state"] in STALLED
                for relative in relatives
            ):
                bring_all_back(tx, row["repo"])
    return broke_up


def _break_up(tx: Transaction, story: int, *, now: float) -> None:
    """Give up the files of a story and send its subtasks at the gate back."""
    for row in family(tx, story):
        if row["id"] == story:
            give_up(tx, row)
        elif row["state"] == State.GATING:
            send_back(tx, row, now=now, reason="its story had to give up its files")


def path_of(pattern: str) -> str:
    """Return the path of a pattern in the repository, from `/` on; the root is empty."""
    where = home(pattern)
    return f"/{where}" if where else ""


def _paths_of(row: Row) -> str:
    return encode_keys({path_of(file) for file in row_records.files(row["files"])})


def drop_ready_files(tx: Transaction, row: Row) -> None:
    """Delete the listed files of a task that is no longer ready."""
    if row["run"] is not None:
        tx.run(
            "drop_ready_files",
            run=row["run"],
            urgency=_urgency(row),
            task=row["id"],
            paths=_paths_of(row),
        )


def leave(
    tx: Transaction,
    row: Row,
    state: State,
    *,
    now: float,
    reason: str = "",
    until: float | None = None,
    offered_to: str | None = None,
) -> None:
    """Move a task to a state other than ready, out of the ready tasks if it was among them."""
    if row["state"] == State.GATING and state is not State.DONE:
        withdraw(tx, row, now=now)
    tx.run(
        "leave_ready",
        id=row["id"],
        state=state,
        now=now,
        reason=tx.redact(reason),
        until=until,
        offered_to=offered_to,
    )
    if row["state"] == State.GATING and row["story"] is not None and state is not State.DONE:
        enter_rest(tx, row["story"], now=now)
    if row["state"] == State.READY:
        # Capacity may have been reserved for it, and later tasks of its plan may wait for it.
        drop_ready_files(tx, row)
        tx.run("drop_reservation", task=row["id"])
        bring_back(tx, row["id"])
    if row["state"] == State.PARKED:
        tx.run("drop_sleep", task=row["id"])
    if state in STALLED:
        bring_all_back(tx, row["repo"])
    if state in TERMINAL:
        wake_sleepers(tx, "task_ended", str(row["id"]), now=now)


def wake_sleepers(tx: Transaction, kind: str, subject: str, *, now: float) -> None:
    """Make the tasks ready that sleep until an event."""
    for row in tx.all("sleepers", kind=kind, subject=subject):
        requeue(tx, row["id"], now=now)
        tx.event("task_woken", row, now=now, event=kind, subject=subject)


@writes
def wake_due(tx: Transaction, *, now: float) -> None:
    """Make parked tasks and unanswered offers whose time has come ready; end due preferences."""
    for row in tx.all("due", now=now):
        requeue(tx, row["id"], now=now)
        kind = "task_unparked" if row["state"] == State.PARKED else "offer_withdrawn"
        tx.event(kind, row, now=now)
    for row in tx.all("preferences_due", now=now):
        end_preference(tx, row, now=now)


def end_preference(tx: Transaction, row: Row, *, now: float) -> None:
    """Release a task to every capable worker: its preferred worker stayed busy or left."""
    tx.run("set_pin", id=row["id"], pinned=None, until=None)
    if row["state"] == State.READY:
        requeue(tx, row["id"], now=now)
    tx.event("preference_ended", row, now=now, worker=row["pinned"])


def send_back(tx: Transaction, row: Row, *, now: float, reason: str) -> None:
    """Requeue a task whose candidate is gone, and the tasks that built on it."""
    requeue(tx, row["id"], now=now, reason=reason)
    unsettle_dependents(tx, row["id"], now=now)
    tx.event("task_sent_back", row, now=now, reason=reason)


def unsettle_dependents(tx: Transaction, task: int, *, now: float) -> None:
    """Requeue the tasks that were ready because this task had met their need."""
    for row in tx.all("dependents_ready", task=task):
        requeue(tx, row["id"], now=now)


def requeue(tx: Transaction, task: int, *, now: float, reason: str = "") -> None:
    """Make a task wait, and ready at once if its needs are met."""
    row = tx.one("task", id=task)
    assert row is not None
    leave(tx, row, State.WAITING, now=now, reason=reason)
    settle(tx, [task], now=now)


def end_task(tx: Transaction, row: Row, state: State, *, now: float, reason: str) -> None:
    """End a task without an outcome of an attempt. A running process keeps its amounts until it has
    ended; its later effects are refused."""
    leave(tx, row, state, now=now, reason=reason)
    give_up(tx, row)
    tx.run(
        "end_attempt",
        task=row["id"],
        number=row["attempt"],
        now=now,
        outcome=str(state),
        led_to=None,
    )
    tx.event(f"task_{state}", row, now=now, reason=reason)
    if tx.one("team", task=row["id"]) is None:
        enter_each(tx, row["id"], now=now)
    if state is State.SKIPPED:
        settle_dependents(tx, row["id"], now=now)
    elif row["state"] == State.GATING:
        unsettle_dependents(tx, row["id"], now=now)  # there is no candidate to build on
    if row["gang"] is not None:
        rest = tx.all("gang_members", gang=row["gang"])
        settle(tx, [member["id"] for member in rest], now=now)
        for member in rest:  # its files may have excluded them
            tx.run("look_at", id=member["id"])
    tx.wake()
