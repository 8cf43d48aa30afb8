"""The log, played again: what must have been true at every single admission.

Events are numbered in commit order, so replaying them shows the store as each admission
found it; nothing can hide between two samples. The rows that are left in the end must agree
with the log. Nothing of the store's code is used.

`release` leaves no event of its own: a lease that was handed back is counted until its worker
said that it would (`step: handing back`), and only at its admission if it never said so.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from typing import Any

from store.database_observer import Ask, Row
from weft.paths import conflicts


class Before:
    """What was submitted, read before any work began."""

    def __init__(self, ask: Ask) -> None:
        self.limits = {row["resource"]: row["capacity"] for row in ask("SELECT * FROM limits")}
        self.tasks = {row["id"]: row for row in ask("SELECT * FROM tasks")}
        self.needs: dict[int, set[int]] = defaultdict(set)
        for row in ask("SELECT task, needs FROM edges"):
            self.needs[row["task"]].add(row["needs"])


class Replay:
    """Goes through the log once; `broken` says which admissions were wrong, and why."""

    def __init__(self, ask: Ask, before: Before) -> None:
        self.broken: list[str] = []
        self.full: set[str] = set()  # limits that were reached
        self._before = before
        self._limits = dict(before.limits)
        self._files = {task: json.loads(row["files"]) for task, row in before.tasks.items()}
        self._wanted: dict[int, list[str]] = {}
        self._leases = {row["fence"]: row for row in ask("SELECT * FROM leases")}
        self._open: dict[int, Counter[str]] = {}  # by fence, what it takes
        self._owner: dict[int, int] = {}  # by task, its fence
        self._claims: dict[int, set[str]] = {}
        self._spent: Counter[str] = Counter()
        self._spending = ask("SELECT * FROM spending")
        self._attempts: Counter[int] = Counter()
        self._done: Counter[int] = Counter()
        self._present: set[str] = set()
        self._fence = 0
        events = ask("SELECT * FROM events ORDER BY id")
        for row in events:
            step = getattr(self, f"_{row['kind']}", None)
            if step is not None:
                step(row, json.loads(row["data"]))

    def _say(self, row: Row, broken: str) -> None:
        self.broken.append(f"event {row['id']} ({row['kind']} of {row['task']}): {broken}")

    def _worker_registered(self, _: Row, data: dict[str, Any]) -> None:
        self._present.add(data["worker"])
        self._limits[f"worker:{data['worker']}"] = data["slots"]

    def _worker_departed(self, _: Row, data: dict[str, Any]) -> None:
        self._present.discard(data["worker"])

    def _run_started(self, row: Row, data: dict[str, Any]) -> None:
        self._advance(row, data["fence"])

    def _limit_set(self, _: Row, data: dict[str, Any]) -> None:
        self._limits[data["resource"]] = data["capacity"]

    def _task_admitted(self, row: Row, data: dict[str, Any]) -> None:
        task, fence = row["task"], data["fence"]
        self._advance(row, fence)
        if data["worker"] not in self._present:
            self._say(row, f"{data['worker']} has left")
        if task in self._owner:
            self._say(row, f"fence {self._owner[task]} still owns it")
        self._attempts[task] += 1
        if data["attempt"] != self._attempts[task]:
            self._say(row, f"attempt {data['attempt']} follows {self._attempts[task] - 1}")
        missing = [need for need in self._before.needs[task] if not self._done[need]]
        if missing or self._done[task]:
            self._say(row, f"needs {missing} not done, or done before: {self._done[task]}")
        self._claim(row, self._files[task])
        self._take(row, fence, data["worker"])

    def _advance(self, row: Row, fence: int) -> None:
        if fence <= self._fence:
            self._say(row, f"fence {fence} after {self._fence}")
        self._fence = fence

    def _take(self, row: Row, fence: int, worker: str) -> None:
        """Enter what a new lease takes, and see whether all that is open fits."""
        demand = json.loads(self._before.tasks[row["task"]]["demand"])
        host = self._leases[fence]["host"]
        costs = Counter(
            {
                name.replace("worker:@", f"worker:{worker}").replace("host:@", f"host:{host}"): n
                for name, n in demand.items()
            }
        )
        self._open[fence] = costs
        self._owner[row["task"]] = fence
        self._check(row, costs)

    def _check(self, row: Row, costs: Counter[str]) -> None:
        used = sum(self._open.values(), self._spent.copy())
        for resource in costs.keys() & self._limits.keys():
            if used[resource] >= self._limits[resource]:
                self.full.add(resource)
            if used[resource] > self._limits[resource]:
                self._say(row, f"{resource} {used[resource]}/{self._limits[resource]}")

    def _claim(self, row: Row, files: list[str]) -> None:
        own = self._claims.setdefault(row["task"], set())
        own |= set(files)
        for holder, held in self._claims.items():
            if holder != row["task"]:
                for mine, theirs in itertools.product(files, held):
                    if conflicts(mine, theirs):
                        self._say(row, f"{mine} while {holder} holds {theirs}")

    def _claims_extended(self, row: Row, data: dict[str, Any]) -> None:
        self._files[row["task"]] = [*self._files[row["task"]], *data["files"]]
        self._claim(row, data["files"])

    def _progress(self, row: Row, data: dict[str, Any]) -> None:
        fence = data["fence"]
        if self._owner.get(row["task"]) != fence:
            self._say(row, f"fence {fence} is not the owner")
        elif "reserved" in data:  # totals
            self._open[fence] |= Counter(data["reserved"])
            self._check(row, Counter(data["reserved"]))
        elif "wants" in data:
            self._wanted[row["task"]] = data["wants"]

    def _end(self, task: int) -> None:
        self._open.pop(self._owner.pop(task))

    def _attempt_finished(self, row: Row, data: dict[str, Any]) -> None:
        task = row["task"]
        if self._owner.get(task) != data["fence"]:
            self._say(row, f"fence {data['fence']} is not the owner")
            return
        self._end(task)
        self._settle(data["fence"])
        if data["outcome"] == "scope":
            self._files[task] = self._wanted.pop(task)
            self._claims.pop(task, None)
        if data["state"] == "done":
            self._done[task] += 1
            self._claims.pop(task, None)

    def _settle(self, fence: int) -> None:
        for charge in self._spending:
            if charge["fence"] == fence:
                self._spent[charge["resource"]] += charge["amount"]

    def _attempt_released(self, row: Row, data: dict[str, Any]) -> None:
        if self._owner.get(row["task"]) != data["fence"]:
            self._say(row, f"fence {data['fence']} is not the owner")
        else:
            self._end(row["task"])
            self._settle(data["fence"])

    def _attempt_adopted(self, row: Row, data: dict[str, Any]) -> None:
        """The new worker's slots may be exceeded; everything else stays as it was."""
        self._advance(row, data["fence"])
        old = self._owner.get(row["task"])
        if old is None:
            self._say(row, "nobody owned it")
            return
        costs = self._open.pop(old)
        worker = f"worker:{self._leases[old]['worker']}"
        costs[f"worker:{data['worker']}"] = costs.pop(worker)
        self._open[data["fence"]] = costs
        self._owner[row["task"]] = data["fence"]


def check_rows(ask: Ask, before: Before) -> list[str]:
    """What is left when all is done: every task once, nothing held, nothing missing."""
    broken = []
    tasks = {row["id"]: row for row in ask("SELECT * FROM tasks")}
    if tasks.keys() != before.tasks.keys():
        broken.append(f"tasks came or vanished: {tasks.keys() ^ before.tasks.keys()}")
    broken += [f"task {t} is {row['state']}" for t, row in tasks.items() if row["state"] != "done"]
    for table in ("claims", "lease_units"):
        broken += [f"{table}: {row} is left" for row in ask(f"SELECT * FROM {table}")]
    broken += [f"{row} is left" for row in ask("SELECT * FROM leases WHERE state <> 'released'")]
    numbers: dict[int, list[int]] = defaultdict(list)
    for row in ask("SELECT * FROM attempts ORDER BY task, number"):
        numbers[row["task"]].append(row["number"])
        if row["ended"] is None:
            broken.append(f"{row} never ended")
    for task, row in tasks.items():
        if numbers[task] != list(range(1, row["attempt"] + 1)):
            broken.append(f"task {task} has the attempts {numbers[task]} of {row['attempt']}")
    done = Counter(
        row["task"]
        for row in ask("SELECT * FROM events WHERE kind = 'attempt_finished'")
        if json.loads(row["data"])["state"] == "done"
    )
    broken += [f"task {task} was done {done[task]} times" for task in tasks if done[task] != 1]
    return broken
