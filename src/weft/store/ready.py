"""The ready index: keeps the few tasks that an admission has to examine.

Ready tasks lie in buckets (same origin, urgency and demand). Within a bucket, tasks that share a
file exclude each other and stand in a *line* behind that file, in plan order. An admission examines
only the head of each line, since the tasks behind it may not start first. A head that conflicts
with a held file is set aside under the holder until the holder's claims end. So no conflict is
tested again at each admission, however many tasks wait.

A task stands in a single line although it may have many files. Earlier tasks of its plan that share
its other files are found in `wants`, where every ready task of a run notes its files. Some heads
may be passed by their followers: an ad-hoc task, or a task that waits for a stalled task. Such a
head moves to the line of the file that holds it up, or leaves its line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weft.model import TERMINAL, State
from weft.paths import conflicts, home
from weft.store import row_records
from weft.store.claims import STALLED, Claims, bring_all_back, bring_back, family, give_up
from weft.store.database import Row, Transaction, encode, encode_keys
from weft.store.entries import enter_rest, withdraw
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
    buckets = _Buckets(tx)
    popular = Counter(pattern for row in rows for pattern in row_records.files(row["files"]))
    holders = {row["task"] for row in tx.all("claim_holders")}
    placed = []
    for row in rows:
        # A task that already holds its files must not queue behind tasks that wait for theirs.
        goes_on = row["id"] in holders or (row["story"] in holders and is_entrant(row))
        line = None if goes_on else _watch(row_records.files(row["files"]), popular)
        placed.append(
            {
                "id": row["id"],
                "now": now,
                "preferred": now + tx.tuning.prefer,
                "bucket": buckets.of(row),
                "line": line,
                "head": line is None,
            }
        )
    heads = _best_of_each_line(rows, placed)
    for place in placed:
        # A bucket made just now holds no other task, so the best of these is the best.
        if place["bucket"] in buckets.fresh:
            place["head"] = place["head"] or place["id"] in heads
    tx.many("enqueue", placed)
    wants = [
        {"bucket": place["bucket"], "task": row["id"], "places": _places_of(row)}
        for row, place in zip(rows, placed, strict=True)
        if row["run"] is not None and place["line"] is not None
    ]
    if wants:
        tx.many("add_want", wants)
    for bucket, line in {(p["bucket"], p["line"]) for p in placed}:
        if line is not None and bucket not in buckets.fresh:
            reorder(tx, bucket, line)


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


def _best_of_each_line(rows: Sequence[Row], placed: Sequence[dict[str, Any]]) -> set[int]:
    best: dict[tuple[int, str], tuple[float, int]] = {}
    for row, place in zip(rows, placed, strict=True):
        key = (place["bucket"], place["line"])
        standing = (row["submitted"], row["id"])
        best[key] = min(standing, best.get(key, standing))
    return {number for _, number in best.values()}


def place_of(pattern: str) -> str:
    """Return the path of a pattern in the repository, from `/` on; the root is empty."""
    where = home(pattern)
    return f"/{where}" if where else ""


def _places_of(row: Row) -> str:
    return encode_keys({place_of(file) for file in row_records.files(row["files"])})


def drop_wants(tx: Transaction, row: Row) -> None:
    """Delete the wanted files of a task, if it was in the ready index at all."""
    if row["bucket"] is not None and row["run"] is not None:
        tx.run("drop_wants", bucket=row["bucket"], task=row["id"], places=_places_of(row))


def _watch(files: tuple[str, ...], popular: Mapping[str, int]) -> str | None:
    """Choose the file to stand in line for: the file that most tasks want."""
    return max(files, key=lambda pattern: (popular[pattern], pattern)) if files else None


class _Buckets:
    """Buckets, each looked up or made once per transaction."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._known: dict[str, int] = {}
        self.fresh: set[int] = set()  # made in this transaction, hence empty before

    def of(self, row: Row) -> int:
        columns = {
            "repo": row["repo"],
            "run": row["run"],
            "tenant": row["tenant"],
            "class": row["class"],
            "priority": row["priority"],
            "demand": row["demand"],
            "agent": row["agent"],
            "pinned": row["pinned"],
            "gang": row["gang"],
        }
        # A story's claims do not exclude its subtasks: they never wait behind excluded tasks.
        key = encode({**columns, "story": row["story"]})
        if key not in self._known:
            bucket = self._tx.one("find_bucket", key=key)
            if bucket is None:
                if not self._known:
                    self._tx.run("drop_idle_buckets")
                self._tx.run("add_bucket", key=key, **columns)
                bucket = self._tx.one("find_bucket", key=key)
                assert bucket is not None
                self.fresh.add(int(bucket["id"]))
            self._known[key] = int(bucket["id"])
        return self._known[key]


def reorder(tx: Transaction, bucket: int, line: str) -> None:
    """Make the first task of a line its head."""
    tx.run("demote_head", bucket=bucket, line=line)
    tx.run("promote_best", bucket=bucket, line=line, aside=None)


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
    """Move a task to a state other than ready, out of the index if it was in it."""
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
    if row["line"] is not None:
        tx.run("promote_best", bucket=row["bucket"], line=row["line"], aside=None)
    if row["state"] == State.READY:
        # Capacity may have been reserved for it, and later tasks of its plan may wait for it.
        drop_wants(tx, row)
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


def step_aside(tx: Transaction, row: Row, held: Mapping[str, int], *, passable: bool) -> None:
    """Set a head aside that cannot start; `held` maps held patterns to their holders.

    It must hide no task that could start. A head that is not `passable` stays the head of its line,
    and the tasks behind it wait. A passable head whose line's file is held blocks the whole line.
    If another of its files is held, it joins the line of that file, or leaves its line.
    """
    if not passable:
        tx.run("set_aside", id=row["id"], holder=min(held.values()))
        return
    in_the_way = {
        own: min(holders)
        for own in row_records.files(row["files"])
        if (holders := [holder for pattern, holder in held.items() if conflicts(own, pattern)])
    }
    here = row["line"]
    if here in in_the_way:
        tx.run("set_aside", id=row["id"], holder=in_the_way[here])
        return
    line = next((own for own in in_the_way if own in held), None)
    if line is None:
        tx.run("leave_line", id=row["id"], holder=min(held.values()))
        tx.run("promote_best", bucket=row["bucket"], line=here, aside=None)
        return
    tx.run("move_line", id=row["id"], line=line)
    tx.run("promote_best", bucket=row["bucket"], line=here, aside=None)
    tx.run("demote_head", bucket=row["bucket"], line=line)
    tx.run("promote_best", bucket=row["bucket"], line=line, aside=in_the_way[line])


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
