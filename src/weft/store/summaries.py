"""Lists over many tasks: names, entries, costs, and the tasks that have not ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from weft.candidate_records import Entry
from weft.model import Event, Filter, Summary, Task
from weft.store import row_records
from weft.store.database import Row, Transaction, encode_keys
from weft.store.overview import TaskAtWork, view_of
from weft.store.store import reads
from weft.store.tasks import numbers_in

_SCANNED: Final = 1000  # tasks examined at once


class Name(Struct, frozen=True, kw_only=True):
    """The name of a task of a run."""

    task: int
    run: str
    name: str
    state: str


class Cost(Struct, frozen=True, kw_only=True):
    """The cost of an agent's attempts at a task."""

    task: int
    name: str
    agent: str | None
    attempts: int
    tokens: int
    micro_usd: int


class RunBudget(Struct, frozen=True, kw_only=True):
    """Dollars of a run, in millionths."""

    cap: int | None
    spent: int
    reserved: int


@reads
def list_called(tx: Transaction, name: str) -> list[Task]:
    """List the tasks of a name in runs that have not ended."""
    return [row_records.task(row) for row in tx.all("tasks_called", name=name)]


@reads
def list_called_before(tx: Transaction, name: str) -> list[Task]:
    """List the tasks of a name in ended runs, the latest runs first."""
    return [row_records.task(row) for row in tx.all("tasks_called_before", name=name)]


@reads
def list_names(tx: Transaction) -> list[Name]:
    """List the names of tasks of runs that have not ended, the latest runs first."""
    return [row_records.record(Name, row, task=row["id"]) for row in tx.all("names")]


@reads
def list_summaries(
    tx: Transaction, which: Filter, *, after: int = 0, most: int
) -> tuple[list[Summary], int | None]:
    """Return a page of tasks after a number, oldest first, and the number to continue from, or
    None.

    A bounded number of tasks is examined at once, so a page may be short, or even empty, and still
    not be the last.
    """
    rows, more = _page(tx, which, after=after, most=most)
    return [row_records.summary(row) for row in rows], more


@reads
def list_lines(
    tx: Transaction, which: Filter, *, after: int = 0, most: int
) -> tuple[list[dict[str, Any]], int | None]:
    """Return the same page as dictionaries with the fields of `Summary`.

    Without records in between: this is the most frequent request over HTTP.
    """
    return _page(tx, which, after=after, most=most)


def _page(tx: Transaction, which: Filter, *, after: int, most: int) -> tuple[list[Row], int | None]:
    wanted = [(name, value) for name, value in asdict(which).items() if value is not None]
    if not wanted:
        rows = list(tx.all("summaries_after", after=after, most=most + 1))
        return rows[:most], rows[most - 1]["id"] if len(rows) > most else None
    numbers = [row["id"] for row in _numbers(tx, which, after=after)]
    matching: list[Row] = []
    for start in range(0, len(numbers), most + 1):
        ids = encode_keys(str(number) for number in numbers[start : start + most + 1])
        rows = list(tx.all("summaries", ids=ids))
        matching += [row for row in rows if all(row[name] == value for name, value in wanted)]
        if len(matching) > most:
            return matching[:most], matching[most - 1]["id"]
    return matching, numbers[-1] if len(numbers) == _SCANNED else None


def _numbers(tx: Transaction, which: Filter, *, after: int) -> Sequence[Row]:
    """List the tasks to examine, by the most selective filter."""
    if which.worker is not None:
        return tx.all("numbers_with", worker=which.worker, after=after, most=_SCANNED)
    if which.created_by is not None:
        return tx.all("numbers_sent_by", sender=which.created_by, after=after, most=_SCANNED)
    if which.state is not None:
        return numbers_in(tx, which.state, after=after, most=_SCANNED)
    if which.run is not None:
        return tx.all("numbers_of_run", run=which.run, after=after, most=_SCANNED)
    return tx.all("numbers_of_all", after=after, most=_SCANNED)


@reads
def milestones(tx: Transaction, task: int) -> list[Event]:
    """List the events of a task without its admissions and its agents' progress."""
    return [row_records.event(row) for row in tx.all("milestones_of_task", task=task)]


@reads
def list_open_entries(tx: Transaction) -> list[Entry]:
    """List the open entries, by run, in order of arrival."""
    return [row_records.entry(row) for row in tx.all("open_entries")]


@reads
def list_costs(tx: Transaction, run: str | None) -> list[Cost]:
    """List the costs of a run's tasks by agent; without a run, of tasks that belong to none."""
    rows = tx.all("costs_of_the_rest") if run is None else tx.all("costs_of_run", run=run)
    return [row_records.record(Cost, row) for row in rows]


@reads
def get_budget(tx: Transaction, run: str) -> RunBudget:
    row = tx.one("budget", resource=f"run:{run}/usd")
    assert row is not None, "it is one row, whatever there is"
    return row_records.record(RunBudget, row)


@reads
def get_typical_cost(tx: Transaction) -> int | None:
    """Return the usual micro-dollars of an attempt; None if no attempt has reported a cost."""
    row = tx.one("typical_cost")
    return None if row is None or row["micro_usd"] is None else round(row["micro_usd"])


@reads
def total_costs(tx: Transaction) -> dict[str, tuple[int, int]]:
    """Map each agent to the tokens and micro-dollars of its attempts."""
    return {
        row["agent"] or "none": (row["tokens"], row["micro_usd"])
        for row in tx.all("costs_by_agent")
    }


class WorkKey(Struct, frozen=True, kw_only=True):
    """The columns of a task that its group depends on."""

    id: int
    run: str | None
    state: str
    agent: str | None
    stage: str | None
    reason: str


@reads
def list_work(tx: Transaction, *, run: str | None = None, words: str = "") -> list[WorkKey]:
    """List the unended tasks that contain these words in their name, agent or text."""
    plain = words.strip().lower().replace("!", "!!").replace("%", "!%").replace("_", "!_")
    like = f"%{plain}%" if plain else None
    return [WorkKey(**row) for row in tx.all("work_index", run=run, like=like)]


@reads
def view_work(tx: Transaction, tasks: Iterable[int]) -> list[TaskAtWork]:
    rows = tx.all("work_rows", ids=encode_keys(map(str, tasks)))
    return [view_of(row) for row in rows]


class TaskClaim(Struct, frozen=True, kw_only=True):
    """A claim and the task that holds it."""

    task: int
    pattern: str
    run: str | None
    name: str
    state: str
    stage: str | None
    agent: str | None
    reason: str


@reads
def list_held_files(tx: Transaction) -> list[TaskClaim]:
    return [TaskClaim(**row) for row in tx.all("held_files")]


@reads
def list_unmet_needs(tx: Transaction, tasks: Iterable[int]) -> dict[int, list[str]]:
    """Map waiting tasks to the names of the needs they wait for; '': an earlier phase."""
    unmet: dict[int, list[str]] = {}
    for row in tx.all("unmet_needs_of", tasks=encode_keys(map(str, tasks))):
        unmet.setdefault(row["task"], []).append(row["name"] if row["agent"] is not None else "")
    return unmet
