"""`weft worker`: does what is in the store, goes on after a crash, and leaves in good order."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cli.shell import make_project, started, wait_line
from databases import look
from repositories import content, git
from wait_until import wait_until
from weft.cli.worker import WorkerLog
from weft.errors import StoreError
from weft.model import NewTask
from weft.operations import single_task
from weft.project.project import get_project
from weft.store import open_store
from weft.store.remote_store import RemoteStore
from weft.store.server_client import Server
from weft.store.tasks import submit


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def hand_in(root: Path, url: str, *scripts: str) -> list[int]:
    """Tasks whose files do not meet, so that all can run at once."""
    found = get_project(root, {"WEFT_STORE": url, "PATH": "/usr/bin:/bin"})
    with found.open_store() as store:
        return [
            single_task.submit_task(
                found, store, single_task.check(found, text, files=[f"file{n}"], agent="try")
            )
            for n, text in enumerate(scripts)
        ]


def told(process: subprocess.Popen[str], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(wait_line(process, f'"{kind}"'))
    return found


def states(url: str) -> list[str]:
    return [str(row["state"]) for row in look(url, "SELECT state FROM tasks ORDER BY id")]


def test_a_worker_does_what_is_there_and_leaves_with_0(root: Path, url: str) -> None:
    tasks = hand_in(root, url, "One\nscript: write file0 a", "Two\nscript: write file1 b")
    with started(root, "worker", "--slots", "2", "--json", WEFT_STORE=url) as process:
        assert {told(process, "task_admitted")["task"] for _ in tasks} <= set(tasks)
        ended = told(process, "attempt_finished")
        assert (ended["outcome"], ended["state"]) == ("success", "done")
        wait_until(lambda: states(url) == ["done", "done"])
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    one, two = git(root, "for-each-ref", "--format=%(refname)", "refs/weft/work").split()
    assert (content(root, one, "file0"), content(root, two, "file1")) == ("a\n", "b\n")
    assert look(url, "SELECT * FROM workers WHERE departed IS NULL") == []


def test_after_a_crash_a_worker_goes_on_with_what_still_runs(root: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'weft.db'}"
    hand_in(root, url, "One\nscript: say before\nscript: sleep 1\nscript: write file0 a")
    with started(root, "worker", "--json", WEFT_STORE=url) as first:
        told(first, "task_admitted")
        wait_until(lambda: look(url, "SELECT * FROM events WHERE kind = 'progress'"))
        first.kill()
        first.wait()
    with started(root, "worker", "--json", WEFT_STORE=url) as second:
        told(second, "attempt_adopted")
        assert told(second, "attempt_finished")["state"] == "done"
        second.send_signal(signal.SIGINT)
        assert second.wait() == 0
    assert len(look(url, "SELECT * FROM attempts")) == 1


def test_a_worker_that_is_stopped_hands_its_tasks_back(root: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'weft.db'}"
    hand_in(root, url, "One\nscript: hang")
    with started(root, "worker", "--json", WEFT_STORE=url, SHUTDOWN_TIMEOUT="0") as process:
        told(process, "task_admitted")
        process.send_signal(signal.SIGTERM)
        assert told(process, "attempt_released")["task"] == 1
        assert process.wait() == 0
    assert states(url) == ["ready"]
    assert look(url, "SELECT * FROM leases WHERE state <> 'released'") == []


def test_a_worker_does_no_task_of_another_repository(root: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'weft.db'}"
    with open_store(url) as store:
        task = NewTask(name="elsewhere", text="script: write x x", files=("x",), agent="try")
        submit(store, task, repo="/somewhere/else/.git", now=1)
    hand_in(root, url, "One\nscript: write file0 a")
    with started(root, "worker", "--json", WEFT_STORE=url) as process:
        assert told(process, "attempt_finished")["task"] == 2
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    assert states(url) == ["ready", "done"]


def test_an_idle_worker_ends_although_its_server_is_gone() -> None:
    """Without --exit-when-idle, or before that time, the error goes on to be logged."""
    with RemoteStore(Server(url="http://127.0.0.1:9", token="gone")) as store:
        assert WorkerLog(store, after=0, as_json=False, idle=0.0).look()
        for idle in (None, 60.0):
            with pytest.raises(StoreError):
                WorkerLog(store, after=0, as_json=False, idle=idle).look()
