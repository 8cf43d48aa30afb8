"""`weft land` from the shell: from a plan to a moved branch, and from a conflict to its repair."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.plan_project import Project, plan
from databases import sqlite_store
from repositories import commit_all, git
from user_state import walk

ONE = plan("Write a: one.txt: write one.txt 1")
AGENT = """#!/bin/sh
if grep -q '^<<<<<<<' one.txt 2>/dev/null; then
    sed -i '/^<<<<<<< /d;/^=======$/d;/^>>>>>>> /d' one.txt
else
    echo 1 > one.txt
fi
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project", sqlite_store(tmp_path / "weft.db"))


def test_a_run_ends_with_the_command_that_lands_it(project: Project) -> None:
    """The third exception to "nothing of the user's changes": one branch and its clean checkout.
    The marks that weft wrote into the plan are no change of the user's."""
    project.write(ONE)
    ran = project.weft("run", "plan.md")
    run = project.run_id()
    assert "[x]" in (project.root / "plan.md").read_text()
    assert ran.stdout.splitlines()[-1] == f"next: weft land {run}"
    git(project.root, "branch", "mine")
    (project.root / "notes").write_text("mine\n")
    before = walk(project.root)
    done = project.weft("land")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"✓ run {run} is landed: main is at ")
    after = walk(project.root)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert changed == {
        *("file one.txt", "git index", "ref refs/heads/main"),
        *("log refs/heads/main", "log HEAD"),
    }
    listed = project.weft("runs").stdout.splitlines()
    assert "LANDED ON" in listed[0]
    assert " main " in listed[1]
    assert project.answer("runs", "--json")[0]["landed"] == ["main"]
    again = project.answer("land", "--json")
    assert (again["landed"], again["kind"]) == (True, "none")


def test_a_conflict_is_shown_and_repaired_by_an_agent_of_the_run(
    project: Project, tmp_path: Path
) -> None:
    program = tmp_path / "agent.sh"
    program.write_text(AGENT)
    program.chmod(0o755)
    project.settings('[gate]\nrun = "! grep -q wrong one.txt"\n')
    project.agent("implement", runs=str(program))
    project.write(ONE)
    assert project.weft("run", "plan.md", "--no-write").returncode == 0
    run = project.run_id()
    (project.root / "one.txt").write_text("mine\n")
    mine = commit_all(project.root)
    refused = project.weft("land")
    assert refused.returncode == 1
    assert "content" in refused.stdout or "conflict in one.txt" in refused.stdout
    assert "Nothing was moved." in refused.stdout
    assert f"next: weft land {run} --repair" in refused.stdout
    assert git(project.root, "rev-parse", "main").strip() == mine
    repaired = project.weft("land", run, "--repair")
    assert repaired.returncode == 1
    assert f"{run}/repair-1" in repaired.stdout
    resumed = project.weft("run", "--resume", run, "--no-write")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    landed = project.weft("land")
    assert landed.returncode == 0, landed.stdout + landed.stderr
    assert (project.root / "one.txt").read_text() == "mine\n1\n"
    assert git(project.root, "status", "--porcelain") == ""
    assert project.weft("verify", run).returncode == 0


def test_land_without_an_ended_run_says_how_to_get_one(project: Project) -> None:
    project.write(ONE)
    done = project.weft("land")
    assert done.returncode == 2
    assert done.stderr == (
        "weft: No run has ended with landed work yet; `weft ps` shows the runs.\n"
    )


def test_a_run_from_a_detached_head_ends_with_a_command_that_works(project: Project) -> None:
    project.write(ONE)
    git(project.root, "switch", "--quiet", "--detach")
    last = project.weft("run", "plan.md").stdout.splitlines()[-1]
    assert last == f"next: weft land {project.run_id()} --onto BRANCH"
    git(project.root, "checkout", "--quiet", "--", ".")
    words = last.removeprefix("next: weft ").replace("BRANCH", "main").split()
    done = project.weft(*words)
    assert done.returncode == 0, done.stderr
    assert git(project.root, "show", "main:one.txt").strip() == "1"
