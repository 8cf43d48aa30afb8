"""The gate's verbs: each needs the fence of this run's own gate, and a landing is alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from databases import look
from store_helpers import TABLES, url
from weft.candidate_records import CheckVerdict, MergeConflict
from weft.errors import Refused, StaleFence
from weft.model import NewRun, NewTask, NewWorker, Outcome, State
from weft.store import Store
from weft.store.admission import admit_task
from weft.store.attempt_end import finish
from weft.store.gate import (
    block_gate,
    complete,
    intend,
    pass_on,
    read_gate,
    record_conflict,
    record_verdict,
    reject,
    see_entries,
)
from weft.store.leases import release, take
from weft.store.runs import submit_run
from weft.store.tasks import reject as reject_task
from weft.store.workers import register

pytestmark = pytest.mark.each_store

__all__ = ["url"]

OLD, NEW, TREE = "1" * 40, "2" * 40, "3" * 40
CONFLICT = MergeConflict(base=OLD, entry="", after=(), report="no")
VERDICT = CheckVerdict(
    base=OLD,
    combination=(),
    purpose="land",
    tree=TREE,
    check_id="x",
    commands=(),
    passed=True,
    seconds=1,
)


def open_run(store: Store, run: str, *names: str) -> tuple[int, dict[str, str]]:
    """A run with its gate held and a candidate of each task at it; the fence, and the entries."""
    tasks = [NewTask(name=name, files=(f"{run}/{name}",), demand={"worker:@": 1}) for name in names]
    numbers = submit_run(store, NewRun(id=run, repo="/r", base=OLD, limits={}), tasks, now=1)
    for number in numbers.values():
        [grant] = admit_task(store, "w", number, now=2)
        done = Outcome(state=State.GATING, candidate=NEW, base=OLD)
        finish(store, grant.fence, done, now=3)
    fence = take(store, "gate", run, {f"gate:{run}": 1}, worker="w", now=4)
    assert fence is not None
    rows = read_gate(store, run).entries
    return fence, {
        name: entry.id for entry in rows for name in names if numbers[name] in entry.tasks
    }


def intend_landing(store: Store, fence: int, run: str, *entries: str) -> int:
    landing = intend(
        store,
        fence,
        run,
        old=OLD,
        new=NEW,
        tree=TREE,
        entries=entries,
        commits=[NEW] * len(entries),
        revision=1,
        every_commit=False,
        now=5,
    )
    return landing.sequence


@pytest.fixture
def both(store: Store) -> tuple[int, int, dict[str, str]]:
    """The fence of run r1's gate, that of r2's, and the entries of r1."""
    register(store, NewWorker(id="w", slots=50, host="h"), now=0, stated={})
    mine, entries = open_run(store, "r1", "a", "b")
    gate, _ = open_run(store, "r2", "a")
    return mine, gate, entries


def rows(store: Store) -> dict[str, object]:
    return {name: look(store.url, f"SELECT * FROM {name} ORDER BY 1, 2") for name in TABLES}


VERBS: dict[str, Callable[[Store, int, str], object]] = {
    "see_entries": lambda store, fence, entry: see_entries(store, fence, "r1", OLD),
    "record_verdict": lambda store, fence, entry: record_verdict(
        store, fence, "r1", VERDICT, "", now=9
    ),
    "record_conflict": lambda store, fence, entry: record_conflict(
        store, fence, "r1", CONFLICT, now=9
    ),
    "reject": lambda store, fence, entry: reject(
        store, fence, "r1", [entry], "conflict", "no", now=9
    ),
    "pass_on": lambda store, fence, entry: pass_on(store, fence, "r1", entry, now=9),
    "intend": lambda store, fence, entry: intend_landing(store, fence, "r1", entry),
    "complete": lambda store, fence, entry: complete(store, fence, "r1", 1, now=9),
    "block_gate": lambda store, fence, entry: block_gate(store, fence, "r1", "no", now=9),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("whose", ["another run's", "one that ended", "an attempt's", "nobody's"])
def test_a_fence_that_does_not_hold_this_gate_changes_nothing(
    store: Store, both: tuple[int, int, dict[str, str]], verb: str, whose: str
) -> None:
    """Weakened, a verb leaves out its check, or the check takes any gate's fence."""
    mine, other, entries = both
    attempts = look(store.url, "SELECT fence FROM leases WHERE kind = 'attempt'")
    fence = {
        "another run's": other,
        "one that ended": mine,
        "an attempt's": int(attempts[0]["fence"]),
        "nobody's": 10_000,
    }[whose]
    if whose == "one that ended":
        release(store, mine, now=5, reason="ended")
    before = rows(store)
    with pytest.raises(StaleFence, match="does not hold the gate of run r1"):
        VERBS[verb](store, fence, entries["a"])
    assert rows(store) == before


def test_a_landing_begins_only_when_the_one_before_is_completed(
    store: Store, both: tuple[int, int, dict[str, str]]
) -> None:
    """Weakened, the schema breaks, which looks like a defect and would block the gate."""
    mine, _, entries = both
    sequence = intend_landing(store, mine, "r1", entries["a"])
    before = rows(store)
    with pytest.raises(Refused, match="Run r1 has a landing that is not completed"):
        intend_landing(store, mine, "r1", entries["b"])
    assert rows(store) == before
    complete(store, mine, "r1", sequence, now=6)
    assert intend_landing(store, mine, "r1", entries["b"]) == sequence + 1


def test_work_whose_landing_has_begun_is_rejected_by_neither_gate_nor_person(
    store: Store, both: tuple[int, int, dict[str, str]]
) -> None:
    """Weakened, it would be made again although it lands."""
    mine, _, entries = both
    intend_landing(store, mine, "r1", entries["a"])
    [task] = look(store.url, "SELECT id FROM tasks WHERE run = 'r1' AND name = 'a'")
    before = rows(store)
    reject(store, mine, "r1", [entries["a"]], "conflict", "no", now=6)
    assert rows(store) == before
    with pytest.raises(Refused, match="landing"):
        reject_task(store, int(task["id"]), "no", now=6)
    assert rows(store) == before
