"""A home that serves its repository, and hosts that have joined it, each with a home directory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from end_to_end.run_project import RunProject
from forked_python import ForkedPython
from wait_until import PATIENCE, wait_until


@dataclass
class WorkerHosts:
    """`weft serve` of a project, and workers elsewhere."""

    project: RunProject
    place: Path
    arguments: tuple[str, ...] = ()
    url: str = ""
    server: subprocess.Popen[str] | None = None
    workers: list[subprocess.Popen[str]] = field(default_factory=list)

    def serve(self) -> None:
        port = self.url.rpartition(":")[2] or "0"
        command = ("serve", "--bind", f"127.0.0.1:{port}", "--json", *self.arguments)
        self.server = self.project.start(*command)
        assert self.server.stdout is not None
        self.url = json.loads(self.server.stdout.readline())["url"]

    def keep_home_busy(self) -> Path:
        """Serve, with the only slot of home taken until the returned file is there."""
        go = self.place / "go"
        wait = f"cat > /dev/null; while [ ! -e {go} ]; do sleep 0.05; done; echo x > src/home"
        self.project.shell("slow", wait)
        plan = self.place / "busy.md"
        plan.write_text("## P\n- [ ] Wait\n  <!-- files: src/home; agent: slow -->\n")
        self.project.commit()
        self.serve()
        self.project.start("run", str(plan))
        wait_until(lambda: self.project.rows("SELECT * FROM attempts"))
        return go

    def join_token(self, *options: str) -> Path:
        done = self.project.weft("token", "create", "hosts", "--join", *options)
        assert done.returncode == 0, done.stderr
        file = self.place / "join"
        file.write_text(done.stdout)
        return file

    def home_of(self, name: str) -> Path:
        return self.place / name

    def start(self, name: str, *options: str, **environment: str) -> subprocess.Popen[str]:
        """Start a worker on a host, from a directory without a repository."""
        home = self.home_of(name)
        home.mkdir(exist_ok=True)
        kept = {
            key: value for key, value in self.project.environment.items() if key != "WEFT_STORE"
        }
        worker = ForkedPython[str](
            [sys.executable, "-m", "weft", "worker", "--server", self.url, "--json", *options],
            cwd=home,
            env={**kept, "HOME": str(home), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.workers.append(worker)
        return worker

    def wait_registered(self, number: int) -> list[str]:
        """Wait until some workers of hosts are there; return the names of their hosts."""

        def hosts() -> list[str]:
            rows = self.project.rows("SELECT * FROM workers WHERE departed IS NULL")
            return [row["host"] for row in rows if not row["gates"]]

        wait_until(lambda: len(hosts()) >= number)
        return hosts()

    def close(self) -> None:
        for process in [*self.workers, *([self.server] if self.server else [])]:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=PATIENCE)


@contextmanager
def open_hosts(place: Path, *arguments: str) -> Iterator[WorkerHosts]:
    """A project whose `weft serve` gets these arguments; close it with its workers."""
    made = WorkerHosts(RunProject(place), place, arguments=arguments)
    try:
        yield made
    finally:
        made.close()
        made.project.close()
