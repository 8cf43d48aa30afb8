"""`weft run` from end to end: real processes, real git, the scripted agent, both stores."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import pytest

from cli.plan_project import Project, plan, without_marks
from databases import postgres_later, sqlite_store
from repositories import git
from wait_until import PATIENCE, wait_until
from weft.store import open_store
from weft.store.tasks import retry

ONE_TASK = plan("Write a: one.txt: write one.txt 1")
TWO = plan("Write a: one.txt: write one.txt 1", "Write b: two.txt: write two.txt 2")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project", sqlite_store(tmp_path / "weft.db"))


@pytest.fixture
def everywhere(tmp_path: Path, url: str) -> Project:
    """The same on each kind of store."""
    return Project(tmp_path / "project", url)


def test_a_plan_becomes_one_branch_and_nothing_else_changes(everywhere: Project) -> None:
    project = everywhere
    before = project.write(TWO).read_text()
    head = git(project.root, "rev-parse", "HEAD")
    done = project.weft("run", "plan.md", "--slots", "2")
    assert done.returncode == 0, done.stderr + done.stdout
    assert (project.content("one.txt"), project.content("two.txt")) == ("1\n", "2\n")
    assert f"next: weft land {project.run_id()}" in done.stdout
    assert "2 of 2 done" in done.stdout
    assert "ran " not in done.stdout, "no times of a run of a few seconds"
    assert "\x1b" not in done.stdout + done.stderr, "no terminal, no escapes"
    after = (project.root / "plan.md").read_text()
    assert after.count("- [x]") == 2
    assert without_marks(after) == before, "not one other byte changes"
    assert git(project.root, "rev-parse", "HEAD") == head
    assert git(project.root, "status", "--porcelain", "--", "one.txt", "two.txt") == ""
    assert project.rows("SELECT * FROM leases WHERE state <> 'released'") == []


@postgres_later
def test_a_task_that_needs_a_person_ends_it_with_1_and_names_what_to_do(
    everywhere: Project,
) -> None:
    """And `weft run FILE` is refused until that one has gone on to its end."""
    project = everywhere
    project.write(
        plan(
            "Good: one.txt: write one.txt 1",
            "Bad: two.txt: attempt 1: fail other No; write two.txt 2",
        )
    )
    done = project.weft("run", "plan.md")
    assert done.returncode == 1
    run = project.run_id()
    [number] = [one["id"] for one in project.rows("SELECT id FROM tasks WHERE name = '1.2'")]
    assert f"weft retry {run}/1.2" in done.stdout
    assert f"weft run --resume {run}" in done.stdout
    assert project.states() == {"1.1": "done", "1.2": "blocked"}
    assert "- [!] Task 1.2" in (project.root / "plan.md").read_text()

    refused = project.weft("run", "plan.md")
    assert refused.returncode == 2
    assert f"weft run --resume {run}" in refused.stderr
    assert len(project.rows("SELECT id FROM runs")) == 1

    with open_store(project.url) as store:
        retry(store, number, now=time.time())
    told = project.answer("run", "--resume", "--json")
    assert (told["run"], told["state"], told["needs_you"]) == (run, "ended", [])
    marks = (project.root / "plan.md").read_text()
    assert "- [!]" not in marks
    assert "BLOCKED" not in marks


def test_a_dry_run_changes_nothing(project: Project) -> None:
    path = project.write(TWO)
    before = path.read_bytes(), project.refs(), project.rows("SELECT * FROM events")
    done = project.weft("run", "plan.md", "--dry-run")
    assert done.returncode == 0
    assert "2 tasks" in done.stdout
    assert (path.read_bytes(), project.refs(), project.rows("SELECT * FROM events")) == before
    assert project.rows("SELECT * FROM runs") == project.rows("SELECT * FROM tasks") == []


def test_json_is_all_there_is_on_standard_output(project: Project) -> None:
    """With --no-write the plan is left alone, and --into moves a branch nobody has checked out."""
    path = project.write(TWO)
    before = path.read_bytes()
    git(project.root, "branch", "release")
    done = project.weft("run", "plan.md", "--json", "--no-write", "--into", "release")
    told = json.loads(done.stdout)
    assert {one["name"]: one["state"] for one in told["tasks"]} == {"1.1": "done", "1.2": "done"}
    assert all(re.fullmatch("[0-9a-f]{40}", one["commit"]) for one in told["tasks"])
    assert told["seconds"] > 0
    assert told["attempts"] == 2
    assert path.read_bytes() == before
    assert git(project.root, "rev-parse", "release") == git(
        project.root, "rev-parse", told["branch"]
    )


def test_a_budget_is_a_limit_of_the_run(project: Project) -> None:
    project.write(plan("Spends: one.txt: use 10 10 3.00; fail other No"))
    assert "--budget" in project.weft("run", "plan.md", "--budget", "much").stderr
    done = project.weft("run", "plan.md", "--budget", "2.50")
    assert done.returncode == 1
    resource = f"run:{project.run_id()}/usd"
    [row] = project.rows("SELECT capacity FROM limits WHERE resource = ?", resource)
    assert row["capacity"] == 2_500_000
    assert "$3.00" in done.stdout


def test_killed_and_resumed_it_goes_on_and_the_marks_catch_up(everywhere: Project) -> None:
    project = everywhere
    go = project.root.parent / "go"
    waits = f"write two.txt 2; wait {go}"
    before = project.write(
        plan("Write a: one.txt: write one.txt 1", f"Waits: two.txt: {waits}")
    ).read_text()
    first = project.start("run", "plan.md")
    try:
        wait_until(lambda: project.rows("SELECT 1 FROM landings WHERE state = 'landed'"))
        wait_until(lambda: project.rows("SELECT 1 FROM tasks WHERE state = 'running'"))
    finally:
        first.kill()
        first.wait()
    # What happened behind the back of the marks: as if it had died before it wrote any.
    (project.root / "plan.md").write_text(before)
    go.touch()
    done = project.weft("run", "--resume")
    assert done.returncode == 0, done.stdout + done.stderr
    after = (project.root / "plan.md").read_text()
    assert after.count("- [x]") == 2
    assert without_marks(after) == before
    assert project.content("two.txt") == "2\n"
    commits = git(project.root, "log", "--format=%H", f"main..weft/{project.run_id()}").split()
    assert len(commits) == 2, "each task landed once"


def test_while_somebody_serves_it_only_follows_and_takes_over_when_that_one_has_gone(
    project: Project,
) -> None:
    go = project.root.parent / "go"
    project.write(
        plan(
            f"First: one.txt: wait {go}; write one.txt 1",
            "Second: one.txt: append one.txt 2",
            phases="sequential",
        )
    )
    worker = project.start("worker", "--slots", "1")
    try:
        wait_until(lambda: project.rows("SELECT 1 FROM workers WHERE departed IS NULL"))
        run = project.start("run", "plan.md")
        try:
            wait_until(lambda: project.rows("SELECT 1 FROM tasks WHERE state = 'running'"))
            [only] = project.rows("SELECT DISTINCT worker FROM attempts")
            assert str(worker.pid) in only["worker"]
            workers = project.rows("SELECT id FROM workers WHERE departed IS NULL")
            assert len(workers) == 1, "who follows is no worker"
            worker.kill()
            worker.wait()
            go.touch()
            assert run.wait(timeout=PATIENCE) == 0
        finally:
            run.kill()
            run.wait()
    finally:
        worker.kill()
        worker.wait()
    assert project.content("one.txt") == "1\n2\n"
    by = project.rows(
        "SELECT a.worker FROM attempts a JOIN tasks t ON t.id = a.task WHERE t.name = '1.2'"
    )
    assert {str(run.pid) in one["worker"] for one in by} == {True}


def test_a_process_that_does_one_task_does_not_keep_a_run_from_being_served(
    project: Project,
) -> None:
    project.write(plan("Write a: one.txt: write one.txt 1"))
    project.environment["SHUTDOWN_TIMEOUT"] = "0"
    one = project.start("do", "script: hang", "--agent", "implement", "--files", "none")
    try:
        wait_until(lambda: project.rows("SELECT 1 FROM tasks WHERE state = 'running'"))
        assert project.weft("run", "plan.md").returncode == 0
        assert one.poll() is None
    finally:
        one.send_signal(signal.SIGINT)
        one.wait(timeout=PATIENCE)


def test_interrupted_once_it_hands_back_and_exits_with_130(project: Project) -> None:
    project.write(plan("Hangs: one.txt: write one.txt 1; hang"))
    project.environment["SHUTDOWN_TIMEOUT"] = "100"
    run = project.start("run", "plan.md")
    try:
        wait_until(lambda: project.rows("SELECT 1 FROM events WHERE kind = 'progress'"))
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=PATIENCE) == 130
    finally:
        run.kill()
        run.wait()
    assert project.states() == {"1.1": "ready"}
    assert project.rows("SELECT * FROM leases WHERE state <> 'released' AND task IS NOT NULL") == []


NOTES = """
[notify]
command = "(printf '%s ' \\"$WEFT_RUN\\" \\"$WEFT_EVENT\\"; cat; echo) >> ../notes"
"""


def test_people_are_told_when_they_are_needed_and_when_it_has_ended(project: Project) -> None:
    project.settings(NOTES)
    project.write(plan("Bad: one.txt: attempt 1: fail other No; write one.txt 1"))
    assert project.weft("run", "plan.md").returncode == 1
    [number] = [one["id"] for one in project.rows("SELECT id FROM tasks")]
    with open_store(project.url) as store:
        retry(store, number, now=time.time())
    assert project.weft("run", "--resume").returncode == 0
    notes = (project.root.parent / "notes").read_text().splitlines()
    told = []
    for note in notes:
        run, event, summary = note.split(" ", 2)
        assert run == project.run_id()
        told.append((event, json.loads(summary)))
    assert [event for event, _ in told] == ["person_needed", "run_ended"]
    assert f"weft retry {project.run_id()}/1.1" in told[0][1]["needs_you"][0]["do"]
    assert told[1][1]["state"] == "ended"


def test_nothing_changed_is_done_where_the_tasks_own_check_passes(project: Project) -> None:
    project.write(
        "## Phase 1: One\n<!-- execution: parallel -->\n"
        "- [ ] Task 1: As it is\n  <!-- files: a; check: test -e .gitignore -->\n"
        "  - script: say nothing to do\n"
        "- [ ] Task 2: Not yet\n  <!-- files: b; check: test -e b -->\n"
        "  - script: attempt 1: say nothing to do\n"
        "  - script: attempt 2: write b b\n"
    )
    done = project.weft("run", "plan.md", "--slots", "2")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "2 of 2 done" in done.stdout
    assert project.content("b") == "b\n"
    outcomes = project.rows("SELECT task, outcome FROM attempts ORDER BY task, number")
    assert [tuple(row.values()) for row in outcomes] == [
        (1, "success"),
        (2, "success"),
        (2, "success"),
    ]


def test_the_subtasks_of_a_story_are_reviewed_and_land_as_one(project: Project) -> None:
    """Refused once: both are made again, with the reason, and reviewed again."""
    refusing = 'script: attempt 1: answer {"verdict": "reject", "must_be_fixed": ["more"]}'
    story = {
        "id": "S",
        "title": "A story",
        "description": f'{refusing}\nscript: attempt 2: answer {{"verdict": "accept"}}',
        "subtasks": [
            {
                "id": "a",
                "description": "First\nscript: attempt 1: write a 1\nscript: attempt 2: write a 2",
                "files": ["a"],
            },
            {
                "id": "b",
                "description": "Second\nscript: append a more\nscript: write b b",
                "files": ["a", "b"],
                "depends_on": ["a"],
            },
        ],
    }
    project.agent("review")
    (project.root / "prd.json").write_text(json.dumps({"stories": [story]}))
    done = project.weft("run", "prd.json", "--slots", "2", "--stages", "implement,review")
    assert done.returncode == 0, done.stderr + done.stdout
    assert (project.content("a"), project.content("b")) == ("2\nmore\n", "b\n")
    attempts = project.rows(
        "SELECT t.name, a.stage, a.outcome FROM attempts a JOIN tasks t ON t.id = a.task "
        "ORDER BY a.started"
    )
    assert [tuple(row.values()) for row in attempts] == [
        ("S.a", "implement", "success"),
        ("S.b", "implement", "success"),
        ("S", "review", "review"),
        ("S.a", "implement", "success"),
        ("S.b", "implement", "success"),
        ("S", "review", "success"),
    ]
    assert len(project.rows("SELECT * FROM landings")) == 1
    run = str(project.rows("SELECT id FROM runs")[0]["id"])
    assert project.weft("verify", run).returncode == 0


def test_what_is_odd_about_a_run_is_told_while_it_runs_and_in_the_end(project: Project) -> None:
    """No sandbox where one is wanted, and a flake."""
    once = project.root.parent / "once"
    project.agent(
        "implement",
        runs="[sh, -c, 'echo 1 > $0.txt', one]",
        front="sandbox: {kind: off, network: false}\n",
    )
    project.settings(
        f"\n[gate]\nsandbox = 'off'\nrun = 'mkdir {once} 2>/dev/null && exit 1 || exit 0'\n"
    )
    project.write(plan("Write a: one.txt: -"))
    done = project.weft("run", "plan.md", "--no-preflight")
    assert done.returncode == 0, done.stdout + done.stderr
    during, _, summary = done.stdout.partition("\nrun plan")
    assert during.count("! agent implement: The agent has network access") == 1
    assert "! check of 1.1 passed when tried again" in during
    assert "(1 flaky)" in summary
    why = project.weft("why", "1").stdout
    assert ": flaky, the same check failed before" in why
    assert "(1 flaky)" in project.weft("report").stdout


def test_subtasks_that_make_the_same_file_land_one_on_the_other(project: Project) -> None:
    project.write(
        """- [ ] Task 1: Story <!-- files: none -->
- [ ] Task 2: One <!-- files: a; part-of: 1 -->
  - script: write a 1
  - script: write shared one
- [ ] Task 3: Two <!-- files: b; part-of: 1 -->
  - script: write b 2
  - script: write shared two
"""
    )
    done = project.weft("run", "plan.md", "--json")
    assert done.returncode == 0, done.stdout
    attempts = project.rows("SELECT outcome FROM attempts ORDER BY started")
    assert [row["outcome"] for row in attempts].count("scope") == 1
    assert len(attempts) == 3
    assert project.content("shared").strip() in ("one", "two")
    [sent_back] = [
        json.loads(row["data"])["reason"]
        for row in project.rows("SELECT data FROM events WHERE kind = 'attempt_finished'")
        if json.loads(row["data"])["outcome"] == "scope"
    ]
    assert "the next attempt starts on the result of " in sent_back


def test_llm_bounds_agents_whose_file_names_no_provider(project: Project, tmp_path: Path) -> None:
    program, go = tmp_path / "claude", tmp_path / "go"
    program.write_text(
        f"#!/bin/sh\ntouch {tmp_path}/runs.$$\nwhile ! [ -e {go} ]; do sleep 0.05; done\n"
    )
    program.chmod(0o755)
    project.agent("implement", f"[{program}]")
    assert project.weft("limits", "set", "llm", "1").returncode == 0
    project.write(plan("A: a.txt: x", "B: b.txt: x", "C: c.txt: x"))
    with project.start("run", "plan.md", "--slots", "3") as running:
        try:
            wait_until(lambda: list(tmp_path.glob("runs.*")))
            limits = {row["resource"]: row for row in project.answer("limits", "--json")["limits"]}
            assert (limits["llm"]["used"], limits["llm"]["capacity"]) == (1, 1)
            assert len(list(tmp_path.glob("runs.*"))) == 1
        finally:
            go.touch()
            running.wait(PATIENCE)


def test_a_run_without_a_box_says_so_wherever_people_look(project: Project) -> None:
    project.agent("implement", "[sh, -c, 'echo 1 > one.txt']", "sandbox: off\n")
    project.settings('[gate]\nsandbox = "off"\n')
    project.write(ONE_TASK)
    project.weft("run", "plan.md")
    words = "off for checks and set-up (`sandbox` under [gate]) and implement (`sandbox:` in"
    for command in (("runs",), ("report",), ("doctor",), ("init", "--yes")):
        done = project.weft(*command)
        assert words in " ".join(done.stdout.split()), (command, done.stdout, done.stderr)
    assert words in project.answer("report", "--json")["unboxed"]


def test_a_boxed_run_says_nothing_of_boxes(project: Project) -> None:
    project.write(ONE_TASK)
    assert project.weft("run", "plan.md").returncode == 0
    for command in (("runs",), ("report",)):
        assert "off for" not in project.weft(*command).stdout
