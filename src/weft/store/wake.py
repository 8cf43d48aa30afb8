"""Wake-ups: signals to waiting processes that the store has changed.

A listener is a pipe with a topic. Threads of this process write a byte into it directly; other
processes reach it through a named pipe (SQLite) or a notification (PostgreSQL). Waiting costs no
time. A ring is lost if a writer dies between its commit and the ring; the slow poll of every waiter
makes up for it.
"""

from __future__ import annotations

import errno
import os
import selectors
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import anyio
import math

Topic = Literal["work", "events"]


_Selector = getattr(selectors, "PollSelector", selectors.DefaultSelector)
"""Needs no descriptor of its own, and takes those above 1023, which `select` does not."""


def wait_readable(seconds: float | None, *descriptors: int) -> bool:
    """Wait until a descriptor can be read; return False if the time passed. None waits for ever."""
    with _Selector() as selector:
        for descriptor in descriptors:
            selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(seconds))


class Outward:
    """The effects of a transaction on other processes."""

    __slots__ = ("changed", "events", "work")

    def __init__(self) -> None:
        self.changed = False  # it has written: commit
        self.events = False  # there are new events
        self.work = False  # a task may have become admissible

    def topics(self) -> list[Topic]:
        if not self.changed:
            return []
        heard: list[Topic] = ["work"] if self.work else []
        return [*heard, "events"] if self.events else heard


class Listener:
    """A pipe that is rung for a topic. Close it: use it as a context manager."""

    def __init__(self, topic: Topic, home: Listeners, path: Path | None = None) -> None:
        self.topic = topic
        self._home = home
        self._path = path
        if path is None:
            self._read, self._write = os.pipe()
            os.set_blocking(self._read, False)
            os.set_blocking(self._write, False)
        else:
            # A pipe without its name and a reader must not be rung, or taken for abandoned.
            nameless = path.with_name(f".{path.name}")
            os.mkfifo(nameless, 0o600)
            # Open for both: a pipe that always has a writer never reports end of file.
            self._read = self._write = os.open(nameless, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            nameless.rename(path)
        home.add(self)

    def fileno(self) -> int:
        return self._read

    def ring(self) -> None:
        with suppress(BlockingIOError):  # full of unread rings: it wakes anyway
            os.write(self._write, b"!")

    def wait(self, seconds: float) -> bool:
        """Wait, then forget all rings so far; return False if there was none within that time."""
        return wait_readable(seconds, self._read) and self.drain()

    def drain(self) -> bool:
        rung = False
        with suppress(BlockingIOError):
            while os.read(self._read, 4096):
                rung = True
        return rung

    def close(self) -> None:
        if not self._home.discard(self):
            return  # closed before, perhaps by its store
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        for descriptor in {self._read, self._write}:
            os.close(descriptor)

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Listeners:
    """The listeners of this process on a store."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._lock = threading.Lock()

    def add(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.add(listener)

    def discard(self, listener: Listener) -> bool:
        """Forget a listener; return False if it was forgotten before."""
        with self._lock:
            known = listener in self._listeners
            self._listeners.discard(listener)
            return known

    def ring(self, topic: Topic) -> None:
        with self._lock:
            for listener in self._listeners:
                if listener.topic == topic:
                    listener.ring()

    def close(self) -> None:
        with self._lock:
            left = list(self._listeners)
        for listener in left:
            listener.close()


class Bells:
    """Named pipes in a directory beside the database, each for a listener of any process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._place = str(directory)
        self._own = Listeners()

    def listen(self, topic: Topic) -> Listener:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Listener(topic, self._own, self._directory / f"{topic}-{os.urandom(8).hex()}")

    def ring(self, outward: Outward) -> None:
        wanted = tuple(outward.topics())
        if not wanted:
            return
        try:
            names = os.listdir(self._place)
        except FileNotFoundError:
            return  # no process ever waited here
        except OSError as error:
            # The change is committed: waiting processes find it by their slow poll.
            _warn(f"cannot ring the bells in {self._directory}: {error}")
            return
        for name in names:
            if name.startswith(wanted):
                _ring_path(f"{self._place}/{name}")

    def close(self) -> None:
        self._own.close()


def _warn(what: str) -> None:
    import logging  # late: nearly every command does without it

    logging.getLogger(__name__).warning(what)


def _ring_path(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # its listener has just closed it
    except OSError as error:
        if error.errno == errno.ENXIO:
            # No reader: its process was killed.
            with suppress(OSError):
                os.unlink(path)
        else:
            _warn(f"cannot ring {path}: {error}")
        return
    try:
        with suppress(BlockingIOError, BrokenPipeError):  # full, or closed at this moment
            os.write(descriptor, b"!")
    finally:
        os.close(descriptor)


async def wait_rung(
    listener: Listener, *, seconds: float = math.inf, event: anyio.Event | None = None
) -> bool:
    """Wait for a ring or the event; return False if the seconds passed first.

    All rings so far count as a single ring. Give seconds even to a loop that is rung for each
    change: a writer that dies between its commit and the ring wakes no process, nor does a passed
    deadline.
    """
    import anyio  # late: a command that does not wait needs none of its loops

    with anyio.move_on_after(seconds) as limit:
        if event is None:
            await anyio.wait_readable(listener)
        else:
            async with anyio.create_task_group() as waits:
                waits.start_soon(_cancel_at, event, waits.cancel_scope)
                await anyio.wait_readable(listener)
                waits.cancel_scope.cancel()
    listener.drain()
    return not limit.cancelled_caught


async def _cancel_at(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
