"""A store with rows in every table, and the work that must go on after an upgrade.

Run as a program, it prints the rows of such a store as SQL. `tests/store/released` holds this
output for each released schema; docs/design/migrations.md says when to add a file.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg

from store_helpers import drain, go, hire, put
from weft.candidate_records import CheckVerdict, MergeConflict
from weft.config import GateSettings, RunSettings
from weft.model import Class, NewMember, NewRun, NewTask, Outcome, State, TaskRequest
from weft.store import Store, open_store
from weft.store.admission import admit_task
from weft.store.attempt_end import finish
from weft.store.event_log import history, last_event, read_events
from weft.store.gate import (
    complete,
    intend,
    read_gate,
    record_conflict,
    record_verdict,
    see_entries,
)
from weft.store.leases import list_open, take
from weft.store.limit_table import list_limits, list_stopped
from weft.store.members import accept, join, offer
from weft.store.messages import list_to_member, post_to_member, post_to_task
from weft.store.overview import overview
from weft.store.probe import probe
from weft.store.projections import PLAN_MARKS, TARGET_BRANCH, NewProjection, list_projections
from weft.store.runs import get_settings, read_history, submit_run
from weft.store.tasks import get_task, list_attempts, list_run, list_tasks
from weft.store.tokens import RepeatableRequest, StoredReply, create_token, keep_reply, list_tokens
from weft.store.workers import list_workers

RUN = "r1"
BASE, COMMIT, LATER, TREE = "1" * 40, "2" * 40, "4" * 40, "3" * 40
LANDED, QUEUED, RUNNING, READY, WAITING = "landed", "queued", "running", "ready", "waiting"
STORY, SUBTASK, HELD_UP = "story", "subtask", "held-up"
NOT_KEPT = {"schema_version"}


def fill(store: Store) -> None:
    """Use a store: each table gets a row, and each kind of work is under way."""
    hire(store)
    numbers = submit_run(
        store,
        NewRun(id=RUN, repo="r", base=BASE, target="main", limits={"agents": 4, "usd": 9_000_000}),
        [
            NewTask(name=LANDED, files=("a.py",), text="Do a.", demand={"run/usd": 1_000_000}),
            NewTask(name=QUEUED, files=("b.py",), request=TaskRequest(title="B", check="make b")),
            NewTask(
                name=RUNNING, files=("src/**",), agent="try", demand={"llm": 1, "host:@/port": 1}
            ),
            NewTask(name=WAITING, files=("c.py",), needs=(RUNNING,), attached={"ticket": 7}),
            NewTask(name=READY, files=("e/**",), klass=Class.BATCH),
            NewTask(name=STORY, needs=(SUBTASK,)),
            NewTask(name=SUBTASK, files=("d.py",), story=STORY, needs=(RUNNING,)),
        ],
        settings=RunSettings(gate=GateSettings(run=("make", "test")), agents={"try": "text"}),
        projections=[NewProjection(name=PLAN_MARKS, host="h", path="/plan.md")],
        now=1,
    )
    candidate = Outcome(state=State.GATING, candidate=COMMIT, base=BASE, spent={"run/usd": 5})
    for name in (LANDED, QUEUED):
        [grant] = admit_task(store, "w", numbers[name], now=2)
        finish(store, grant.fence, candidate, now=3)
    admit_task(store, "w", numbers[RUNNING], now=4)
    _land(store, numbers[LANDED])
    _fail(store)
    _join(store)
    post_to_task(store, numbers[RUNNING], sender="ann", text="Mind the gap.", now=9)
    put(store, HELD_UP, demand={"llm": 12}, now=9)
    put(store, "passes", demand={"llm": 1}, now=9)
    assert go(store, now=9).name == "passes"


def _land(store: Store, task: int) -> None:
    fence = take(store, "gate", RUN, {f"gate:{RUN}": 1}, worker="w", now=5)
    assert fence is not None
    see_entries(store, fence, RUN, BASE)
    entries = {
        number: entry.id for entry in read_gate(store, RUN).entries for number in entry.tasks
    }
    verdict = CheckVerdict(
        base=BASE,
        combination=(entries[task],),
        purpose="land",
        tree=TREE,
        check_id="x",
        commands=(("make", "test"),),
        passed=True,
        seconds=1,
    )
    record_verdict(store, fence, RUN, verdict, "ok", now=6)
    earlier = tuple(entry for entry in entries.values() if entry != entries[task])
    conflict = MergeConflict(base=BASE, entry=entries[task], after=earlier, report="b.py")
    record_conflict(store, fence, RUN, conflict, now=6)
    _land_entry(store, fence, entries[task], old=BASE, new=COMMIT)


def _land_entry(store: Store, fence: int, entry: str, *, old: str, new: str) -> None:
    landing = intend(
        store,
        fence,
        RUN,
        old=old,
        new=new,
        tree=TREE,
        entries=[entry],
        commits=[new],
        revision=1,
        every_commit=False,
        now=6,
    )
    complete(store, fence, RUN, landing.sequence, now=7)


def _fail(store: Store) -> None:
    """Let a task fail with a signature, slow its provider down and stop its agent."""
    put(store, "fails", now=7, demand={"llm": 1})
    failure = Outcome(
        state=State.FAILED,
        kind="crash",
        reason="exit 1",
        signature="s",
        penalises="anthropic",
        stops_agent="claude",
    )
    finish(store, go(store, now=7).fence, failure, now=8)


def _join(store: Store) -> None:
    """Let a member join with a token, get an offer and a message, and repeat a request."""
    token, _ = create_token(store, name="ann", scopes=("read", "work"), now=8)
    join(store, NewMember(id="m", name="ann", slots=1, token=token.id), now=8)
    offered = put(store, "offered", now=8, pinned="m")
    offer(store, offered, "m", now=8)
    post_to_member(store, "m", sender="bob", text="Hello.", now=8)
    request = RepeatableRequest(token=token.id, key="k", request="digest")
    reply = StoredReply(status=201, body="{}")
    store.write(lambda tx: keep_reply(tx, request, reply, now=8))


def dump(path: Path) -> Iterator[str]:
    """Yield the rows of a store in SQLite as statements that both databases take."""
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1"
        )
        for table in sorted({name for (name,) in tables} - NOT_KEPT):
            columns = connection.execute(f"SELECT name, type FROM pragma_table_info('{table}')")
            types = dict(columns.fetchall())
            if table == "store":
                yield "DELETE FROM store;"  # the first migration adds its row
                types["place"] = ""  # a place elsewhere would make the rows a copied store
            for row in connection.execute(f"SELECT {', '.join(types)} FROM {table}"):
                values = ", ".join(map(_literal, row, types.values()))
                yield f"INSERT INTO {table} ({', '.join(types)}) VALUES ({values});"


def _literal(value: object, type_: str) -> str:
    if value is None:
        return "NULL"
    if not type_:
        return "''"
    if type_ == "BOOLEAN":
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        assert "\n" not in value
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def load(url: str, rows: str) -> None:
    """Write the rows that `dump` yielded into an empty store of their schema."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.executescript(f"BEGIN; {rows} COMMIT;")
        return
    with psycopg.connect(url, options="-c search_path=weft") as pg:
        pg.execute(rows.encode())


def read_everything(store: Store) -> None:
    """Read every kind of record out of a store that `fill` has filled."""
    names = {task.name: task for task in list_run(store, RUN)}
    assert names[QUEUED].request == TaskRequest(title="B", check="make b")
    assert names[WAITING].attached == {"ticket": 7}
    for task in list_tasks(store):
        assert get_task(store, task.id) == task
        list_attempts(store, task.id)
        history(store, task.id)
        probe(store, task.id, now=10)
    assert read_history(store, RUN, now=10).run.target == "main"
    assert get_settings(store, RUN).gate.run == ("make", "test")
    assert [landing.new for landing in read_gate(store, RUN).landings] == [COMMIT]
    assert {state.name for state in list_projections(store, RUN)} == {PLAN_MARKS, TARGET_BRANCH}
    assert [worker.name for worker in list_workers(store, now=10)] == ["ann", "w"]
    assert [token.name for token in list_tokens(store)] == ["ann"]
    assert [message.text for message in list_to_member(store, "m")] == ["Hello."]
    assert list_stopped(store, now=10) == {"claude": "exit 1"}
    assert len(read_events(store)) == last_event(store)
    assert overview(store, most=10)
    assert list_limits(store, now=10)


def go_on(store: Store) -> None:
    """Do the work that was under way: end the running task, land, admit, submit."""
    numbers = {task.name: task.id for task in list_tasks(store)}
    [running] = [lease for lease in list_open(store) if lease.task == numbers[RUNNING]]
    finish(store, running.fence, Outcome(state=State.DONE), now=11)
    [gate] = [lease for lease in list_open(store) if lease.kind == "gate"]
    [queued] = [entry for entry in read_gate(store, RUN).entries if entry.state == "queued"]
    _land_entry(store, gate.fence, queued.id, old=COMMIT, new=LATER)
    accept(store, numbers["offered"], "m", now=12)
    assert sorted(drain(store, now=13)) == sorted([READY, WAITING, SUBTASK])
    for lease in list_open(store):
        if lease.kind == "attempt":
            finish(store, lease.fence, Outcome(state=State.DONE), now=14)
    assert sorted(drain(store, now=15)) == [HELD_UP, STORY]
    states = {task.name: task.state for task in list_tasks(store)}
    assert {states[name] for name in (LANDED, QUEUED, RUNNING, READY, WAITING)} == {State.DONE}
    submit_run(store, NewRun(id="r2", repo="r"), [NewTask(name="new", files=("a.py",))], now=16)
    assert go(store, now=17).name == "new"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "weft.db"
        with open_store(f"sqlite:///{file}") as new:
            fill(new)
        sys.stdout.writelines(f"{line}\n" for line in dump(file))
