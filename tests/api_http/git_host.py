"""A host that has joined a server, with a clone of its repository and the fence of an attempt."""

from __future__ import annotations

import base64
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from api_http.server_process import Server
from repositories import commit_all, git, write
from weft.errors import AlreadyEnded
from weft.model import NewTask, NewWorker
from weft.project.own_repository import get_repository
from weft.store.admission import admit
from weft.store.leases import release
from weft.store.remote_store import VERBS
from weft.store.tasks import cancel, submit
from weft.store.tokens import create_join_token, join_host
from weft.store.workers import depart, register


@dataclass
class GitHost:
    """A host that has joined, with a clone and the fence of an attempt."""

    server: Server
    clone: Path
    repository: str
    name: str
    token: str
    token_id: str
    task: int = 0
    fence: int = 0

    @property
    def worker(self) -> str:
        return f"{self.name}-1-a"

    @property
    def ref(self) -> str:
        return f"refs/weft/candidates/{self.task}.1.{self.fence}"

    def git(self, *arguments: str, token: str | None = None) -> subprocess.CompletedProcess[str]:
        secret = base64.b64encode(f"weft:{token or self.token}".encode()).decode()
        return subprocess.run(
            ["git", "-c", f"http.extraHeader=Authorization: Basic {secret}", *arguments],
            cwd=self.clone,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true"},
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def url(self) -> str:
        return f"{self.server.url}/git/{self.repository}"

    def push(self, *refs: str, token: str | None = None) -> subprocess.CompletedProcess[str]:
        return self.git("push", self.url, *refs, token=token)

    def find(self, ref: str) -> str:
        return git(self.server.root, "for-each-ref", "--format=%(objectname)", ref).strip()

    def call(self, verb: str, *args: object, token: str | None = None, **given: object) -> int:
        """Call a verb with the token of the host; return the status of the answer."""
        answer = httpx.post(
            f"{self.server.url}{VERBS}/{verb}",
            json={"args": args, "kwargs": {"now": 0, **given}},
            headers={"Authorization": f"Bearer {token or self.token}"},
        )
        return answer.status_code


@contextmanager
def joined_host(server: Server, place: Path) -> Iterator[GitHost]:
    now = time.time()
    with server.open_store() as store:
        repository = get_repository(server.root, store)
        join, _ = create_join_token(store, name="h", uses=1, expires=None, now=now)
        token, secret = join_host(store, join.id, "far", now=now)
        assert token.worker is not None
        clone = place / "clone"
        git(place, "clone", "-q", str(server.root), str(clone))
        made = GitHost(server, clone, repository, token.worker, secret, token.id)
        new = NewWorker(id=made.worker, slots=1, host=made.name, repos=(repository,), gates=False)
        register(store, new, now=now, stated={})
        made.task = submit(
            store, NewTask(name="", files=("dir/**", "work")), repo=repository, now=now
        )
        [grant] = admit(store, made.worker, now=now)
        made.fence = grant.fence
        write(clone, work="x\n")
        commit_all(clone, "work")
        yield made
        release(store, made.fence, now=now, reason="over")
        with suppress(AlreadyEnded):
            cancel(store, made.task, now=now)
        depart(store, made.worker, now=now)
        git(server.root, "update-ref", "-d", made.ref)
