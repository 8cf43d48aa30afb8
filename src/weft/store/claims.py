"""File claims: who holds which files, as read inside the admitting transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from weft.model import TERMINAL
from weft.paths import Index
from weft.store import ready
from weft.store.database import Row, Transaction


class Claims:
    """The claims of live tasks, read per repository the first time they are asked for."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._repos: dict[str, Index[int]] = {}

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

    def _of(self, repo: str) -> Index[int]:
        if repo not in self._repos:
            index: Index[int] = Index()
            for row in self._tx.all("claims", repo=repo):
                index.add(row["pattern"], row["task"])
            self._repos[repo] = index
        return self._repos[repo]


def give_up(tx: Transaction, task: Row) -> None:
    """A task's claims end; whoever ran into them is looked at again."""
    if tx.count("drop_claims", repo=task["repo"], task=task["id"]):
        ready.bring_back(tx, task["id"])


def pass_to_story(tx: Transaction, task: Row) -> None:
    """A subtask has its candidate: its claims now bind everyone but its story's subtasks."""
    story = tx.one("task", id=task["story"])
    if story is not None and story["state"] not in TERMINAL:
        tx.run("pass_claims", repo=task["repo"], task=task["id"], story=task["story"])
    give_up(tx, task)
