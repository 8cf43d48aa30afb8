"""`weft worker --server`: a worker on a host that has no copy of the repository."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from weft import config
from weft.cli.worker import WorkerLog
from weft.cli.worker_loops import serve_elsewhere
from weft.errors import InputError, Unauthenticated
from weft.project.project import Project
from weft.project.server_address import SERVER, check_url
from weft.project.site import Site
from weft.project.worker_host import HostFiles, MirrorTransport, join
from weft.store.event_log import last_event
from weft.store.remote_store import RemoteStore
from weft.store.server_client import Server
from weft.worker.engine import Interrupted, open_host_site
from weft.worker.heartbeat import WorkerTraits
from weft.worker.host_token import renew_loop


def work_for_server(
    directory: Path,
    token_file: Path | None,
    *,
    slots: int | None,
    traits: WorkerTraits,
    idle: float | None,
    checks: bool | None,
    as_json: bool,
) -> int:
    """Join a server, or come back to it, and run its tasks until interrupted or idle.

    It runs checks, too, if its token allows that and `checks` is not False.
    """
    environment = os.environ
    url = environment[SERVER].rstrip("/")
    check_url(url, environment)
    files = HostFiles(url, environment)
    known = join(url, token_file, files, checks=bool(checks))
    if checks and not known.checks:
        raise InputError(
            f"This host joined {url} without the right to run checks: `weft token create NAME "
            "--join --checks` there makes a token; put it into a file and name that with "
            "--token-file."
        )
    server = Server(url=url, token=known.secret)
    remote = RemoteStore(server)
    with remote as store:
        settings = replace(config.parse("", environment), tuning=store.tuning)
        project = Project(
            root=directory, config=settings, environment=environment, store_url=url, server=server
        )
        transport = MirrorTransport(project, known, files)
        site = open_host_site(
            store,
            transport.mirror,
            known.repository,
            known.host,
            transport,
            settings,
            environment,
            mcp=f"{url}/mcp",
            checks=known.checks and checks is not False,
        )
        journal = WorkerLog(store, after=last_event(store), idle=idle, as_json=as_json)

        def use_token(token: str) -> None:
            remote.use_token(token)
            transport.use_token(token)

        async def renew_token(site: Site, worker: str) -> None:
            await renew_loop(url, known.host, files, settings.tuning.heartbeat, use_token)

        slots = slots or settings.worker_slots
        try:
            with suppress(Interrupted):
                serve_elsewhere(
                    site, store, journal.begin, slots=slots, traits=traits, beside=renew_token
                )
            journal.read()
        except Unauthenticated as error:
            raise Unauthenticated(
                f"{url} takes the token of this host ({known.host}) no longer: it was revoked, or "
                "has expired. The agents here were ended. `weft token create NAME --join` there "
                "makes a token with which the host can join again (--token-file)."
            ) from error
    return 0
