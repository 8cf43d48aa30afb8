"""Directories of old attempts: records, prompts and output.

A directory goes some time after its task ended, when it has no open lease and no process. Those of
another store on the same repository are only counted.
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
from weft.words import task_clause
from weft.workspace.release import size

_NAME: Final = re.compile(r"([0-9]{1,18})\.([0-9]{1,9})")
_AT_ONCE: Final = 200  # each holds a lock while death is proved

_LIVES: Final = "a process of it lives"


class Directory(Struct, frozen=True, kw_only=True):
    path: Path
    bytes: int


def look(
    common: Path, store: Store, tasks: Sequence[Task], older_than: float
) -> tuple[tuple[Directory, ...], dict[Directory, str]]:
    """Return the directories that may go if they have no process, and reasons to keep the rest."""
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
        directory: _LIVES
        for directory in directories
        if (record := _find_record(directory)) is not None
        and record["boot"] == get_place().boot
        and not (directory.path / attempt_files.EXIT).exists()
        and find_strays(directory.path, record["marker"])
    }


def remove(directories: Iterable[Directory]) -> dict[Directory, str]:
    """Remove the directories without a process; return the rest with reasons."""
    stay: dict[Directory, str] = {}
    waiting = iter(directories)
    while batch := list(itertools.islice(waiting, _AT_ONCE)):
        dead = _dead(batch)
        for directory in batch:
            why = _try_to_remove(directory.path) if directory.path in dead else _LIVES
            if why is not None:
                stay[directory] = why
    return stay


def _dead(directories: Sequence[Directory]) -> set[Path]:
    """Return the directories whose processes are proved dead; none survives a reboot."""
    marks: dict[Path, str] = {}
    for directory in directories:
        record = _find_record(directory)
        if record is not None and record["boot"] == get_place().boot:
            marks[directory.path] = record["marker"]
    rest = {directory.path for directory in directories} - marks.keys()
    return rest | prove_dead(marks)


def _find_record(directory: Directory) -> attempt_files.Record | None:
    return attempt_files.find_record(str(directory.path / attempt_files.ATTEMPT))


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
        return f"the task {task_clause(task)}"
    return None if time.time() - task.since >= older_than else "the task ended not long ago"


def _subdirectories(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(
            directory
            for directory in path.iterdir()
            if directory.is_dir() and not directory.is_symlink()
        )
