"""Plan files on disk: reading them, and replacing one while its author may be editing it.

What is to change is the caller's business, a pure function over the bytes. Nothing here is ever
written in place: a reader sees the old file or the new one, and a crash leaves one of the two.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol, TypeVar

from weft.errors import InputError

MOST_BYTES: Final = 64 * 1024 * 1024

_TRIES: Final = 20
_PAUSE: Final = 0.05


class PlanFileChanged(Protocol):
    """What a change answers with: the new bytes, and whatever else its caller wants to know."""

    @property
    def data(self) -> bytes: ...


T = TypeVar("T", bound=PlanFileChanged)


def read(path: Path) -> bytes:
    """The bytes of a plan file; from a pipe as well."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise InputError(f"There is no file {path}.") from error
    except IsADirectoryError as error:
        raise InputError(f"{path} is a directory; name the plan in it.") from error
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from error
    except ValueError as error:  # a NUL in the name
        raise InputError(f"Cannot read {str(path)!r}: {error}.") from error
    if len(data) > MOST_BYTES:
        raise InputError(f"{path} is larger than {MOST_BYTES >> 20} MB; no plan is.")
    return data


def update(path: Path, change: Callable[[bytes], T]) -> T:
    """Replace a file by what `change` makes of it, and return what `change` answered.

    If somebody edits the file meanwhile, the change is worked out again from what they wrote.
    It may therefore be called several times; the last answer is the one that holds.
    """
    _drop_halves(_real(path))
    for _ in range(_TRIES):
        real = _real(path)
        before = read(real)
        answer = change(before)
        if answer.data == before or _replace_if(real, before, answer.data):
            return answer
        time.sleep(_PAUSE)
    raise InputError(f"{path} keeps changing; try again when nobody else is writing it.")


def write_new(path: Path, data: bytes) -> None:
    """Write a file that is not there yet."""
    _remember(path)
    try:
        # Exclusive creation: neither a file nor a link that is there is ever written to.
        file = path.open("xb")
    except FileExistsError as error:
        raise InputError(f"{path} is there already; name another file.") from error
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror}.") from error
    try:
        with file:
            file.write(data)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise InputError(f"Cannot write {path}: {error.strerror}.") from error


def write_over(path: Path, data: bytes, *, ours: Callable[[bytes], bool], kind: str) -> None:
    """Write a file that may be there, but only if it is of the kind that is written."""
    if not path.exists():
        write_new(path, data)
        return
    real = _real(path)
    if not ours(read(real)):
        raise InputError(f"{path} is there already and is no {kind}; name another file.")
    _remember(real)
    with _explained(path):
        _replace(real, data)


def _remember(path: Path) -> None:
    from weft.workspace.own_writes import record_own_write  # late: most commands write nothing

    record_own_write(path)


def _real(path: Path) -> Path:
    """The file itself, where the path is a link to it."""
    with _explained(path):
        real = path.resolve(strict=True)
        mode = real.stat().st_mode
    if not stat.S_ISREG(mode):
        raise InputError(f"{path} is not a regular file; weft can only write to one.")
    if not os.access(real, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise InputError(f"Cannot write {path}: it is read-only.")
    return real


def _replace_if(real: Path, before: bytes, after: bytes) -> bool:
    """Put the new file in place of the old one, unless that is no longer what was read.

    Other weft processes are kept out by the lock. An editor takes no locks: its file is looked
    at again as late as can be, right before the new one takes its name.
    """
    with _explained(real), _locked(real.parent) as alone:
        if not alone:
            return False
        return _replace(real, after, still=lambda: real.read_bytes() == before)


def _replace(real: Path, data: bytes, *, still: Callable[[], bool] = lambda: True) -> bool:
    old = real.stat()
    number, name = tempfile.mkstemp(dir=real.parent, prefix=_half(real))
    temporary = Path(name)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            with suppress(PermissionError):
                os.fchown(file.fileno(), old.st_uid, old.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
            file.flush()
            os.fsync(file.fileno())
        if not still():
            return False
        temporary.replace(real)
    finally:
        temporary.unlink(missing_ok=True)
    _sync(real.parent)
    return True


def _half(real: Path) -> str:
    """How the names of files begin that are to take the place of this one."""
    return f".{real.name[:100]}.weft-"


def _drop_halves(real: Path) -> None:
    """Remove what a weft that was killed had not put in place yet: nobody else holds the lock."""
    with _explained(real), _locked(real.parent) as alone:
        for name in os.listdir(real.parent) if alone else ():
            if name.startswith(_half(real)):
                (real.parent / name).unlink(missing_ok=True)


@contextmanager
def _locked(directory: Path) -> Iterator[bool]:
    """A lock on the directory itself, so that no lock file is left; whether it is ours."""
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield _lock(number)
    finally:
        os.close(number)


def _lock(number: int) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system that knows no locks
    return True


def _sync(directory: Path) -> None:
    with suppress(OSError):  # some file systems cannot
        number = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"There is no file {path}.") from error
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"Cannot write {path}: {reason}.") from error
