"""Capacity: demands against limits and use.

A resource without a limit is unlimited. For a consumable (dollars of a run) the use that callers
pass includes the spending as well as the reservations.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from weft.errors import InputError
from weft.formats import count, dollars
from weft.model import HERE, Demand

_LABEL: Final = "label:"
"""The start of a demand for a label of the worker, which uses nothing up."""

MOST: Final = 2**50
"""The largest amount, so that a sum of thousands stays within a database's integers."""


class Shortage(Struct, frozen=True):
    """A resource that a demand does not fit into now."""

    resource: str
    asked: int
    used: int
    capacity: int

    def __str__(self) -> str:
        """Say what is short and how much of it is in use: `a free agent, 3 of 3 busy`."""
        busy = f"{self.used} of {self.capacity} busy"
        kind, _, name = self.resource.partition(":")
        owner, _, part = name.rpartition("/")
        if is_consumable(self.resource):
            used, limit, asked = map(dollars, (self.used, self.capacity, self.asked))
            return f"the budget of {owner}: {used} of {limit} is used, an attempt reserves {asked}"
        match kind:
            case "worker":
                return f"a free agent, {busy}"
            case "run" if part == "agents":
                return f"a free agent of {owner}, {busy}"
            case "stage":
                return f"a free {part} agent of {owner}, {busy}"
            case "agent":
                return f"agent {name}, {busy}"
            case "provider":
                return f"provider {name}, {busy}"
            case "host" if part == "ram_mb":
                return f"{self.asked} MB of memory, {self.used} of {self.capacity} in use"
            case "host" if part == "port":
                return f"{count(self.asked, 'port')}, {self.used} of {self.capacity} in use"
        asked = "" if self.asked == 1 else f", it asks for {self.asked}"
        return f"the limit {self.resource}, {self.used} of {self.capacity} in use{asked}"


def attempt_demand(
    *,
    run: str | None,
    stage: str | None,
    agent: str | None,
    provider: str | None,
    uses: Demand | None = None,
    labels: Iterable[str] = (),
) -> dict[str, int]:
    """Return the demand of an attempt: a slot of every limit that concerns it, its `uses`, and the
    labels that its worker must have."""
    demand = {f"worker:{HERE}": 1, "requests": 1}
    if agent:
        demand[f"agent:{agent}"] = 1
    if run:
        demand[f"run:{run}/agents"] = 1
    if run and stage:
        demand[f"stage:{run}/{stage}"] = 1
    if provider:
        demand["llm"] = 1
        demand[f"provider:{provider}"] = 1
    for resource, amount in (uses or {}).items():
        demand[resource] = demand.get(resource, 0) + amount
    return demand | {f"{_LABEL}{label}": 1 for label in labels}


def change_agent(
    demand: Demand,
    *,
    run: str | None,
    stage: str | None,
    agent: str,
    provider: str | None,
    labels: Iterable[str] = (),
) -> dict[str, int]:
    """Return the demand of an attempt by another agent, with the same `uses`."""
    named = ("worker:", "agent:", "provider:", f"run:{run}/agents", "stage:", _LABEL)
    uses = {
        resource: amount
        for resource, amount in demand.items()
        if not resource.startswith(named) and resource not in ("requests", "llm")
    }
    return attempt_demand(
        run=run, stage=stage, agent=agent, provider=provider, uses=uses, labels=labels
    )


def list_labels(demand: Iterable[str]) -> frozenset[str]:
    """Return the labels that a demand asks of its worker."""
    return frozenset(name.removeprefix(_LABEL) for name in demand if name.startswith(_LABEL))


def resolve(demand: Demand, worker: str, host: str) -> dict[str, int]:
    """Return the amounts at this worker: `@` becomes the worker or its host. A label is none."""
    return {
        _place(name, worker, host): amount
        for name, amount in demand.items()
        if not name.startswith(_LABEL)
    }


def _place(name: str, worker: str, host: str) -> str:
    if name == f"worker:{HERE}":
        return f"worker:{worker}"
    if name.startswith(f"host:{HERE}/"):
        return f"host:{host}/{name.removeprefix(f'host:{HERE}/')}"
    return name


def add(*demands: Demand) -> dict[str, int]:
    total: dict[str, int] = {}
    for demand in demands:
        for name, amount in demand.items():
            total[name] = total.get(name, 0) + amount
    return total


def shortages(
    demand: Demand, capacity: Mapping[str, int], used: Mapping[str, int]
) -> list[Shortage]:
    """List the resources in which the demand does not fit; empty means it fits."""
    short = []
    for name, amount in demand.items():
        limit = capacity.get(name)
        if limit is not None and used.get(name, 0) + amount > limit:
            short.append(Shortage(name, amount, used.get(name, 0), limit))
    return short


def refuse_odd_amounts(demand: Demand, who: str = "This") -> None:
    """Refuse amounts below 1, and amounts too large to be summed."""
    for resource, amount in demand.items():
        if amount <= 0:
            raise InputError(f"{who} asks for {amount} of {resource}; ask for 1 or more.")
        if amount > MOST:
            raise InputError(
                f"{who} asks for {amount} of {resource}; the most there can be is {MOST}."
            )


def is_consumable(resource: str) -> bool:
    """Tell whether a resource is used up: spending counts after the lease has ended."""
    return resource.endswith("/usd")


def has_units(resource: str) -> bool:
    """Tell whether amounts of this resource are numbered units."""
    return resource.endswith("/port")


def pick_units(amount: int, taken: Iterable[int]) -> tuple[int, ...]:
    """Return the lowest free unit numbers; below the capacity if the amount fits."""
    busy = set(taken)
    free = (unit for unit in itertools.count() if unit not in busy)
    return tuple(itertools.islice(free, amount))


def shared(demand: Demand) -> dict[str, int]:
    """Return the part of a demand that does not depend on the worker."""
    return {name: n for name, n in demand.items() if f":{HERE}" not in name}


def status(*, used: int, offline: bool) -> str:
    if offline:
        return "offline"
    return "busy" if used else "idle"
