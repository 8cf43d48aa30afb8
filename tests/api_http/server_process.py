"""`weft serve` as a process of its own, and clients with tokens of their own."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from forked_python import ForkedPython
from repositories import make_repository
from wait_until import PATIENCE, wait_until
from weft import config
from weft.model import State
from weft.store import Store, open_store
from weft.store.tasks import cancel, list_tasks
from weft.store.tokens import create_token

_numbers = itertools.count(1)
PATIENT = "[workspace]\nmax_file_mb = 5\n[tuning]\nheartbeat = 0.2\n"
HASTY = """
[tuning]
heartbeat = 0.1
gone_after = 1.5
drift = 0.1
kill_grace = 0.1
offer = 1.0
prefer = 0.5
"""
"""For what happens when somebody is silent: nothing that takes its time may be tested with it."""


@dataclass
class Server:
    """A server on a loopback port; started again, it has the same one."""

    root: Path
    store_url: str
    arguments: tuple[str, ...] = ("--no-work",)
    environment: dict[str, str] = field(default_factory=dict)
    port: int = 0
    token: str = ""
    process: subprocess.Popen[bytes] | None = None
    clients: list[Client] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Server:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "MAX_CONC"))}
        place = self.root.parent
        said = place / "said"
        bind = f"127.0.0.1:{self.port}"
        with said.open("wb") as out, (place / "server.log").open("ab") as log:
            self.process = ForkedPython[bytes](
                [sys.executable, "-m", "weft", "serve", "--bind", bind, "--json", *self.arguments],
                cwd=self.root,
                env={
                    **kept,
                    "WEFT_STORE": self.store_url,
                    "XDG_STATE_HOME": str(place / "state"),
                    "PYTHONPATH": os.pathsep.join(sys.path),
                    **self.environment,
                },
                stdout=out,
                stderr=log,
            )
        wait_until(lambda: b"\n" in said.read_bytes() or not self.runs())
        assert self.runs(), self.log()
        told = json.loads(said.read_bytes().splitlines()[0])
        self.port = int(told["url"].rpartition(":")[2])
        self.token = Path(told["token_file"]).read_text().strip()
        wait_until(self._answers)
        return self

    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def kill(self, number: int = signal.SIGKILL) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def log(self) -> str:
        return (self.root.parent / "server.log").read_text()

    def open_store(self) -> Store:
        return open_store(self.store_url, tuning=config.load(self.root, {}).tuning)

    def make_token(self, *scopes: str, tenant: str | None = None, fence: int | None = None) -> str:
        with self.open_store() as store:
            _, text = create_token(
                store,
                name="a test",
                scopes=scopes or ("read", "work"),
                tenant=tenant,
                fence=fence,
                now=time.time(),
            )
        return text

    def client(self, token: str | None = None) -> Client:
        client = Client(self, self.token if token is None else token)
        self.clients.append(client)
        return client

    def close(self) -> None:
        for client in self.clients:
            client.http.close()
        if self.runs():
            self.kill()

    def cancel_loose_tasks(self) -> None:
        """Cancel the tasks that ask for no kind of member: any member would take them."""
        with self.open_store() as store:
            for task in list_tasks(store, (State.READY, State.OFFERED)):
                if task.agent is None:
                    cancel(store, task.id, now=time.time())

    def apart(self) -> Client:
        """A client with members and tasks of a kind of their own, which no other client has."""
        client = self.client(self.make_token())
        client.kind = f"kind-{next(_numbers)}"
        return client


class Client:
    """Requests with one token. What must succeed is answered as JSON."""

    def __init__(self, server: Server, token: str) -> None:
        self.server = server
        self.token = token
        self.kind: str | None = None  # a capability of its members, which its tasks ask for
        self.http = httpx.Client(
            base_url=server.url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=PATIENCE,
            verify=False,  # nothing here is encrypted, and reading certificates takes a while
        )

    def get(self, path: str, **keywords: Any) -> Any:
        return _good(self.http.get(path, **keywords))

    def post(self, path: str, body: object = None, **headers: str) -> Any:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return _good(self.http.post(path, json={} if body is None else body, headers=sent))

    def refused(self, status: int, method: str, path: str, body: object = None) -> str:
        """The type of a problem."""
        answer = self.http.request(method, path, json=body)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["status"] == status
        return str(problem["type"])

    def join(self, name: str = "ann", **about: Any) -> str:
        if self.kind is not None:
            about = {**about, "capabilities": [self.kind, *about.get("capabilities", ())]}
        return str(self.post("/v1/agents", {"name": name, **about})["id"])

    def send(self, text: str = "do it", **about: Any) -> int:
        if self.kind is not None:
            about = {"agent": self.kind, **about}
        return int(self.post("/v1/tasks", {"text": text, **about})["task"])

    def poll(self, agent: str, wait_ms: int = 0, **about: Any) -> Any:
        body = {"wait_ms": wait_ms, **about}
        return self.post("/v1/poll", body, X_Weft_Agent=agent)["trigger"]

    def take(self, agent: str) -> tuple[int, int]:
        """The task that a poll gives, and its fence."""
        trigger = self.poll(agent)
        assert trigger is not None
        assert trigger["kind"] == "task"
        return trigger["task"]["task"], trigger["task"]["fence"]

    def finish(self, task: int, fence: int, status: str = "completed", text: str = "") -> Any:
        body = {"fence": fence, "status": status, "text": text}
        return self.post(f"/v1/tasks/{task}/finish", body)

    def state(self, task: int) -> str:
        return str(self.get(f"/v1/tasks/{task}")["state"])

    def capacity(self, agent: str) -> Any:
        return self.get(f"/v1/agents/{agent}")["capacity"]


def _good(answer: httpx.Response) -> Any:
    assert answer.is_success, (answer.status_code, answer.text)
    return answer.json()


@contextmanager
def serving(
    directory: Path,
    url: str,
    *arguments: str,
    settings: str = PATIENT,
    agents: Mapping[str, str] | None = None,
    **environment: str,
) -> Iterator[Server]:
    root = make_repository(directory / "project")
    (root / "weft.toml").write_text(settings)
    (root / ".weft" / "agents").mkdir(parents=True)
    for name, text in (agents or {}).items():
        (root / ".weft" / "agents" / f"{name}.md").write_text(text)
    server = Server(
        root=root,
        store_url=url,
        arguments=arguments or ("--no-work",),
        environment=environment,
    ).start()
    try:
        yield server
    finally:
        server.close()
