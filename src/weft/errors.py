"""The errors that weft raises on purpose.

    WeftError
    ├── InputError         the user's input cannot be used              exit 2
    │   └── NeverFits      a task asks for more than there can ever be
    ├── StoreError         the database cannot be used                  exit 2
    │   ├── ForeignStore   it is not weft's, or it is damaged
    │   ├── NewerStore     a newer weft wrote it
    │   ├── UnknownSchema  a development version of weft wrote it
    │   ├── NoAnswer       the server is not there, or answers nonsense
    │   └── StoreBusy      another process held it for too long; try again
    ├── LimitsDiffer       this process is configured unlike the store  exit 2
    ├── WorkspaceError     a workspace cannot be made, read or freed    exit 1
    │   ├── BranchTaken    another workspace or person has that branch
    │   ├── InUse          another process uses that workspace
    │   └── SetUpFailed    the files or the command it needs failed
    ├── Unauthenticated    the caller showed no valid token             exit 1
    ├── Forbidden          the caller's token does not allow this       exit 1
    └── Refused            the store refused, and made no change     exit 1
        ├── NotFound       no such task, run, worker or limit           exit 2
        ├── StaleFence     the caller no longer owns the task it acts on
        ├── AlreadyEnded   the task has its terminal outcome already
        ├── AtCapacity     the worker asked for has no room
        ├── StillAnswering the same request is being answered just now
        └── QueueFull      the queue is full of better entries

The docstring of a class is its default message. Faces map classes to exit codes and
HTTP statuses in one place each.
"""

from __future__ import annotations

import errno
import os
import re
from typing import Final

_PASSING: Final = {
    number: os.strerror(number)
    for number in (
        errno.EROFS,
        errno.EIO,
        errno.ESTALE,
        errno.ENODEV,
        errno.ENOTCONN,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EAGAIN,
    )
}
"""Faults of the machine or its file systems, which pass or are mended without a change to weft's
work. A full disk is not among them: an attempt's own files may fill it."""
_NO_GIT: Final = "git was not found"  # its package may be being upgraded
_PASSING_TEXT: Final = re.compile("|".join(map(re.escape, (*_PASSING.values(), _NO_GIT))))


class WeftError(Exception):
    """weft could not continue."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class InputError(WeftError):
    """The input cannot be used."""


class NeverFits(InputError):
    """The task asks for more than its limits could ever give."""


class StoreError(WeftError):
    """The store cannot be used."""


class ForeignStore(StoreError):
    """The store is not weft's."""


class NewerStore(StoreError):
    """A newer weft wrote this store; upgrade weft to use it."""


class UnknownSchema(StoreError):
    """This weft can neither use nor upgrade the schema of this store."""


class NoAnswer(StoreError):
    """The server did not answer."""


class StoreBusy(StoreError):
    """Another process has held the store for too long; try again."""


class LimitsDiffer(WeftError):
    """This process is configured with other limits than the store has."""


class WorkspaceError(WeftError):
    """The workspace cannot be used."""


class BranchTaken(WorkspaceError):
    """The branch exists already."""


class InUse(WorkspaceError):
    """Another process uses this workspace."""


class SetUpFailed(WorkspaceError):
    """The workspace could not be set up."""


class Unauthenticated(WeftError):
    """The token is missing or not valid; `weft token create` makes a new token."""


class Forbidden(WeftError):
    """This token may not do that."""


class Refused(WeftError):
    """The store refused, and made no change."""


class NotFound(Refused):
    """The store has no such task, run, worker or limit."""


class StaleFence(Refused):
    """This fence is no longer current: another process owns the task now, or none does."""


class AlreadyEnded(Refused):
    """The task has already ended; `weft retry` reopens it."""


class AtCapacity(Refused):
    """The worker is at capacity."""


class StillAnswering(Refused):
    """A request with this key is being answered just now; ask again in a moment."""


class QueueFull(Refused):
    """The queue is full, and all its tasks rank higher."""


def name_of(kind: type[WeftError]) -> str:
    """Return the name of an error on the wire: `StaleFence` is `stale_fence`."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in kind.__name__).lstrip("_")


def find_kind(name: str) -> type[WeftError] | None:
    """Return the error of a name on the wire; None for a name that is not weft's."""
    kinds = [kind for kind in globals().values() if isinstance(kind, type)]
    matching = [kind for kind in kinds if issubclass(kind, WeftError) and name_of(kind) == name]
    return matching[0] if matching else None


def find_passing_fault(error: BaseException) -> str | None:
    """Name the fault of the machine that caused an error; None if the work may be the cause.

    The faults of other programs (git) are recognised by their messages.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _PASSING:
            return _PASSING[cause.errno]
        if isinstance(cause, WeftError) and (match := _PASSING_TEXT.search(str(cause))):
            return match[0]
        cause = cause.__cause__
    return None
