"""Real servers for tests, and the command line that speaks to them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.plan_project import Project
from forked_python import ForkedPython, run_forked
from weft.store import open_store
from weft.store.tokens import create_token


@dataclass
class Served:
    """A project, the server that has it, and commands from a directory that knows neither."""

    project: Project
    process: subprocess.Popen[str]
    port: int
    token: str
    elsewhere: Path  # no repository

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        known = self.project.environment
        kept = {name: value for name, value in known.items() if not name.startswith("WEFT_")}
        return {**kept, "WEFT_TOKEN": self.token}

    def here(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command beside the store."""
        return self.project.weft(*arguments)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "weft", "--server", self.url, *arguments]

    def weft(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """A command over the server."""
        return run_forked(
            self.command(*arguments), cwd=self.elsewhere, env={**self.environment, **environment}
        )

    def answer(self, *arguments: str) -> Any:
        done = self.weft(*arguments)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        with ForkedPython[str](
            self.command(*arguments),
            cwd=self.elsewhere,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def start_again(self) -> None:
        self.process, self.port = _start(self.project, self.port)


def make_token(url: str, *scopes: str, tenant: str | None = None) -> str:
    with open_store(url) as store:
        now = time.time()
        _, text = create_token(store, name="a test", scopes=scopes, tenant=tenant, now=now)
    return text


@contextmanager
def served(project: Project) -> Iterator[Served]:
    process, port = _start(project, 0)
    token = make_token(project.url, "admin")
    with tempfile.TemporaryDirectory() as elsewhere:
        found = Served(project, process, port, token, Path(elsewhere).resolve())
        try:
            yield found
        finally:
            found.stop()


def _start(project: Project, port: int) -> tuple[subprocess.Popen[str], int]:
    process = ForkedPython[str](
        project.command("serve", "--no-work", "--json", "--bind", f"127.0.0.1:{port}"),
        cwd=project.root,
        env=project.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    url = str(json.loads(process.stdout.readline())["url"])
    return process, int(url.rpartition(":")[2])
