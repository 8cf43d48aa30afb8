"""Plan marks, issues, notifications and `--into`, carried by workers that die or are two."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from beads_issues import Issues
from cli.plan_project import Project, plan
from databases import change, sqlite_store
from repositories import git
from stopped_process import stop_harmlessly
from wait_until import PATIENCE, wait_until
from weft.model import HUMAN, NewRun, NewTask
from weft.project.own_repository import get_repository
from weft.store import open_store
from weft.store.projections import (
    ISSUE_TRACKER,
    NOTIFICATIONS,
    PLAN_MARKS,
    PLAN_STATE,
    NewProjection,
)
from weft.store.runs import end_finished, submit_run
from weft.store.tasks import approve

DYING = Path(__file__).with_name("dying_worker.py")
WORKER = ("-m", "weft", "worker", "--slots", "1")
RUN = "r1"
STATE = "state.json"
Left = Callable[..., AbstractContextManager[None]]
NOTIFY = """
[notify]
command = "echo $WEFT_EVENT >> ../notes"
"""


@pytest.fixture
def issues(tmp_path: Path) -> Issues:
    return Issues(tmp_path / "bin")


@pytest.fixture
def project(tmp_path: Path, issues: Issues) -> Project:
    made = Project(tmp_path / "project", sqlite_store(tmp_path / "weft.db"))
    made.environment["PATH"] = f"{issues.place}{os.pathsep}{made.environment['PATH']}"
    made.settings(NOTIFY)
    git(made.root, "branch", "release")
    return made


@pytest.fixture
def ended(project: Project, issues: Issues) -> Project:
    """The project with a run that has ended, whose five projections have handled no event."""
    made = project
    text = plan("A: a.txt: write a.txt 1", "B: b.txt: write b.txt 2")
    path = made.write(
        text.replace("files: a", "id: bd-1; files: a").replace("files: b", "id: bd-2; files: b")
    )
    (made.root / "issues.jsonl").write_text(issues.add("bd-1") + issues.add("bd-2"))
    base = git(made.root, "rev-parse", "HEAD").strip()
    tip = git(made.root, "commit-tree", "-p", base, "-m", "Landed", f"{base}^{{tree}}").strip()
    git(made.root, "branch", f"weft/{RUN}", tip)
    with open_store(made.url) as store:
        host = socket.gethostname()
        numbers = submit_run(
            store,
            NewRun(
                id=RUN,
                repo=get_repository(made.root, store),
                plan=str(path),
                base=base,
                target="release",
            ),
            [NewTask(name=name, agent=HUMAN) for name in ("bd-1", "bd-2")],
            projections=[
                NewProjection(name=PLAN_MARKS, host=host, path=str(path)),
                NewProjection(name=PLAN_STATE, host=host, path=str(made.root.parent / STATE)),
                NewProjection(name=ISSUE_TRACKER, host=host, path=str(made.root / "issues.jsonl")),
                NewProjection(name=NOTIFICATIONS),
            ],
            now=time.time(),
        )
        for number in numbers.values():
            approve(store, number, now=time.time())
        change(
            made.url,
            "INSERT INTO landings VALUES (?, 1, ?, ?, '', '[]', '[]', 1, FALSE, 'landed', 0)",
            *(RUN, base, tip),
        )
        assert end_finished(store, now=time.time()) == [RUN]
    return made


def notes(project: Project) -> list[str]:
    path = project.root.parent / "notes"
    return path.read_text().splitlines() if path.exists() else []


def count_workers(project: Project) -> int:
    [row] = project.rows("SELECT COUNT(*) AS n FROM workers WHERE departed IS NULL")
    return int(row["n"])


def count_holders(project: Project) -> int:
    [row] = project.rows(
        "SELECT COUNT(DISTINCT worker) AS n FROM leases WHERE holder = 'r1/issue_tracker'"
    )
    return int(row["n"])


def is_behind(project: Project) -> bool:
    return bool(project.rows("SELECT 1 FROM projections WHERE open"))


def assert_up_to_date(project: Project, issues: Issues) -> None:
    assert (project.root / "plan.md").read_text().count("- [x]") == 2
    assert json.loads((project.root.parent / STATE).read_text())["completed_workers"] == 2
    assert_closed(issues)
    assert_told_and_moved(project, RUN)


def assert_closed(issues: Issues) -> None:
    assert {issues.now(name)["status"] for name in ("bd-1", "bd-2")} == {"closed"}


def assert_told_and_moved(project: Project, run: str) -> None:
    assert git(project.root, "rev-parse", "release") == git(
        project.root, "rev-parse", f"weft/{run}"
    )
    [row] = project.rows("SELECT target_state FROM runs")
    assert row["target_state"] == "moved"
    assert set(notes(project)) == {"run_ended"}


@contextmanager
def started(project: Project, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=project.root,
        env=project.environment,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=PATIENCE) == 0


def test_workers_that_die_one_after_the_other_reach_the_state_of_one_that_lives(
    ended: Project, issues: Issues
) -> None:
    """The first worker dies before its first step, the second before its second, and so on."""
    for step in itertools.count():
        with started(ended, str(DYING), str(step)) as worker:
            wait_until(lambda: worker.poll() is not None or not is_behind(ended))
            if worker.poll() is None and not is_behind(ended):
                end(worker)
                break
            assert worker.wait() == -signal.SIGKILL
    assert step > 3
    assert_up_to_date(ended, issues)


@pytest.mark.chaos
@pytest.mark.skipif("WEFT_CHAOS" not in os.environ, reason="by `make chaos`")
@pytest.mark.parametrize("step", range(20))
def test_a_worker_killed_at_any_step_is_followed_by_one_that_goes_on(
    ended: Project, issues: Issues, step: int
) -> None:
    with started(ended, str(DYING), str(step)) as worker:
        wait_until(lambda: worker.poll() is not None or not is_behind(ended))
    with started(ended, *WORKER) as worker:
        wait_until(lambda: not is_behind(ended))
        end(worker)
    assert_up_to_date(ended, issues)
    assert len(notes(ended)) <= 2  # sent again if it died before it recorded the first


def test_two_workers_at_once_do_everything_once(ended: Project, issues: Issues) -> None:
    issues.trouble("slow")  # so that both workers are there before the first has ended
    with started(ended, *WORKER) as first, started(ended, *WORKER) as second:
        wait_until(lambda: count_workers(ended) == 2)
        issues.no_more_trouble()
        wait_until(lambda: not is_behind(ended))
        end(first)
        end(second)
    assert_up_to_date(ended, issues)
    assert notes(ended) == ["run_ended"]
    assert [call[0] for call in issues.told("bd-1")] == ["close"]
    assert [call[0] for call in issues.told("bd-2")] == ["close"]


def test_a_worker_that_was_stopped_too_long_has_no_effect_when_it_goes_on(
    ended: Project, issues: Issues
) -> None:
    """Weakened, a holder does not confirm its lease before an effect."""
    issues.trouble("slow")
    with started(ended, *WORKER) as first:
        wait_until(issues.raw_calls)
        stop_harmlessly(first, ended.url, ended.root)
        with started(ended, *WORKER) as second:
            wait_until(lambda: count_holders(ended) == 2)
            first.send_signal(signal.SIGCONT)
            issues.no_more_trouble()
            wait_until(lambda: not is_behind(ended))
            end(second)
        end(first)
    assert_up_to_date(ended, issues)
    assert [call[0] for call in issues.told("bd-1")] == ["close"]


def does(go: Path, file: str) -> dict[str, Any]:
    """The fields of an issue whose agent writes a file once `go` is there."""
    script = f"script: wait {go}\nscript: write {file} 1"
    return {"description": script, "metadata": {"files": [file]}}


@contextmanager
def command_killed(project: Project, *arguments: str) -> Iterator[None]:
    with started(project, "-m", "weft", *arguments) as command:
        yield
        command.kill()


@contextmanager
def terminal_closed(project: Project, *arguments: str) -> Iterator[None]:
    master, slave = os.openpty()
    login = "import os, sys; os.login_tty(int(sys.argv[1])); os.execvp(sys.argv[2], sys.argv[2:])"
    with subprocess.Popen(
        [sys.executable, "-IS", "-c", login, str(slave), *project.command(*arguments)],
        cwd=project.root,
        env=project.environment,
        pass_fds=[slave],
    ) as command:
        os.close(slave)
        yield
        os.close(master)
        assert command.wait(timeout=PATIENCE) == -signal.SIGHUP


@pytest.mark.parametrize(
    ("left", "source"), [(command_killed, "issues.jsonl"), (terminal_closed, "plan.md")]
)
def test_a_worker_carries_a_run_to_its_end_without_the_command_that_started_it(
    project: Project, issues: Issues, left: Left, source: str
) -> None:
    """Weakened, only the command that follows the run writes, tells and moves."""
    go = project.root.parent / "go"
    text = plan(f"A: a: wait {go}; write a 1", f"B: b: wait {go}; write b 1")
    exported = issues.add("bd-1", **does(go, "a")) + issues.add("bd-2", **does(go, "b"))
    project.write(text if source == "plan.md" else exported, source)
    with started(project, "-m", "weft", "worker", "--slots", "2") as worker:
        wait_until(lambda: count_workers(project) == 1)
        state = ("--state", f"../{STATE}")
        with left(project, "run", source, "--into", "release", *state):
            wait_until(lambda: list(project.states().values()) == ["running"] * 2)
        go.touch()
        wait_until(lambda: not is_behind(project))
        end(worker)
    if source == "plan.md":
        assert (project.root / source).read_text().count("- [x]") == 2
    else:
        assert_closed(issues)
    workers = json.loads((project.root.parent / STATE).read_text())["workers"]
    assert [worker["status"] for worker in workers] == ["completed"] * 2
    assert_told_and_moved(project, project.run_id())
    assert notes(project) == ["run_ended"]
