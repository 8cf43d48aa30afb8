"""Directories of attempts: records, prompts and output of agents that have long ended.

One goes when its task has ended, long enough ago, no lease of it is open, and no process of it
is left. What belongs to another store on the same repository is only counted.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft.errors import WorkspaceError
from weft.git.disk import delete_tree
from weft.model import TERMINAL, Task
from weft.process import attempt_files
from weft.process.death_proof import find_strays, prove_dead
from weft.process.process_identity import get_place
from weft.project.site import home
from weft.store import Store
from weft.store.leases import list_open
from weft.store.limit_table import identity
from weft.workspace.leftovers import size

_NAME: Final = re.compile(r"([0-9]{1,18})\.([0-9]{1,9})")
_AT_ONCE: Final = 200  # each holds a lock while death is proved

_LIVES: Final = "a process of it lives"


class Directory(Struct, frozen=True, kw_only=True):
    path: Path
    bytes: int


def look(
    common: Path, store: Store, tasks: Sequence[Task], older_than: float
) -> tuple[tuple[Directory, ...], dict[Directory, str]]:
    """Those that may go if no process of them is left, and the others with why they stay."""
    own = home(common, identity(store))
    known = {task.id: task for task in tasks}
    running = {(lease.task, lease.attempt) for lease in list_open(store)}
    old: list[Directory] = []
    young: dict[Directory, str] = {}
    for path in _subdirectories(own):
        name = _NAME.fullmatch(path.name)
        key = (int(name[1]), int(name[2])) if name else (0, 0)
        why = _stays(known.get(key[0]), older_than)
        if key in running:
            why = "it has not been proved to have ended"
        directory = Directory(path=path, bytes=size(path))
        if why is None:
            old.append(directory)
        else:
            young[directory] = why
    for path in _subdirectories(own.parent):
        if path != own:
            young[Directory(path=path, bytes=size(path))] = "another store's"
    return tuple(old), young


def find_living(directories: Iterable[Directory]) -> dict[Directory, str]:
    """Those that `remove` would leave, as far as looking tells."""
    return {
        one: _LIVES
        for one in directories
        if (record := _find_record(one)) is not None
        and record["boot"] == get_place().boot
        and not (one.path / attempt_files.EXIT).exists()
        and find_strays(one.path, record["marker"])
    }


def remove(directories: Iterable[Directory]) -> dict[Directory, str]:
    """Remove those of which no process is left; returns the others, and why they stay."""
    stay: dict[Directory, str] = {}
    waiting = iter(directories)
    while some := list(itertools.islice(waiting, _AT_ONCE)):
        dead = _dead(some)
        for one in some:
            why = _try_to_remove(one.path) if one.path in dead else _LIVES
            if why is not None:
                stay[one] = why
    return stay


def _dead(directories: Sequence[Directory]) -> set[Path]:
    """Of an earlier boot nobody is left, and what has no record was never started."""
    marks: dict[Path, str] = {}
    for one in directories:
        record = _find_record(one)
        if record is not None and record["boot"] == get_place().boot:
            marks[one.path] = record["marker"]
    others = {one.path for one in directories} - marks.keys()
    return others | prove_dead(marks)


def _find_record(one: Directory) -> attempt_files.Record | None:
    return attempt_files.find_record(str(one.path / attempt_files.ATTEMPT))


def _try_to_remove(path: Path) -> str | None:
    try:
        delete_tree(path)
    except WorkspaceError as error:
        return f"it cannot be removed: {error}"
    return None


def _stays(task: Task | None, older_than: float) -> str | None:
    if task is None:
        return "no task of this repository knows it"
    if task.state not in TERMINAL:
        return f"the task is {task.state}"
    return None if time.time() - task.since >= older_than else "the task ended not long ago"


def _subdirectories(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(one for one in path.iterdir() if one.is_dir() and not one.is_symlink())
