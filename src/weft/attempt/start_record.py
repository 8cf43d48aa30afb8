"""The order of an attempt: its settings at the start, kept in its directory.

An adopter uses the order instead of the agent file, which may have changed.
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
    program: str  # the program's name in texts
    model: str = ""  # as its agent file names it
    provider: str | None
    branch: str
    base: str  # the commit that the work builds on
    files: tuple[str, ...]  # claims at the start; none for a review
    start: str  # first commit of its workspace: the base, or earlier work on it
    stage: str | None = None
    tests: tuple[str, ...] = ()  # files of an earlier stage, protected from edits
    subject: tuple[str, str] | None = None  # the reviewed candidate and its base
    workspace: str = ""  # path of the workspace
    started: float  # by the wall clock
    clock: float  # the same moment by the monotonic clock, which all processes of a boot share
    wall: float | None = None
    idle: float | None = None
    budget: AgentBudget = field(default_factory=AgentBudget)
    prices: Prices | None = None
    usd: str | None = None  # the resource its dollars come from
    reserved: int = 0  # the reserved amount at the start
    before: Spent = field(default_factory=Spent)  # earlier use of its session
    argv: tuple[str, ...] = ()  # the command line, without secrets
    after: tuple[str, ...] = ()  # of a played recording: ends and landings that come before its end


def save(directory: Path, order: Order) -> None:
    attempt_files.write_record(str(directory / FILE), to_builtins(order))


def find(directory: Path) -> Order | None:
    """Return the order of an attempt, or None if it was never written."""
    record = attempt_files.find_record(str(directory / FILE))
    return None if record is None else convert(record, Order)


def save_use(directory: Path, session: Spent) -> None:
    """Keep the use of a session for the attempt that resumes it."""
    attempt_files.write_record(str(directory / _USE), to_builtins(session))


def find_use(directory: Path) -> Spent | None:
    record = attempt_files.find_record(str(directory / _USE))
    return None if record is None else convert(record, Spent)
