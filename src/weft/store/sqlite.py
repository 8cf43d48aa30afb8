"""The SQLite driver: a file in the repository, shared by the processes of a machine.

WAL with `synchronous=FULL`: a committed transaction survives a power cut. Writing
transactions start with `BEGIN IMMEDIATE`, so none ever fails by having to upgrade.

POSIX drops every lock that a process has on a file as soon as the process closes any descriptor of
that file. If the header were read while a connection of this process is open, that connection would
lose its locks, and another process that closes the store would delete the log it still writes to.
So a file that is already open here is not read again.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from weft.errors import ForeignStore, NewerStore, StoreBusy, StoreError, UnknownSchema
from weft.store import sql
from weft.store.database import Cursor, Row
from weft.store.wake import Bells, Listener, Outward, Topic

T = TypeVar("T")

_BUSY: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_OLDEST: Final = (3, 35, 0)  # RETURNING


class Sqlite:
    """A connection, used by a single thread at a time; transactions are short."""

    def __init__(
        self, path: Path, *, patience: float = 30.0, steps: sql.Steps | None = None
    ) -> None:
        """Open the file; `steps` are the migrations that this program knows."""
        if sqlite3.sqlite_version_info < _OLDEST:
            raise StoreError(
                f"Python's SQLite is {sqlite3.sqlite_version}; weft needs 3.35 or newer."
            )
        self.url = "sqlite:///" + quote(str(path))
        self.place = str(path)
        self.path = path
        self.bells = Bells(path.with_name(f"{path.name}.bells"))
        self._patience = patience
        self._queries = sql.queries("sqlite")
        self._steps = steps or sql.migrations("sqlite")
        self._lock = threading.RLock()
        self._file = StoreFile(path)
        try:
            if not self._file.is_new and Path(f"{path}-wal").exists():
                self._refuse_damaged()
            self.connection = self._open()
        except BaseException:
            self._file.close()
            raise

    def _open(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                self.path,
                isolation_level=None,
                timeout=10.0,  # while the file is opened
                check_same_thread=False,
                cached_statements=256,
            )
        except sqlite3.Error as error:
            raise StoreError(f"Cannot open the store {self.path}: {error}.") from error
        try:
            connection.execute("PRAGMA foreign_keys = OFF")
            self._migrate(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA busy_timeout = 0")  # from here on `_retry_busy` waits
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite3.DatabaseError):
                raise self._explain(error) from error
            raise
        return connection

    def _refuse_damaged(self) -> None:
        """Read through a connection that cannot write. A connection that can write, and then fails,
        would still copy the log of a crash into the damaged file when it is closed."""
        with self._explained():
            connection = sqlite3.connect(f"file:{quote(str(self.path))}?mode=ro", uri=True)
            with closing(connection):
                connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()

    def _migrate(self, connection: sqlite3.Connection) -> None:
        if self._version(connection) < self._steps[-1][0]:
            self._begin(connection)
            try:
                self._apply(connection)
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        self._retry_busy(lambda: connection.execute("PRAGMA journal_mode = WAL"))

    def _apply(self, connection: sqlite3.Connection) -> None:
        version = self._version(connection)  # again: another process may have been faster
        if version == 0:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute("CREATE TABLE schema_version (digest TEXT NOT NULL)")
            connection.execute("INSERT INTO schema_version VALUES ('')")
        for number, statements in self._steps:
            if number > version:
                for statement in statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number:d}")
                digest = sql.digest(self._steps, number)
                connection.execute("UPDATE schema_version SET digest = ?", (digest,))

    def _version(self, connection: sqlite3.Connection) -> int:
        """Return the schema's version, 0 for a new file; refuse a schema that is not known."""
        if connection.execute("PRAGMA user_version").fetchone() == (0,):
            return 0
        version, digest = self._find_schema(connection)
        newest = self._steps[-1][0]
        if version > newest:
            raise NewerStore(
                f"The store {self.path} has schema {version}, this weft knows {newest}; "
                "upgrade weft to use it."
            )
        if digest != sql.digest(self._steps, version):
            raise UnknownSchema(
                f"The store {self.path} has a schema {version} of another development version of "
                "weft, which this one cannot use. End its runs with the weft that made it, or "
                f"start a new store: `mv {self.path} {self.path}.old` keeps the old one."
            )
        return version

    def _find_schema(self, connection: sqlite3.Connection) -> tuple[int, str]:
        """Read the version and the digest of the schema in a single statement, so that they
        match."""
        table = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_version'")
        if table.fetchone() is None:  # early stores have no digest
            return int(connection.execute("PRAGMA user_version").fetchone()[0]), ""
        query = "SELECT user_version, digest FROM pragma_user_version, schema_version"
        row = connection.execute(query).fetchone()
        return int(row[0]), str(row[1])

    def read(self, work: Callable[[Cursor], T]) -> T:
        def body() -> T:
            self.connection.execute("BEGIN")
            try:
                return work(_SqliteCursor(self.connection, self._queries))
            finally:
                self.connection.execute("COMMIT")

        with self._lock, self._explained():
            return self._retry_busy(body)

    def write(self, work: Callable[[Cursor], tuple[T, Outward]]) -> T:
        with self._lock, self._explained():
            self._begin(self.connection)
            try:
                result, outward = work(_SqliteCursor(self.connection, self._queries))
                self.connection.execute("COMMIT" if outward.changed else "ROLLBACK")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise
        # Outside the transaction: a process that wakes up must find the change.
        self.bells.ring(outward)
        return result

    def listen(self, topic: Topic) -> Listener:
        return self.bells.listen(topic)

    def version(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def check(self) -> str | None:
        with self._lock, self._explained():
            [answer] = self.connection.execute("PRAGMA quick_check(1)").fetchone()
        return None if answer == "ok" else f"The store {self.path} is damaged: {answer}."

    def close(self) -> None:
        with self._lock:
            self.connection.close()
            self._file.close()
        self.bells.close()

    def _begin(self, connection: sqlite3.Connection) -> None:
        self._retry_busy(lambda: connection.execute("BEGIN IMMEDIATE"))

    def _retry_busy(self, action: Callable[[], T]) -> T:
        """Wait for the lock in short random steps.

        SQLite doubles its pauses up to 100 ms, which starves the processes that came early; these
        pauses stay near the length of a transaction.
        """
        give_up = time.monotonic() + self._patience
        while True:
            try:
                return action()
            except sqlite3.OperationalError as error:
                if _code(error) not in _BUSY:
                    raise
                if time.monotonic() > give_up:
                    raise StoreBusy(
                        f"The store {self.path} has been locked for {self._patience:.0f} s by "
                        "another process; try again, or look for a stopped weft process."
                    ) from error
                from random import uniform  # late: the import takes longer than most transactions

                time.sleep(uniform(0.0002, 0.002))  # noqa: S311

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
            raise  # a defect of weft, which must look like a defect
        except sqlite3.DatabaseError as error:
            raise self._explain(error) from error

    def _explain(self, error: sqlite3.DatabaseError) -> StoreError:
        code = _code(error)
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return ForeignStore(
                f"The store {self.path} is damaged ({error}); move it away to start a new one, "
                "or restore it from a backup."
            )
        if code in _BUSY:
            return StoreBusy(f"The store {self.path} is locked by another process; try again.")
        return StoreError(f"The store {self.path} cannot be used: {error}.")


class _SqliteCursor:
    def __init__(self, connection: sqlite3.Connection, queries: Mapping[str, str]) -> None:
        self._connection = connection
        self._queries = queries

    def all(self, query: str, parameters: Mapping[str, Any]) -> Sequence[Row]:
        cursor = self._connection.execute(self._queries[query], parameters)
        rows = cursor.fetchall()
        if not rows:
            return rows
        # sqlite3.Row would search each name from the first column on, at every access.
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in rows]

    def run(self, query: str, parameters: Mapping[str, Any]) -> None:
        self._connection.execute(self._queries[query], parameters)

    def count(self, query: str, parameters: Mapping[str, Any]) -> int:
        return self._connection.execute(self._queries[query], parameters).rowcount

    def many(self, query: str, parameters: Sequence[Mapping[str, Any]]) -> None:
        self._connection.executemany(self._queries[query], parameters)


def _code(error: sqlite3.Error) -> int | None:
    """Return the primary result code, without SQLite's extension in the upper bits."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


APPLICATION_ID: Final = 0x77656674  # "weft", in the header field for a file's type
_HEADER: Final = struct.Struct(">16s52xI")  # magic, …, application id at offset 68

_File = tuple[int, int]  # device and inode
_open: Counter[_File] = Counter()
_lock = threading.RLock()  # reentrant: the garbage collector may call `_forget` at any moment


class StoreFile:
    """A store's file, from before it is opened until after it is closed."""

    def __init__(self, path: Path) -> None:
        """Create a missing file; refuse a file of another program without changing it."""
        with _lock, _explained(path):
            _create(path)
            status = path.stat()
            file = (status.st_dev, status.st_ino)
            # Empty: new, or just created by another process.
            self.is_new = status.st_size == 0
            if not _open[file] and not self.is_new:
                _refuse_foreign(path)
            _open[file] += 1
        self.close = weakref.finalize(self, _forget, file)


def _forget(file: _File) -> None:
    with _lock:
        _open[file] -= 1
        if not _open[file]:
            del _open[file]  # another file may get its number


def _create(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        # SQLite gives its log the same permissions.
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        os.close(os.open(os.path.realpath(path), flags, 0o600))


def _refuse_foreign(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
    with suppress(struct.error):
        magic, application = _HEADER.unpack(head)
        if magic == b"SQLite format 3\0" and application == APPLICATION_ID:
            return
    raise ForeignStore(
        f"{path} is not a weft store; move it away, or name another store with WEFT_STORE."
    )


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"Cannot open the store {path}: {error.strerror}.") from error
