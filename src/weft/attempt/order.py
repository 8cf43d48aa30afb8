"""What an attempt was started with, kept in its directory.

Whoever adopts an attempt goes by this and not by the agent file, which may have changed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from weft.agents.agent import Budget, Prices
from weft.agents.events import Tokens
from weft.agents.usage import Spent
from weft.process import records

FILE: Final = "order.json"


@dataclass(frozen=True, kw_only=True)
class Order:
    task: int
    attempt: int
    name: str  # the task's, in its plan
    run: str | None
    title: str
    agent: str
    adapter: str
    program: str  # how to call it
    provider: str | None
    branch: str
    base: str  # what the work is made on
    files: tuple[str, ...]  # claimed when it started
    started: float  # by the wall clock
    wall: float | None = None
    idle: float | None = None
    budget: Budget = field(default_factory=Budget)
    prices: Prices | None = None
    usd: str | None = None  # the resource its dollars come from
    reserved: int = 0  # how much of that it has, when it started
    before: Spent = field(default_factory=Spent)  # what its session had used


def save(directory: Path, order: Order) -> None:
    records.write(str(directory / FILE), asdict(order))


def find(directory: Path) -> Order | None:
    """The order of an attempt; None if it was never written."""
    record = records.find(str(directory / FILE))
    return None if record is None else _order(record)


def _order(record: dict[str, Any]) -> Order:
    before = record["before"]
    prices = record["prices"]
    return Order(
        **{
            **record,
            "files": tuple(record["files"]),
            "budget": Budget(**record["budget"]),
            "prices": None if prices is None else Prices(**prices),
            "before": Spent(tokens=Tokens(**before["tokens"]), micro_usd=before["micro_usd"]),
        }
    )
