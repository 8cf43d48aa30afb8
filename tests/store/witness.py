"""An outside observer that samples the database and the locks while others work.

It has a connection and SQL of its own and uses nothing of the store. What it sees at one
moment must be right at that moment; what happened in between is judged by `replay`.
"""

from __future__ import annotations

import functools
import itertools
import json
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from patience import PATIENCE
from store.signs import Signs
from weft.paths import conflicts

Row = dict[str, Any]
Ask = Callable[[str], list[Row]]

_conflict = functools.lru_cache(maxsize=None)(conflicts)

_OPEN = """SELECT l.fence, l.kind, l.task, l.attempt, l.worker, c.resource, c.amount
FROM leases l LEFT JOIN lease_costs c ON c.fence = l.fence WHERE l.state <> 'released'"""


@contextmanager
def window(url: str) -> Iterator[Ask]:
    """Plain questions to a store's database, on a connection kept open."""
    connection: Any
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
        connection.row_factory = sqlite3.Row
    else:
        connection = psycopg.connect(url, autocommit=True, row_factory=dict_row)
        connection.execute("SET search_path = weft")
        connection.execute("SET default_transaction_isolation = 'repeatable read'")
    with closing(connection):

        def ask(question: str) -> list[Row]:
            cursor = connection.execute(question)
            return [] if cursor.description is None else [dict(row) for row in cursor]

        yield ask


class Witness:
    """Samples until it is told to stop; `broken` says what it saw that may never be."""

    def __init__(self, url: str, signs: Signs) -> None:
        self.broken: list[str] = []
        self.samples = 0
        self.events: list[Row] = []
        self.most: Counter[str] = Counter()  # how much of each resource was ever seen in use
        self._url = url
        self._signs = signs
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="witness", daemon=True)
        self._begun: set[tuple[int, int]] = set()
        self._adopted: set[int] = set()
        self._unknown: set[tuple[int, int]] = set()

    def __enter__(self) -> Witness:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join(PATIENCE)

    def _watch(self) -> None:
        with window(self._url) as ask:
            while not self._enough.is_set():
                self._look_at_all(ask)
                time.sleep(0.03)
            self._look_at_all(ask)

    def _look_at_all(self, ask: Ask) -> None:
        try:
            self._look(ask)
        except Exception as error:  # noqa: BLE001 (a witness that cannot see must not be silent)
            self.broken.append(f"the witness saw nothing: {error!r}")
            self._enough.set()

    def _look(self, ask: Ask) -> None:
        """One moment of the database, then the locks as they are after it."""
        ask("BEGIN")
        self._read_events(ask)
        costs = ask(_OPEN)
        limits = {row["resource"]: row["capacity"] for row in ask("SELECT * FROM limits")}
        spent = ask("SELECT resource, SUM(amount) AS amount FROM spending GROUP BY resource")
        claims = ask("SELECT repo, task, pattern FROM claims")
        units = ask("SELECT resource, unit, fence FROM lease_units")
        running = ask("SELECT id, files FROM tasks WHERE state = 'running'")
        ask("COMMIT")
        leases = {row["fence"]: row for row in costs}
        self._check_capacity(costs, spent, limits)
        self._check_claims(claims, running)
        self._check_units(units, leases, costs)
        self._check_ownership(list(leases.values()), running)
        self._check_life({(row["task"], row["attempt"]) for row in leases.values()})
        self.samples += 1

    def _say(self, broken: str) -> None:
        self.broken.append(f"sample {self.samples}: {broken}")

    def _read_events(self, ask: Ask) -> None:
        """Only what is new: an event that appears late, with a lower number, is missed here."""
        last = self.events[-1]["id"] if self.events else 0
        for row in ask(f"SELECT * FROM events WHERE id > {last:d} ORDER BY id"):
            self.events.append(row)
            data = json.loads(row["data"])
            if row["kind"] == "task_admitted":
                self._begun.add((row["task"], data["attempt"]))
            elif row["kind"] == "attempt_adopted":
                self._adopted.add(data["fence"])

    def _check_capacity(self, costs: list[Row], spent: list[Row], limits: dict[str, int]) -> None:
        used: Counter[str] = Counter()
        for row in [row for row in costs if row["resource"] is not None]:
            # An adopted attempt may exceed the slots of its new worker.
            if not (row["fence"] in self._adopted and row["resource"].startswith("worker:")):
                used[row["resource"]] += row["amount"]
        for row in spent:
            used[row["resource"]] += int(row["amount"])
        self.most |= used
        for resource, amount in used.items():
            if amount > limits.get(resource, amount):
                self._say(f"{resource} {amount}/{limits[resource]}")

    def _check_claims(self, claims: list[Row], running: list[Row]) -> None:
        for one, other in itertools.combinations(claims, 2):
            apart = one["task"] == other["task"] or one["repo"] != other["repo"]
            if not apart and _conflict(one["pattern"], other["pattern"]):
                self._say(f"{one} and {other} intersect")
        held = {(row["task"], row["pattern"]) for row in claims}
        for row in running:
            for pattern in json.loads(row["files"]):
                if (row["id"], pattern) not in held:
                    self._say(f"task {row['id']} runs without its claim on {pattern}")

    def _check_units(self, units: list[Row], leases: dict[int, Row], costs: list[Row]) -> None:
        numbers = Counter((row["resource"], row["unit"]) for row in units)
        for number, holders in numbers.items():
            if holders > 1:
                self._say(f"unit {number} is held {holders} times")
        held = Counter((row["fence"], row["resource"]) for row in units)
        for fence, resource in held:
            if fence not in leases:
                self._say(f"a unit of {resource} outlived its fence {fence}")
        for row in costs:
            if (row["resource"] or "").endswith("/port"):
                given = held[row["fence"], row["resource"]]
                if given != row["amount"]:
                    self._say(f"fence {row['fence']} has {given} units of {row['resource']}")

    def _check_ownership(self, leases: list[Row], running: list[Row]) -> None:
        owners = Counter(row["task"] for row in leases if row["task"] is not None)
        for task, fences in owners.items():
            if fences > 1:
                self._say(f"task {task} has {fences} open leases")
        for row in running:
            if row["id"] not in owners:
                self._say(f"task {row['id']} runs without a lease")

    def _check_life(self, held: set[tuple[int, int]]) -> None:
        """Whatever is worked on has an open lease.

        The locks are looked at after the rows. Work on an attempt that the rows know, without
        an open lease, is wrong; one they do not know must be known to the next sample.
        """
        for attempt in self._unknown - self._begun:
            self._say(f"attempt {attempt} was worked on and never granted")
        alive = self._signs.under_way()
        for attempt in (alive & self._begun) - held:
            self._say(f"attempt {attempt} is worked on without a lease")
        self._unknown = alive - self._begun
        self.most["alive"] = max(self.most["alive"], len(alive))
