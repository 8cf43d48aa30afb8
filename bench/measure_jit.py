"""The cost of weft's queries on a PostgreSQL that compiles expensive queries, as is its default."""

from __future__ import annotations

import psycopg

from bench.figures import figure, median_ratio
from bench.measure_admission import seconds_per_admission
from bench.postgres_cluster import running_cluster
from bench.stores import fill, open_roomy, tasks

_ROUNDS = 11
_TASKS = 100


@figure("pg_jit_ratio", "ratio", at_most=1.1)
def pg_jit_ratio() -> float:
    """Time of admissions with `jit = on` ÷ with `jit = off`, in two databases of a server."""
    # With fresh statistics the server would take some of the queries for cheap.
    with running_cluster("-c autovacuum=off") as cluster:
        with psycopg.connect(cluster.url, autocommit=True) as connection:
            for setting in ("on", "off"):
                connection.execute(f"CREATE DATABASE jit_{setting}")
                connection.execute(f"ALTER DATABASE jit_{setting} SET jit = {setting}")
        urls = [cluster.url.replace("/postgres?", f"/jit_{setting}?") for setting in ("on", "off")]
        with open_roomy(urls[0]) as compiling, open_roomy(urls[1]) as plain:
            for store in (compiling, plain):
                fill(store, tasks(_TASKS))
            return median_ratio(
                lambda: seconds_per_admission(compiling),
                lambda: seconds_per_admission(plain),
                _ROUNDS,
            )
