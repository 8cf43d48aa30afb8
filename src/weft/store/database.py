"""Transactions in which named queries run, over two drivers.

There is a single writer at a time. SQLite guarantees it (`BEGIN IMMEDIATE`); on PostgreSQL every
writing transaction first writes the single row of `store`. So a writer sees all that was committed
before it, identifiers grow in commit order, and no check can be passed twice at once. The drivers
in `sqlite` and `postgres` supply the mechanics; both run the same SQL.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec
from msgspec.structs import asdict

from weft.config import Tuning
from weft.errors import InputError
from weft.redaction import SHAPES_ALONE, Redactor
from weft.store.wake import Listener, Outward, Topic

T = TypeVar("T")

_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_LOG_ENCODER: Final = json.JSONEncoder(default=str)
_QUICK_ENCODER: Final = msgspec.json.Encoder(enc_hook=str)


Row = dict[str, Any]


class Cursor(Protocol):
    """An open transaction of a driver."""

    def all(self, query: str, parameters: Mapping[str, Any]) -> Sequence[Row]: ...
    def run(self, query: str, parameters: Mapping[str, Any]) -> None: ...
    def count(self, query: str, parameters: Mapping[str, Any]) -> int: ...
    def many(self, query: str, parameters: Sequence[Mapping[str, Any]]) -> None: ...


class Database(Protocol):
    """A driver: opens transactions, repeats those that lost a race, and rings listeners."""

    url: str
    place: str  # its location, for messages: without the password

    def read(self, work: Callable[[Cursor], T]) -> T: ...
    def write(self, work: Callable[[Cursor], tuple[T, Outward]]) -> T: ...
    def listen(self, topic: Topic) -> Listener: ...
    def version(self) -> str: ...
    def check(self) -> str | None:
        """Examine the database; return the damage, or None."""
        ...

    def close(self) -> None: ...


class Transaction:
    """A transaction of the store's functions.

    Text that a single database could not keep is refused by both. Texts that are only read by
    people go through `storable` instead, and texts of programs through `redact`, as all event data
    does.
    """

    __slots__ = ("_cursor", "_read_only", "_redactor", "outward", "tuning")

    def __init__(
        self,
        cursor: Cursor,
        tuning: Tuning,
        redactor: Redactor = SHAPES_ALONE,
        *,
        read_only: bool = False,
    ) -> None:
        self._cursor = cursor
        self._redactor = redactor
        self._read_only = read_only
        self.tuning = tuning
        self.outward = Outward()

    def all(self, query: str, /, **parameters: Any) -> Sequence[Row]:
        _refuse_unstorable(parameters)
        return self._cursor.all(query, parameters)

    def one(self, query: str, /, **parameters: Any) -> Row | None:
        rows = self.all(query, **parameters)
        return rows[0] if rows else None

    def value(self, query: str, /, **parameters: Any) -> Any:
        """Return the column `value` of the only row."""
        return self.all(query, **parameters)[0]["value"]

    def run(self, query: str, record: msgspec.Struct | None = None, /, **parameters: Any) -> None:
        """Write. Costs no round trip of its own: the next read or the commit carries it.

        The fields of a record are parameters too, unless they are given by name.
        """
        if record is not None:
            parameters = asdict(record) | parameters
        self._check(parameters)
        self.outward.changed = True
        self._cursor.run(query, parameters)

    def count(self, query: str, /, **parameters: Any) -> int:
        """Write; return the number of rows touched."""
        self._check(parameters)
        touched = self._cursor.count(query, parameters)
        self.outward.changed = self.outward.changed or touched > 0
        return touched

    def many(self, query: str, parameters: Sequence[Mapping[str, Any]]) -> None:
        if parameters:
            for row in parameters:
                self._check(row)
            self.outward.changed = True
            self._cursor.many(query, parameters)

    def _check(self, parameters: Mapping[str, Any]) -> None:
        if self._read_only:
            raise RuntimeError("A verb that writes was called in a transaction that only reads.")
        _refuse_unstorable(parameters)

    def event(
        self,
        kind: str,
        about: Row | None = None,
        /,
        *,
        now: float,
        run: str | None = None,
        task: int | None = None,
        **data: Any,
    ) -> None:
        """Append an event to the log, in the transaction of the change it describes.

        It is about the task of a row, or about a run or task given by name, or about neither.
        """
        if about is not None:
            run, task = about["run"], about["id"]
        self.log(kind, data, now=now, run=run, task=task)

    def log(
        self, kind: str, data: Mapping[str, Any], *, now: float, run: str | None, task: int | None
    ) -> None:
        """Append an event whose data has names chosen by other programs."""
        self.outward.events = True
        text = encode_ascii(data)
        if self._redactor.has_secret(text):
            text = encode_ascii(self._redactor.redact_value(data))
        self.run("append_event", at=now, kind=kind, run=run, task=task, data=text)

    def redact(self, text: str) -> str:
        """Return a program's text as the store keeps it: without secrets and bytes it refuses."""
        return storable(self._redactor.redact_text(text))

    def ring(self) -> None:
        """Wake the processes that follow events, although there is no new event."""
        self.outward.events = True

    def wake(self) -> None:
        """Wake the processes that wait for work: a task may have become admissible."""
        self.outward.work = True


def _refuse_unstorable(parameters: Mapping[str, Any]) -> None:
    for value in parameters.values():
        if isinstance(value, str) and ("\0" in value or not value.isascii()):
            _refuse_unstorable_text(value)


def _refuse_unstorable_text(text: str) -> None:
    if "\0" in text or not (text.isascii() or storable(text) == text):
        raise InputError(
            f"{text[:100]!r} cannot be kept: it has a NUL or half of a character in it; "
            "leave that out."
        )


def encode_ascii(value: object) -> str:
    """Encode the data of other programs as JSON that both databases store, lone surrogates
    included."""
    try:
        quickly = _QUICK_ENCODER.encode(value)
    except (ValueError, TypeError, OverflowError):
        return _LOG_ENCODER.encode(value)
    return quickly.decode() if quickly.isascii() else _LOG_ENCODER.encode(value)


def storable(text: str) -> str:
    """Replace the characters that a database refuses: NUL and lone surrogates."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def encode(value: object) -> str:
    """Encode as canonical JSON: equal values give equal text."""
    text = _ENCODER.encode(value)
    if "\\u0000" in text:  # PostgreSQL stores it, and then cannot unfold it
        for name in _strings(value):
            _refuse_unstorable_text(name)
    return text


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)


def encode_keys(names: Iterable[str]) -> str:
    """Encode names as a JSON object, which a query can unfold on both databases."""
    return encode(dict.fromkeys(names, 1))
