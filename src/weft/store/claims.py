"""File claims: who holds which files, as read inside the admitting transaction.

A story and its subtasks are one holder to everybody else. When the first subtask is admitted,
its story claims the files of all of them, and keeps them while one of them holds files or has
its candidate: a story never waits for files while it holds some, so two stories cannot wait
for each other. Among themselves the subtasks exclude each other by claims of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from weft.model import TERMINAL, State
from weft.paths import Index
from weft.store import row_records
from weft.store.database import Row, Transaction, encode_keys

STALLED: Final = frozenset({State.PARKED, State.PAUSED})
"""States in which a task keeps its files but waits for a time or a person."""


class Claims:
    """The claims of live tasks, read per repository the first time they are asked for."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._repos: dict[str, Index[int]] = {}
        self.stalled: set[int] = set()  # parked or paused holders, of the repositories read

    def held(self, repo: str, files: Iterable[str], *, own: Collection[int]) -> dict[str, int]:
        """The held patterns these files run into, and by whom they are held.

        `own` are the tasks whose claims do not count: the asker, and the story it belongs to.
        """
        found: dict[str, int] = {}
        for file in files:
            for pattern, holder in self._of(repo).find(file):
                if holder not in own:
                    found[pattern] = min(holder, found.get(pattern, holder))
        return found

    def any_held_by(self, repo: str, tasks: Iterable[int]) -> bool:
        """Whether one of these tasks holds files."""
        return any(self._of(repo).holds(task) for task in tasks)

    def any_stalled(self, repo: str) -> bool:
        """Tell whether a task that holds files of a repository is parked or paused."""
        self._of(repo)
        return bool(self.stalled)

    def _of(self, repo: str) -> Index[int]:
        if repo not in self._repos:
            index: Index[int] = Index()
            for row in self._tx.all("claims", repo=repo):
                index.add(row["pattern"], row["task"])
                if row["state"] in STALLED:
                    self.stalled.add(row["task"])
            self._repos[repo] = index
        return self._repos[repo]


def bring_back(tx: Transaction, holder: int) -> None:
    """Look again at the tasks that stand aside for a task whose claims or turn ended."""
    tx.run("bring_back", holder=holder)
    tx.wake()


def bring_all_back(tx: Transaction, repo: str) -> None:
    """Look again at every task aside: a task that holds files has stalled, so others may be passed.

    A head hides the tasks behind it in its line, and a task that waits for its turn in the plan
    stands aside for the task before it. Neither holds any longer when the holder of their files has
    stalled.
    """
    tx.run("bring_all_back", repo=repo)
    tx.wake()


def give_up(tx: Transaction, task: Row) -> None:
    """A task's claims end, and its story's if no other subtask needs them any more."""
    _drop(tx, task["repo"], task["id"])
    if task["story"] is not None:
        rest = [row for row in family(tx, task["story"]) if row["id"] != task["id"]]
        if not _needs_its_claims(tx, task["story"], rest):
            _drop(tx, task["repo"], task["story"])


def _drop(tx: Transaction, repo: str, task: int) -> None:
    if tx.count("drop_claims", repo=repo, task=task):
        bring_back(tx, task)


def _needs_its_claims(tx: Transaction, story: int, rest: Sequence[Row]) -> bool:
    holders = {row["task"] for row in tx.all("claim_holders")}
    return any(
        row["attempt"] > 0 if row["id"] == story else row["id"] in holders
        for row in rest
        if row["state"] not in TERMINAL
    ) or any(row["state"] == State.GATING for row in rest)


def family(tx: Transaction, story: int) -> Sequence[Row]:
    """A story and its subtasks; nobody once the story has ended: then each is on its own."""
    rows = tx.all("family", story=story)
    return [] if any(row["id"] == story and row["state"] in TERMINAL for row in rows) else rows


def wanted_by(rows: Iterable[Row]) -> list[str]:
    """All that a story and its subtasks will want, those that have ended left out."""
    alive = [row for row in rows if row["state"] not in TERMINAL]
    return sorted({file for row in alive for file in row_records.files(row["files"])})


def claim_for_story(tx: Transaction, repo: str, story: int) -> None:
    """A story holds what all of its subtasks want; known to be free."""
    rows = family(tx, story)
    tx.run("add_claims", task=story, repo=repo, patterns=encode_keys(wanted_by(rows)))
    if any(row["id"] == story and row["state"] in STALLED for row in rows):
        bring_all_back(tx, repo)


def pass_to_story(tx: Transaction, task: Row) -> bool:
    """A subtask has its candidate: from now on its story's claims bind everyone but its kin.

    False if the story cannot hold all its subtasks want: it gave its files up in the meantime,
    and others have some of them now.
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
