"""What `git merge-tree --stdin` answers, as records. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One side of a path git could not settle: 1 the base, 2 ours, 3 theirs."""

    mode: str
    id: str
    side: int
    path: bytes


@dataclass(frozen=True, kw_only=True)
class Message:
    kind: str  # git's stable name: `CONFLICT (contents)`
    paths: tuple[bytes, ...]
    text: bytes


@dataclass(frozen=True, kw_only=True)
class Answer:
    clean: bool
    tree: str  # with conflict markers in it, if it is not clean
    stages: tuple[Stage, ...]
    messages: tuple[Message, ...]


def read_answers(output: bytes) -> list[Answer]:
    """One answer per line asked; fewer if git died on the next one."""
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


def _stages(fields: Iterator[bytes]) -> Iterator[Stage]:
    while field := next(fields):
        facts, _, path = field.partition(b"\t")
        mode, id, side = facts.decode().split(" ")
        yield Stage(mode=mode, id=id, side=int(side), path=path)


def _messages(fields: Iterator[bytes]) -> Iterator[Message]:
    while count := next(fields):
        paths = tuple(next(fields) for _ in range(int(count)))
        yield Message(paths=paths, kind=next(fields).decode(), text=next(fields))
