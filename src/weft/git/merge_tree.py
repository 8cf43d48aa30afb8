"""Merges by `git merge-tree`."""

from __future__ import annotations

from collections.abc import Iterator
from signal import SIGABRT, SIGSEGV
from typing import Final

from msgspec import Struct

from weft.git.object_store import ObjectStore, output_bytes
from weft.process import Completed

_CRASHES: Final = frozenset({-SIGABRT, -SIGSEGV})
"""Some sets of renames across file types break an assertion of git 2.39, in `git merge` too."""


class ConflictStage(Struct, frozen=True, kw_only=True):
    """A side of a path in conflict: 1 the base, 2 ours, 3 theirs."""

    mode: str
    id: str
    side: int
    path: bytes


class MergeMessage(Struct, frozen=True, kw_only=True):
    kind: str  # git's stable name: `CONFLICT (contents)`
    paths: tuple[bytes, ...]
    text: bytes


class MergeAnswer(Struct, frozen=True, kw_only=True):
    clean: bool
    tree: str  # has conflict markers unless it is clean
    stages: tuple[ConflictStage, ...]
    messages: tuple[MergeMessage, ...]


class MergeRefusal(Struct, frozen=True, kw_only=True):
    """A merge that git refused or over which it crashed."""

    unrelated: bool  # without common history
    text: str


def merge_pair(store: ObjectStore, ours: str, theirs: str) -> MergeAnswer | MergeRefusal:
    """Merge the second commit into the first."""
    done = store.attempt("merge-tree", "--write-tree", "--messages", "-z", ours, theirs)
    if done.status not in (0, 1):
        return _refusal(store, theirs, done)
    fields = iter((output_bytes(done) + b"\0").split(b"\0")[:-1])
    return MergeAnswer(
        clean=done.status == 0,
        tree=next(fields).decode(),
        stages=tuple(_stages(fields)),
        messages=tuple(_messages(fields)),
    )


def _refusal(store: ObjectStore, theirs: str, done: Completed) -> MergeRefusal:
    """Return git's reason to refuse the merge; raise GitFailed if the merge is not the cause."""
    errors = done.errors.strip() or f"it ended with status {done.status}"
    if "unrelated histories" in errors:
        return MergeRefusal(unrelated=True, text="The candidate has no common history with trunk.")
    if done.status in _CRASHES:
        return MergeRefusal(unrelated=False, text=f"git crashed while merging this: {errors}")
    raise store.failure(f"git cannot merge {theirs}: {errors}", errors)


def _stages(fields: Iterator[bytes]) -> Iterator[ConflictStage]:
    while field := next(fields):
        facts, _, path = field.partition(b"\t")
        mode, id, side = facts.decode().split(" ")
        yield ConflictStage(mode=mode, id=id, side=int(side), path=path)


def _messages(fields: Iterator[bytes]) -> Iterator[MergeMessage]:
    # The list ends with an empty field, or with advice on submodules in its place.
    while (count := next(fields)).isdigit():
        paths = tuple(next(fields) for _ in range(int(count)))
        yield MergeMessage(paths=paths, kind=next(fields).decode(), text=next(fields))
