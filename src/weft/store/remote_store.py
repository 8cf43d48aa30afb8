"""A store on a server: its verbs run there.

Its users see a `Store`. Errors come back with the same class and text.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NoReturn, TypeVar

from weft import __version__, errors
from weft.config import Tuning
from weft.errors import InputError, NoAnswer, StillAnswering, StoreError, Unauthenticated, WeftError
from weft.redaction import SHAPES_ALONE
from weft.store.database import Transaction
from weft.store.remote_calls import Unreadable, convert, decode, encode, hints_of
from weft.store.server_client import Client, Server, ServerReply
from weft.store.store import Question, Store, Verb, name_of
from weft.store.wake import Listener, Listeners, Topic

T = TypeVar("T")

VERBS: Final = "/v1/verbs"
OPERATIONS: Final = "/v1/operations"
CHANGES: Final = "/v1/changes"
UNKNOWN: Final = "unknown_verb"
_PROBLEM: Final = "application/problem+json"

_SOON: Final = 60.0  # seconds a verb may take
_LONG: Final = 900.0  # seconds an operation may take: it may start programs
_GIVEN_UP: Final = 120.0  # seconds, well before a server forgets a key
_HELD: Final = 20.0  # seconds a server holds a question for changes
_REST: Final = 0.25  # seconds between two such questions: events come in bursts
_LATER: Final = 1.0  # seconds before asking an absent server again


class RemoteStore(Store):
    """A store whose verbs are sent to a server. Threads may share it."""

    def __init__(self, server: Server) -> None:  # it has no database
        self._client = Client(server)
        self._known: Tuning | None = None
        self._bells = _Bells(server)
        self.redactor = SHAPES_ALONE  # the server redacts
        self.find_server = lambda: server.url
        self._memory = threading.local()  # `facts` that this thread has read

    def use_token(self, token: str) -> None:
        """Send this token with every request from now on."""
        self._client.use_token(token)
        self._bells.use_token(token)

    @property
    def url(self) -> str:
        return self._client.url

    @property
    def tuning(self) -> Tuning:
        """The server's tuning."""
        if self._known is None:
            reply = self._client.send("GET", VERBS, seconds=_SOON)
            answer = result_of(self._client.url, "verbs", reply, dict[str, Any])
            self._known = _converted(self._client.url, answer.get("tuning"), Tuning)
        return self._known

    @tuning.setter
    def tuning(self, _: Tuning) -> NoReturn:
        raise AttributeError("These numbers are the server's.")

    def call(self, verb: Verb, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        body, facts = self._hide(body_of(args, kwargs)), self._facts()
        if verb.kind == "write" or facts is None:
            result = self._send(verb, body)
        else:
            if (verb.name, body) not in facts:
                facts[verb.name, body] = self._send(verb, body)
            result = facts[verb.name, body]
        return _converted(self.url, result, hints_of(verb.function)["return"])

    def _send(self, verb: Verb, body: bytes) -> Any:
        path, headers = f"{VERBS}/{verb.name}", _key() if verb.kind == "write" else {}
        reply = self._client.send("POST", path, body, seconds=_SOON, headers=headers)
        return result_of(self.url, verb.name, reply, Any)

    @contextmanager
    def remembering(self, questions: Iterable[Question] = ()) -> Iterator[None]:
        """Send each read of this thread once and repeat its answer until the block ends.

        The answers to `questions` are fetched first, in one request. A write does not change the
        answers that were fetched.
        """
        self._memory.facts = self._ask_together([*questions])
        try:
            yield
        finally:
            self._memory.facts = None

    def _ask_together(self, questions: Sequence[Question]) -> dict[tuple[str, bytes], Any]:
        if not questions:
            return {}
        calls = [(name_of(verb), {"args": [about], "kwargs": {}}) for verb, about in questions]
        reply = self._client.send("POST", VERBS, encode({"calls": calls}), seconds=_SOON)
        results = result_of(self.url, "verbs", reply, list[Any])
        if len(results) != len(calls):
            raise _strange(self.url, f"{len(results)} results of {len(calls)} calls")
        return {
            (name, encode(call)): result
            for (name, call), result in zip(calls, results, strict=True)
        }

    def _facts(self) -> dict[tuple[str, bytes], Any] | None:
        return getattr(self._memory, "facts", None)

    def _hide(self, body: bytes) -> bytes:
        """Remove the secrets of this host from a request: the server cannot recognise them."""
        if self.redactor is SHAPES_ALONE or not self.redactor.has_secret(body.decode()):
            return body
        return encode(self.redactor.redact_value(decode(body)))

    def read(self, work: Callable[[Transaction], T]) -> T:
        raise RuntimeError("Only verbs can be sent to a server, not transactions.")

    def write(self, work: Callable[[Transaction], T]) -> T:
        raise RuntimeError("Only verbs can be sent to a server, not transactions.")

    def listen(self, topic: Topic) -> Listener:
        """Return a listener that is rung when the server reports new events."""
        return self._bells.listen(topic)

    def close(self) -> None:
        self._bells.close()
        self._client.close()


def carry_out(
    server: Server, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], answer: Any
) -> Any:
    """Run an operation on a server, which may take long."""
    path = f"{OPERATIONS}/{name}"
    reply = _post_once(server, path, body_of(args, kwargs))
    return result_of(server.url, name, reply, answer)


def ask_operation(server: Server, name: str, asked: object, answer: Any) -> Any:
    """Ask a server for an operation of the registry; return its answer."""
    reply = _post_once(server, f"/v1/{name}", encode(asked))
    _refuse_strange(server.url, name, reply)
    return _converted(server.url, _decoded(server.url, reply.data), answer)


def _post_once(server: Server, path: str, body: bytes) -> ServerReply:
    """Send a request whose effect happens once, even if the connection is lost meanwhile."""
    key, client = _key(), Client(server)
    end = time.monotonic() + _GIVEN_UP
    try:
        while True:
            reply = client.send("POST", path, body, seconds=_LONG, headers=key)
            if not _is_unanswered(reply):
                return reply
            if time.monotonic() > end:  # the connection was lost; the operation continues
                raise NoAnswer(
                    f"{server.url} was asked, and went away before it answered: look whether "
                    "it was done (`weft ps`) before you try again."
                )
            time.sleep(_LATER)
    finally:
        client.close()


def _is_unanswered(reply: ServerReply) -> bool:
    kind = errors.name_of(StillAnswering)
    return reply.kind == _PROBLEM and f'"{kind}"'.encode() in reply.data


def _key() -> dict[str, str]:
    """Return the header by which the server recognises a repeated request."""
    return {"Idempotency-Key": secrets.token_hex(16)}


def body_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
    return encode({"args": args, "kwargs": kwargs})


def result_of(url: str, name: str, reply: ServerReply, hint: Any) -> Any:
    """Return the result in a server's reply; raise the error in it."""
    _refuse_strange(url, name, reply)
    match _decoded(url, reply.data):
        case {"result": result}:
            return _converted(url, result, hint)
    raise _strange(url, "there is no result in it")


def _refuse_strange(url: str, name: str, reply: ServerReply) -> None:
    """Raise the error in a server's reply, or that it is no reply of weft."""
    if reply.kind == _PROBLEM:
        _raise(url, name, reply)
    if reply.status != 200 or reply.kind != "application/json":
        raise NoAnswer(
            f"{url} is no weft server, or not a healthy one: it answers {reply.status} to /v1."
        )


def _raise(url: str, name: str, reply: ServerReply) -> NoReturn:
    match _decoded(url, reply.data):
        case {"type": str(kind), "detail": str(detail)}:
            pass
        case _:
            raise _strange(url, f"a problem of another kind, {reply.status}")
    if reply.status == 401:
        raise Unauthenticated(
            f"{url} does not take this token, or got none: put a valid one into WEFT_TOKEN or a "
            "file named by WEFT_TOKEN_FILE."
        )
    if kind == UNKNOWN:
        raise StoreError(
            f"The weft at {url} knows nothing of {name}: it is older or newer than this one "
            f"({__version__}); use the same version on both sides."
        )
    if detail == "Not Found":  # a wrong path, or a server without verbs
        raise StoreError(
            f"The server at {url} knows nothing of {name}: the address may have a wrong path, or "
            f"its weft may be older or newer than this one ({__version__})."
        )
    known = errors.find_kind(kind)
    if known is not None:
        raise known(detail)
    if reply.status < 500:
        raise InputError(f"{url} refused: {detail}")
    raise NoAnswer(f"{url} failed: {detail}")


def _decoded(url: str, data: bytes) -> Any:
    try:
        return decode(data)
    except Unreadable as error:
        raise _strange(url, str(error)) from error


def _converted(url: str, value: object, hint: Any) -> Any:
    try:
        return convert(value, hint)
    except Unreadable as error:
        raise _strange(url, str(error)) from error


def _strange(url: str, why: str) -> NoAnswer:
    return NoAnswer(
        f"The answer of {url} makes no sense to this weft ({why}): is it another version?"
    )


class _Bells:
    """The listeners of a remote store; a thread asks the server for changes and rings them.

    The thread starts with the first listener and ends when the store is closed.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._listeners = Listeners()
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._over = threading.Event()

    def listen(self, topic: Topic) -> Listener:
        with self._lock:
            if self._client is None:
                self._client = Client(self._server)
                follow = threading.Thread(
                    target=self._follow, args=[self._client], name="changes", daemon=True
                )
                follow.start()
        return Listener(topic, self._listeners)

    def use_token(self, token: str) -> None:
        with self._lock:
            self._server = replace(self._server, token=token)
            if self._client is not None:
                self._client.use_token(token)

    def _follow(self, client: Client) -> None:
        seen = -1
        while not self._over.is_set():
            path = f"{CHANGES}?after={seen}&seconds={_HELD:.0f}"
            try:
                reply = client.send("GET", path, seconds=_HELD + _SOON)
                last = int(result_of(client.url, "changes", reply, int))
            except (
                WeftError
            ):  # the caller's own request reports the error; waiters poll slowly meanwhile
                self._over.wait(_LATER)
                continue
            if last != seen:
                seen = last
                self._listeners.ring("events")
                self._listeners.ring("work")  # every change of work is an event
            self._over.wait(_REST)

    def close(self) -> None:
        self._over.set()
        if self._client is not None:
            self._client.close()
        self._listeners.close()
