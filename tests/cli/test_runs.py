"""`weft runs`: a run keeps the check, set-up and agent files it was submitted with."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.plan_project import Project, plan
from databases import change
from repositories import git
from wait_until import wait_until

ONE = plan("Write a: one.txt: write one.txt 1")


@pytest.fixture
def project(tmp_path: Path, url: str) -> Project:
    return Project(tmp_path / "project", url)


@contextmanager
def working(project: Project, directory: Path) -> Iterator[None]:
    """A worker in one of the checkouts of the project's repository."""
    process = subprocess.Popen(
        project.command("-C", str(directory), "worker", "--slots", "1"),
        env=project.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def submit(project: Project) -> str:
    """Submit the plan without anybody who works on it, and return the run's id."""
    project.weft("limits", "set", "requests", "0")
    process = project.start("run", "plan.md", "--no-preflight")
    wait_until(lambda: project.rows("SELECT 1 FROM runs"))
    process.kill()
    process.wait()
    project.weft("limits", "set", "requests", "24")
    return project.run_id()


def beside(project: Project, settings: str) -> Path:
    """A second worktree, whose weft.toml says something else."""
    other = project.root.parent / "other"
    git(project.root, "worktree", "add", "-q", "--detach", str(other))
    tuning = re.split(r"\[(?:gate|workspace)\]", (project.root / "weft.toml").read_text())[0]
    (other / "weft.toml").write_text(tuning + settings)
    return other


def verdicts(project: Project) -> list[dict[str, object]]:
    return project.rows("SELECT passed, commands FROM verdicts WHERE run <> '' ORDER BY number")


def test_a_run_is_checked_by_its_own_command_whoever_holds_the_gate(project: Project) -> None:
    project.settings('[gate]\nrun = "false"\n')
    project.write(ONE)
    submit(project)
    other = beside(project, '[gate]\nrun = "true"\n')
    with working(project, other):
        wait_until(lambda: verdicts(project))
    first = verdicts(project)[0]
    assert not first["passed"]
    assert first["commands"] == '[["sh","-c","false"]]'
    assert project.rows("SELECT * FROM landings") == []


def test_an_edit_of_weft_toml_changes_a_run_only_through_the_command(project: Project) -> None:
    project.settings('[gate]\nrun = "test -f never"\n')
    project.write(ONE)
    run = submit(project)
    project.settings('[gate]\nrun = "test -f one.txt"\n')
    [listed] = project.answer("runs", "--json")
    assert (listed["check"], listed["revision"]) == ("test -f never", 1)
    assert listed["differences"] == ["the check was `test -f never`, is `test -f one.txt`"]
    assert f"`weft runs update {run}`" in project.weft("runs").stdout
    with working(project, project.root):
        wait_until(lambda: verdicts(project))
        assert not verdicts(project)[0]["passed"]
        told = project.weft("runs", "update", run)
        assert "is `test -f one.txt`" in told.stdout, told.stderr
        project.weft("retry", f"{run}/1.1")
        wait_until(lambda: project.states() == {"1.1": "done"})
    [listed] = project.answer("runs", "--json")
    assert (listed["check"], listed["revision"]) == ("test -f one.txt", 2)
    assert listed["differences"] == []
    [event] = project.rows("SELECT data FROM events WHERE kind = 'run_updated'")
    assert '"revision":2' in str(event["data"]).replace(" ", "")
    proved = project.weft("verify", run)
    assert "checked by `test -f never`, then `test -f one.txt`" in proved.stdout


def test_verify_compares_the_command_with_the_one_of_the_run(project: Project) -> None:
    project.settings('[gate]\nrun = "true"\n')
    project.write(ONE)
    assert project.weft("run", "plan.md").returncode == 0
    run = project.run_id()
    assert project.weft("verify", run).returncode == 0
    change(project.url, """UPDATE verdicts SET commands = '[["sh","-c","exit 0"]]'""")
    refuted = project.weft("verify", run)
    assert refuted.returncode == 1
    assert "passed `exit 0`, and its run asks for `true`" in refuted.stdout


def test_an_attempt_is_done_by_the_agent_file_and_set_up_of_its_run(project: Project) -> None:
    project.settings('[workspace]\nsetup = "touch set-up-of-the-run"\n')
    project.agent("implement", runs='[sh, -c, "ls > one.txt; rm -f set-up-*"]')
    project.write(ONE)
    submit(project)
    other = beside(project, '[workspace]\nsetup = "touch set-up-of-another"\n')
    changed = project.root / ".weft" / "agents" / "implement.md"
    text = changed.read_text().replace("ls >", "echo edited >")
    changed.write_text(text)
    (other / ".weft" / "agents" / "implement.md").write_text(text)
    with working(project, other):
        wait_until(lambda: project.states() == {"1.1": "done"})
    assert "set-up-of-the-run" in project.content("one.txt")
    assert "another" not in project.content("one.txt")


def test_the_checks_of_tasks_are_told(project: Project) -> None:
    project.write(ONE.replace("files: one.txt", "files: one.txt; check: test -e one.txt"))
    submit(project)
    assert project.weft("runs").stdout.splitlines()[1].endswith("checks of 1 task")
