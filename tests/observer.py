"""An outside observer: reads the database with SQL of its own and judges what it sees.

Whoever watches, a state machine, a witness beside many processes or one beside a whole run,
judges by the same `Picture`; they differ in what they read and how often.

Nothing here uses the store's code. The rules are written a second time, in the plainest
way there is, so that a mistake in the clever way shows.
"""

from __future__ import annotations

import functools
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import psycopg
from psycopg.rows import dict_row

from wait_until import PATIENCE
from weft.admission import order, provider_pressure, rule
from weft.admission.capacity import resolve, shortages
from weft.config import Tuning
from weft.paths import conflicts

Row = dict[str, Any]
TABLES = [
    "attempts",
    "claims",
    "conflicts",
    "durations",
    "entries",
    "edges",
    "failures",
    "lease_costs",
    "landings",
    "lease_units",
    "leases",
    "limits",
    "messages",
    "penalties",
    "ready_files",
    "reservation",
    "runs",
    "spending",
    "stopped_agents",
    "tasks",
    "verdicts",
    "workers",
    "events",
]
_conflict = functools.lru_cache(maxsize=None)(conflicts)  # the same few, at every look

TERMINAL = {"done", "failed", "cancelled", "skipped", "evicted"}


class Observer:
    """A connection of its own to a store's database."""

    def __init__(self, url: str) -> None:
        self._sqlite: sqlite3.Connection | None = None
        if url.startswith("sqlite"):
            path = Path(unquote(url.removeprefix("sqlite:///")))
            self._sqlite = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
            self._sqlite.row_factory = sqlite3.Row
            self._version = -1
            self._seen: dict[str, list[Row]] = {}
        else:
            self._postgres = psycopg.connect(url, autocommit=True, row_factory=dict_row)
            self._postgres.execute("SET search_path = weft")

    def rows(self, table: str) -> list[Row]:
        if self._sqlite is not None:
            return [dict(row) for row in self._sqlite.execute(f"SELECT * FROM {table}")]
        return list(self._postgres.execute(f"SELECT * FROM {table}".encode()))

    def everything(self) -> dict[str, list[Row]]:
        """All rows of one moment."""
        return self._all_of_sqlite() if self._sqlite is not None else self._all_of_postgres()

    def _all_of_sqlite(self) -> dict[str, list[Row]]:
        """Read anew only if SQLite says that somebody has committed since."""
        assert self._sqlite is not None
        [version] = self._sqlite.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._sqlite.execute("BEGIN")
            try:
                self._seen = _in_order({table: self.rows(table) for table in TABLES})
            finally:
                self._sqlite.execute("COMMIT")
            self._version = version
        return dict(self._seen)

    def _all_of_postgres(self) -> dict[str, list[Row]]:
        """One statement, which is one moment and one round trip."""
        rows: dict[str, list[Row]] = {table: [] for table in TABLES}
        question = " UNION ALL ".join(
            f"SELECT '{table}' AS name, row_to_json(t)::text AS row FROM {table} t"
            for table in TABLES
        )
        for row in self._postgres.execute(question.encode()):
            rows[row["name"]].append(json.loads(row["row"]))
        return _in_order(rows)

    def close(self) -> None:
        (self._sqlite or self._postgres).close()


def _is_entrant(row: Row) -> bool:
    """True for an entrant of an undecided team, whose task holds the claims for all of them."""
    return f"team:{row['story']}/members" in json.loads(row["demand"])


def _in_order(tables: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Sort the rows of each table, so that equal rows give equal lists."""
    for rows in tables.values():
        rows.sort(key=lambda row: str([*row.values()]))
    return tables


@dataclass
class Picture:
    """The rows of one moment, and what follows from them."""

    tables: dict[str, list[Row]]

    @property
    def tasks(self) -> dict[int, Row]:
        return {row["id"]: row for row in self.tables["tasks"]}

    @property
    def open_leases(self) -> list[Row]:
        return [row for row in self.tables["leases"] if row["state"] != "released"]

    @property
    def limits(self) -> dict[str, int]:
        return {row["resource"]: row["capacity"] for row in self.tables["limits"]}

    @property
    def used(self) -> dict[str, int]:
        """What open leases take, and what was spent of consumables."""
        used: Counter[str] = Counter()
        for row in [*self.open_costs, *self.tables["spending"]]:
            used[row["resource"]] += row["amount"]
        return dict(used)

    @property
    def open_costs(self) -> list[Row]:
        fences = {row["fence"] for row in self.open_leases}
        return [row for row in self.tables["lease_costs"] if row["fence"] in fences]

    @property
    def adopted(self) -> set[int]:
        """Fences of adopted attempts: their worker may hold more than it has slots for."""
        return {
            json.loads(row["data"])["fence"]
            for row in self.tables["events"]
            if row["kind"] == "attempt_adopted"
        }

    def over(self) -> list[str]:
        """Where more is in use than there is, for those who lower no limit meanwhile."""
        used = Counter(self.used)
        adopted = self.adopted
        for row in self.open_costs:
            if row["fence"] in adopted and row["resource"].startswith("worker:"):
                used[row["resource"]] -= row["amount"]
        limits = self.limits
        return [
            f"1: {name} {amount}/{limits[name]}"
            for name, amount in used.items()
            if amount > limits.get(name, amount)
        ]

    def unleased(self, alive: Iterable[str]) -> list[str]:
        """What these attempts, `task.number`, seen alive after the rows were read, contradict.

        One that the rows do not know may have been begun since.
        """
        names = sorted(set(alive))
        begun = {f"{row['task']}.{row['number']}" for row in self.tables["attempts"]}
        held = {f"{row['task']}.{row['attempt']}" for row in self.open_leases}
        breaches = [
            f"6: attempt {name} runs without a lease"
            for name in names
            if name in begun and name not in held
        ]
        tasks = Counter(name.partition(".")[0] for name in names if not name.startswith("check."))
        twice = [task for task, number in tasks.items() if number > 1]
        return breaches + [f"12: task {task} runs twice: {names}" for task in twice]

    def nominal(self) -> dict[str, int]:
        """Limits, with those that penalised providers have by default."""
        limits = self.limits
        for row in self.tables["penalties"]:
            if "llm" in limits:
                limits.setdefault(f"provider:{row['provider']}", limits["llm"])
        return limits

    def effective(self, now: float, tuning: Tuning) -> dict[str, int]:
        limits = self.limits
        for row in self.tables["penalties"]:
            known = provider_pressure.Penalty(
                level=row["level"], since=row["since"], successes=row["successes"]
            )
            level = provider_pressure.level(known, now, tuning)
            name = f"provider:{row['provider']}"
            base = limits.get(name, limits.get("llm"))
            if level and base is not None:
                limits[name] = provider_pressure.effective(base, level)
        return limits

    def broken(self) -> list[str]:
        """Every statement of INVARIANTS.md that these rows contradict."""
        return [*self.misheld(), *self._attempts(), *self._ready_index()]

    def misheld(self) -> list[str]:
        """The same for who holds what now: leases, claims and units, and nothing of the past."""
        return [*self._ownership(), *self._claims(), *self._units()]

    def _ownership(self) -> list[str]:
        tasks = [row["task"] for row in self.open_leases if row["task"] is not None]
        doubled = {task for task in tasks if tasks.count(task) > 1}
        breaches = [f"12: task {task} has two open leases" for task in doubled]
        running = {row["id"] for row in self.tables["tasks"] if row["state"] == "running"}
        breaches += [f"14: task {task} runs without a lease" for task in running - set(tasks)]
        going_on = {row["task"] for row in self.tables["attempts"] if row["ended"] is None}
        breaches += [f"14: {task} runs, but its attempt ended" for task in running - going_on]
        return breaches

    def _claims(self) -> list[str]:
        breaches = []
        tasks = self.tasks
        for first, second in combinations(self.tables["claims"], 2):
            kin = {tasks[first["task"]]["story"] == second["task"]}
            kin.add(tasks[second["task"]]["story"] == first["task"])
            if (
                first["task"] != second["task"]
                and first["repo"] == second["repo"]
                and True not in kin
                and _conflict(first["pattern"], second["pattern"])
            ):
                breaches.append(f"16: {first} and {second} intersect")
        breaches += [*self._waiting_holders(), *self._unclaimed()]
        over = TERMINAL | {"blocked"}
        return breaches + [
            f"16: {row} outlived its task"
            for row in self.tables["claims"]
            if tasks[row["task"]]["state"] in over
        ]

    def _unclaimed(self) -> list[str]:
        held = {(row["task"], row["pattern"]) for row in self.tables["claims"]}
        return [
            f"16: task {row['id']} runs without its claim on {pattern}"
            for row in self.tables["tasks"]
            if row["state"] == "running"
            for pattern in json.loads(row["files"])
            if (row["story"] if _is_entrant(row) else row["id"], pattern) not in held
        ]

    def _waiting_holders(self) -> list[str]:
        """A story whose subtasks are ready holds all they want, or nothing."""
        held: dict[int, set[str]] = {}
        for row in self.tables["claims"]:
            held.setdefault(row["task"], set()).add(row["pattern"])
        return [
            f"4: task {row['id']} waits for files while its story {row['story']} holds some"
            for row in self.tables["tasks"]
            if row["state"] == "ready" and row["story"] in held and row["id"] not in held
            if not set(json.loads(row["files"])) <= held[row["story"]]
        ]

    def _attempts(self) -> list[str]:
        breaches = []
        numbers: dict[int, list[int]] = {}
        for row in self.tables["attempts"]:
            numbers.setdefault(row["task"], []).append(row["number"])
        for task, seen in numbers.items():
            if sorted(seen) != list(range(1, len(seen) + 1)):
                breaches.append(f"12: attempts of {task} are numbered {sorted(seen)}")
        return breaches

    def _units(self) -> list[str]:
        units = [(row["resource"], row["unit"]) for row in self.tables["lease_units"]]
        open_fences = {row["fence"] for row in self.open_leases}
        breaches = [f"1: unit {unit} is held twice" for unit in units if units.count(unit) > 1]
        stray = [row for row in self.tables["lease_units"] if row["fence"] not in open_fences]
        breaches += [
            f"1: a unit of {row['resource']} outlived its fence {row['fence']}" for row in stray
        ]
        given = Counter((row["fence"], row["resource"]) for row in self.tables["lease_units"])
        return breaches + [
            f"1: fence {row['fence']} has {given[row['fence'], row['resource']]} units of {row}"
            for row in self.open_costs
            if row["resource"].endswith("/port")
            and given[row["fence"], row["resource"]] != row["amount"]
        ]

    def _ready_index(self) -> list[str]:
        """Nothing that is ready may be hidden: silent-queue-stall."""
        breaches = []
        claiming = {row["task"] for row in self.tables["claims"]}
        holders = claiming | {r["task"] for r in self.tables["reservation"] if r["reserved"]}
        ready = [row for row in self.tables["tasks"] if row["state"] == "ready"]
        for row in ready:
            if row["bucket"] is None:
                breaches.append(f"stall: task {row['id']} is in no bucket")
            if row["aside"] is not None and not self._lets_wait(row, holders):
                breaches.append(
                    f"stall: task {row['id']} waits for {row['aside']}, who holds nothing"
                )
        listed = {(row["run"], row["task"]) for row in self.tables["ready_files"]}
        asking = {
            (row["run"], row["id"])
            for row in ready
            if row["run"]
            and json.loads(row["files"])
            and row["id"] not in claiming
            and not (_is_entrant(row) and row["story"] in claiming)
        }
        breaches += [f"order: {task} is not known by its files" for task in asking - listed]
        breaches += [
            f"order: {task} is known by files though not ready" for task in listed - asking
        ]
        return breaches + [
            f"14: task {row['id']} is {row['state']} but among the ready"
            for row in self.tables["tasks"]
            if row["state"] != "ready" and row["bucket"] is not None
        ]

    def _lets_wait(self, row: Row, holders: set[int]) -> bool:
        """Whether who a task stands aside for holds files, or goes before it by plan order."""
        holder = self.tasks[row["aside"]]
        earlier = holder["state"] == "ready" and holder["bucket"] == row["bucket"]
        return row["aside"] in holders or (earlier and holder["id"] < row["id"])


@dataclass
class Reference:
    """Admission once more, over all rows and without any index."""

    picture: Picture
    worker: str
    now: float
    tuning: Tuning

    def expected(self) -> set[int] | None:
        """The tasks that must be admitted now, as a set; None if nothing can be."""
        admissible = [
            group for group in self._groups() if self._fits(group) and not self._ahead(group)
        ]
        yielding = rule.must_yield(self._turns(), self.tuning)
        rest = [group for group in admissible if group[0]["tenant"] != yielding]
        best = min(rest or admissible, key=lambda group: self.rank(group[0]), default=None)
        return None if best is None else {row["id"] for row in best}

    def _turns(self) -> list[str]:
        turns = [row for row in self.picture.tables["leases"] if row["turn"] is not None]
        return [row["turn"] for row in sorted(turns, key=lambda row: -row["fence"])]

    def _groups(self) -> list[list[Row]]:
        """Ready tasks, and whole gangs of them, best first within each."""
        groups: dict[object, list[Row]] = {}
        incomplete = set()
        for row in self.picture.tables["tasks"]:
            if row["until"] is not None and row["until"] <= self.now:
                row = {**row, "state": "ready"}  # its time has come
            if row["pin_until"] is not None and row["pin_until"] <= self.now:
                row = {**row, "pinned": None}  # whom it prefers has had its time
            if row["gang"] is not None and row["state"] not in TERMINAL | {"ready"}:
                incomplete.add(row["gang"])
            if row["state"] == "ready":
                groups.setdefault(row["gang"] or row["id"], []).append(row)
        return [
            sorted(group, key=self.rank) for key, group in groups.items() if key not in incomplete
        ]

    def rank(self, row: Row) -> order.Rank:
        entry = order.QueueEntry(
            id=row["id"],
            klass=row["class"],
            priority=row["priority"],
            path_seconds=row["path_seconds"],
            submitted=row["submitted"],
        )
        return order.rank(entry, self.now, self.tuning)

    def _ahead(self, group: list[Row]) -> bool:
        """Whether an earlier task of the run that is ready wants one of the same files.

        Earlier is by urgency, then by number. One that lacks something else than files may be
        passed, and one that waits for the files of a task that is parked or paused.
        """
        claims = self.picture.tables["claims"]
        holders = {row["task"] for row in claims}
        own = {row["id"] for row in group}
        if group[0]["run"] is None or holders & own:
            return False
        stories = {row["story"] for row in group} - {None}
        among_kin = bool(holders & stories)
        mine = [file for row in group for file in json.loads(row["files"])]
        whole = mine + self._files(self._kin(group))
        turn = self._turn(group)
        for rival in self._groups():
            for row in rival:
                kin = row["story"] in stories
                if (
                    row["run"] == group[0]["run"]
                    and row["id"] not in own | holders
                    and (kin or not among_kin)
                    and (self.rank(row)[:4], row["id"]) < turn
                    and any(
                        _conflict(wanted, file)
                        for wanted in json.loads(row["files"])
                        for file in (mine if kin else whole)
                    )
                    and self._fits_somewhere(rival)
                    and not self._waits_for(rival, "parked", "paused")
                ):
                    return True
        return False

    def _fits_somewhere(self, group: list[Row]) -> bool:
        present = [w["id"] for w in self.picture.tables["workers"] if w["departed"] is None]
        return any(self._has_room(group, place) for place in present)

    def _has_room(self, group: list[Row], worker: str) -> bool:
        place = next(w for w in self.picture.tables["workers"] if w["id"] == worker)
        if any(row["pinned"] not in (None, worker) for row in group):
            return False
        if place["agents"] is not None and any(
            row["agent"] is not None and row["agent"] not in json.loads(place["agents"])
            for row in group
        ):
            return False
        used = self.picture.used
        kept = self._kept_for_another(group)
        if kept:
            used = _sum(used, self._kept_amounts(kept, worker))
        limits = self.picture.effective(self.now, self.tuning)
        return not shortages(self._demand(group, worker), limits, used)

    def _kept_for_another(self, group: list[Row]) -> list[Row]:
        own = {row["id"] for row in group}
        goes_on = any(row["task"] in own for row in self.picture.tables["claims"])
        kept = [] if goes_on else self._kept_free()
        if not kept or kept[0]["id"] in own:
            return []
        same_run = group[0]["run"] is not None and group[0]["run"] == kept[0]["run"]
        # An earlier task of its run may be what the other waits for.
        return [] if same_run and self._turn(group) < self._turn(kept) else kept

    def _turn(self, group: list[Row]) -> tuple[tuple[int, ...], int]:
        return min((self.rank(row)[:4], row["id"]) for row in group)

    def _fits(self, group: list[Row]) -> bool:
        if not self._has_room(group, self.worker):
            return False
        kept = self._kept_for_another(group)
        own = {row["id"] for row in group} | {row["story"] for row in group}
        claims = self.picture.tables["claims"]
        held = [row["pattern"] for row in claims if row["task"] not in own]
        wanted = [file for row in group for file in json.loads(row["files"])]
        if any(conflicts(pattern, file) for pattern in held for file in wanted):
            return False
        kin = self._kin(group)
        if kin:  # the whole story's files, or nothing
            ids = {row["id"] for row in kin}
            wanted += self._files(kin)
            foreign = [row["pattern"] for row in claims if row["task"] not in ids]
            if any(conflicts(pattern, file) for pattern in foreign for file in self._files(kin)):
                return False
        if kept:
            reserved = self._files([*kept, *self._kin(kept)])
            return not any(conflicts(pattern, file) for pattern in reserved for file in wanted)
        return True

    def _files(self, rows: list[Row]) -> list[str]:
        return [f for r in rows if r["state"] not in TERMINAL for f in json.loads(r["files"])]

    def _kin(self, group: list[Row]) -> list[Row]:
        """The family of a story that holds nothing yet: it starts whole."""
        tasks = self.picture.tasks
        holders = {row["task"] for row in self.picture.tables["claims"]}
        stories = {row["story"] for row in group} - {None} - holders
        alive = {story for story in stories if tasks[story]["state"] not in TERMINAL}
        return [r for r in tasks.values() if r["id"] in alive or r["story"] in alive]

    def _demand(self, group: list[Row], worker: str) -> dict[str, int]:
        return _sum(*(resolve(json.loads(row["demand"]), worker, "h") for row in group))

    def _kept_amounts(self, kept: list[Row], worker: str) -> dict[str, int]:
        """What is kept free: a place only where the group could ever go."""
        there = self._demand(kept, kept[0]["pinned"] or worker)
        if kept[0]["pinned"] is None and shortages(there, self.picture.nominal(), {}):
            return {name: n for name, n in there.items() if not name.startswith("worker:")}
        return there

    def _kept_free(self) -> list[Row]:
        """The group for which capacity is reserved, if reserving helps it."""
        for row in self.picture.tables["reservation"]:
            for group in self._groups():
                if (
                    row["reserved"]
                    and row["task"] in {member["id"] for member in group}
                    and not self._prefers_no_more(row["task"])
                    and self._could_go(group)
                    and not self._waits_for(group, "paused", "waiting")
                ):
                    home = group[0]["pinned"] or "@"
                    limits = self.picture.effective(self.now, self.tuning)
                    short = shortages(self._demand(group, home), limits, self.picture.used)
                    away = {w["id"] for w in self.picture.tables["workers"] if w["departed"]}
                    nominal, run = self.picture.nominal(), group[0]["run"]
                    if group[0]["pinned"] not in away and all(
                        rule.can_be_freed(shortage, nominal, run) for shortage in short
                    ):
                        return group
        return []

    def _prefers_no_more(self, task: int) -> bool:
        """Tell whether a preference ends now: the task queues anew, without its reservation."""
        until = self.picture.tasks[task]["pin_until"]
        return until is not None and until <= self.now

    def _could_go(self, group: list[Row]) -> bool:
        """Whether there is a worker where a group would fit if nothing else ran."""
        nominal = self.picture.nominal()
        return any(
            group[0]["pinned"] in (None, place["id"])
            and not shortages(self._demand(group, place["id"]), nominal, {})
            for place in self.picture.tables["workers"]
            if place["departed"] is None
        )

    def _waits_for(self, group: list[Row], *states: str) -> bool:
        """Whether its files are held by a task in one of these states."""
        kin = self._kin(group)
        own = {row["id"] for row in [*group, *kin]} | {row["story"] for row in group}
        wanted = [f for r in group for f in json.loads(r["files"])] + self._files(kin)
        tasks = self.picture.tasks
        return any(
            _conflict(row["pattern"], file)
            for row in self.picture.tables["claims"]
            if row["task"] not in own and tasks[row["task"]]["state"] in states
            for file in wanted
        )


def _sum(*demands: dict[str, int]) -> dict[str, int]:
    total: dict[str, int] = {}
    for demand in demands:
        for name, amount in demand.items():
            total[name] = total.get(name, 0) + amount
    return total
