"""`weft worker --leave`: the workers of this host hand back their tasks and end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from weft.cli.output import print_json, say
from weft.cli.poll_interval import ONE_TASK
from weft.cli.silence_lines import list_silence_lines
from weft.cli.worker_loops import look_on
from weft.errors import InputError, Unauthenticated
from weft.formats import listed
from weft.git.repository import NotARepository
from weft.model import Worker
from weft.process.process_identity import get_place
from weft.project.own_repository import get_repository
from weft.project.project import Project, get_local_project
from weft.project.server_address import SERVER, get_url
from weft.project.worker_host import HostCredentials, HostFiles
from weft.runs.host_list import is_gone
from weft.store import Store
from weft.store.remote_store import RemoteStore
from weft.store.server_client import Server
from weft.store.workers import ask_to_leave, get_worker


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
    if as_json:
        print_json({"left": workers, "silent": [worker.id for worker in silent]})
    else:
        for line in _lines(workers, silent) or [nothing]:
            say(line)
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
