"""Plan files on disk: read, and replaced while their author may be editing them.

The caller passes the change as a pure function over the bytes. No file is written in place: a
reader sees the old file or the new file, and a crash leaves either of them.
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
    """The answer of a change: the new bytes, and more values for its caller."""

    @property
    def data(self) -> bytes: ...


T = TypeVar("T", bound=PlanFileChanged)


def read(path: Path) -> bytes:
    """Read a plan file or a pipe; raise InputError for one that is missing or too large."""
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
    """Replace the content of a file by `change` of it, and return the answer of `change`.

    If the file is edited meanwhile, call `change` again with the edited content; the last answer
    counts.
    """
    _drop_halves(_real(path))
    for _ in range(_TRIES):
        real = _real(path)
        before = read(real)
        answer = change(before)
        if answer.data == before or _replace_if(real, before, answer.data):
            return answer
        time.sleep(_PAUSE)
    raise InputError(f"{path} keeps changing; try again when no other program is writing it.")


def replace_content(path: Path, before: bytes, data: bytes) -> None:
    """Replace the content of a file; raise InputError if it is no longer `before`."""
    real = _real(path)
    if read(real) != before or not _replace_if(real, before, data):
        raise InputError(f"{path} has changed just now; try again.")


def write_new(path: Path, data: bytes) -> None:
    """Create a file; raise InputError if it exists."""
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
    """Create a file, or replace it if it is of the same kind; else raise InputError."""
    if not path.exists():
        write_new(path, data)
        return
    real = _real(path)
    if not ours(read(real)):
        raise InputError(f"{path} is there already and is no {kind}; name another file.")
    with _explained(path):
        _replace(real, data)


def _real(path: Path) -> Path:
    """Resolve links; raise InputError unless the file is regular and writable."""
    with _explained(path):
        real = path.resolve(strict=True)
        mode = real.stat().st_mode
    if not stat.S_ISREG(mode):
        raise InputError(f"{path} is not a regular file; weft can only write to one.")
    if not os.access(real, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise InputError(f"Cannot write {path}: it is read-only.")
    return real


def _replace_if(real: Path, before: bytes, after: bytes) -> bool:
    """Replace the file if its content is still `before`; return False otherwise.

    The lock excludes other weft processes. An editor takes no lock, so the content is compared
    as late as possible, right before the new file takes the name.
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
    """Return the prefix of the names of temporary files for this file."""
    return f".{real.name[:100]}.weft-"


def _drop_halves(real: Path) -> None:
    """Remove the temporary files of a killed weft process; the lock excludes living processes."""
    with _explained(real), _locked(real.parent) as alone:
        for name in os.listdir(real.parent) if alone else ():
            if name.startswith(_half(real)):
                (real.parent / name).unlink(missing_ok=True)


@contextmanager
def _locked(directory: Path) -> Iterator[bool]:
    """Lock the directory itself, so that no lock file is left; yield False if it is taken."""
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
