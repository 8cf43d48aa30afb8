"""Hosts beside the store itself: git goes through a remote that home and the hosts reach."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from databases import fresh_database
from end_to_end.run_project import TESTED, RunProject
from forked_python import ForkedPython
from repositories import git
from wait_until import PATIENCE, wait_until

pytestmark = pytest.mark.timeout(100)

PLAN = """## P
- [ ] Make a
  <!-- files: src/1.1; agent: write -->
- [ ] Make b
  <!-- files: src/1.2; agent: write; needs_labels: far -->
- [ ] Make c
  <!-- files: src/1.3; agent: write -->
"""


@pytest.fixture
def project(tmp_path: Path, postgres_server: str) -> Iterator[RunProject]:
    with fresh_database(postgres_server) as url:
        project = RunProject(tmp_path, url)
        yield project
        project.close()


def start_host(project: RunProject, place: Path, *options: str) -> subprocess.Popen[str]:
    """Start a worker with its own home directory, away from the repository."""
    home = place / "far"
    home.mkdir(exist_ok=True)
    kept = {key: value for key, value in project.environment.items() if key != "WEFT_STORE"}
    return ForkedPython[str](
        [sys.executable, "-m", "weft", "worker", "--store", project.url, "--json", *options],
        cwd=home,
        env={**kept, "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(worker: subprocess.Popen[str]) -> str:
    if worker.poll() is None:
        worker.terminate()
    return worker.communicate(timeout=PATIENCE)[1]


def make_remote(project: RunProject, place: Path) -> Path:
    """Make an empty remote and name it in the settings of home."""
    remote = place / "remote.git"
    git(place, "init", "-q", "--bare", str(remote))
    project.settings(TESTED, f'[store]\nremote = "{remote}"\n')
    return remote


def test_tasks_and_checks_of_a_host_go_through_a_git_remote(
    project: RunProject, tmp_path: Path
) -> None:
    remote = make_remote(project, tmp_path)
    project.shell("write", "cat > /dev/null; ls src; echo $HOME > src/$WEFT_TASK")
    project.commit()
    project.plan.write_text(PLAN)
    project.start("worker", "--checks", "no", "--slots", "1")
    wait_until(lambda: git(remote, "for-each-ref", "refs/weft/home"))
    options = ("--remote", str(remote), "--checks", "yes", "--label", "far")
    worker = start_host(project, tmp_path, *options)
    wait_until(lambda: project.rows("SELECT * FROM workers WHERE NOT gates"))
    answer = project.run("plan.md")
    assert {task["state"] for task in answer["tasks"]} == {"done"}, end(worker)
    end(worker)
    [host] = {row["host"] for row in project.rows("SELECT * FROM workers WHERE NOT gates")}
    verdicts = project.rows("SELECT * FROM verdicts WHERE purpose <> 'base'")
    assert {row["host"] for row in verdicts} == {host}
    assert project.landed("src/1.2").strip() == str(tmp_path / "far")
    [second] = project.rows("SELECT * FROM attempts WHERE task = 2")
    before = git(project.root, "ls-tree", "--name-only", f"{second['base']}:src").split()
    assert "1.1" in before, "it began from the landed work of home"
    assert not list((tmp_path / "far").glob("*.git"))


def test_a_remote_without_this_repository_is_refused(project: RunProject, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "other.git")
    for remote, text in (("other.git", "`remote` under [store]"), ("gone.git", "could not reach")):
        worker = start_host(project, tmp_path, "--remote", str(tmp_path / remote))
        assert worker.wait(timeout=PATIENCE) != 0
        assert text in end(worker)


def test_a_host_that_cannot_push_to_the_remote_takes_no_task(
    project: RunProject, tmp_path: Path
) -> None:
    remote = make_remote(project, tmp_path)
    project.commit()
    project.start("worker", "--slots", "1")
    wait_until(lambda: git(remote, "for-each-ref", "refs/weft/home"))
    assert "can be read and pushed to; home publishes there" in project.weft("doctor").stdout
    refuse = remote / "hooks" / "pre-receive"
    refuse.parent.mkdir(exist_ok=True)
    refuse.write_text("#!/bin/sh\necho only readers here >&2; exit 1\n")
    refuse.chmod(0o755)
    worker = start_host(project, tmp_path, "--remote", str(remote))
    assert worker.wait(timeout=PATIENCE) != 0
    assert "the right to push to refs/weft/" in end(worker)
    assert not project.rows("SELECT * FROM workers WHERE NOT gates")
    assert git(remote, "for-each-ref", "refs/weft/probes") == ""
    assert f"git cannot push to {remote}" in project.weft("doctor").stdout
