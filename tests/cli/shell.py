"""weft as it is called from a shell, in a project with agents that need no model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from forked_python import ForkedPython, run_forked
from repositories import commit_all, make_repository

TRY = "---\nruns: scripted\ncommands: yes\n---\n{{ task.text }}\n"


def make_project(root: Path, **agents: str) -> Path:
    """A repository with the agent `try`, and others by what their files say."""
    make_repository(root)
    (root / ".weft" / "agents").mkdir(parents=True)
    for name, text in {"try": TRY, **agents}.items():
        (root / ".weft" / "agents" / f"{name}.md").write_text(text)
    commit_all(root, "agents")
    return root


def runs(*command: str) -> str:
    """An agent file for a command line."""
    return f"---\nruns: {json.dumps(command)}\nsandbox: off\n---\n{{{{ task.text }}}}\n"


def weft(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_forked(
        [sys.executable, "-m", "weft", *arguments], cwd=directory, env=_environment(environment)
    )


def answer(directory: Path, *arguments: str, **environment: str) -> Any:
    done = weft(directory, *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_one_sentence(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("weft: ")
    assert "Traceback" not in line
    for word in words:
        assert word in line


@contextmanager
def started(
    directory: Path, *arguments: str, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """A command that goes on beside the test; killed if the test leaves it running."""
    with ForkedPython[str](
        [sys.executable, "-m", "weft", *arguments],
        cwd=directory,
        env=_environment(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)


def wait_line(process: subprocess.Popen[str], words: str) -> str:
    """The next line it prints that holds these words; the test's time limit is ours."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if words in line:
            return line
    raise AssertionError(f"{words!r} was never printed: {seen}, {process.communicate()}")


def _environment(given: dict[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "MAX_CONCURRENT"))}
    return {**kept, **given}


def agents_of(project: Path) -> list[psutil.Process]:
    """Living processes at work in the project's workspaces."""
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(project.with_name(f"{project.name}.weft")):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found
