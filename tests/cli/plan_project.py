"""A project to run plans in: a repository, an agent that does what tasks say, and `weft`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from databases import look
from forked_python import ForkedPython, run_forked
from repositories import commit_all, git, make_repository
from wait_until import PATIENCE
from weft.store import open_store

_TUNING = """
[tuning]
lease = 3.0
heartbeat = 0.2
gone_after = 20.0
drift = 0.1
kill_grace = 0.4
backoff = 0.1
"""


def plan(*tasks: str, phases: str = "parallel") -> str:
    """A plan.md of one phase; each task is `name: file: script line; script line…`."""
    lines = ["# A plan", "", "## Phase 1: All of it", f"<!-- execution: {phases} -->", ""]
    for number, task in enumerate(tasks, 1):
        title, file, script = task.split(":", 2)
        lines += [f"- [ ] Task 1.{number}: {title}", f"  <!-- files: {file.strip()} -->"]
        lines += [f"  - script: {one.strip()}" for one in script.split(";")]
    return "\n".join([*lines, "", "The end.", ""])


class Project:
    def __init__(self, root: Path, url: str) -> None:
        self.root = make_repository(root)
        self.url = url
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "MAX_CONC"))},
            "WEFT_STORE": url,
            "WEFT_SCRIPTED_STATE": str(root.parent / "sessions"),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        self.settings("")
        self.agent("implement")
        open_store(url).close()  # so that others can look at it from the start

    def settings(self, text: str) -> None:
        (self.root / "weft.toml").write_text(_TUNING + text)

    def agent(self, name: str, runs: str = "scripted", front: str = "") -> None:
        """An agent whose prompt is its task's text, word for word."""
        place = self.root / ".weft" / "agents"
        place.mkdir(parents=True, exist_ok=True)
        commands = "commands: yes\n" if runs == "scripted" else ""
        # Commands of these tests meet outside of their workspace.
        box = "" if runs == "scripted" or "sandbox" in front else "sandbox: off\n"
        text = f"---\nruns: {runs}\n{commands}{box}{front}---\n{{{{ task.text }}}}\n"
        (place / f"{name}.md").write_text(text)

    def write(self, text: str, name: str = "plan.md") -> Path:
        """A plan file, and everything committed."""
        path = self.root / name
        path.write_text(text)
        commit_all(self.root, "plan")
        return path

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "weft", *arguments]

    def weft(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return run_forked(
            self.command(*arguments),
            cwd=self.root,
            env={**self.environment, **environment},
            timeout=PATIENCE,
        )

    def answer(self, *arguments: str) -> Any:
        done = self.weft(*arguments)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A weft that goes on beside the test."""
        return ForkedPython[bytes](
            self.command(*arguments),
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def rows(self, question: str, *parameters: object) -> list[dict[str, Any]]:
        return look(self.url, question, *parameters)

    def states(self) -> dict[str, str]:
        return {one["name"]: one["state"] for one in self.rows("SELECT name, state FROM tasks")}

    def run_id(self) -> str:
        [row] = self.rows("SELECT id FROM runs")
        return str(row["id"])

    def content(self, path: str, branch: str | None = None) -> str:
        return git(self.root, "show", f"{branch or f'weft/{self.run_id()}'}:{path}")

    def refs(self) -> str:
        return git(self.root, "for-each-ref")


def without_marks(text: str) -> str:
    """A plan as it was before a run put its marks in: boxes, commits, notes and checkpoints."""
    text = re.sub(r"^(\s*- )\[.\]", r"\1[ ]", text, flags=re.MULTILINE)
    return re.sub(
        r" ([0-9a-f]{9}|\[checkpoint: [0-9a-f]{9}\]|\[BLOCKED: [^\n]*\])$",
        "",
        text,
        flags=re.MULTILINE,
    )
