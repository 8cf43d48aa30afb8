"""A connection that breaks before or after the server was told to commit."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from databases import fresh_database, look
from store_helpers import put
from weft.errors import StoreError
from weft.store import open_store

pytestmark = pytest.mark.each_store


class Wire:
    """Carries bytes between clients and a PostgreSQL, and can cut a connection at a word."""

    def __init__(self, server: str, listen: Callable[[], socket.socket] | None = None) -> None:
        self._server = server
        self._listening = listen() if listen else socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.cut: tuple[bytes, bool] | None = None  # at which word; whether the server gets it
        self.cuts = 0
        self.carried = 0  # transactions
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            server.connect(self._server)
            peer = {client: server, server: client}
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(1 << 16)
                    if not data:
                        return
                    if source is client and self.cut is not None and self.cut[0] in data:
                        self._cut(data, server)
                        return
                    self.carried += source is client and b"COMMIT" in data
                    peer[source].sendall(data)

    def _cut(self, data: bytes, server: socket.socket) -> None:
        assert self.cut is not None
        _, arrives = self.cut
        self.cut = None
        self.cuts += 1
        if arrives:  # the server does as it is told, and leaves; its answer goes nowhere
            server.sendall(data)
            server.shutdown(socket.SHUT_WR)
            while server.recv(1 << 16):
                pass

    def close(self) -> None:
        self._listening.close()


@contextmanager
def wired(server: str) -> Iterator[tuple[str, str, Wire]]:
    """A new database: its own URL, the URL over a wire, and the wire."""
    with fresh_database(server) as url:
        facts = psycopg.conninfo.conninfo_to_dict(url)
        port = facts.get("port", 5432)
        wire = Wire(str(Path(str(facts["host"])) / f".s.PGSQL.{port}"))
        try:
            user, name = facts.get("user", ""), facts["dbname"]
            yield url, f"postgresql://{user}@127.0.0.1:{wire.port}/{name}", wire
        finally:
            wire.close()


def named(url: str) -> list[str]:
    return [row["name"] for row in look(url, "SELECT name FROM tasks ORDER BY id")]


def test_a_transaction_is_not_repeated_once_its_commit_was_sent(postgres_server: str) -> None:
    """The answer was lost, and the work was done: done again, it would be there twice."""
    with wired(postgres_server) as (url, over_the_wire, wire):
        with open_store(over_the_wire) as store:
            put(store, "a")
            wire.cut = (b"COMMIT", True)
            with pytest.raises(StoreError, match="may or may not be stored"):
                put(store, "b")
            put(store, "c")
        assert wire.cuts == 1
        assert named(url) == ["a", "b", "c"]


def test_a_transaction_is_repeated_whose_connection_broke_before_its_commit(
    postgres_server: str,
) -> None:
    with wired(postgres_server) as (url, over_the_wire, wire):
        with open_store(over_the_wire) as store:
            put(store, "a")
            wire.cut = (b"UPDATE store", False)
            put(store, "b")
        assert wire.cuts == 1
        assert named(url) == ["a", "b"]
