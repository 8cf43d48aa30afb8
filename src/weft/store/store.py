"""The store: a database, its verbs, its tuning and its listeners."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Final, Literal, ParamSpec, TypeVar, overload
from urllib.parse import quote, unquote

from msgspec import Struct

from weft.config import DEFAULT_LIMITS, Tuning
from weft.errors import InputError
from weft.redaction import SHAPES_ALONE, Redactor
from weft.store.database import Cursor, Database, Transaction
from weft.store.wake import Listener, Outward, Topic

P = ParamSpec("P")
T = TypeVar("T")


Kind = Literal["read", "write"]


class Verb(Struct, frozen=True, kw_only=True):
    """A function that can be called by name, in this process or on a server."""

    name: str  # `tasks.get_task`
    kind: Kind
    function: Callable[..., Any]
    takes_store: bool = False  # its first parameter is a store, with which it calls other verbs


Question = tuple[Callable[..., Any], object]
"""A verb that reads, and its only argument."""

VERBS: Final[dict[str, Verb]] = {}
"""The verbs of the modules imported so far; `remote_calls.all_verbs` imports the rest."""


def _no_server() -> str:
    return ""


class Store:
    """A database with its verbs. Threads may share it; each process opens its own."""

    def __init__(
        self, database: Database, tuning: Tuning, *, redactor: Redactor = SHAPES_ALONE
    ) -> None:
        self.database = database
        self.tuning = tuning
        self.redactor = redactor  # removes secrets from the texts of programs
        self.find_server: Callable[[], str] = _no_server  # for advice: the address of a server
        self._thread = threading.local()  # `busy` while this thread is in a transaction

    @property
    def url(self) -> str:
        return self.database.url

    def call(self, verb: Verb, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        def work(tx: Transaction) -> Any:
            first = BoundStore(self, tx) if verb.takes_store else tx
            return verb.function(first, *args, **kwargs)

        return self.read(work) if verb.kind == "read" else self.write(work)

    def remembering(self, questions: Iterable[Question] = ()) -> AbstractContextManager[None]:
        """Let this thread read each fact once, and these facts at once, where a read goes to a
        server."""
        return nullcontext()

    def read(self, work: Callable[[Transaction], T]) -> T:
        self._enter()
        try:
            return self.database.read(
                lambda cursor: work(Transaction(cursor, self.tuning, read_only=True))
            )
        finally:
            self._thread.busy = False

    def write(self, work: Callable[[Transaction], T]) -> T:
        def body(cursor: Cursor) -> tuple[T, Outward]:
            transaction = Transaction(cursor, self.tuning, self.redactor)
            return work(transaction), transaction.outward

        self._enter()
        try:
            return self.database.write(body)
        finally:
            self._thread.busy = False

    def _enter(self) -> None:
        """Refuse a transaction inside another: SQLite cannot, and PostgreSQL would wait for it."""
        if getattr(self._thread, "busy", False):
            raise RuntimeError(
                "A verb of the store was called inside another's transaction; "
                "pass it the transaction, or call it afterwards."
            )
        self._thread.busy = True

    def hide_secrets(self, secrets: Iterable[tuple[str, str]]) -> None:
        """Remove these values, given with their names, from all texts stored from now on."""
        self.redactor = self.redactor.with_values(secrets)

    def listen(self, topic: Topic) -> Listener:
        """Return a listener that is rung after each change of that kind, by any process."""
        return self.database.listen(topic)

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BoundStore(Store):
    """A store whose verbs all take part in an open transaction.

    A verb that refuses has made no change; any other error must end the transaction.
    """

    def __init__(self, store: Store, transaction: Transaction) -> None:
        super().__init__(store.database, store.tuning, redactor=store.redactor)
        self.find_server = store.find_server
        self._transaction = transaction

    def read(self, work: Callable[[Transaction], T]) -> T:
        return work(self._transaction)

    def write(self, work: Callable[[Transaction], T]) -> T:
        return work(self._transaction)

    def close(self) -> None:
        """Leave the database open for the store it belongs to."""


@overload
def writes(
    function: Callable[Concatenate[Transaction, P], T],
) -> Callable[Concatenate[Store | Transaction, P], T]: ...
@overload
def writes(function: Callable[Concatenate[Store, P], T]) -> Callable[Concatenate[Store, P], T]: ...
def writes(function: Callable[..., T]) -> Callable[..., T]:
    """Make a function a verb: a writing transaction, or a part of the transaction it is given.

    The function takes a `Transaction` first, or a `Store` whose verbs all take part in the
    transaction.
    """
    return _verb(function, "write")


@overload
def reads(
    function: Callable[Concatenate[Transaction, P], T],
) -> Callable[Concatenate[Store | Transaction, P], T]: ...
@overload
def reads(function: Callable[Concatenate[Store, P], T]) -> Callable[Concatenate[Store, P], T]: ...
def reads(function: Callable[..., T]) -> Callable[..., T]:
    """Make a function a verb that only reads; all its queries see the same moment."""
    return _verb(function, "read")


def _verb(function: Callable[..., T], kind: Kind) -> Callable[..., T]:
    name, takes_store = name_of(function), "Store" in list(function.__annotations__.values())[:1]
    verb = VERBS[name] = Verb(name=name, kind=kind, function=function, takes_store=takes_store)

    @wraps(function)
    def call(store: Store | Transaction, /, *args: Any, **kwargs: Any) -> T:
        if isinstance(store, Transaction):
            return function(store, *args, **kwargs)
        result: T = store.call(verb, args, kwargs)
        return result

    return call


def name_of(function: Callable[..., Any]) -> str:
    """Return the name by which a function can be called: its module's and its own."""
    return f"{function.__module__.removeprefix('weft.').removeprefix('store.')}.{function.__name__}"


def default_url(git_common_directory: Path) -> str:
    return "sqlite:///" + quote(str(git_common_directory.resolve() / "weft" / "weft.db"))


def open_store(
    url: str,
    *,
    listen_url: str | None = None,
    tuning: Tuning | None = None,
    limits: Mapping[str, int] = DEFAULT_LIMITS,
    redactor: Redactor = SHAPES_ALONE,
) -> Store:
    """Open the store a URL names, bring its schema up to date, and give a new store its limits.

    `listen_url` names the PostgreSQL itself, where `url` names a pooler.
    """
    store = Store(_driver(url, listen_url), tuning or Tuning(), redactor=redactor)
    try:
        row = store.read(lambda tx: tx.one("identity"))
        if row is None:
            from weft.store.limit_table import start_with  # late: few commands need its imports

            start_with(store, limits)
        _settle_place(store, "" if row is None else row["place"])
    except BaseException:
        store.close()
        raise
    return store


def _settle_place(store: Store, recorded: str) -> None:
    """Detect that a store in a file was copied or moved."""
    if not store.url.startswith("sqlite:///"):
        return
    directory = Path(unquote(store.url.removeprefix("sqlite:///"))).resolve().parent
    inode = directory.stat().st_ino
    if recorded != f"{inode} {directory}":
        from weft.store.copies import settle_place  # late: seldom needed

        settle_place(store, directory, recorded)


def open_reader(store: Store) -> Store | None:
    """Open another connection to a store in a file, for reads that must not wait for a writer.

    A read that would have to wait raises `StoreBusy` at once. Return None where every read is a
    question to a server.
    """
    if not store.url.startswith("sqlite:///"):
        return None
    from weft.store.sqlite import Sqlite

    path = Path(unquote(store.url.removeprefix("sqlite:///")))
    return Store(Sqlite(path, patience=0), store.tuning)


def _driver(url: str, listen_url: str | None) -> Database:
    scheme = url.partition("://")[0]
    if scheme == "sqlite":
        from weft.store.sqlite import Sqlite

        path = unquote(url.removeprefix("sqlite:///"))
        if not url.startswith("sqlite:///") or not path:
            raise InputError(f"{url!r} names no file; write sqlite:///path/to/weft.db.")
        return Sqlite(Path(path))
    if scheme in ("postgresql", "postgres"):
        from weft.store.postgres import Postgres  # late: half a command's start-up time

        return Postgres(url, listen_url=listen_url)
    # The URL is not quoted: it may hold a password.
    raise InputError("A store is named by a URL like sqlite:///… or postgresql://….")
