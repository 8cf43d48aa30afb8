"""A run whose candidates are commits that a test makes, and gates in this and other processes."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio.to_thread import run_sync
from msgspec.structs import replace

from wait_until import PATIENCE, wait_until
from weft import git
from weft.config import BoxKind, Config, GateSettings, RunSettings, Tuning
from weft.errors import NotFound, Refused
from weft.gate.gate_loop import Gate
from weft.gate.proof import verify
from weft.model import Event, NewRun, NewTask, NewWorker, Outcome, State
from weft.process import process_table
from weft.project.own_repository import get_repository
from weft.project.site import Site
from weft.store import Store
from weft.store.admission import admit_task
from weft.store.attempt_end import finish
from weft.store.event_log import read_events
from weft.store.gate import read_gate
from weft.store.leases import list_open
from weft.store.runs import change_settings, get_run, submit_run
from weft.store.tasks import get_task
from weft.store.workers import register
from weft.worker.engine import open_site
from weft.workspace.names import trunk_ref
from weft.workspace.workspace_records import WorkspacePhase, WorkspacePool

RUN = "r1"
WORKER = "w"
NOBODY_BROKEN = ("sh", "-c", "! grep -rn broken src")
HASTY = Tuning(lease=1.5, heartbeat=0.2, gone_after=20, drift=0.5, kill_grace=0.5)
"""Numbers for tests in which processes die."""
IDENTITY = {
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def run_git(root: Path, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=root,
        env={**os.environ, **IDENTITY},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout.strip()


def make_repository(root: Path, files: Mapping[str, str]) -> str:
    root.mkdir(parents=True, exist_ok=True)
    run_git(root, "init", "-q", "-b", "main", ".")
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "first")
    return run_git(root, "rev-parse", "HEAD")


def make_project(root: Path) -> Path:
    """A repository with one file per letter, as tasks change them."""
    make_repository(
        root, {"README": "hello\n", **{f"src/{one}": f"{one} = 1\n" for one in "abcdef"}}
    )
    return root


def candidate(
    root: Path, base: str, files: Mapping[str, str | None], message: str, *, ref: str = ""
) -> str:
    """A commit on a base, with files changed or, if None, removed. No checkout is touched."""
    ref = ref or f"refs/weft/work/test/{abs(hash((base, message, str(files))))}/1"
    lines = [f"commit {ref}\ncommitter Ann <ann@example.org> 1700000000 +0000\n"]
    lines.append(f"data {len(message.encode())}\n{message}\nfrom {base}\n")
    for name, text in files.items():
        if text is None:
            lines.append(f"D {name}\n")
        else:
            lines.append(f"M 100644 inline {name}\ndata {len(text.encode())}\n{text}\n")
    run_git(root, "fast-import", "--quiet", "--force", stdin="".join(lines))
    return run_git(root, "rev-parse", ref)


@dataclass
class Stage:
    """A run on a repository, and what was brought to its gate."""

    store: Store
    root: Path
    run: str = RUN
    base: str = ""
    numbers: dict[str, int] = field(default_factory=dict)

    def submit(self, tasks: Sequence[NewTask]) -> None:
        register(self.store, NewWorker(id=WORKER, slots=500, host="h"), now=0, stated={})
        self.base = git.get_commit(self.root, "main").id
        repo = get_repository(self.root, self.store)
        limits = {"agents": 500, "implement": 500}
        run = NewRun(id=self.run, repo=repo, base=self.base, branch="main", limits=limits)
        self.numbers = submit_run(self.store, run, tasks, now=0)

    def fix(self, settings: RunSettings) -> None:
        """Give the run its settings, as submitting a plan does."""
        with suppress(NotFound, Refused):  # nothing was submitted yet, or it has ended
            change_settings(self.store, self.run, settings, [], now=time.time())

    def build(self, name: str, files: Mapping[str, str | None], *, base: str = "") -> str:
        return candidate(self.root, base or self.base, files, f"Change {name}")

    def offer(self, name: str, commit: str, *, base: str = "") -> None:
        """Let a task's attempt end with this commit."""
        [grant] = admit_task(self.store, WORKER, self.numbers[name], now=time.time())
        done = Outcome(state=State.GATING, candidate=commit, base=base or self.base)
        finish(self.store, grant.fence, done, now=time.time())

    def bring(self, name: str, files: Mapping[str, str | None], *, base: str = "") -> str:
        made = self.build(name, files, base=base)
        self.offer(name, made, base=base)
        return made

    def state(self, name: str) -> str:
        return get_task(self.store, self.numbers[name]).state.value

    def states(self) -> dict[str, str]:
        return {name: self.state(name) for name in self.numbers}

    def are(self, **wanted: str) -> bool:
        return all(self.state(name) == state for name, state in wanted.items())

    @property
    def trunk(self) -> str:
        found = git.find_ref(self.root, trunk_ref(self.run))
        assert found is not None
        return found

    def log(self) -> list[str]:
        """The subjects of what landed, first to last."""
        told = run_git(self.root, "log", "--reverse", "--format=%s", f"{self.base}..{self.trunk}")
        return told.splitlines()

    def show(self, path: str) -> str:
        return run_git(self.root, "show", f"{self.trunk}:{path}")

    def events(self, kind: str) -> list[Event]:
        return [one for one in read_events(self.store, most=100_000) if one.kind == kind]

    def reason(self, name: str) -> str:
        """What the next attempt of a task is told."""
        told = [e for e in self.events("task_sent_back") if e.task == self.numbers[name]]
        return str(told[-1].data["reason"]) if told else ""

    def others(self, name: str) -> list[str]:
        """With which tasks a rejected one was found not to go together."""
        told = [
            e for e in self.events("entry_rejected") if _task(e.data["entry"]) == self.numbers[name]
        ]
        names = {number: one for one, number in self.numbers.items()}
        return [names[_task(one)] for one in told[-1].data["others"]]

    def check_runs(self) -> int:
        """How many checks really ran."""
        return sum(one.seconds > 0 for one in read_gate(self.store, self.run).verdicts)

    def phases(self) -> set[WorkspacePhase]:
        """What its workspaces are used for."""
        pool = WorkspacePool(common=git.common_directory(self.root))
        return {record.phase for _, record in pool.registered()}

    def is_tidy(self) -> bool:
        """Whether what the dead left is cleaned up by those who live."""
        checks = [one for one in list_open(self.store) if one.kind == "check"]
        return not checks and self.phases() <= {WorkspacePhase.FREE}

    def judge(self) -> None:
        """What must be so whenever a gate was left: nothing is left behind, and trunk is proved."""
        proof = verify(self.store, self.root, self.run)
        assert proof.problems == ()
        subjects = self.log()
        assert len(subjects) == len(set(subjects)), "something landed twice"
        assert [one for one in list_open(self.store) if one.kind != "run"] == []
        assert self.phases() <= {WorkspacePhase.FREE}
        pool = WorkspacePool(common=git.common_directory(self.root))
        assert git.list_refs(self.root, "refs/weft/work/r1/%check") == {}
        assert list(pool.common.glob("weft/checks/*/*")) == []
        assert run_git(self.root, "status", "--porcelain") == ""
        assert run_git(self.root, "rev-parse", "main") == self.base
        assert marked_processes(self.store) == []


def _task(entry: str) -> int:
    return int(entry.partition(".")[0])


def marked_processes(store: Store) -> list[int]:
    """Every living process of a check of this store."""
    from weft.store.limit_table import identity

    start = f"{identity(store)}.check."
    pids = [seen.process.pid for seen in process_table.list_living()]
    return [pid for pid in pids if (process_table.find_mark(pid) or "").startswith(start)]


def task(name: str, *files: str, **fields: Any) -> NewTask:
    return NewTask(name=name, files=files or (f"src/{name}",), demand={"worker:@": 1}, **fields)


def settings(**gate: Any) -> GateSettings:
    """Return settings of [gate]; many checks of these tests write outside of their workspace."""
    return replace(GateSettings(slots=2, run=NOBODY_BROKEN, sandbox=BoxKind.OFF), **gate)


@contextmanager
def gate_site(stage: Stage, **given: Any) -> Iterator[Site]:
    """Where gates work; `workspace`, `environment` and what `[gate]` says may be given."""
    environment = given.pop("environment", dict(os.environ))
    rest = {name: given.pop(name) for name in ("workspace",) if name in given}
    config = Config(gate=settings(**given), tuning=stage.store.tuning, **rest)
    stage.fix(RunSettings(gate=config.gate, workspace=config.workspace))
    with open_site(stage.store, stage.root, config, environment) as site:
        yield site


def drive(
    stage: Stage,
    until: Callable[[], bool],
    *,
    site: Site | None = None,
    at: Callable[[str], None] | None = None,
    seconds: float = PATIENCE,
    **given: Any,
) -> None:
    """Hold the gate in this process until something is so."""

    async def main(site: Site) -> None:
        gate = Gate(site, WORKER, stage.run, **({"at": at} if at else {}))
        with site.store.listen("work") as listener, anyio.fail_after(seconds):
            async with anyio.create_task_group() as group:
                group.start_soon(gate.serve, listener)
                while not (met := await run_sync(until)):
                    blocked = get_run(stage.store, stage.run).blocked
                    if blocked and not (met := await run_sync(until)):
                        break
                    await anyio.sleep(0.02)
                group.cancel_scope.cancel()
        assert met, blocked

    if site is not None:
        anyio.run(main, site)
    else:
        with gate_site(stage, **given) as made:
            anyio.run(main, made)


class GateProcesses:
    """Gates in processes of their own, forked from one that has imported everything."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._program = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("gate_program.py"))],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "TMPDIR": str(home),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._pids: list[int] = []

    def start(self, stage: Stage, **spec: Any) -> Member:
        """`point` and `action` (kill or stop): where and how it comes to grief."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        note = self._home / f"note{len(self._pids)}"
        for run in spec.get("runs", [stage.run]):
            fixed = RunSettings(
                gate=GateSettings(**{"sandbox": BoxKind.OFF, **spec.get("gate", {})})
            )
            dataclasses.replace(stage, run=run).fix(fixed)
        order = {
            "store": stage.store.url,
            "root": str(stage.root),
            "tuning": msgspec.structs.asdict(stage.store.tuning),
            "runs": [stage.run],
            "note": str(note),
            "gate": {},
            **spec,
        }
        self._program.stdin.write(json.dumps(order) + "\n")
        self._program.stdin.flush()
        pid = int(self._program.stdout.readline())
        self._pids.append(pid)
        return Member(pid, note)

    def close(self) -> None:
        for pid in self._pids:
            _signal(pid, signal.SIGKILL)
        self._program.communicate()


@dataclass(frozen=True)
class Member:
    pid: int
    note: Path

    @property
    def is_alive(self) -> bool:
        return _signal(self.pid, 0)

    def kill(self) -> None:
        _signal(self.pid, signal.SIGKILL)
        wait_until(lambda: not self.is_alive)

    def wait_for_grief(self) -> None:
        """Until it was killed, or stopped, where it was to be."""
        wait_until(lambda: self.note.exists() and self.note.read_text() != "left")
        if self.note.read_text() == "kill":
            wait_until(lambda: not self.is_alive)
        else:
            wait_until(lambda: _status(self.pid) == "T")

    def suspend(self) -> None:
        _signal(self.pid, signal.SIGSTOP)
        wait_until(lambda: _status(self.pid) == "T")

    def go_on(self) -> None:
        _signal(self.pid, signal.SIGCONT)

    def leave(self) -> None:
        leave(self)


def leave(*members: Member) -> None:
    """Ask them to end as a person would, and see that they do so in order."""
    for one in members:
        wait_until(one.note.with_suffix(".up").exists)
        _signal(one.pid, signal.SIGTERM)
    for one in members:
        wait_until(lambda: not one.is_alive)  # noqa: B023 - called at once
        assert one.note.read_text() == "left"


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _status(pid: int) -> str:
    text = Path(f"/proc/{pid}/stat").read_text()
    return text.rpartition(")")[2].split()[0]
