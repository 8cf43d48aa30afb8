"""`weft run` of a beads export with `bd` on the PATH: issues follow the run."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from beads_issues import Issues
from cli.plan_project import Project
from databases import sqlite_store
from wait_until import wait_until
from weft.store import open_store
from weft.store.tasks import retry


@pytest.fixture
def issues(tmp_path: Path) -> Issues:
    return Issues(tmp_path / "bin")


@pytest.fixture
def project(tmp_path: Path, issues: Issues) -> Project:
    made = Project(tmp_path / "project", sqlite_store(tmp_path / "weft.db"))
    made.environment["PATH"] = f"{issues.place}{os.pathsep}{made.environment['PATH']}"
    return made


def does(file: str, *script: str) -> dict[str, Any]:
    """The fields of an issue whose agent does this."""
    lines = "\n".join(f"script: {one}" for one in script)
    return {"description": lines, "metadata": {"files": [file]}}


def test_issues_follow_their_tasks_from_the_first_attempt_to_the_landing(
    project: Project, issues: Issues
) -> None:
    project.settings('[gate]\nrun = "! grep -qs bad two.txt"\n')
    project.write(
        issues.add("bd-0", issue_type="epic")
        + issues.add("bd-1", "bd-0", kind="parent-child", **does("one.txt", "write one.txt 1"))
        + issues.add(
            "bd-2",
            "bd-1",
            notes="- mine",
            **does("two.txt", "attempt 1: write two.txt bad", "attempt 2: write two.txt good"),
        )
        + issues.add("bd-3", **does("three.txt", "attempt 1: fail other No", "write three.txt 3"))
        + issues.add("bd-4", status="closed"),
        "issues.jsonl",
    )
    done = project.weft("run", "issues.jsonl")
    assert done.returncode == 1, done.stderr + done.stdout
    assert "bd" not in done.stderr
    assert issues.now("bd-1")["close_reason"].endswith(f" on weft/{project.run_id()}")
    assert {id: issues.now(id)["status"] for id in ("bd-0", "bd-1", "bd-2", "bd-3", "bd-4")} == {
        "bd-0": "closed",
        "bd-1": "closed",
        "bd-2": "closed",
        "bd-3": "blocked",
        "bd-4": "closed",
    }
    # Sent back once: the reason is there, and so is what somebody else had noted.
    assert issues.now("bd-2")["notes"].startswith("- mine\n\nweft: ")
    assert issues.now("bd-3")["notes"] == "weft: implement gave up. It said: No"
    assert issues.told("bd-4") == []
    assert {one["actor"] for one in issues.raw_calls()} == {"weft"}
    assert [one["foreign"] for one in issues.raw_calls() if one["foreign"]] == []
    assert {one["in"] for one in issues.raw_calls()} == {str(project.root)}

    [number] = [one["id"] for one in project.rows("SELECT id FROM tasks WHERE name = 'bd-3'")]
    with open_store(project.url) as store:
        retry(store, number, now=time.time())
    before = len(issues.told())
    assert project.weft("run", "--resume").returncode == 0
    assert issues.now("bd-3")["status"] == "closed"
    assert {one[1] for one in issues.told()[before:]} == {"bd-3"}, "the rest was known"


def test_a_run_that_is_killed_claims_once_and_its_successor_closes(
    project: Project, issues: Issues
) -> None:
    go = project.root.parent / "go"
    project.write(
        issues.add("bd-1", **does("one.txt", f"wait {go}", "write one.txt 1")),
        "issues.jsonl",
    )
    run = project.start("run", "issues.jsonl")
    try:
        wait_until(lambda: issues.now("bd-1")["status"] == "in_progress")
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    go.touch()
    assert project.weft("run", "--resume").returncode == 0
    claim, *noted, close = issues.told("bd-1")
    assert claim[:4] == ["update", "bd-1", "--claim", "--assignee"]
    assert not [call for call in noted if "--claim" in call or call[0] != "update"]
    assert close[:3] == ["close", "bd-1", "--reason"]


def test_a_bd_that_fails_is_a_warning_and_the_next_who_follows_catches_up(
    project: Project, issues: Issues
) -> None:
    project.write(
        issues.add("bd-1", **does("one.txt", "write one.txt 1")),
        "issues.jsonl",
    )
    issues.trouble("fail 1000")
    done = project.weft("run", "issues.jsonl")
    assert done.returncode == 0, done.stderr
    [warning] = done.stderr.splitlines()
    assert "bd is behind on 1 issues (bd-1)" in warning
    assert "the database is locked" in warning
    assert "the database is locked" in done.stdout
    assert project.rows("SELECT 1 FROM events WHERE kind = 'mirror_failed'")
    assert project.content("one.txt") == "1\n"

    issues.trouble("fail 2")
    resume = ("run", "--resume", project.run_id())
    # A command gives up after some seconds; on a busy machine another has to follow.
    wait_until(lambda: project.weft(*resume).stderr == "")
    assert issues.now("bd-1")["status"] == "closed"


def test_without_bd_or_with_no_write_issues_are_left_as_they_are(
    project: Project, issues: Issues
) -> None:
    project.write(issues.add("bd-1", **does("one.txt", "write one.txt 1")), "issues.jsonl")
    elsewhere = [one for one in os.get_exec_path() if not Path(one, "bd").exists()]
    done = project.weft("run", "issues.jsonl", PATH=os.pathsep.join(elsewhere))
    assert done.returncode == 0
    assert done.stderr == "weft: bd is not on the PATH; its issues are left as they are.\n"
    assert project.weft("run", "--resume", project.run_id(), "--no-write").returncode == 0
    assert issues.raw_calls() == []
