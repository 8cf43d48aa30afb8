"""A stock PostgreSQL, which compiles expensive queries: none of weft's is ever compiled."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from databases import fresh_database, look
from store_helpers import drain, hire, put
from weft.store import open_store
from weft.store.limit_table import list_limits

COMPILED = "SELECT query, calls FROM public.pg_stat_statements WHERE jit_functions > 0"


def find_binaries() -> Path | None:
    """The programs of a PostgreSQL that can compile queries, and count those it compiled."""
    for postgres in sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True):
        libraries = postgres.parent.parent / "lib"
        if all(
            (libraries / f"{library}.so").exists() for library in ("llvmjit", "pg_stat_statements")
        ):
            return postgres.parent
    return None


@pytest.fixture(scope="module")
def jit_server() -> Iterator[str]:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL with JIT is installed (Debian: postgresql)")
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    directory = Path(tempfile.mkdtemp(prefix="weft-jit-"))
    if os.geteuid() == 0:  # the server refuses to run as root
        shutil.chown(directory, user)

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [binaries / program, "-D", directory / "data", *arguments],
            user=user if os.geteuid() == 0 else None,
            cwd=directory,
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=120,
        )

    options = (
        f"-k {directory} -c listen_addresses= -c fsync=off "
        "-c shared_preload_libraries=pg_stat_statements"
    )
    try:
        run("initdb", "-A", "trust", "-U", "weft", "--no-sync")
        run("pg_ctl", "start", "-w", "-l", str(directory / "log"), "-o", options)
        try:
            yield f"postgresql://weft@/postgres?host={directory}"
        finally:
            run("pg_ctl", "stop", "-w", "-m", "immediate")
    finally:
        shutil.rmtree(directory)


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
