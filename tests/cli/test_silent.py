"""A weft stopped by Ctrl-Z: alive, and silent. Others notice, say so and go on without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.plan_project import Project, plan
from stopped_process import stop_harmlessly
from wait_until import wait_until


@pytest.fixture
def project(tmp_path: Path, url: str) -> Project:
    return Project(tmp_path / "project", url)


def test_a_stopped_process_is_told_of_and_resume_takes_over(project: Project) -> None:
    project.write(
        plan("Write a: one.txt: sleep 1; write one.txt 1", "Write b: two.txt: write two.txt 2")
    )
    stopped = project.start("run", "plan.md", "--slots", "1")
    try:
        wait_until(lambda: project.rows("SELECT 1 FROM attempts"))
        stop_harmlessly(stopped, project.url, project.root)
        wait_until(lambda: project.answer("ps", "--json")["silent_workers"])
        [silent] = project.answer("ps", "--json")["silent_workers"]
        [row] = project.rows("SELECT id, seen FROM workers")
        assert (silent["worker"], silent["pid"]) == (row["id"], stopped.pid)
        assert silent["silent_since"] == row["seen"]
        told = f"worker {row['id']} has been silent since "
        assert told in project.weft("ps").stdout
        assert told in project.weft("why", "1").stdout
        assert project.answer("why", "1", "--json")["silent_since"] == row["seen"]
        assert told in project.weft("doctor").stdout
        resumed = project.weft("run", "--resume")
        assert resumed.returncode == 0, resumed.stdout + resumed.stderr
        assert project.states() == {"1.1": "done", "1.2": "done"}
    finally:
        stopped.kill()
        stopped.wait()


def test_nobody_is_silent_who_gives_signs_of_life(project: Project) -> None:
    project.write(plan("Write a: one.txt: sleep 4; write one.txt 1"))
    process = project.start("run", "plan.md")
    try:
        wait_until(lambda: project.rows("SELECT 1 FROM attempts"))
        assert project.answer("ps", "--json")["silent_workers"] == []
        assert "silent since" not in project.weft("doctor").stdout
    finally:
        process.terminate()
        process.wait()
