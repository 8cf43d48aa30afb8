"""File claims, as read inside the admitting transaction.

A story and its subtasks are a single holder to all other tasks. When the first subtask is admitted,
its story claims the files of all of them, and keeps them while a subtask holds files or has its
candidate: a story never waits for files while it holds some, so two stories cannot wait for each
other. The subtasks exclude each other by their own claims.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from weft.model import TERMINAL, State
from weft.paths import Index, conflicts, quote
from weft.store import row_records
from weft.store.database import Row, Transaction, encode_keys
from weft.store.team_rows import is_entrant, is_open_team

STALLED: Final = frozenset({State.PARKED, State.PAUSED})
"""States in which a task keeps its files but waits for a time or a person."""


class Claims:
    """The claims of live tasks, read per repository on first use."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._repos: dict[str, Index[int]] = {}
        self.states: dict[int, str] = {}  # of the holders in the repositories read

    def held(self, repo: str, files: Iterable[str], *, own: Collection[int]) -> dict[str, int]:
        """Map the held patterns that these files conflict with to their holders.

        Claims of the tasks in `own` do not count: the asking task and its story.
        """
        held: dict[str, int] = {}
        for file in files:
            for pattern, holder in self._of(repo).find(file):
                if holder not in own:
                    held[pattern] = min(holder, held.get(pattern, holder))
        return held

    def any_held_by(self, repo: str, tasks: Iterable[int]) -> bool:
        return any(self._of(repo).holds(task) for task in tasks)

    def _of(self, repo: str) -> Index[int]:
        if repo not in self._repos:
            index: Index[int] = Index()
            for row in self._tx.all("claims", repo=repo):
                index.add(row["pattern"], row["task"])
                self.states[row["task"]] = row["state"]
            self._repos[repo] = index
        return self._repos[repo]


def bring_back(tx: Transaction, holder: int) -> None:
    """Examine again the tasks set aside for a task whose claims or turn ended."""
    tx.run("bring_back", holder=holder)
    tx.wake()


def bring_all_back(tx: Transaction, repo: str) -> None:
    """Examine again every task set aside: a holder of files has stalled, so that later tasks of the
    plan may pass the tasks that wait for it."""
    tx.run("bring_all_back", repo=repo)
    tx.wake()


def give_up(tx: Transaction, task: Row) -> None:
    """End a task's claims, and its story's if no other subtask needs them."""
    _drop(tx, task["repo"], task["id"])
    if task["story"] is not None:
        rest = [row for row in family(tx, task["story"]) if row["id"] != task["id"]]
        if not _needs_its_claims(tx, task["story"], rest):
            _drop(tx, task["repo"], task["story"])


def narrow_claims(tx: Transaction, task: Row, changed: Iterable[str]) -> None:
    """Give up the claims of a task with predicted files that cover no changed file."""
    if not row_records.request(task).predicted:
        return
    paths = [quote(path) for path in changed]
    claims = row_records.files(task["files"])
    needed = [claim for claim in claims if any(conflicts(claim, path) for path in paths)]
    if needed and len(needed) < len(claims):
        _drop(tx, task["repo"], task["id"])
        patterns = encode_keys(needed)
        tx.run("add_claims", task=task["id"], repo=task["repo"], patterns=patterns)
        tx.run("set_files", id=task["id"], files=patterns)


def _drop(tx: Transaction, repo: str, task: int) -> None:
    if tx.count("drop_claims", repo=repo, task=task):
        bring_back(tx, task)


def _needs_its_claims(tx: Transaction, story: int, rest: Sequence[Row]) -> bool:
    if is_open_team(tx, story):
        return True
    holders = {row["task"] for row in tx.all("claim_holders")}
    return any(
        row["attempt"] > 0 if row["id"] == story else row["id"] in holders
        for row in rest
        if row["state"] not in TERMINAL
    ) or any(row["state"] == State.GATING for row in rest)


def family(tx: Transaction, story: int) -> Sequence[Row]:
    """Return a story and its subtasks; none once the story has ended: then each is on its own."""
    rows = tx.all("family", story=story)
    return [] if any(row["id"] == story and row["state"] in TERMINAL for row in rows) else rows


def wanted_by(rows: Iterable[Row]) -> list[str]:
    """List the files of a story and its subtasks that have not ended."""
    alive = [row for row in rows if row["state"] not in TERMINAL]
    return sorted({file for row in alive for file in row_records.files(row["files"])})


def claim_for_story(tx: Transaction, repo: str, story: int) -> None:
    """Claim the files of all subtasks for a story; they are known to be free."""
    rows = family(tx, story)
    tx.run("add_claims", task=story, repo=repo, patterns=encode_keys(wanted_by(rows)))
    if any(row["id"] == story and row["state"] in STALLED for row in rows):
        bring_all_back(tx, repo)


def pass_to_story(tx: Transaction, task: Row) -> bool:
    """Pass the claims of a subtask with a candidate to its story.

    Return False if the story cannot hold the files of all its subtasks: it gave them up in the
    meantime, and other tasks hold some of them now.
    """
    rows = family(tx, task["story"])
    kin = {row["id"] for row in rows}
    if Claims(tx).held(task["repo"], wanted_by(rows), own=kin):
        return False
    if rows:
        claim_for_story(tx, task["repo"], task["story"])
        tx.run("pass_claims", repo=task["repo"], task=task["id"], story=task["story"])
        _drop(tx, task["repo"], task["id"])
    return True


def held_by_siblings(tx: Transaction, task: Row, files: Iterable[str]) -> dict[str, int]:
    """Map the patterns of subtasks at the gate that these files conflict with to the subtasks.

    Their claims are their story's by now, which is the asking subtask's story, too. A subtask that
    the asking subtask builds on, or that builds on it, does not count.
    """
    if task["story"] is None or is_entrant(task):
        return {}
    needed = list(files)
    held = {
        pattern: int(row["id"])
        for row in family(tx, task["story"])
        if row["state"] == State.GATING and row["id"] not in (task["id"], task["story"])
        for pattern in row_records.files(row["files"])
        if any(conflicts(pattern, file) for file in needed)
    }
    related = _list_related(tx, task) if held else set()
    return {pattern: holder for pattern, holder in held.items() if holder not in related}


def build_on_siblings(tx: Transaction, task: Row, files: Sequence[str]) -> None:
    """Let a subtask that asks for more files need the subtasks that have or change them, so that
    its next attempt starts on their results."""
    if task["story"] is None or is_entrant(task):
        return
    own = (task["id"], task["story"])
    kin = {row["id"] for row in family(tx, task["story"])}
    running = {*Claims(tx).held(task["repo"], files, own=own).values()} & kin
    holders = running - _list_related(tx, task) if running else set()
    for holder in sorted(holders.union(held_by_siblings(tx, task, files).values())):
        tx.run("add_edge", task=task["id"], needs=holder)


def _list_related(tx: Transaction, task: Row) -> set[int]:
    """List the tasks of a run that a task needs, and those that need it, also through others."""
    needs, dependents = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for row in tx.all("edges_of_run", run=task["run"]):
        needs[row["task"]].append(row["needs"])
        dependents[row["needs"]].append(row["task"])
    return _reach(task["id"], needs) | _reach(task["id"], dependents)


def _reach(start: int, edges: Mapping[int, Sequence[int]]) -> set[int]:
    reached: set[int] = set()
    left = [start]
    while left:
        fresh = set(edges.get(left.pop(), ())) - reached
        reached |= fresh
        left += fresh
    return reached
