"""Whose limits they are and what was spent, kept a second time from the answers alone.

The state machine writes down here what it asked for and was granted. Nothing is read from
the database, so a limit that was merged, or spending that was lost, shows as a difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from observer import Picture
from weft.config import Stated
from weft.model import AgentFile, NewWorker


class SpendingLedger:
    def __init__(self, limits: Mapping[str, int]) -> None:
        self.limits: dict[str, tuple[int, str | None]] = {
            name: (capacity, None) for name, capacity in limits.items()
        }
        self.spent: Counter[str] = Counter()
        self._files: dict[str, tuple[AgentFile, ...]] = {}  # by the worker that read them

    def differs(self, worker: NewWorker, stated: Mapping[str, Stated]) -> bool:
        """7: whether a worker insists on other limits, or reads another file that differs."""
        for name, limit in stated.items():
            if name not in self.limits or self.limits[name][0] != limit.value:
                return True
        foreign = [file for who, files in self._files.items() if who != worker.id for file in files]
        return any(
            mine.name == file.name
            and mine.source != file.source
            and mine.max_concurrency != file.max_concurrency
            for mine in worker.agents or ()
            for file in foreign
        )

    def come(self, worker: NewWorker) -> None:
        self._files[worker.id] = worker.agents or ()
        self.limits[f"worker:{worker.id}"] = (worker.slots, f"worker {worker.id}")
        for name, amount in worker.host_limits.items():
            self.limits[f"host:{worker.host}/{name}"] = (amount, f"host {worker.host}")
        for agent in worker.agents or ():
            if agent.max_concurrency is None:
                self.limits.pop(f"agent:{agent.name}", None)
            else:
                self.limits[f"agent:{agent.name}"] = (agent.max_concurrency, agent.source)

    def leave(self, worker: str, *, empties: str | None) -> None:
        """A worker that was there has left, and with it, perhaps, the last of a host."""
        self._files.pop(worker, None)
        self.limits.pop(f"worker:{worker}", None)
        if empties is not None:
            self.forget_host(empties)

    def forget_host(self, host: str) -> None:
        """A host has neither workers nor leases any more."""
        for name in [resource for resource in self.limits if resource.startswith(f"host:{host}/")]:
            del self.limits[name]

    def set(self, resource: str, capacity: int) -> None:
        owner = self.limits[resource][1] if resource in self.limits else None
        self.limits[resource] = (capacity, owner)

    def begin_run(self, run: str, usd: int | None) -> None:
        if usd is not None:
            self.limits[f"run:{run}/usd"] = (usd, f"run:{run}")

    def settle(self, reserved: Mapping[str, int], stated: Mapping[str, int]) -> None:
        """1: what was said to be spent counts, and where nobody said anything, all of it."""
        self.spent.update({**reserved, **stated})

    def contradicted(self, picture: Picture) -> list[str]:
        rows = {
            row["resource"]: (row["capacity"], row["owner"])
            for row in picture.tables["limits"]
            if not (row["owner"] or "").startswith("run:") or row["resource"].endswith("/usd")
        }
        names = sorted(rows.keys() | self.limits.keys())
        differences = [
            f"7: {name} is {rows.get(name)}, not {self.limits.get(name)}"
            for name in names
            if rows.get(name) != self.limits.get(name)
        ]
        settled: Counter[str] = Counter()
        for row in sorted(picture.tables["spending"], key=lambda row: int(row["number"])):
            settled[row["resource"]] += row["amount"]
            if row["total"] != settled[row["resource"]]:
                differences.append(f"2: the total of {row} is not the sum of what was spent")
        if +settled != +self.spent:
            differences.append(f"1: {dict(settled)} was spent, not {dict(self.spent)}")
        return differences
