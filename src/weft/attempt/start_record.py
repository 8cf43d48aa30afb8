"""What an attempt was started with, kept in its directory.

Whoever adopts an attempt goes by this and not by the agent file, which may have changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import Struct, convert, field, to_builtins

from weft.agents.agent import AgentBudget, Prices
from weft.agents.usage import Spent
from weft.process import attempt_files

FILE: Final = "order.json"
_USE: Final = "use.json"


class Order(Struct, frozen=True, kw_only=True):
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
    files: tuple[str, ...]  # claimed when it started; none for one that only looks
    start: str  # the commit its workspace began with: the base, or what was made on it before
    stage: str | None = None
    tests: tuple[str, ...] = ()  # files an earlier stage made, which it may not edit
    subject: tuple[str, str] | None = None  # the candidate it looks at, and what that is made on
    workspace: str = ""  # path of the workspace
    started: float  # by the wall clock
    clock: float  # the same moment by the monotonic clock, which all processes of a boot share
    wall: float | None = None
    idle: float | None = None
    budget: AgentBudget = field(default_factory=AgentBudget)
    prices: Prices | None = None
    usd: str | None = None  # the resource its dollars come from
    reserved: int = 0  # how much of that it has, when it started
    before: Spent = field(default_factory=Spent)  # what its session had used


def save(directory: Path, order: Order) -> None:
    attempt_files.write_record(str(directory / FILE), to_builtins(order))


def find(directory: Path) -> Order | None:
    """The order of an attempt; None if it was never written."""
    record = attempt_files.find_record(str(directory / FILE))
    return None if record is None else convert(record, Order)


def save_use(directory: Path, session: Spent) -> None:
    """What the session had used when an attempt ended, for the one that resumes it."""
    attempt_files.write_record(str(directory / _USE), to_builtins(session))


def find_use(directory: Path) -> Spent | None:
    record = attempt_files.find_record(str(directory / _USE))
    return None if record is None else convert(record, Spent)
