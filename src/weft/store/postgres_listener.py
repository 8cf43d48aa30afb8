"""Notifications of PostgreSQL, turned into rings; a pooler has none, and is asked instead."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import psycopg
from psycopg import sql
from psycopg.rows import DictRow

from weft.store.postgres_connection import is_direct
from weft.store.wake import Listeners, Topic, wait_readable

CHANNELS: Final[Mapping[Topic, str]] = {"work": "weft_work", "events": "weft_events"}
POLL_SECONDS: Final = 0.5
"""Pause between two looks for changes, where notifications do not arrive."""


class PostgresListener:
    """A thread with its own connection that turns notifications into rings."""

    def __init__(
        self, connect: Callable[[], psycopg.Connection[DictRow]], listeners: Listeners
    ) -> None:
        self._connect = connect
        self._listeners = listeners
        self._closed = threading.Event()
        self._ready = threading.Event()
        self._stop, self._stopped = os.pipe()  # wakes the thread from its wait
        self._thread = threading.Thread(target=self._run, name="weft-listen", daemon=True)
        self._thread.start()

    def wait_ready(self) -> None:
        """Wait until notifications arrive, so that none after this is missed."""
        self._ready.wait(5)

    def _run(self) -> None:
        while not self._closed.is_set():
            with suppress(psycopg.Error), self._connect() as connection:  # broken: connect again
                if is_direct(connection):
                    self._listen(connection)
                else:
                    self._poll(connection)
            self._ready.clear()
            self._closed.wait(1)

    def _listen(self, connection: psycopg.Connection[DictRow]) -> None:
        topic_of = {channel: topic for topic, channel in CHANNELS.items()}
        for channel in topic_of:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        self._ready.set()
        self._ring_all()  # a change may have happened before the connection listened
        while not self._closed.is_set():
            wait_readable(None, connection.fileno(), self._stop)
            for notice in connection.notifies(timeout=0):
                self._listeners.ring(topic_of[notice.channel])

    def _poll(self, connection: psycopg.Connection[DictRow]) -> None:
        """Ring whenever a writing transaction has been committed since the last look."""
        seen = None
        while not self._closed.is_set():
            row = connection.execute("SELECT writes FROM weft.store").fetchone()
            if row != seen:
                seen = row
                self._ready.set()
                self._ring_all()
            wait_readable(POLL_SECONDS, self._stop)

    def _ring_all(self) -> None:
        for topic in CHANNELS:
            self._listeners.ring(topic)

    def close(self) -> None:
        self._closed.set()
        os.close(self._stopped)
        self._thread.join()
        os.close(self._stop)
