"""PostgreSQL clusters for tests, which are skipped where it is not installed, and poolers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from bench import postgres_cluster
from bench.host_network import Host
from bench.postgres_cluster import Cluster, answers, own_directory, standby_of, start_as_user
from wait_until import wait_until

__all__ = ["Cluster", "own_directory", "pooler_of", "running_cluster", "standby_of"]


def running_cluster(options: str = "", host: Host | None = None) -> AbstractContextManager[Cluster]:
    """A new PostgreSQL of the machine's own, stopped in the end."""
    if postgres_cluster.find_binaries() is None:
        pytest.skip("no PostgreSQL is installed (Debian: postgresql)")
    return postgres_cluster.running_cluster(options, host)


@contextmanager
def pooler_of(cluster: Cluster, database: str, host: Host | None = None) -> Iterator[str]:
    """The URL of a PgBouncer in transaction mode in front of a database, for a host's network."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("PgBouncer is not installed (Debian: pgbouncer)")
    with own_directory() as directory:
        settings = directory / "pgbouncer.ini"
        settings.write_text(
            f"[databases]\nstore = host={cluster.directory} dbname={database} user=weft\n"
            "[pgbouncer]\n"
            f"unix_socket_dir = {directory}\nlisten_port = 6432\nauth_type = any\n"
            "pool_mode = transaction\ndefault_pool_size = 3\nmax_client_conn = 100\n"
            "server_login_retry = 1\n" + (f"listen_addr = {host.address}\n" if host else "")
        )
        with (directory / "log").open("w") as log:
            process = start_as_user(host, program, settings, log=log)
        url = f"postgresql://weft@/store?host={directory}&port=6432"
        try:
            wait_until(lambda: answers(url))
            yield f"postgresql://weft@{host.address}:6432/store" if host else url
        finally:
            process.kill()
            process.wait()
