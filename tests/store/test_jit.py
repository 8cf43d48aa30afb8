"""A stock PostgreSQL, which compiles expensive queries: none of weft's is ever compiled."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from bench.postgres_cluster import find_binaries
from databases import fresh_database, look
from postgres_cluster import running_cluster
from store_helpers import drain, hire, put
from weft.store import open_store
from weft.store.limit_table import list_limits

COMPILED = "SELECT query, calls FROM public.pg_stat_statements WHERE jit_functions > 0"


@pytest.fixture(scope="module")
def jit_server() -> Iterator[str]:
    binaries = find_binaries()
    for library in ("llvmjit", "pg_stat_statements"):
        if binaries is None or not (binaries.parent / "lib" / f"{library}.so").exists():
            pytest.skip(f"no PostgreSQL with {library} is installed (Debian: postgresql)")
    with running_cluster("-c shared_preload_libraries=pg_stat_statements") as cluster:
        yield cluster.url


def test_no_transaction_is_compiled_by_a_server_that_would(jit_server: str) -> None:
    with fresh_database(jit_server) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            assert connection.execute("SHOW jit").fetchone() == ("on",)
            connection.execute("CREATE EXTENSION pg_stat_statements")
        open_store(url).close()  # makes its schema
        with open_store(url) as store:
            hire(store)
            for number in range(20):
                put(store, f"t{number}", files=(f"f{number}.py",))
            assert drain(store)
            assert list_limits(store, now=1)
        assert look(url, "SELECT 1 FROM public.pg_stat_statements WHERE query LIKE '%store%'")
        assert look(url, COMPILED) == []
