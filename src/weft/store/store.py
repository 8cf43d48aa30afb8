"""The store as its users hold it: a database, the numbers it works with, and wake-ups."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Final, Literal, ParamSpec, TypeVar
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
    """A function over a transaction, under the name by which it can be asked for from afar."""

    name: str  # `tasks.get_task`
    kind: Kind
    function: Callable[..., Any]
    together: bool = False  # it is over a store, and calls several verbs at one moment


VERBS: Final[dict[str, Verb]] = {}
"""All that the modules imported so far can do; `calling.all_verbs` has those of all modules."""


class Store:
    """Runs transactions. Safe to share between threads; each process opens its own."""

    def __init__(
        self, database: Database, tuning: Tuning, *, hide: Redactor = SHAPES_ALONE
    ) -> None:
        self.database = database
        self.tuning = tuning
        self.hide = hide  # takes out what must not be kept of what programs say
        self._here = threading.local()  # whether this thread is in a transaction

    @property
    def url(self) -> str:
        return self.database.url

    def ask(
        self,
        function: Callable[Concatenate[Transaction, P], T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Carry out a verb that reads."""
        return self.read(lambda transaction: function(transaction, *args, **kwargs))

    def tell(
        self,
        function: Callable[Concatenate[Transaction, P], T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Carry out a verb that writes."""
        return self.write(lambda transaction: function(transaction, *args, **kwargs))

    def ask_together(
        self, function: Callable[Concatenate[Store, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Carry out what calls several verbs that read, all of which see one moment."""
        return self.read(lambda tx: function(OneMoment(self, tx), *args, **kwargs))

    def tell_together(
        self, function: Callable[Concatenate[Store, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Carry out what calls several verbs in one writing transaction."""
        return self.write(lambda tx: function(OneTransaction(self, tx), *args, **kwargs))

    def read(self, work: Callable[[Transaction], T]) -> T:
        self._enter()
        try:
            return self.database.read(lambda cursor: work(Transaction(cursor, self.tuning)))
        finally:
            self._here.busy = False

    def write(self, work: Callable[[Transaction], T]) -> T:
        def body(cursor: Cursor) -> tuple[T, Outward]:
            transaction = Transaction(cursor, self.tuning, self.hide)
            return work(transaction), transaction.outward

        self._enter()
        try:
            return self.database.write(body)
        finally:
            self._here.busy = False

    def _enter(self) -> None:
        """Refuse a transaction inside another: SQLite cannot, and PostgreSQL would wait for it."""
        if getattr(self._here, "busy", False):
            raise RuntimeError(
                "A verb of the store was called inside another's transaction; "
                "call the function it wraps, or call it afterwards."
            )
        self._here.busy = True

    def learn(self, secrets: Iterable[tuple[str, str]]) -> None:
        """From now on keep nothing that has these values in it, given by their names."""
        self.hide = self.hide.knowing(secrets)

    def listen(self, topic: Topic) -> Listener:
        """A listener that is rung after each change of that kind, by any process."""
        return self.database.listen(topic)

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class OneTransaction(Store):
    """A store whose verbs all take part in a transaction that is open already.

    So that several of them, and what is asked before and kept after, happen at one moment. A
    verb that refuses has written nothing; any other error must end the transaction.
    """

    def __init__(self, store: Store, transaction: Transaction) -> None:
        super().__init__(store.database, store.tuning, hide=store.hide)
        self._transaction = transaction

    def read(self, work: Callable[[Transaction], T]) -> T:
        return work(self._transaction)

    def write(self, work: Callable[[Transaction], T]) -> T:
        return work(self._transaction)

    def close(self) -> None:
        """Whoever opened the store closes it."""


class OneMoment(OneTransaction):
    """The same for a transaction that only reads."""

    def write(self, work: Callable[[Transaction], T]) -> T:
        raise RuntimeError("A verb that writes was called where everything is only read.")


def at_once(
    function: Callable[Concatenate[Store, P], T],
) -> Callable[Concatenate[Store, P], T]:
    """Make a function that calls several verbs one writing transaction."""
    _register(function, "write", together=True)

    @wraps(function)
    def verb(store: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return store.tell_together(function, *args, **kwargs)

    return verb


def at_one_moment(
    function: Callable[Concatenate[Store, P], T],
) -> Callable[Concatenate[Store, P], T]:
    """The same for questions: all of them see one moment."""
    _register(function, "read", together=True)

    @wraps(function)
    def verb(store: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return store.ask_together(function, *args, **kwargs)

    return verb


def writes(
    function: Callable[Concatenate[Transaction, P], T],
) -> Callable[Concatenate[Store, P], T]:
    """Make a function over a transaction a verb of the store: one writing transaction."""
    _register(function, "write")

    @wraps(function)
    def verb(store: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return store.tell(function, *args, **kwargs)

    return verb


def reads(
    function: Callable[Concatenate[Transaction, P], T],
) -> Callable[Concatenate[Store, P], T]:
    """The same for a question: one reading transaction, which sees one moment."""
    _register(function, "read")

    @wraps(function)
    def verb(store: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return store.ask(function, *args, **kwargs)

    return verb


def _register(function: Callable[..., Any], kind: Kind, *, together: bool = False) -> None:
    name = name_of(function)
    VERBS[name] = Verb(name=name, kind=kind, function=function, together=together)


def name_of(function: Callable[..., Any]) -> str:
    """What a function is called from afar: its module's own name, and its own."""
    return f"{function.__module__.removeprefix('weft.').removeprefix('store.')}.{function.__name__}"


def default_url(git_common_directory: Path) -> str:
    return "sqlite:///" + quote(str(git_common_directory.resolve() / "weft" / "weft.db"))


def open_store(
    url: str,
    *,
    tuning: Tuning | None = None,
    limits: Mapping[str, int] = DEFAULT_LIMITS,
    hide: Redactor = SHAPES_ALONE,
) -> Store:
    """Open the store a URL names, bring its schema up to date, and give a new one its limits."""
    store = Store(_driver(url), tuning or Tuning(), hide=hide)
    try:
        row = store.read(lambda tx: tx.one("identity"))
        if row is None:
            from weft.store.limit_table import start_with  # late: few commands need what it imports

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
        from weft.store.copies import settle_place  # imported here: seldom needed

        settle_place(store, directory, recorded)


def open_reader(store: Store) -> Store | None:
    """Another connection to a store in a file, for looks that wait for nobody.

    There a reader keeps up with any writer; whoever would have to wait all the same gets
    `StoreBusy` at once. None where every look is a question to a server.
    """
    if not store.url.startswith("sqlite:///"):
        return None
    from weft.store.sqlite import Sqlite

    path = Path(unquote(store.url.removeprefix("sqlite:///")))
    return Store(Sqlite(path, patience=0), store.tuning)


def _driver(url: str) -> Database:
    scheme = url.partition("://")[0]
    if scheme == "sqlite":
        from weft.store.sqlite import Sqlite

        path = unquote(url.removeprefix("sqlite:///"))
        if not url.startswith("sqlite:///") or not path:
            raise InputError(f"{url!r} names no file; write sqlite:///path/to/weft.db.")
        return Sqlite(Path(path))
    if scheme in ("postgresql", "postgres"):
        from weft.store.postgres import Postgres  # late: half a command's start-up time

        return Postgres(url)
    # Not a word of the URL: there may be a password in it, wherever.
    raise InputError("A store is named by a URL like sqlite:///… or postgresql://….")
