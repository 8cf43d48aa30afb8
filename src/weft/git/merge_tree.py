"""Asking `git merge-tree`: many merges in one go, answers as records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from signal import SIGABRT, SIGSEGV
from typing import Final

from msgspec import Struct

from weft.git.object_store import Plumbing, output
from weft.process import Completed

_CRASHES: Final = frozenset({-SIGABRT, -SIGSEGV})
"""Some sets of renames across file types break an assertion of git 2.39, in `git merge` too."""
_UNKNOWN_OPTION: Final = 129


class ConflictStage(Struct, frozen=True, kw_only=True):
    """One side of a path git could not settle: 1 the base, 2 ours, 3 theirs."""

    mode: str
    id: str
    side: int
    path: bytes


class MergeMessage(Struct, frozen=True, kw_only=True):
    kind: str  # git's stable name: `CONFLICT (contents)`
    paths: tuple[bytes, ...]
    text: bytes


class Answer(Struct, frozen=True, kw_only=True):
    clean: bool
    tree: str  # with conflict markers in it, if it is not clean
    stages: tuple[ConflictStage, ...]
    messages: tuple[MergeMessage, ...]


class GaveUp(Struct, frozen=True, kw_only=True):
    """Git refused this merge altogether, or crashed over it."""

    unrelated: bool  # for want of common history
    text: str


def ask(plumbing: Plumbing, merges: Sequence[tuple[str, str]]) -> Iterator[Answer | GaveUp]:
    """What comes out of merging the second commit of each pair into the first.

    In order; the answers may end early, but not before the first one.
    """
    asked = "".join(f"{ours} {theirs}\n" for ours, theirs in merges).encode()
    done = plumbing.attempt("merge-tree", "--write-tree", "--messages", "--stdin", stdin=asked)
    if done.status == _UNKNOWN_OPTION:  # git 2.38 takes one merge at a time
        yield from (ask_one(plumbing, ours, theirs) for ours, theirs in merges)
        return
    if done.status in _CRASHES:
        # Git took the answers it already had with it: ask for less until it is one question.
        few = merges[: len(merges) // 2]
        yield from ask(plumbing, few) if few else (_gave_up(plumbing, merges[0][1], done),)
        return
    answers = _read_answers(output(done)) if done.status >= 0 else []
    yield from answers
    if len(answers) < len(merges):
        yield _gave_up(plumbing, merges[len(answers)][1], done)


def ask_one(plumbing: Plumbing, ours: str, theirs: str) -> Answer | GaveUp:
    done = plumbing.attempt("merge-tree", "--write-tree", "--messages", "-z", ours, theirs)
    if done.status not in (0, 1):
        return _gave_up(plumbing, theirs, done)
    clean = b"0" if done.status else b"1"
    (answer,) = _read_answers(clean + b"\0" + output(done) + b"\0")
    return answer


def _gave_up(plumbing: Plumbing, theirs: str, done: Completed) -> GaveUp:
    """Return git's reason to refuse the merge; raise GitFailed if the merge is not the cause."""
    errors = done.errors.strip() or f"it ended with status {done.status}"
    if "unrelated histories" in errors:
        return GaveUp(unrelated=True, text="The candidate has no common history with trunk.")
    if done.status in _CRASHES:
        return GaveUp(unrelated=False, text=f"git crashed while merging this: {errors}")
    raise plumbing.failure(f"git cannot merge {theirs}: {errors}")


def _read_answers(output: bytes) -> list[Answer]:
    fields = iter(output.split(b"\0")[:-1])
    return [
        Answer(
            clean=status == b"1",
            tree=next(fields).decode(),
            stages=tuple(_stages(fields)),
            messages=tuple(_messages(fields)),
        )
        for status in fields
    ]


def _stages(fields: Iterator[bytes]) -> Iterator[ConflictStage]:
    while field := next(fields):
        facts, _, path = field.partition(b"\t")
        mode, id, side = facts.decode().split(" ")
        yield ConflictStage(mode=mode, id=id, side=int(side), path=path)


def _messages(fields: Iterator[bytes]) -> Iterator[MergeMessage]:
    # They end with an empty field, or with advice on submodules, which git puts in its place.
    while (count := next(fields)).isdigit():
        paths = tuple(next(fields) for _ in range(int(count)))
        yield MergeMessage(paths=paths, kind=next(fields).decode(), text=next(fields))
