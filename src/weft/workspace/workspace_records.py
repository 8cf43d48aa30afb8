"""The record of a workspace, and the lock of the process that uses it.

    <common git directory>/weft/workspaces/
        locks/pool          held while a workspace is registered
        locks/7             held by the user of workspace 7 and its child processes
        7/record.json       the record; a directory without a record is not weft's
        7/view/, 7/index    weft's own git view, which no agent's git uses
        7/quarantine/       the separate git directory of boxed programs
        7/tmp/              their temporary files
        trash/              renamed to here first, then deleted

The working tree, weft-7, lies elsewhere; see `place`.
Locks are never deleted: a process could otherwise hold a lock that others no longer see. Records
are replaced whole, so a reader never sees half a record.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from weft.config import BoxKind, WorkspaceSettings
from weft.errors import InUse, WorkspaceError
from weft.git import GitView, common_directory
from weft.git.disk import write_whole
from weft.process import Breaker
from weft.process.box import Box
from weft.workspace import place
from weft.workspace.filters import lfs_settings
from weft.workspace.locks import Lock

_PATIENCE: Final = 60.0  # seconds; a process holds the lock of the pool for milliseconds


class WorkspacePhase(StrEnum):
    MAKING = "making"  # without value: half-made, or its work is archived
    READY = "ready"  # handed out: it may hold work that exists nowhere else
    FREE = "free"  # clean


class Record(Struct, frozen=True, kw_only=True):
    phase: WorkspacePhase
    branch: str | None = None  # the full reference this workspace alone may create or delete
    base: str | None = None  # the commit it starts from
    tree: str | None = None  # that commit's tree, which `index` matches
    admin: str | None = None  # its entry among the repository's worktrees
    settings: Mapping[str, str] = field(default_factory=dict)  # the view's, from before the agent
    owner: str = ""  # a text of the caller
    home: str = ""  # the git directory it was made in; a copied repository has another
    place: str = ""  # its working tree; "" below the git directory, as an earlier weft had all
    kept: Mapping[str, str] = field(default_factory=dict)  # directories and their locks' digests
    to_tear_down: Mapping[str, str] | None = None  # variables of its set-up, until the teardown ran


class WorkspacePool(Struct, frozen=True, kw_only=True):
    """The workspaces of one repository."""

    common: Path  # the common git directory

    @classmethod
    def of(cls, repository: Path) -> WorkspacePool:
        return cls(common=common_directory(repository))

    @property
    def directory(self) -> Path:
        return self.common / "weft" / "workspaces"

    @property
    def home(self) -> str:
        """The git directory by inode and path. Workspaces name it in their files."""
        return place.read_home(self.common)

    @property
    def locks(self) -> Path:
        return self.directory / "locks"

    @property
    def trash(self) -> Path:
        return self.directory / "trash"

    @property
    def trashes(self) -> Iterator[Path]:
        """The trash of the records, that on the file system of git, and those of working trees."""
        yield from (self.trash, self.common / "weft-trash")
        yield from (root / "trash" for root in self.roots())

    def trash_beside(self, path: Path) -> Path:
        """Return a trash path on the file system of a path, so that renaming works."""
        device = os.stat(path.parent).st_dev
        trash = next(
            (trash for trash in self.trashes if os.stat(trash.parent).st_dev == device), self.trash
        )
        trash.mkdir(parents=True, exist_ok=True)
        return trash

    def roots(self) -> list[Path]:
        """List the directories outside the git directory that hold working trees."""
        roots = {slot.tree.parent for slot, _ in self.registered() if slot.tree != slot.inner_tree}
        return sorted(root for root in roots if root.is_dir())

    def slot(self, number: int, record: Record | None = None) -> Slot:
        """Return a workspace with the working tree that its record names."""
        slot = Slot(pool=self, number=number)
        if record is None or not record.place:
            return slot
        tree: Path | None = Path(record.place)
        if record.home != self.home:
            tree = place.find_moved(Path(record.place), record.home, self.common)
        return replace(slot, outer_tree=tree)

    def registered(self) -> list[tuple[Slot, Record]]:
        """List the workspaces that have a record, in order."""
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return []
        numbers = sorted(int(name) for name in names if name.isdecimal() and name.isascii())
        return [
            (self.slot(number, record), record)
            for number in numbers
            if (record := self.slot(number).find_record()) is not None
        ]


class Slot(Struct, frozen=True, kw_only=True):
    pool: WorkspacePool
    number: int
    outer_tree: Path | None = None  # the working tree, if it is outside the git directory

    @property
    def directory(self) -> Path:
        return self.pool.directory / str(self.number)

    @property
    def tree(self) -> Path:
        return self.outer_tree or self.inner_tree

    @property
    def inner_tree(self) -> Path:
        return self.directory / f"weft-{self.number}"

    @property
    def view(self) -> Path:
        return self.directory / "view"

    @property
    def index(self) -> Path:
        return self.directory / "index"

    @property
    def quarantine(self) -> Path:
        return self.directory / "quarantine"

    @property
    def scratch(self) -> Path:
        return self.directory / "tmp"

    def open_box(self, box: Box) -> Box:
        """Return a box in which programs write this workspace, and have a /tmp of their own."""
        self.scratch.mkdir(mode=0o700, exist_ok=True)
        return dataclasses.replace(
            box, writable=(self.tree, self.quarantine, *box.writable), scratch=self.scratch
        )

    def find_record(self) -> Record | None:
        path = self.directory / "record.json"
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValueError as error:
            raise WorkspaceError(
                f"{path} is damaged: {error}. Move {self.directory} away."
            ) from error
        return Record(**{**table, "phase": WorkspacePhase(table["phase"])})

    def get_record(self) -> Record:
        record = self.find_record()
        if record is None:
            raise WorkspaceError(f"The workspace {self.directory} is gone.")
        return record

    def write_record(self, record: Record) -> None:
        write_record(self.directory, record)

    def git_view(
        self,
        settings: Mapping[str, str],
        lock: Lock,
        index: Path | None = None,
        breaker: Breaker | None = None,
    ) -> GitView:
        """Return the working tree as git sees it through weft's own git directory."""
        return GitView(
            directory=self.view,
            objects=self.pool.common / "objects",
            tree=self.tree,
            index=index or self.index,
            settings={
                **{key: value for key, value in settings.items() if key.startswith("core.")},
                **lfs_settings(self.pool.common, settings),
            },
            holds=(lock.fileno(),),
            breaker=breaker,
        )


class Terms(Struct, frozen=True, kw_only=True):
    """The rules for weft's work on a workspace, and the breaker that ends it."""

    rules: WorkspaceSettings = field(default_factory=WorkspaceSettings)
    breaker: Breaker = field(default_factory=Breaker)
    environment: Mapping[str, str] = field(default_factory=dict)  # of the teardown command
    box: Box = Box(kind=BoxKind.OFF)  # of set-up and teardown commands


class Workspace(Struct, frozen=True, kw_only=True):
    """The checkout of an attempt, and the lock of its user.

    The agent's wrapper inherits `lock.fileno()`, so the workspace stays locked while the agent
    lives, even if weft dies.
    """

    slot: Slot
    branch: str  # full reference
    base: str
    base_tree: str
    entry: Path  # the repository's entry of this worktree; an agent may have removed it
    settings: Mapping[str, str] = field(default_factory=dict)
    lock: Lock
    terms: Terms

    @classmethod
    def of(cls, slot: Slot, record: Record, lock: Lock, terms: Terms) -> Workspace:
        assert record.branch is not None
        assert record.base is not None
        assert record.tree is not None
        return cls(
            slot=slot,
            branch=record.branch,
            base=record.base,
            base_tree=record.tree,
            entry=slot.pool.common / "worktrees" / (record.admin or slot.tree.name),
            settings=record.settings,
            lock=lock,
            terms=terms,
        )

    @property
    def path(self) -> Path:
        return self.slot.tree

    @property
    def common(self) -> Path:
        return self.slot.pool.common

    @property
    def admin(self) -> Path:
        """The directory in which the agent's git keeps HEAD, index and logs."""
        quarantine = self.slot.quarantine
        return quarantine if quarantine.is_dir() else self.entry

    def view(self, index: Path | None = None) -> GitView:
        return self.slot.git_view(self.settings, self.lock, index, self.terms.breaker)

    def close(self) -> None:
        """Unlock without freeing: another process may continue with it (`attach`)."""
        self.lock.close()

    def __enter__(self) -> Workspace:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def write_record(directory: Path, record: Record) -> None:
    write_whole(directory / "record.json", json.dumps(asdict(record)))


def try_lock(slot: Slot) -> Lock | None:
    """Lock a workspace; return None if it is in use."""
    lock = Lock(slot.pool.locks / str(slot.number))
    if lock.attempt():
        return lock
    lock.close()
    return None


def lock_branch(pool: WorkspacePool, branch: str) -> tuple[Slot, Record, Lock] | None:
    """Lock the workspace on a branch; return None without one, raise InUse if it is in use."""
    for slot, record in pool.registered():
        if record.branch != branch:
            continue
        lock = try_lock(slot)
        if lock is None:
            raise InUse(f"The workspace of {branch} is in use.")
        current = slot.find_record()
        if current is not None and current.branch == branch:
            return pool.slot(slot.number, current), current, lock
        lock.close()
    return None


@contextlib.contextmanager
def registering(pool: WorkspacePool, patience: float = _PATIENCE) -> Iterator[Lock]:
    """Keep other processes from registering a workspace; hold it shortly."""
    lock = Lock(pool.locks / "pool")
    try:
        if not lock.wait_at_most(patience):
            pid = lock.read_signature()
            raise InUse(
                f"Process {pid} has kept the workspaces locked for {patience:.0f} s. If it was "
                f"stopped (Ctrl-Z), continue it with `kill -CONT {pid}`, or end it with "
                f"`kill -KILL {pid}`; then try again."
            )
        lock.sign()
        yield lock
    finally:
        lock.close()
