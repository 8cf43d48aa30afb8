"""`weft worker` on a host that has no copy of the repository."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from weft import config
from weft.cli.worker import WorkerLog
from weft.cli.worker_loops import Beside, serve_elsewhere
from weft.config import Config
from weft.errors import InputError, Unauthenticated
from weft.project.home_settings import read_home_settings
from weft.project.project import Project
from weft.project.server_address import get_url
from weft.project.site import Site
from weft.project.warning_log import show_warnings
from weft.project.worker_host import (
    HostCredentials,
    HostFiles,
    MirrorTransport,
    join,
    open_server_transport,
    refused_token,
)
from weft.store import Store
from weft.store.event_log import last_event
from weft.store.remote_store import RemoteStore
from weft.store.server_client import Server
from weft.worker.engine import Interrupted, open_host_site
from weft.worker.heartbeat import WorkerTraits
from weft.worker.host_token import renew_loop


class HostOptions(Struct, frozen=True, kw_only=True):
    slots: int | None
    traits: WorkerTraits
    idle: float | None
    checks: bool | None  # None: as the token says
    as_json: bool


def work_for_server(directory: Path, token_file: Path | None, options: HostOptions) -> int:
    """Join a server, or come back to it, and run its tasks until interrupted or idle.

    It runs checks, too, if its token allows that and the options do not refuse them.
    """
    environment = os.environ
    url = get_url(environment)
    files = HostFiles(url, environment)
    show_warnings()
    known = join(url, token_file, files, checks=bool(options.checks))
    if options.checks and not known.checks:
        raise InputError(
            f"This host joined {url} without the right to run checks: `weft token create NAME "
            "--join --checks` there makes a token; put it into a file and name that with "
            "--token-file."
        )
    server = Server(url=url, token=known.secret)
    remote = RemoteStore(server)
    with remote as store:
        try:
            settings = replace(config.parse("", environment), tuning=store.tuning)
        except Unauthenticated as error:
            raise refused_token(url) from error
        project = Project(
            root=directory, config=settings, environment=environment, store_url=url, server=server
        )
        transport = open_server_transport(project, known, files)

        def use_token(token: str) -> None:
            remote.use_token(token)
            renewed = replace(project, server=Server(url=url, token=token))
            transport.read_settings = partial(read_home_settings, renewed)

        async def renew_token(site: Site, worker: str) -> None:
            await renew_loop(url, known.host, files, settings.tuning.heartbeat, use_token)

        takes = known.checks and options.checks is not False
        options = replace(options, checks=takes)
        try:
            _work(store, transport, known, settings, options, mcp=f"{url}/mcp", beside=renew_token)
        except Unauthenticated as error:
            raise Unauthenticated(
                f"{url} takes the token of this host ({known.host}) no longer: it was revoked, or "
                "has expired. The agents here were ended. To join again, name a file with a token "
                "of `weft token create NAME --join` with --token-file."
            ) from error
    return 0


def _work(
    store: Store,
    transport: MirrorTransport,
    known: HostCredentials,
    settings: Config,
    options: HostOptions,
    *,
    mcp: str,
    beside: Beside,
) -> None:
    """Be a worker of this host; `mcp` is the address of weft's tools for its agents."""
    site = open_host_site(
        store,
        transport.mirror,
        known.repository,
        known.host,
        transport,
        settings,
        os.environ,
        mcp=mcp,
        checks=bool(options.checks),
    )
    journal = WorkerLog(store, after=last_event(store), idle=options.idle, as_json=options.as_json)
    slots = options.slots or settings.worker_slots
    with suppress(Interrupted):
        serve_elsewhere(
            site, store, journal.begin, slots=slots, traits=options.traits, beside=beside
        )
    journal.read()
