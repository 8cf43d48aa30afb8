"""What fits: demands against limits and use.

A resource without a limit is unlimited. A consumable (dollars of a run) counts what was
spent as well as what is reserved; callers hand in use that already says so.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from weft.errors import InputError
from weft.model import HERE, Demand

MOST: Final = 2**50
"""No amount is larger, so that no sum of thousands leaves what a database can count."""


class Shortage(Struct, frozen=True):
    """One resource a demand does not fit into now."""

    resource: str
    asked: int
    used: int
    capacity: int

    def __str__(self) -> str:
        text = f"{self.resource} {self.used}/{self.capacity}"
        return text if self.asked == 1 else f"{text}, asks {self.asked}"


def attempt_demand(
    *,
    run: str | None,
    stage: str | None,
    agent: str | None,
    provider: str | None,
    uses: Demand | None = None,
) -> dict[str, int]:
    """What one attempt takes: a slot of every limit that concerns it, and what it `uses`."""
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
    return demand


def resolve(demand: Demand, worker: str, host: str) -> dict[str, int]:
    """The demand as this worker would take it: `@` becomes the worker or its host."""
    return {_place(name, worker, host): amount for name, amount in demand.items()}


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
    """Every resource in which the demand does not fit; empty means it fits."""
    short = []
    for name, amount in demand.items():
        limit = capacity.get(name)
        if limit is not None and used.get(name, 0) + amount > limit:
            short.append(Shortage(name, amount, used.get(name, 0), limit))
    return short


def refuse_odd_amounts(demand: Demand, who: str = "This") -> None:
    """Amounts are 1 or more, and small enough to be summed."""
    for resource, amount in demand.items():
        if amount <= 0:
            raise InputError(f"{who} asks for {amount} of {resource}; ask for 1 or more.")
        if amount > MOST:
            raise InputError(
                f"{who} asks for {amount} of {resource}; the most there can be is {MOST}."
            )


def is_consumable(resource: str) -> bool:
    """Consumables are used up: what was spent still counts after the lease has ended."""
    return resource.endswith("/usd")


def has_units(resource: str) -> bool:
    """Whether amounts of this resource are numbered units, handed out by number."""
    return resource.endswith("/port")


def pick_units(amount: int, taken: Iterable[int]) -> tuple[int, ...]:
    """The lowest free unit numbers. What fits a capacity also stays below it in number."""
    busy = set(taken)
    free = (unit for unit in itertools.count() if unit not in busy)
    return tuple(itertools.islice(free, amount))


def shared(demand: Demand) -> dict[str, int]:
    """The part of a demand that does not depend on who takes it."""
    return {name: n for name, n in demand.items() if f":{HERE}" not in name}


def status(*, used: int, offline: bool) -> str:
    """A worker's status, from what it holds."""
    if offline:
        return "offline"
    return "busy" if used else "idle"
