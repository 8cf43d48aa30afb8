"""`weft worker` on a host that has no copy of the repository, and the departure of a host."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from weft import config
from weft.cli.output import show
from weft.cli.poll_interval import ONE_TASK
from weft.cli.task_lines import list_silence_lines
from weft.cli.worker import WorkerLog, WorkerOptions
from weft.cli.worker_loops import Beside, look_on, serve_elsewhere
from weft.config import Config
from weft.errors import InputError, Unauthenticated
from weft.formats import listed
from weft.git.repository import NotARepository
from weft.model import Worker
from weft.process.process_identity import get_place
from weft.project.home_settings import read_home_settings
from weft.project.own_repository import get_repository
from weft.project.project import Project, get_local_project
from weft.project.server_address import SERVER, get_url
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
from weft.runs.host_list import is_gone
from weft.store import Store
from weft.store.event_log import last_event
from weft.store.remote_store import RemoteStore
from weft.store.server_client import Server
from weft.store.workers import ask_to_leave, get_worker
from weft.worker.engine import Interrupted, open_host_site
from weft.worker.host_token import renew_loop


def work_for_server(directory: Path, token_file: Path | None, options: WorkerOptions) -> None:
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


def _work(
    store: Store,
    transport: MirrorTransport,
    known: HostCredentials,
    settings: Config,
    options: WorkerOptions,
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


class Departure:
    """The wait for the ends of workers; a worker that is silent is not waited for."""

    rhythm = ONE_TASK

    def __init__(self, store: Store, workers: Sequence[str]) -> None:
        self._store = store
        self._staying = set(workers)
        self.silent: list[Worker] = []

    def look(self) -> bool:
        now = time.time()
        for id in sorted(self._staying):
            worker = get_worker(self._store, id, now=now)
            if worker.left is not None or is_gone(worker):
                self._staying.discard(id)
            elif worker.silent_since is not None:
                self._staying.discard(id)
                self.silent.append(worker)
        return not self._staying


def leave_host(directory: Path, *, as_json: bool) -> int:
    """Tell the workers of this host to leave and wait for their ends; return 1 if a worker is
    silent."""
    workers: list[str] = []
    silent: list[Worker] = []
    try:
        with _open_store(directory) as (store, host, repo):
            workers = ask_to_leave(store, host, get_place().boot, repo, now=time.time())
            departure = Departure(store, workers)
            look_on(store, departure)
            silent = departure.silent
    except Unauthenticated:
        files = HostFiles(get_url(os.environ), os.environ)
        nothing = _explain_ended_token(files.get())
        files.forget()
    else:
        subject = get_url(os.environ) if os.environ.get(SERVER) else "this repository"
        nothing = f"No `weft worker` runs here for {subject}."
    fields = {"left": workers, "silent": [worker.id for worker in silent]}
    show(fields, _lines(workers, silent) or [nothing], as_json=as_json)
    return 1 if silent else 0


@contextmanager
def _open_store(directory: Path) -> Iterator[tuple[Store, str, str]]:
    """Yield the store, this host's name in it and the repository."""
    if not os.environ.get(SERVER):
        project = _get_project(directory)
        with project.open_store() as store:
            yield store, get_place().host, get_repository(project.root, store)
        return
    url = get_url(os.environ)
    files = HostFiles(url, os.environ)
    known = files.find()
    if known is None:
        raise InputError(f"This host has not joined {url}; {files.describe_joined()}.")
    with RemoteStore(Server(url=url, token=known.secret)) as server:
        yield server, known.host, known.repository


def _get_project(directory: Path) -> Project:
    try:
        return get_local_project(directory, os.environ)
    except NotARepository:
        joined = HostFiles("", os.environ).describe_joined()
        raise InputError(
            f"{directory.resolve()} is in no git repository. Name the server of this host's "
            f"workers with --server; {joined}."
        ) from None


def _explain_ended_token(known: HostCredentials) -> str:
    return (
        f"{known.server or 'The server'} takes the token of this host ({known.host}) no longer: it "
        "was revoked, or has expired. There is nothing to leave; the token is forgotten."
    )


def _lines(workers: Sequence[str], silent: Sequence[Worker]) -> list[str]:
    stay = {worker.id for worker in silent}
    gone = [worker for worker in workers if worker not in stay]
    lines = [f"{listed(gone)} handed back all tasks and left."] if gone else []
    return lines + [line for worker in silent for line in list_silence_lines(worker)]
