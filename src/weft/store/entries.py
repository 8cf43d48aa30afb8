"""Entries of the gate's queue.

A task enters with its candidate, a story with those of all its subtasks; a task that leaves the
gate takes its entry out of the queue. An entry that a person reviews waits beside the queue.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from weft import stages
from weft.errors import Refused
from weft.model import TERMINAL, Stage, State
from weft.store import row_records
from weft.store.claims import family
from weft.store.database import Row, Transaction, encode, encode_keys
from weft.store.team_rows import is_contending
from weft.words import IN_REVIEW

SENT_BACK = ("red", "conflict")
"""Failures that the gate itself records."""


def enter(tx: Transaction, task: Row, *, now: float) -> None:
    """Queue a task with its candidate, or its story. The candidate of an entrant is checked, and
    does not land before its team has chosen it."""
    if task["run"] is None:
        return
    if is_contending(tx, task):
        entry = f"{task['id']}.{task['attempt']}"
        if tx.one("entry", id=entry, run=task["run"]) is None:
            _add(tx, entry, [task], None, looked_at=True, now=now)
        return
    kin = [] if task["story"] is None else family(tx, task["story"])
    asked = row_records.request(task)
    if not kin and asked.review and stages.looks(task["stage"]):
        open_review(tx, _passed_on(tx, task), task, now=now)
    elif not kin:
        looked_at = asked.review or stages.is_to_be_looked_at(asked.stages, task["stage"])
        _add(tx, f"{task['id']}.{task['attempt']}", [task], None, looked_at=looked_at, now=now)
    for story in kin:
        if story["id"] == task["story"]:
            whole = row_records.request(story)
            enter_story(tx, story, looked_at=whole.review or bool(whole.stages), now=now)


def enter_story(tx: Transaction, story: Row, *, looked_at: bool, now: float) -> None:
    """Queue a story if all its subtasks have their candidates."""
    rows = family(tx, story["id"])
    alive = [row for row in rows if row["id"] != story["id"] and row["state"] not in TERMINAL]
    if alive and all(row["state"] == State.GATING for row in alive):
        tries = sum(row["attempt"] for row in rows)
        entry = f"{story['id']}.{tries}.{len(alive)}"
        _add(tx, entry, alive, story["id"], looked_at=looked_at, now=now)


def enter_judged(tx: Transaction, story: Row, *, now: float) -> None:
    """Queue a story that passed its last stage, or show it to a person first."""
    if not row_records.request(story).review:
        enter_story(tx, story, looked_at=False, now=now)
        return
    subtask = next(row for row in family(tx, story["id"]) if row["state"] == State.GATING)
    open_review(tx, _passed_on(tx, subtask), story, now=now)


def open_review(tx: Transaction, entry: Row, task: Row, *, now: float) -> None:
    """Show an entry that passed its checks to a person; `task` is its task or story."""
    [tree] = {
        verdict["tree"]
        for verdict in tx.all("verdicts_on", run=entry["run"], bases=encode_keys([entry["base"]]))
        if verdict["passed"] and json.loads(verdict["combination"]) == [entry["id"]]
    }
    shown = {"entry": entry["id"], "task": task["id"], "base": entry["base"], "tree": tree}
    tx.run("add_review", run=entry["run"], now=now, **shown)
    for number in json.loads(entry["tasks"]):
        tx.run("set_reason", id=int(number), reason=IN_REVIEW, now=now)
    tx.event("review_opened", task, now=now, entry=entry["id"])
    tx.wake()


def _passed_on(tx: Transaction, task: Row) -> Row:
    """Return the entry that was checked and went to the stages that judge it."""
    entry = tx.one("entry", id=task["entry"], run=task["run"])
    assert entry is not None, "a candidate is judged only after its first check"
    return entry


def enter_rest(tx: Transaction, story: int, *, now: float) -> None:
    """Queue the other subtasks of a story without the subtask that left the gate, if all can
    land."""
    for row in _without_entry(tx, family(tx, story), story)[:1]:
        enter(tx, row, now=now)


def enter_each(tx: Transaction, story: int, *, now: float) -> None:
    """Queue each subtask of an ended story that waited for its siblings."""
    for row in _without_entry(tx, tx.all("family", story=story), story):
        enter(tx, row, now=now)


def _without_entry(tx: Transaction, rows: Sequence[Row], story: int) -> list[Row]:
    waiting = [row for row in rows if row["id"] != story and row["state"] == State.GATING]
    return [row for row in waiting if tx.one("entry_of_task", task=row["id"]) is None]


def _add(
    tx: Transaction,
    entry: str,
    tasks: Sequence[Row],
    story: int | None,
    *,
    looked_at: bool,
    now: float,
) -> None:
    attempts = [tx.one("attempt", task=row["id"], number=row["attempt"]) for row in tasks]
    # A subtask built on a sibling's candidate ended after the sibling.
    done = sorted(
        (attempt for attempt in attempts if attempt is not None and attempt["candidate"]),
        key=lambda attempt: (attempt["ended"], attempt["task"]),
    )
    if not done:
        return
    failures = [row["kind"] for task in tasks for row in tx.all("failures_of", task=task["id"])]
    tx.run(
        "add_entry",
        id=entry,
        run=tasks[0]["run"],
        story=story,
        tasks=encode_keys(str(row["id"]) for row in tasks),
        work=encode(
            [
                *_merges_of(tasks),
                *([attempt["candidate"], attempt["base"]] for attempt in done),
            ]
        ),
        needs=encode_keys(()),
        alone=any(kind in SENT_BACK for kind in failures),
        looked_at=looked_at,
        at=now,
    )
    for row in tasks:
        tx.run("set_entry", id=row["id"], entry=entry)
    tx.event("entry_queued", now=now, run=tasks[0]["run"], task=tasks[0]["id"], entry=entry)
    tx.wake()


def _merges_of(tasks: Sequence[Row]) -> list[list[str]]:
    """Return the merges that repair tasks start from, as work that lands before theirs."""
    merges = [row_records.request(row).merge for row in tasks]
    return [[merge.commit, merge.trunk] for merge in merges if merge is not None]


def back_to_its_maker(tx: Transaction, task: Row) -> None:
    """Return a task to the stage that makes its candidate."""
    maker = stages.maker(row_records.request(task).stages)
    if maker is not None:
        set_stage(tx, task["id"], maker)


def set_stage(tx: Transaction, task: int, stage: Stage | None) -> None:
    """Set the stage of a task; None for a story whose subtasks are at work."""
    tx.run(
        "set_stage",
        id=task,
        stage=None if stage is None else stage.name,
        agent=None if stage is None else stage.agent,
        demand=encode({} if stage is None else dict(stage.demand)),
    )


def landing_tasks(tx: Transaction, run: str) -> set[int]:
    """Return the tasks of a run whose landing has begun, and their stories."""
    landing = tx.one("open_landing", run=run)
    if landing is None:
        return set()
    rows = [tx.one("entry", id=entry, run=run) for entry in json.loads(landing["entries"])]
    numbers = {int(task) for row in rows if row for task in json.loads(row["tasks"])}
    return numbers | {row["story"] for row in rows if row and row["story"] is not None}


def withdraw(tx: Transaction, task: Row, *, now: float) -> None:
    """Withdraw the entry of a task; refuse once its landing has begun."""
    entry = tx.one("entry_of_task", task=task["id"])
    if entry is None:
        tx.run("end_review", entry=task["entry"], state="withdrawn", now=now)
        return
    if entry["state"] == "landing":
        raise Refused(f"Task {row_records.label(task)} is landing and can no longer be stopped.")
    tx.run("set_entry_state", id=entry["id"], state="withdrawn")
    tx.event("entry_withdrawn", now=now, run=entry["run"], task=task["id"], entry=entry["id"])
    tx.wake()
