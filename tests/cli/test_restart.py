"""A plan with an unfinished run: resumed with other options, or started anew from landed work."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.in_process import Tell, teller, told
from cli.plan_project import Project, plan
from databases import sqlite_store
from repositories import git
from weft.errors import InputError
from weft.store import open_store
from weft.store.limit_table import stop_agent

HALF = plan(
    "Good: one.txt: write one.txt 1",
    "Bad: two.txt: attempt 1: fail other No; write two.txt 2",
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project", sqlite_store(tmp_path / "weft.db"))


@pytest.fixture
def tell(project: Project, monkeypatch: pytest.MonkeyPatch) -> Tell:
    monkeypatch.setenv("WEFT_SCRIPTED_STATE", project.environment["WEFT_SCRIPTED_STATE"])
    return teller(project.root, project.url)


def test_the_message_about_an_unfinished_run_names_both_ways_on(
    project: Project, tell: Tell
) -> None:
    project.write(HALF)
    tell("run", "plan.md")
    with pytest.raises(InputError) as refused:
        tell("run", "plan.md")
    assert f"`weft run --resume {project.run_id()}`" in str(refused.value)
    assert "`weft run plan.md --restart`" in str(refused.value)


@pytest.mark.parametrize("marks", [(), ("--no-write",)])
def test_a_restart_cancels_the_old_run_and_keeps_its_landed_work(
    project: Project, tell: Tell, marks: tuple[str, ...]
) -> None:
    project.write(HALF)
    tell("run", "plan.md", *marks)
    old = project.run_id()
    landed = git(project.root, "rev-parse", f"weft/{old}")
    (project.root / "plan.md").write_text(
        (project.root / "plan.md").read_text().replace("attempt 1: fail other No", "say again")
    )
    output = tell("run", "plan.md", "--restart", *marks)
    assert "1 attempt, 0 failed" in output
    rows = project.rows("SELECT id, state, base, branch FROM runs ORDER BY submitted")
    assert [row["state"] for row in rows] == ["ended", "ended"]
    assert rows[0]["id"] == old
    assert rows[1]["base"] == landed.strip()
    assert rows[1]["branch"] == "main", "`weft land` moves the branch of the first run"
    states = project.rows("SELECT name, state FROM tasks WHERE run = ? ORDER BY name", old)
    assert [row["state"] for row in states] == ["done", "cancelled"]
    new = f"weft/{rows[1]['id']}"
    assert (project.content("one.txt", new), project.content("two.txt", new)) == ("1\n", "2\n")


def test_a_restart_without_an_unfinished_run_is_a_start(project: Project, tell: Tell) -> None:
    project.write(plan("Good: one.txt: write one.txt 1"))
    assert "done" in tell("run", "plan.md", "--restart")
    assert len(project.rows("SELECT id FROM runs")) == 1


def test_a_resumed_run_takes_another_agent_budget_and_slots(project: Project, tell: Tell) -> None:
    project.agent("first", runs="[sh, -c, 'exit 3']")
    project.agent("second")
    project.agent("own", runs="[sh, -c, 'echo own > two.txt']")
    text = plan("A: one.txt: write one.txt 1", "B: two.txt: write two.txt 2")
    project.write(text.replace("files: two.txt", "files: two.txt; agent: own"))
    tell("run", "plan.md", "--agent", "first")
    run = project.run_id()
    assert project.states() == {"1.1": "blocked", "1.2": "done"}
    tell("retry", f"{run}/1.1", "--json")
    options = ("--agent", "second", "--budget", "5", "--slots", "2")
    output = tell("run", "--resume", run, *options)
    assert "second gets 1 task" in output
    assert project.states() == {"1.1": "done", "1.2": "done"}
    agents = project.rows("SELECT agent FROM attempts ORDER BY started")
    assert [row["agent"] for row in agents][-1] == "second"
    event = project.rows("SELECT data FROM events WHERE kind = 'limit_set'")
    assert any(f"run:{run}/usd" in row["data"] for row in event)
    spent = project.rows("SELECT * FROM lease_costs WHERE resource = ?", f"run:{run}/usd")
    assert spent, "an attempt of the resumed run sets dollars aside"


def test_a_resumed_run_refuses_an_agent_that_is_not_installed(project: Project, tell: Tell) -> None:
    project.agent("gone", runs="no-such-program")
    project.write(HALF)
    tell("run", "plan.md")
    with pytest.raises(InputError, match="no-such-program is not installed"):
        tell("run", "--resume", "--agent", "gone")


def interrupt(project: Project, tell: Tell) -> int:
    """Run a plan whose tasks fail, retry the second task; return the number of attempts."""
    project.write(HALF)
    tell("run", "plan.md")
    tell("retry", f"{project.run_id()}/1.2", "--json")
    return len(project.rows("SELECT * FROM attempts"))


@pytest.mark.parametrize("cause", ["uninstalled", "stopped"])
def test_a_resumed_run_whose_agent_cannot_start_any_more_starts_nothing(
    project: Project, tell: Tell, tmp_path: Path, cause: str
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    project.agent("implement", runs=f"[{program}]")
    project.agent("other")
    before = interrupt(project, tell)
    if cause == "uninstalled":
        program.unlink()
        sentence = f"Agent implement cannot start: {program} is not installed"
    else:
        with open_store(project.url) as store:
            store.write(lambda tx: stop_agent(tx, "implement", "not logged in", now=1))
        sentence = "Agent implement is stopped (not logged in)"
    done = project.weft("run", "--resume")
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Agents that can start: other (scripted)" in done.stderr
    assert len(project.rows("SELECT * FROM attempts")) == before
    assert not project.rows("SELECT * FROM workers WHERE departed IS NULL")
    tell("run", "--resume", "--agent", "other")
    assert project.states() == {"1.1": "blocked", "1.2": "done"}


def test_a_run_without_a_task_to_start_is_resumed_without_its_agents(
    project: Project, tell: Tell
) -> None:
    project.write(HALF)
    tell("run", "plan.md")
    with open_store(project.url) as store:
        store.write(lambda tx: stop_agent(tx, "implement", "not logged in", now=1))
    assert len(told(tell, "run", "--resume")["needs_you"]) == 1


def test_git_branch_shows_trunk_and_no_attempt(project: Project, tell: Tell) -> None:
    project.write(HALF)
    tell("run", "plan.md")
    branches = git(project.root, "branch", "--format=%(refname:short)").split()
    assert branches == ["main", f"weft/{project.run_id()}"]
    kept = git(project.root, "for-each-ref", "--format=%(refname)", "refs/weft/work").split()
    assert f"refs/weft/work/{project.run_id()}/1.1/1" in kept
