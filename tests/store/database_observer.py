"""An outside observer that samples the database and the locks while others work.

It has a connection and SQL of its own and uses nothing of the store. What it sees at one
moment must be right at that moment, as `observer` says; what happened in between is judged by
`replay`.
"""

from __future__ import annotations

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

from observer import Picture
from store.life_locks import Signs
from wait_until import PATIENCE

Row = dict[str, Any]
Ask = Callable[[str], list[Row]]

_HELD = {
    "leases": "SELECT * FROM leases WHERE state <> 'released'",
    "lease_costs": "SELECT c.* FROM lease_costs c JOIN leases l ON l.fence = c.fence "
    "WHERE l.state <> 'released'",
    "limits": "SELECT * FROM limits",
    "spending": "SELECT resource, CAST(SUM(amount) AS BIGINT) AS amount FROM spending "
    "GROUP BY resource",
    "claims": "SELECT * FROM claims",
    "lease_units": "SELECT * FROM lease_units",
    "attempts": "SELECT * FROM attempts WHERE ended IS NULL",
    "tasks": "SELECT * FROM tasks WHERE state = 'running' OR id IN (SELECT task FROM claims)",
}
"""All that is held at one moment; it samples often, and the past only grows."""


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


class DatabaseObserver:
    """Samples until it is told to stop; `broken` says what it saw that may never be."""

    def __init__(self, url: str, signs: Signs) -> None:
        self.broken: list[str] = []
        self.samples = 0
        self.events: list[Row] = []
        self.most: Counter[str] = Counter()  # how much of each resource was ever seen in use
        self._url = url
        self._signs = signs
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="observer", daemon=True)
        self._begun: set[tuple[int, int]] = set()
        self._adoptions: list[Row] = []
        self._unknown: set[tuple[int, int]] = set()

    def __enter__(self) -> DatabaseObserver:
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
        picture = Picture({name: ask(question) for name, question in _HELD.items()})
        ask("COMMIT")
        picture.tables["events"] = self._adoptions
        for broken in [*picture.misheld(), *picture.over()]:
            self._say(broken)
        self.most |= Counter(picture.used)
        self._check_life({(row["task"], row["attempt"]) for row in picture.open_leases})
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
                self._adoptions.append(row)

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
