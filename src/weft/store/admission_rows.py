"""The rows that the rule of admission (`weft.admission.rule`) reads, in one transaction."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from weft.admission import capacity, order, rule
from weft.admission.capacity import Shortage
from weft.admission.rule import NO_WORKER, Obstacle, PresentWorker, ReadyTask
from weft.model import Demand, State
from weft.store import row_records
from weft.store.claims import Claims, family, wanted_by
from weft.store.database import Row, Transaction, encode
from weft.store.ledger import Ledger
from weft.store.ready import path_of
from weft.store.team_rows import waits_in_team

_MOST_PASSED: Final = 256
"""Most earlier tasks that are examined although they wait for another reason."""

_MOST_SKIPPED: Final = 256
"""Most tasks of a bucket that are examined at each admission although they wait for their turn."""

_PAGE: Final = 32
"""Tasks of a bucket that are read at once after its best; each further page is larger."""


class AdmissionRows(Ledger):
    """Limits, use, workers, claims and the reservation, as a transaction sees them."""

    def __init__(self, tx: Transaction, now: float) -> None:
        super().__init__(tx, now)
        self.now = now
        self.room: dict[str, bool] = {}
        self.kept: ReadyTask | None = None
        self.claims = Claims(tx)
        self._tx = tx
        self._families: dict[int, tuple[set[int], list[str]]] = {}
        self._buckets: Sequence[Row] | None = None
        self.kept = self._find_kept()

    def _find_kept(self) -> ReadyTask | None:
        """Return the task with a reservation, as long as that helps it."""
        if self.held_up is None or not self.held_up.reserved:
            return None
        row = self._tx.one("task", id=self.held_up.task)
        if row is None or row["state"] != State.READY:
            return None
        task = self.read_task(row)
        return task if task.complete and rule.may_reserve(task, self.home(task), self) else None

    def forget_work(self) -> None:
        """Judge from now on as if no lease were open and no provider penalised."""
        stopped = {f"agent:{agent}": 0 for agent in self.stopped}
        self.effective, self.used, self.kept = {**self.nominal, **stopped}, self.spent, None

    def home(self, task: ReadyTask) -> PresentWorker:
        """Return the worker to judge a task at: its pinned worker, or none in particular."""
        return self.workers.get(task.pinned, NO_WORKER) if task.pinned else NO_WORKER

    @property
    def buckets(self) -> Sequence[Row]:
        """The best task of each bucket that is not set aside, and the best that is."""
        if self._buckets is None:
            self._buckets = self._tx.all("buckets")
        return self._buckets

    def rank(self, row: Row) -> order.Rank:
        return order.rank(row_records.queue_entry(row), self.now, self._tx.tuning)

    def _urgency(self, klass: int, priority: int, submitted: float) -> order.Urgency:
        return order.urgency(klass, priority, submitted, self.now, self._tx.tuning)

    def read_task(self, row: Row) -> ReadyTask:
        """Read the ready task of a row, with its gang."""
        rows: Sequence[Row] = [row]
        if row["gang"] is not None:
            members = self._tx.all("gang_members", gang=row["gang"])
            rows = sorted(members, key=lambda member: member["id"] != row["id"])
        pins = {member["pinned"] for member in rows} - {None}
        turns = [
            (self._urgency(member["class"], member["priority"], member["submitted"]), member["id"])
            for member in rows
        ]
        alone = len(rows) == 1
        demand = row_records.demand(row["demand"])
        if not alone:
            demand = capacity.add(*(row_records.demand(member["demand"]) for member in rows))
        return ReadyTask(
            rows=rows,
            demand=demand,
            files=row_records.files(row["files"])
            if alone
            else tuple({file for member in rows for file in row_records.files(member["files"])}),
            agents=frozenset(member["agent"] for member in rows if member["agent"] is not None),
            labels=row_records.labels(row["demand"]) if alone else capacity.list_labels(demand),
            pinned=next(iter(pins), None),
            rank=self.rank(row),
            turn=min(turns),
            complete=alone
            or (len(pins) < 2 and all(member["state"] == State.READY for member in rows)),
            in_team=any(waits_in_team(member) for member in rows),
        )

    def find_holders(self, repo: str, files: Iterable[str], own: Collection[int]) -> dict[str, int]:
        return self.claims.held(repo, files, own=own)

    def holds(self, repo: str, tasks: Iterable[int]) -> bool:
        return self.claims.any_held_by(repo, tasks)

    def states(self, tasks: Iterable[int]) -> set[str]:
        return {self.claims.states[task] for task in tasks}

    def family(self, story: int) -> tuple[set[int], list[str]]:
        if story not in self._families:
            rows = family(self._tx, story)
            self._families[story] = {row["id"] for row in rows}, wanted_by(rows)
        return self._families[story]

    def earlier(
        self, task: ReadyTask, files: Sequence[str]
    ) -> Iterator[tuple[ReadyTask, Sequence[str]]]:
        seen = task.ids | task.stories
        for most in (1, _MOST_PASSED):
            rows = self._tx.all(
                "ready_ahead",
                run=task.run,
                before=encode(self._numbers_before(task)),
                paths=encode(_paths(files)),
                most=most,
            )
            for row in rows:
                if row["id"] not in seen:
                    seen.add(row["id"])
                    yield self.read_task(row), row_records.files(row["files"])
            if len(rows) < most:
                return

    def _numbers_before(self, task: ReadyTask) -> dict[str, int]:
        """Map each class and priority (`1/2`) to the number below which its tasks go first."""
        own, first = task.turn
        submitted = task.rows[0]["submitted"]
        numbers = {}
        # Only classes and priorities that ready tasks of the run have: each costs a search.
        for klass, priority in {
            (row["class"], row["priority"]) for row in self.buckets if row["run"] == task.run
        }:
            urgent = self._urgency(klass, priority, submitted)
            if urgent <= own:
                numbers[f"{klass}/{priority}"] = first if urgent == own else capacity.MOST
        return numbers

    def shortages_of(self, demand: Demand) -> list[Shortage]:
        """List the shortages of a gate, a check, or more budget for an attempt.

        Capacity kept free for a task counts as used unless that task waits for files: this may be
        the check of the task that holds them.
        """
        used = self.used
        if self.kept is not None and not rule.find_claimed(self.kept, self):
            used = capacity.add(used, rule.kept_amounts(self.kept, self.home(self.kept), self))
        return capacity.shortages(demand, self.effective, used)


class ReadyQueue:
    """The ready tasks in order; a tenant that has had its turns comes last.

    If a task lacks a limit, the rest of its bucket is left out. A task that waits for a file or its
    turn is set aside, so that later admissions do not examine it again.
    """

    def __init__(self, tx: Transaction, rows: AdmissionRows, bests: Sequence[Row]) -> None:
        """Start from the best tasks of some buckets."""
        self._tx = tx
        self._rows = rows
        self._followers = {row["id"]: _walk(tx, row) for row in bests if row["aside"] is None}
        self._best = 0  # of the bucket of the present task
        self._asides: list[dict[str, int]] = []
        self._skipped: Counter[str] = Counter()  # by bucket, the tasks that wait for their turn
        self._heap: list[tuple[bool, order.Rank, int, Row]] = []
        for row in bests:
            self._push(row, row["id"])
        if rows.kept is not None and not any(row["id"] == rows.kept.id for row in bests):
            self._push(rows.kept.rows[0], 0)  # it may not be the best of its bucket

    def _push(self, row: Row, best: int) -> None:
        last = row["tenant"] == self._rows.yielding
        heapq.heappush(self._heap, (last, self._rows.rank(row), best, row))

    def __iter__(self) -> Iterator[ReadyTask]:
        while self._heap:
            _, _, self._best, row = heapq.heappop(self._heap)
            yield self._rows.read_task(row)

    def pass_over(self, task: ReadyTask, obstacle: Obstacle) -> None:
        if obstacle.kind not in ("file", "order") or self._best not in self._followers:
            return
        row = task.rows[0]
        if obstacle.kind == "file":
            for member in task.rows:
                self._asides.append({"id": member["id"], "holder": obstacle.task})
        elif len(task.rows) == 1 and self._shares_bucket(row, obstacle.task):
            self._asides.append({"id": row["id"], "holder": obstacle.task})
        else:
            # The earlier task makes another demand, so each admission tests again if it goes first.
            self._skipped[row["bucket"]] += 1
            if self._skipped[row["bucket"]] == _MOST_SKIPPED:
                return
        follower = next(self._followers[self._best], None)
        if follower is not None:
            self._push(follower, self._best)

    def set_aside(self) -> None:
        """Write the tasks to set aside: at the end, since a bucket is read in pages meanwhile."""
        self._tx.many("set_aside", self._asides)

    def _shares_bucket(self, row: Row, earlier: int) -> bool:
        before = self._tx.one("task", id=earlier)
        return before is not None and bool(before["bucket"] == row["bucket"])


def _walk(tx: Transaction, best: Row) -> Iterator[Row]:
    """Read the tasks of a bucket after its best in order, as they stood at the first call."""
    passed, most = 1, _PAGE
    while rows := tx.all("next_in_bucket", bucket=best["bucket"], passed=passed, most=most):
        yield from rows
        passed, most = passed + most, most * _PAGE


def _paths(files: Iterable[str]) -> dict[str, int]:
    """Map the paths at which other tasks may ask for these files: 1 with all paths beneath."""
    paths: dict[str, int] = {}
    for file in files:
        path = path_of(file)
        paths[path] = 1
        while path:
            path = path.rpartition("/")[0]
            paths.setdefault(path, 0)
    return paths
