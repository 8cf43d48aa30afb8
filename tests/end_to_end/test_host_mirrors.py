"""The mirror of a host is collected when it is idle, and bounded."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from end_to_end.worker_hosts import WorkerHosts
from repositories import git
from wait_until import PATIENCE, wait_until
from weft import config
from weft.project.mirror_use import MirrorUse
from weft.project.project import Project
from weft.project.site import Site
from weft.project.worker_host import HostFiles, join, open_server_transport
from weft.store.remote_store import RemoteStore
from weft.store.server_client import Server
from weft.worker.engine import open_host_site
from weft.worker.mirror_upkeep import tend_mirrors

pytestmark = pytest.mark.timeout(100)


@contextmanager
def site_of(hosts: WorkerHosts) -> Iterator[Site]:
    """The site of a worker of the host, in this process."""
    environment = {"HOME": str(hosts.home_of("far")), "PATH": os.environ["PATH"]}
    files = HostFiles(hosts.url, environment)
    known = join(hosts.url, None, files)
    server = Server(url=hosts.url, token=known.secret)
    with RemoteStore(server) as store:
        settings = replace(config.parse("", environment), tuning=store.tuning)
        place = Project(
            root=hosts.place,
            config=settings,
            environment=environment,
            store_url=hosts.url,
            server=server,
        )
        transport = open_server_transport(place, known, files)
        names = (transport.mirror, known.repository, known.host)
        with open_host_site(store, *names, transport, settings, environment) as site:
            yield site


def refs(repository: Path) -> set[str]:
    return set(git(repository, "for-each-ref", "--format=%(refname)").split())


def run_on_host(hosts: WorkerHosts, file: str) -> None:
    project = hosts.project
    project.plan.write_text(f"## P\n- [ ] Make\n  <!-- files: {file}; agent: implement -->\n")
    worker = hosts.start("far", *hosts_token(hosts), "--slots", "1")
    hosts.wait_registered(1)
    run = project.start("run", "plan.md")
    done = "SELECT * FROM attempts WHERE outcome = 'success' AND number = 1"
    number = len(project.rows(done))
    wait_until(lambda: len(project.rows(done)) > number)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=PATIENCE) == 0
    project.stop(run)


def hosts_token(hosts: WorkerHosts) -> tuple[str, ...]:
    known = hosts.home_of("far").exists()
    return () if known else ("--token-file", str(hosts.join_token()))


def test_an_idle_mirror_loses_what_home_has_and_what_has_ended_and_stays_usable(
    hosts: WorkerHosts,
) -> None:
    go = hosts.keep_home_busy()
    run_on_host(hosts, "src/a")
    with site_of(hosts) as site:
        mirror = site.common
        unsent = git(mirror, "commit-tree", "-m", "secret", "HEAD^{tree}").strip()
        git(mirror, "update-ref", "refs/weft/work/r/unsent/1", unsent)
        git(mirror, "update-ref", "refs/heads/weft/ended", "HEAD")
        user = MirrorUse(mirror)
        user.hold("tasks")
        assert not tend_mirrors(site, site.host), "a worker of this host has a task"
        assert "refs/heads/weft/ended" in refs(mirror)
        user.close()
        assert tend_mirrors(site, site.host)
        left = refs(mirror)
        assert "refs/heads/weft/ended" not in left
        assert not any(ref.startswith("refs/weft/work/") for ref in left)
        assert f"refs/weft/archive/r/unsent/1/{unsent}" in left, "home does not have it"
        assert list(mirror.glob("weft/attempts/*/*.1")), "its task has not ended"
        bound_mirrors(site)
    run_on_host(hosts, "src/b")
    go.touch()


def bound_mirrors(site: Site) -> None:
    """Other mirrors go above the bound, but for those with a worker or an agent."""
    other, used = site.common.with_name("0" * 32 + ".git"), site.common.with_name("f" * 32 + ".git")
    for mirror in (other, used):
        git(site.common.parent, "init", "-q", "--bare", str(mirror))
    worker = MirrorUse(used)
    assert tend_mirrors(site, site.host)
    assert other.exists(), "all mirrors fit"
    assert tend_mirrors(site, site.host, most=1)
    assert not other.exists()
    assert used.exists()
    assert site.common.exists()
    worker.close()
