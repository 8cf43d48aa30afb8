"""A weft of a later version: opens a store with the steps of the schema it was given.

It prints a line when it is about to change the schema, and one with what came of it.
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import msgspec

from weft.errors import WeftError
from weft.store import sql
from weft.store.database import Database
from weft.store.postgres import Postgres
from weft.store.sqlite import Sqlite


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Telling(Sqlite):
    def _begin(self, connection: sqlite3.Connection) -> None:
        tell("begins")
        super()._begin(connection)


def driver(url: str, steps: sql.Steps) -> Database:
    if url.startswith("sqlite"):
        return Telling(Path(url.removeprefix("sqlite:///")), steps=steps)
    tell("begins")  # whether it waits for the lock, the server can tell
    return Postgres(url, steps=steps)


if __name__ == "__main__":
    try:
        driver(sys.argv[1], msgspec.json.decode(sys.argv[2], type=sql.Steps)).close()
    except WeftError as error:
        tell(f"{type(error).__name__}: {error}")
    else:
        tell("opened")
