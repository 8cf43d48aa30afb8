"""weft on three hosts and a database server: home serves, alpha and beta join it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.host_network import Host, HostNetwork, HostProcess
from bench.postgres_cluster import Cluster
from weft.store import open_store
from weft.store.tokens import create_join_token

PORT: Final = 7337
_SECONDS: Final = 150.0


class ThreeHosts:
    """The processes of weft on the hosts. The repository is on home alone."""

    def __init__(self, network: HostNetwork, cluster: Cluster) -> None:
        self.network = network
        self.cluster = cluster
        self.root = network.hosts["home"].home / "project"
        self.store = f"postgresql://weft@{network.hosts['store'].address}/postgres"
        self.server: HostProcess | None = None
        self.workers: dict[str, HostProcess] = {}

    @property
    def url(self) -> str:
        return f"http://{self.network.hosts['home'].address}:{PORT}"

    def weft(self, host: Host, *arguments: str, **environment: str) -> HostProcess:
        """Start a command of weft on a host; home's are beside its repository."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("WEFT_", "PYTHONDONT", "XDG_"))
        }
        at_home = host.name == "home"
        own = {"WEFT_STORE": self.store} if at_home else {"WEFT_INSECURE": "1"}
        return host.start(
            [sys.executable, "-m", "weft", *arguments],
            {**kept, "PATH": f"/home/bin:{kept['PATH']}", **own, **environment},
            directory=self.root if at_home else None,
        )

    def serve(self, *options: str) -> None:
        """Start the server of home, and wait until it takes requests."""
        home = self.network.hosts["home"]
        address = f"{home.address}:{PORT}"
        self.server = self.weft(home, "serve", "--bind", address, "--expose", "--json", *options)
        self.wait_ready(self.server)

    def join(self, name: str, *options: str, **environment: str) -> HostProcess:
        """Start a worker on a host, with a token by which the host may join."""
        host = self.network.hosts[name]
        with open_store(self.cluster.url) as store:
            _, token = create_join_token(store, name=name, uses=1, expires=None, now=time.time())
        (host.tmp / "join").write_text(token)
        command = ("worker", "--server", self.url, "--token-file", "/tmp/join", "--json")
        self.workers[name] = self.weft(host, *command, *options, **environment)
        return self.workers[name]

    def wait_ready(self, process: HostProcess) -> None:
        """Wait until a server or a worker has told that it works."""
        end = time.monotonic() + _SECONDS
        while "\n" not in process.output.read_text():
            assert not process.ended(), process.errors.read_text()
            assert time.monotonic() < end, process.errors.read_text()
            time.sleep(0.02)


@contextmanager
def connected_hosts(place: Path) -> Iterator[HostNetwork]:
    """A network of store, home, alpha and beta, ended whole."""
    network = HostNetwork(place)
    try:
        for name in ("store", "home", "alpha", "beta"):
            network.add(name)
        yield network
    finally:
        network.close()
