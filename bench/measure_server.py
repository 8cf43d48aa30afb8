"""The server: how fast it answers, how soon work and events reach those who wait for them."""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

import psutil
from msgspec.structs import replace

from bench.figures import figure, median_ratio
from bench.serving import answers_per_second, ask, bare, receive, request, served
from bench.stores import fill, tasks
from weft.model import NewMember, NewWorker
from weft.store import Store, open_store
from weft.store.admission import admit
from weft.store.limit_table import set_limit
from weft.store.members import join
from weft.store.tokens import create_token
from weft.store.workers import register

_COUNT = 400
_POLLS = 40
_FOLLOWERS = 500
_EVENTS = 100
_PAUSE = 0.05  # seconds between two events of a busy run
_POLLERS = 1000


@figure("api_reads_ratio", "of a bare FastAPI app", at_least=0.3)
def api_reads_ratio() -> float:
    """A page of the task list per second, against an app that returns the same bytes."""
    with served() as server:
        with open_store(server.url) as store:
            fill(store, tasks(200))
        path = "/v1/tasks"
        asked = request("GET", path, server.token)
        answer = ask(server.port, "GET", path, token=server.token)
        with bare(answer) as port:
            return median_ratio(
                lambda: answers_per_second(server.port, asked, count=_COUNT),
                lambda: answers_per_second(port, asked, count=_COUNT),
                rounds=5,
            )


@figure("poll_ms", "ms", at_most=30)
def poll_ms() -> float:
    """From the moment a task is sent to the moment an agent that waits has it, over HTTP."""
    with served() as server, ExitStack() as stack:
        ask(server.port, "POST", "/v1/agents", {"name": "a"}, token=server.token)
        waits = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        sends = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        poll = request("POST", "/v1/poll", server.token, {"wait_ms": 60_000})
        send = request("POST", "/v1/tasks", server.token, {"text": "work"})
        took = []
        for _ in range(_POLLS):
            waits.sendall(poll)
            time.sleep(0.05)  # it shall be waiting
            began = time.perf_counter()
            sends.sendall(send)
            claimed = json.loads(receive(waits))["trigger"]["task"]
            took.append(time.perf_counter() - began)
            receive(sends)
            end = {"fence": claimed["fence"], "status": "completed"}
            sends.sendall(request("POST", f"/v1/tasks/{claimed['task']}/finish", server.token, end))
            receive(sends)
        return statistics.median(took) * 1000


@figure("poll_members_ratio", "of a token with one agent", at_most=2)
def poll_members_ratio() -> float:
    """Empty polls of a token with a thousand agents, against those of a token with one."""
    with served() as server, open_store(server.url) as store, ExitStack() as stack:

        def empty_poll(members: int) -> Callable[[], float]:
            token, secret = create_token(store, name="bench", scopes=["work"], now=time.time())
            for number in range(members):
                new = NewMember(id=f"a{members}-{number}", name="a", slots=1, token=token.id)
                join(store, new, now=time.time())
            waits = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            poll = request("POST", "/v1/poll", secret, {"wait_ms": 0}, agent=f"a{members}-0")

            def measure() -> float:
                began = time.perf_counter()
                for _ in range(_POLLS):
                    waits.sendall(poll)
                    receive(waits)
                return time.perf_counter() - began

            return measure

        one = empty_poll(1)
        alone = statistics.median(one() for _ in range(7))
        many = empty_poll(_POLLERS)
        return statistics.median(many() for _ in range(7)) / alone


@figure("sse_lag_ms", "ms", at_most=250)
def sse_lag_ms() -> float:
    """From an event of a busy run to its arrival, over 500 followers of that run."""
    with served() as server, open_store(server.url) as store:
        register(store, NewWorker(id="w", slots=10**6, host="h"), now=time.time(), stated={})
        store_limits(store)
        fill(store, [replace(one, demand={}) for one in tasks(_EVENTS)])
        followers = subprocess.Popen(
            [sys.executable, "-m", "bench.followers", str(server.port), str(_FOLLOWERS), "r"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "WEFT_TOKEN": server.token},
        )
        with followers:
            assert followers.stdout is not None
            assert followers.stdout.readline() == b"ready\n"
            for _ in range(_EVENTS):
                admit(store, "w", now=time.time())
                time.sleep(_PAUSE)
            time.sleep(1)
            lags, _ = followers.communicate(b"\n", timeout=60)
        return float(lags) * 1000


@figure("pollers_1000", "MB")
def pollers_1000() -> float:
    """What a thousand agents that wait cost a server: memory; idle CPU goes to standard error."""
    with served() as server, ExitStack() as stack:
        before = _memory(server.pid)
        joining = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        for number in range(_POLLERS):
            joining.sendall(request("POST", "/v1/agents", server.token, {"name": f"a{number}"}))
            agent = json.loads(receive(joining))["id"]
            waits = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            poll = request("POST", "/v1/poll", server.token, {"wait_ms": 300_000}, agent=agent)
            waits.sendall(poll)
        time.sleep(5)
        used, began = _cpu(server.pid), time.monotonic()
        time.sleep(20)
        share = (_cpu(server.pid) - used) / (time.monotonic() - began)
        print(f"pollers_1000: {share:.1%} of a core while nothing happens", file=sys.stderr)
        return _memory(server.pid) - before


def _memory(pid: int) -> float:
    """Resident megabytes."""
    return psutil.Process(pid).memory_info().rss / 1e6


def _cpu(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def store_limits(store: Store) -> None:
    """Let nothing but the worker's slots bind."""
    for name in ("requests", "llm"):
        set_limit(store, name, 10**6, now=time.time())
