"""Where attempts are tried: a repository with agents, a store, engines here and in processes.

The observer goes by a token on the agents' command lines and by rows of the database.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import anyio
import psutil
import pytest

from databases import look, sqlite_store
from forked_python import ForkedPython
from repositories import git, make_repository
from store_helpers import url
from wait_until import PATIENCE
from weft import config
from weft.admission.capacity import attempt_demand
from weft.model import Attempt, Class, Event, NewTask, State, Task, TaskRequest
from weft.process.process_table import MARK
from weft.project.own_repository import get_repository
from weft.project.site import Site
from weft.store import Store, open_store
from weft.store.event_log import history
from weft.store.limit_table import identity
from weft.store.tasks import get_task, list_attempts, submit
from weft.worker.engine import open_site, serving
from weft.worker.scheduler import Scheduler
from weft.workspace.workspace_records import Record, Slot, WorkspacePhase, WorkspacePool, try_lock

__all__ = ["AttemptProject", "either", "project", "url"]

ENGINE = Path(__file__).with_name("engine_program.py")
SETTLED = frozenset({*State} - {State.WAITING, State.READY, State.RUNNING, State.PARKED})
TUNING = {
    "lease": 15.0,
    "heartbeat": 0.2,
    "gone_after": 20.0,
    "drift": 0.1,
    "kill_grace": 0.4,
    "backoff": 0.1,
}


class AttemptProject:
    def __init__(self, root: Path, url: str) -> None:
        self.root = make_repository(root)
        self.url = url
        self.token = f"weft-test-{uuid.uuid4().hex}"
        self.environment: dict[str, str] = {
            "PATH": os.environ["PATH"],
            "HOME": str(root.parent),
            "WEFT_SCRIPTED_STATE": str(root.parent / "sessions"),
        }
        self.tune()
        self.agent()
        self.store: Store = open_store(url, tuning=self.config.tuning)
        self._engines: list[subprocess.Popen[bytes]] = []

    def tune(self, rest: str = "", **tuning: float) -> None:
        numbers = "".join(f"{key} = {value}\n" for key, value in {**TUNING, **tuning}.items())
        (self.root / "weft.toml").write_text(f"[tuning]\n{numbers}{rest}")
        self.config = config.load(self.root, {})

    def agent(self, name: str = "scripted", front: str = "", runs: str = "scripted") -> None:
        """An agent whose prompt is its task's text, word for word."""
        place = self.root / ".weft" / "agents"
        place.mkdir(parents=True, exist_ok=True)
        arguments = f"commands: yes\nargs: [{self.token}]\n" if runs == "scripted" else ""
        # Most agents of these tests meet outside of their workspace; boxes have tests of their own.
        box = "" if "sandbox" in front else "sandbox: off\n"
        text = f"---\nruns: {runs}\n{arguments}{box}{front}---\n{{{{ task.text }}}}\n"
        beside = place / ".beside"
        beside.write_text(text)
        beside.rename(place / f"{name}.md")

    def shell(self, name: str, commands: str, front: str = "") -> None:
        """An agent that is a shell script, whatever its prompt says."""
        script = self.root.parent / f"{name}.sh"
        script.write_text(commands)
        self.agent(name, front, runs=f"[sh, {script}, {self.token}]")

    def submit(
        self,
        *script: str,
        files: Sequence[str] = ("**",),
        agent: str = "scripted",
        demand: Mapping[str, int] | None = None,
        request: TaskRequest = TaskRequest(),  # noqa: B008 - frozen
        provider: str | None = None,
        text: str | None = None,
        stage: str = "implement",
    ) -> int:
        ordinary = attempt_demand(run=None, stage=None, agent=agent, provider=provider)
        task = NewTask(
            name="",
            text=text if text is not None else "\n".join(f"script: {line}" for line in script),
            files=tuple(files),
            demand={**ordinary, **(demand or {})},
            request=request,
            klass=Class.STANDARD,
            agent=agent,
            stage=stage,
        )
        return submit(self.store, task, repo=get_repository(self.root, self.store), now=time.time())

    def serve(
        self,
        until: Callable[[], object] | None = None,
        *,
        slots: int = 4,
        seconds: float = PATIENCE,
        during: Callable[[Scheduler], None] | None = None,
    ) -> None:
        """Run an engine in this process until all is settled, or only until that is true."""

        async def main() -> None:
            with self.site() as site:
                async with serving(site, slots=slots) as scheduler:
                    with anyio.fail_after(seconds):
                        while not (until or self.is_settled)():
                            if during is not None:
                                during(scheduler)
                            await anyio.sleep(0.02)
                    if until is not None:
                        await scheduler.stop_all()

        anyio.run(main)

    @contextlib.contextmanager
    def site(self) -> Iterator[Site]:
        with open_site(self.store, self.root, self.config, self.environment) as site:
            yield site

    def engine(
        self, *, slots: int = 4, build: str = "", **environment: str
    ) -> subprocess.Popen[bytes]:
        """An engine in a process of its own, which works until it is asked to stop."""
        program = ForkedPython[bytes](
            [sys.executable, str(ENGINE), str(self.root), self.url, str(slots), build],
            env={
                **self.environment,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "SHUTDOWN_TIMEOUT": "0",
                **environment,
            },
        )
        self._engines.append(program)
        return program

    def is_settled(self) -> bool:
        states = look(self.url, "SELECT state FROM tasks")
        return all(State(row["state"]) in SETTLED for row in states)

    def retune(self, **tuning: float) -> None:
        """Other times for whoever serves from now on."""
        self.tune("", **tuning)
        self.store.tuning = self.config.tuning

    def task(self, number: int) -> Task:
        return get_task(self.store, number)

    def state(self, number: int) -> State:
        return self.task(number).state

    def attempts(self, number: int) -> list[Attempt]:
        return list_attempts(self.store, number)

    def outcomes(self, number: int) -> list[str | None]:
        return [one.outcome for one in self.attempts(number)]

    def events(self, number: int, kind: str) -> list[Event]:
        return [one for one in history(self.store, number) if one.kind == kind]

    def said(self, number: int) -> list[str]:
        """The messages of its agents, in the order in which the store got them."""
        return [
            said["text"]
            for event in self.events(number, "progress")
            for said in event.data.get("events", ())
            if said["type"] == "text"
        ]

    def directory(self, number: int, attempt: int = 1) -> Path:
        place = self.root / ".git" / "weft" / "attempts" / identity(self.store)[:12]
        return place / f"{number}.{attempt}"

    def content(self, number: int, path: str) -> str:
        """A file as the last attempt left it."""
        return git(self.root, "show", f"{self.attempts(number)[-1].candidate}:{path}")

    def living(self) -> list[psutil.Process]:
        """Agents and what they started, as far as they show the token."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                shown = self.token in process.cmdline()
                if shown and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def marked(self) -> dict[int, str]:
        """Living processes of attempts by pid, with `task.attempt`."""
        prefix = f"{MARK}={identity(self.store)}."
        found = {}
        for name in os.listdir("/proc"):
            if not name.isdecimal():
                continue
            with contextlib.suppress(OSError):
                variables = Path("/proc", name, "environ").read_bytes().decode(errors="replace")
                for one in variables.split("\0"):
                    if one.startswith(prefix):
                        found[int(name)] = one.removeprefix(prefix)
        return found

    def is_clean(self) -> bool:
        """Whether the reaper has seen to all that the dead left."""
        handed = [record for _, record in self._slots() if record.phase is WorkspacePhase.READY]
        return not handed and not look(
            self.url, "SELECT * FROM leases WHERE state <> 'released' AND kind = 'attempt'"
        )

    def _slots(self) -> list[tuple[Slot, Record]]:
        return WorkspacePool(common=self.root / ".git").registered()

    def assert_nothing_left(self) -> None:
        """No process, no lease, no workspace that is used or holds something, no worker."""
        assert self.living() == []
        assert self.marked() == {}
        assert look(self.url, "SELECT * FROM leases WHERE state <> 'released'") == []
        for slot, record in self._slots():
            assert record.phase is not WorkspacePhase.READY, record
            lock = try_lock(slot)
            assert lock is not None
            lock.close()

    def assert_candidate_once(self, number: int) -> None:
        """One commit of this task is on its branch, and it is what the store says."""
        [done] = [one for one in self.attempts(number) if one.outcome == "success"]
        name = self.task(number).name
        branches = git(
            self.root, "for-each-ref", "--format=%(objectname)", f"refs/weft/work/do/{name}/"
        ).split()
        assert branches.count(str(done.candidate)) == 1
        made = git(self.root, "log", "--all", "--format=%H", f"--grep=^Weft-Task: {name}$")
        assert made.split().count(str(done.candidate)) == 1
        assert git(self.root, "rev-parse", f"{done.candidate}^").strip() == done.base

    def close(self) -> None:
        for program in self._engines:
            if program.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    program.send_signal(signal.SIGCONT)
                program.kill()
            program.wait()
        for process in self.living():
            with contextlib.suppress(psutil.Error):
                process.kill()
        self.store.close()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[AttemptProject]:
    """On SQLite."""
    made = AttemptProject(tmp_path / "project", sqlite_store(tmp_path / "store" / "weft.db"))
    yield made
    made.close()


@pytest.fixture
def either(tmp_path: Path, url: str) -> Iterator[AttemptProject]:
    """On each kind of store in turn."""
    made = AttemptProject(tmp_path / "project", url)
    yield made
    made.close()
