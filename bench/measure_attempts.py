"""What an attempt costs beside its agent's work: its start, memory, and hearing what it says."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
import psutil
from anyio.to_thread import run_sync

from bench.figures import figure, median_ratio
from weft import git, workspace
from weft.admission.capacity import attempt_demand
from weft.config import Config
from weft.model import Event, NewTask, State
from weft.process import attempt_files
from weft.project.own_repository import get_repository
from weft.store import Store, open_store
from weft.store.event_log import last_event, read_events
from weft.store.leases import list_open
from weft.store.tasks import count_states, submit
from weft.worker.engine import open_site, serving
from weft.workspace import branch_ref

_STARTS = 40
_SLEEPERS = 200
_TALKERS = 50
_WORDS = 8
# Says the time as claude does, which is then compared with when the store had it.
_TALK = """\
#!/bin/sh
while ! test -e {go}; do sleep 0.1; done
for n in {words}; do
    sleep 0.$(od -An -N1 -tu1 /dev/urandom | tr -d ' ')
    date '+{{"type":"assistant","message":{{"content":[{{"type":"text","text":"word-%s.%N"}}]}}}}'
done
echo '{{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s"}}'
"""


class Project:
    """A repository with one agent, and a store of its own."""

    def __init__(self, place: Path, runs: str) -> None:
        self.place, self.root = place, place / "project"
        self.url = f"sqlite:///{place}/weft.db"
        self.write_agent(f"runs: {runs}")
        who = ("-c", "user.name=b", "-c", "user.email=b@localhost")
        for command in (("init", "-q"), ("add", "-A"), (*who, "commit", "-qm", "first")):
            subprocess.run(["git", *command], cwd=self.root, check=True)
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(place)}

    def write_agent(self, header: str) -> None:
        file = self.root / ".weft" / "agents" / "one.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"---\n{header}\n---\n{{{{ task.text }}}}\n")

    def open_store(self) -> Store:
        return open_store(self.url, limits={"requests": 1000, "llm": 1000})

    def submit(self, store: Store, count: int) -> None:
        demand = attempt_demand(run=None, stage=None, agent="one", provider=None)
        for number in range(count):
            task = NewTask(
                name=f"t{number}", text="Go.", demand=demand, agent="one", stage="implement"
            )
            submit(store, task, repo=get_repository(self.root, store), now=time.time())


@contextmanager
def project(runs: str) -> Iterator[Project]:
    # Memory where there is such a file system: disks of test machines are slow in odd ways.
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="weft-bench-", dir=shared) as place:
        yield Project(Path(place), runs)


@figure("start_overhead_ms", "ms", at_most=30)
def start_overhead_ms() -> float:
    """From the granting of a lease to its agent reading the clock, in a real worker at rest.

    The agent is `date`, which starts in 1 ms. What making a workspace takes, measured by itself in
    the same repository, is taken off.
    """
    return _measure_start("sandbox: off")


@figure("box_start_ratio", "times", at_most=1.5)
def box_start_ratio() -> float:
    """The start of an agent in the best box of this machine, compared with a start without."""
    return median_ratio(
        lambda: _measure_start("sandbox: on"), lambda: _measure_start("sandbox: off"), rounds=3
    )


@figure("container_start_ms", "ms")
def container_start_ms() -> float:
    """The start of an agent in a container; needs podman and an image `weft-test-box`."""
    settings = '[sandbox]\nengine = ["podman", "--runtime", "runc"]\nimage = "weft-test-box"\n'
    ulimits = ("--ulimit", "nofile=1000:1000", "--ulimit", "nproc=1000:1000")
    settings += f"options = {json.dumps(ulimits)}\nread = ['/usr', '/lib', '/lib64']\n"
    return _measure_start("sandbox: container", settings)


def _measure_start(header: str, settings: str = "") -> float:
    with project("[date, +%s.%N]") as one, one.open_store() as store:
        one.write_agent(f"runs: [/usr/bin/date, +%s.%N]\n{header}")
        (one.root / "weft.toml").write_text(settings)
        with _worker(one, slots=1):
            for _ in range(_STARTS):  # one by one: what another leaves behind is not its start
                one.submit(store, 1)
                while set(count_states(store)) & {State.READY, State.RUNNING}:
                    time.sleep(0.02)
                time.sleep(0.1)
        granted = {
            (event.task, event.data["attempt"]): event.at
            for event in read_events(store)
            if event.kind == "task_admitted"
        }
        overheads = []
        for told in _attempts(one, attempt_files.STDOUT):
            task, _, number = told.parent.name.partition(".")
            overheads.append(float(told.read_text()) - granted[int(task), int(number)])
        return 1000 * (statistics.median(overheads) - _preparing(one))


@contextmanager
def _worker(one: Project, *, slots: int) -> Iterator[subprocess.Popen[bytes]]:
    """One of weft's, ended without waiting for what it runs."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "weft", "worker", "--slots", str(slots)],
        cwd=one.root,
        env={**one.environment, "WEFT_STORE": one.url},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield worker
    finally:
        worker.terminate()
        time.sleep(0.5)
        worker.terminate()
        worker.wait()


def _preparing(one: Project) -> float:
    """Seconds that a workspace takes, one after another as in a single slot."""
    base = git.get_commit(one.root, "HEAD").id
    taken = []
    for number in range(_STARTS):
        began = time.perf_counter()
        ref = branch_ref("bench", "t", number + 1)
        made = workspace.prepare(one.root, ref, base, owner=f"b{number}")
        taken.append(time.perf_counter() - began)
        workspace.release(made)
    return statistics.median(taken)


@figure("memory_mb_per_agent", "MB", at_most=6)
def memory_mb_per_agent() -> float:
    """PSS of a worker, its launcher and wrappers with many sleeping agents, per agent."""
    with project("[sleep, '1000']") as one, one.open_store() as store:
        one.submit(store, _SLEEPERS)
        with _worker(one, slots=_SLEEPERS) as worker:
            while len(list(_attempts(one, attempt_files.AGENT))) < _SLEEPERS:
                assert worker.poll() is None
                refuse_ended(store)
                time.sleep(0.2)
            wrappers = [
                attempt_files.find_record(str(path))
                for path in _attempts(one, attempt_files.WRAPPER)
            ]
            own = [psutil.Process(record["pid"]) for record in wrappers if record is not None]
            assert len(own) == _SLEEPERS
            own += [psutil.Process(worker.pid), *psutil.Process(worker.pid).children()]
            used = sum(process.memory_full_info().pss for process in own)
        assert list_open(store) == []
    return used / _SLEEPERS / 1e6


def refuse_ended(store: Store) -> None:
    """Fail with the reason if an attempt has ended while all are to be at work."""
    ended = [event for event in read_events(store) if event.kind == "attempt_finished"]
    assert not ended, ended[0].data


def _attempts(one: Project, name: str) -> Iterator[Path]:
    """These files of all attempts that have them."""
    return (one.root / ".git" / "weft" / "attempts").glob(f"*/*/{name}")


@figure("line_lag_ms", "ms", at_most=200)
def line_lag_ms() -> float:
    """From an agent's event, a line of JSON, to the store, with 50 agents talking at random."""
    with project("claude") as one, one.open_store() as store:
        go, programs = one.place / "go", one.place / "programs"
        programs.mkdir()
        # The sandbox hides /dev/shm, where this project is.
        one.write_agent(f"runs: claude\nsandbox: {{kind: on, read: ['{one.place}']}}")
        words = " ".join(map(str, range(_WORDS)))
        (programs / "claude").write_text(_TALK.format(go=go, words=words))
        (programs / "claude").chmod(0o755)
        one.environment["PATH"] = f"{programs}:{os.environ['PATH']}"
        one.submit(store, _TALKERS)
        lags: list[float] = []
        anyio.run(_follow, store, one, go, lags)
        assert len(lags) == _TALKERS * _WORDS
    return statistics.median(lags) * 1000


async def _follow(store: Store, one: Project, go: Path, lags: list[float]) -> None:
    with open_site(store, one.root, Config(), one.environment) as site:
        async with serving(site, slots=_TALKERS) as scheduler, anyio.create_task_group() as group:
            while len(list(_attempts(one, attempt_files.AGENT))) < _TALKERS:
                refuse_ended(store)
                await anyio.sleep(0.1)
            group.start_soon(_read, store, lags)
            go.touch()
            await scheduler.wait_idle()
            while len(lags) < _TALKERS * _WORDS:
                await anyio.sleep(0.05)
            group.cancel_scope.cancel()


async def _read(store: Store, lags: list[float]) -> None:
    """Note for each word when it could be read."""
    after = await run_sync(last_event, store)
    with store.listen("events") as listener:
        while True:
            await anyio.wait_readable(listener)
            listener.wait(0)
            while found := await run_sync(partial(read_events, store, after=after)):
                now, after = time.time(), found[-1].id
                lags += [now - one for event in found for one in _words(event)]


def _words(event: Event) -> list[float]:
    said = event.data.get("events", ()) if event.kind == "progress" else ()
    words = [one["text"] for one in said if one.get("text", "").startswith("word-")]
    return [float(one.removeprefix("word-")) for one in words]
