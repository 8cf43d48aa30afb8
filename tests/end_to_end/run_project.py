"""Where whole runs are tried: a project, a store, and `weft` as processes of their own.

What came out of a run is judged from outside: by git, by the rows of the database and by the
process table, and not by what weft says of itself.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from databases import look, sqlite_store
from forked_python import ForkedPython
from repositories import commit_all, git, listing
from user_state import walk
from wait_until import PATIENCE
from weft.process.process_table import MARK
from weft.store import open_store
from weft.workspace.workspace_records import WorkspacePhase, WorkspacePool, try_lock

TUNING = {
    "lease": 3.0,
    "heartbeat": 0.2,
    "gone_after": 20.0,
    "drift": 0.1,
    "kill_grace": 0.4,
    "backoff": 0.1,
}
SCRIPTED = "---\nruns: scripted\ncommands: yes\n---\n{{ task.text }}\n"
TESTED = "! grep -rqs BROKEN src"
"""A check: nothing under src may be broken."""


class RunProject:
    def __init__(self, place: Path, url: str | None = None) -> None:
        self.root = place / "project"
        self.url = url or sqlite_store(place / "store" / "weft.db")
        self.plan = self.root / "plan.md"
        self.environment = {
            **{
                key: value
                for key, value in os.environ.items()
                if not key.startswith(("WEFT_", "PYTHONDONT"))
            },
            "HOME": str(place),
            "WEFT_STORE": self.url,
            "WEFT_SCRIPTED_STATE": str(place / "sessions"),
        }
        self._processes: list[subprocess.Popen[str]] = []
        self.root.mkdir(parents=True)
        git(self.root, "init", "-q", "-b", "main")
        self.write(**{"src/README": "sources\n", ".gitignore": "plan.md\nprd.json\n"})
        self.settings()
        self.agent("implement")
        commit_all(self.root, "first")
        open_store(self.url).close()  # so that observers can look from the start

    def settings(self, check: str | None = TESTED, rest: str = "", **tuning: float) -> None:
        numbers = "".join(f"{key} = {value}\n" for key, value in {**TUNING, **tuning}.items())
        gate = "" if check is None else f"[gate]\nrun = {json.dumps(check)}\n"
        if str(self.root.parent) in f"{check}{rest}":  # it meets others outside of its workspace
            gate = (gate or "[gate]\n") + 'sandbox = "off"\n'
        self.write(**{"weft.toml": f"[tuning]\n{numbers}{gate}{rest}"})

    def agent(self, name: str, front: str = "", text: str = "{{ task.text }}") -> None:
        """A scripted agent whose prompt is its task's text, word for word."""
        settings = f"runs: scripted\ncommands: yes\n{front}"
        self.write(**{f".weft/agents/{name}.md": f"---\n{settings}---\n{text}\n"})

    def shell(self, name: str, commands: str) -> None:
        """An agent that is a shell script, whatever its prompt says."""
        argv = json.dumps(["sh", "-c", commands])
        self.write(**{f".weft/agents/{name}.md": f"---\nruns: {argv}\nsandbox: off\n---\n"})

    def write(self, **files: str) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def commit(self) -> None:
        commit_all(self.root, "set up")

    def weft(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=PATIENCE * 2)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        process = ForkedPython[str](
            [sys.executable, "-m", "weft", *arguments],
            cwd=self.root,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        return process

    def run(self, *arguments: str, code: int = 0, **environment: str) -> dict[str, Any]:
        """`weft run --json` to its end; what it answered."""
        done = self.weft("run", *arguments, "--json", **environment)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def rows(self, question: str, *parameters: object) -> list[dict[str, Any]]:
        return look(self.url, question, *parameters)

    def run_id(self) -> str:
        [row] = self.rows("SELECT id FROM runs")
        return str(row["id"])

    def states(self) -> dict[str, str]:
        return {str(row["name"]): str(row["state"]) for row in self.rows("SELECT * FROM tasks")}

    def outcomes(self, name: str) -> list[str | None]:
        rows = self.rows(
            "SELECT a.outcome FROM attempts a JOIN tasks t ON t.id = a.task WHERE t.name = ?"
            " ORDER BY a.number",
            name,
        )
        return [row["outcome"] for row in rows]

    def reason(self, name: str) -> str:
        [row] = self.rows("SELECT reason FROM tasks WHERE name = ?", name)
        return str(row["reason"])

    def spans(self, *names: str) -> list[tuple[float, float]]:
        """When the last attempt of each task ran."""
        found = []
        for name in names:
            rows = self.rows(
                "SELECT a.started, a.ended FROM attempts a JOIN tasks t ON t.id = a.task"
                " WHERE t.name = ? ORDER BY a.number",
                name,
            )
            found.append((float(rows[-1]["started"]), float(rows[-1]["ended"])))
        return found

    def events(self, kind: str) -> list[dict[str, Any]]:
        rows = self.rows("SELECT * FROM events WHERE kind = ? ORDER BY id", kind)
        return [{**row, "data": json.loads(row["data"])} for row in rows]

    def trunk(self) -> str:
        return git(self.root, "rev-parse", f"weft/{self.run_id()}").strip()

    def tree(self) -> str:
        """What landed, whoever did it in which order."""
        return git(self.root, "rev-parse", f"weft/{self.run_id()}^{{tree}}").strip()

    def tree_listing(self) -> list[str]:
        return listing(self.root, f"weft/{self.run_id()}")

    def landed(self, path: str) -> str:
        return git(self.root, "show", f"weft/{self.run_id()}:{path}")

    @functools.cached_property
    def identity(self) -> str:
        [row] = self.rows("SELECT identity FROM store")
        return str(row["identity"])

    def marked(self) -> dict[int, str]:
        """Living processes of attempts and checks by pid: `task.attempt` or `check.fence`."""
        prefix = f"{MARK}={self.identity}."
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

    def kill(self, process: subprocess.Popen[str], *, whole: bool = False) -> None:
        """kill -9: of the process alone, or also of all that it and its attempts started."""
        others = psutil.Process(process.pid).children(recursive=True) if whole else []
        process.kill()
        for other in others:
            with contextlib.suppress(psutil.Error):
                other.kill()
        if whole:
            for pid in self.marked():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        process.communicate()

    def assert_landed_once(self, *names: str) -> None:
        """Assert that all tasks are done, that exactly `names` landed, and each once."""
        assert names, "name the tasks that must have landed"
        states = self.states()
        assert set(states.values()) <= {"done"}, states
        proof = self.weft("verify", self.run_id())
        assert proof.returncode == 0, (proof.stdout, proof.stderr)
        told = git(
            self.root,
            "log",
            "--format=%(trailers:key=Weft-Task,valueonly,separator=%x2C)",
            f"main..weft/{self.run_id()}",
        )
        landed = [one for line in told.split() for one in line.split(",")]
        assert sorted(landed) == sorted(names)

    def assert_nothing_left(self) -> None:
        """No process, lease, worker, lock, check, or workspace that is used or holds work.

        A run that waits for a person keeps the lease that is its own.
        """
        assert self.marked() == {}
        held = self.rows("SELECT * FROM leases WHERE state <> 'released' AND kind <> 'run'")
        assert held == []
        assert self.rows("SELECT * FROM workers WHERE departed IS NULL") == []
        assert self.rows("SELECT * FROM claims") == []
        common = self.root / ".git"
        for slot, record in WorkspacePool(common=common).registered():
            assert record.phase is not WorkspacePhase.READY, record
            lock = try_lock(slot)
            assert lock is not None, record
            lock.close()
        assert list(common.glob("weft/checks/*/*")) == []
        assert list(common.rglob("*.lock")) == []
        assert git(self.root, "fsck", "--no-dangling", "--no-progress") == ""

    @contextlib.contextmanager
    def untouched(self) -> Iterator[None]:
        """The user's checkout, index, stash, branches and settings stay as they are."""
        before = walk(self.root)
        yield
        after = walk(self.root)
        changed = {one for one in {*before, *after} if before.get(one) != after.get(one)}
        assert changed == set()

    def stop(self, process: subprocess.Popen[str]) -> int:
        """Ask a process to end, as a person would; returns its exit code."""
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        return process.returncode

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            if process.stdout is not None and not process.stdout.closed:
                process.communicate()
        with contextlib.suppress(Exception):
            for pid in self.marked():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def overlap(spans: Sequence[tuple[float, float]]) -> bool:
    """Whether all of these were under way at one moment."""
    return max(begin for begin, _ in spans) < min(end for _, end in spans)
