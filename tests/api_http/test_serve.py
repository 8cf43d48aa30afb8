"""`weft serve` as a command: where it listens, whom it tells, how it ends, and how it dies."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

from api_http.server_process import Client, Server, serving
from cli.shell import TRY, assert_one_sentence, make_project, weft
from databases import fresh_database
from store_helpers import url
from wait_until import PATIENCE, wait_until

__all__ = ["url"]


def test_an_address_that_others_can_reach_needs_consent(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    for bind in ("0.0.0.0:0", "192.0.2.1:7337", "[::]:0", ":7337"):
        done = weft(project, "serve", "--bind", bind)
        assert_one_sentence(done, 2, "TLS", "--expose")
    for bind in ("127.0.0.1", "127.0.0.1:http", "127.0.0.1:99999"):
        assert_one_sentence(weft(project, "serve", "--bind", bind), 2, "HOST:PORT")


def test_an_address_that_is_taken_is_said_in_one_sentence(tmp_path: Path, server: Server) -> None:
    project = make_project(tmp_path / "project")
    done = weft(project, "serve", "--bind", f"127.0.0.1:{server.port}")
    assert_one_sentence(done, 2, "in use")


def test_at_its_end_who_waits_is_answered_at_once_and_streams_end(tmp_path: Path) -> None:
    with serving(tmp_path, f"sqlite:///{tmp_path / 'weft.db'}") as server:
        client = server.client()
        agent = client.join()
        with ThreadPoolExecutor(2) as pool:
            poll = pool.submit(client.poll, agent, 60_000)
            streamed = threading.Event()

            def follow() -> None:
                with client.http.stream("GET", "/v1/events") as answer:
                    for _ in answer.iter_bytes():
                        streamed.set()

            stream = pool.submit(follow)
            assert streamed.wait(PATIENCE)
            wait_until(lambda: not poll.done())
            time.sleep(0.3)  # let it reach the waiting room: nothing tells when it has
            began = time.monotonic()
            assert server.process is not None
            server.process.send_signal(signal.SIGTERM)
            assert poll.result(PATIENCE) is None
            stream.result(PATIENCE)
        assert server.process.wait(PATIENCE) == 0
        assert time.monotonic() - began < 50, "it waited for the time of the poll"
        assert "Traceback" not in server.log()


def test_it_works_too_and_its_own_agents_end_before_it_does(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'weft.db'}"
    with serving(tmp_path, url, "--slots", "2", agents={"try": TRY}) as server:
        client = server.client()
        done = weft(
            server.root, "do", "--agent", "try", "--files", "none", "say hello",
            WEFT_STORE=server.store_url,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        [task] = client.get("/v1/tasks")["tasks"]
        assert task["state"] == "done"
        assert client.get("/v1/agents")["agents"] == []
        assert "hello" in str(client.get(f"/v1/tasks/{task['id']}/logs")["lines"])
        assert server.kill(signal.SIGTERM) == 0


class TaskTakers:
    """Agents that take tasks and finish them, whatever happens to the server meanwhile."""

    def __init__(self, client: Client, count: int) -> None:
        self.client = client
        self.given: list[tuple[int, int]] = []
        self.finished: list[int] = []
        self._stop = threading.Event()
        self.threads = [
            threading.Thread(target=self._work, args=(f"agent {number}",))
            for number in range(count)
        ]
        for thread in self.threads:
            thread.start()

    def _work(self, name: str) -> None:
        agent = self._insist("/v1/agents", {"name": name})["id"]
        while not self._stop.is_set():
            trigger = self._insist("/v1/poll", {"wait_ms": 2000, "holding": []}, agent)["trigger"]
            if trigger is not None:
                task, fence = trigger["task"]["task"], trigger["task"]["fence"]
                self.given.append((task, fence))
                end = {"fence": fence, "status": "completed", "text": name}
                self._insist(f"/v1/tasks/{task}/finish", end)
                self.finished.append(task)

    def _insist(self, path: str, body: object, agent: str = "") -> Any:
        """Ask until there is an answer. What may have been done is asked for by the same key."""
        headers = {
            "Authorization": f"Bearer {self.client.token}",
            "Content-Type": "application/json",
            "Idempotency-Key": os.urandom(8).hex(),
            **({"X-Weft-Agent": agent} if agent else {}),
        }
        while True:
            connection = HTTPConnection("127.0.0.1", self.client.server.port, timeout=PATIENCE)
            try:
                connection.request("POST", path, json.dumps(body), headers)
                answer = connection.getresponse()
                status, found = answer.status, json.loads(answer.read())
            except (OSError, HTTPException):
                time.sleep(0.05)
                continue
            finally:
                connection.close()
            if status == 409 and found["type"] == "still_answering":
                headers["Idempotency-Key"] = os.urandom(8).hex()  # its server was killed meanwhile
                continue
            assert status < 300, found
            return found

    def stop(self) -> None:
        self._stop.set()
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


def test_a_server_killed_under_a_hundred_who_wait_loses_and_doubles_nothing(
    tmp_path: Path, url: str
) -> None:
    with serving(tmp_path, url) as server:
        client = server.client()
        takers = TaskTakers(client, 100)
        try:
            wait_until(lambda: len(client.get("/v1/agents?most=200")["agents"]) == 100)
            tasks = [client.send(str(number)) for number in range(10)]
            server.kill()
            server.start()
            tasks += [client.send(str(number)) for number in range(10, 20)]
            wait_until(lambda: all(client.state(one) == "done" for one in tasks))
        finally:
            takers.stop()
        fences = [fence for _, fence in takers.given]
        assert len(set(fences)) == len(fences), "an attempt was given to two"
        assert sorted(takers.finished) == sorted(tasks), "a task was ended twice, or by nobody"
        attempts = client.get("/v1/cost")["runs"][0]["tasks"]
        assert [one["attempts"] for one in attempts] == [1] * len(tasks)


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_needs_no_token(server: Server, path: str) -> None:
    assert httpx.get(f"{server.url}{path}").json() == {"status": "ok"}


@contextmanager
def gone(database: str, server: str) -> Iterator[None]:
    """Let nobody connect to a database."""
    name = urlsplit(database).path.strip("/")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'.encode())
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        connection.execute(ended, (name,))
        try:
            yield
        finally:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'.encode())


def test_a_server_whose_store_does_not_answer_lives_but_is_not_ready(
    tmp_path: Path, postgres_server: str
) -> None:
    with fresh_database(postgres_server) as database, serving(tmp_path, database) as server:
        with gone(database, postgres_server):
            answer = httpx.get(f"{server.url}/readyz", timeout=PATIENCE)
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) > 0
            assert httpx.get(f"{server.url}/healthz").status_code == 200
        server.kill()
