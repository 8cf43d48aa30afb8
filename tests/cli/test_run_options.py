"""What `weft run` refuses before anything starts, what it shows, and the branch it moves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.plan_project import Project, plan
from cli.shell import assert_one_sentence
from databases import sqlite_store
from repositories import commit_all, git
from wait_until import PATIENCE, wait_until

ONE = plan("Write a: one.txt: write one.txt 1")
TWO = plan("Write a: one.txt: write one.txt 1", "Write b: two.txt: write two.txt 2")
ASKS = plan("Write a: one.txt: write one.txt 1", "Ask: two.txt: fail other No")


def more_than(project: Project, name: str) -> str:
    """A commit that comes after another."""
    commit = ("commit-tree", f"{name}^{{tree}}", "-p", name, "-m", "more")
    return git(project.root, *commit).strip()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project", sqlite_store(tmp_path / "weft.db"))


def untouched(project: Project) -> tuple[object, ...]:
    rows = [project.rows(f"SELECT * FROM {table}") for table in ("runs", "tasks", "events")]
    return (*rows, project.refs(), (project.root / "plan.md").read_bytes())


def test_a_wish_that_cannot_be_is_refused_in_one_sentence_before_anything_starts(
    project: Project,
) -> None:
    """Of a dry run as well; the rest of what is refused is in tests/runs/test_run_target.py."""
    project.write(ONE)
    before = untouched(project)
    foo = ("--stages foo", "'foo'", "test, implement, review and judge")
    assert_one_sentence(project.weft("run", "plan.md", "--stages", "foo"), 2, *foo)
    both = project.weft("run", "plan.md", "--stages", "foo", "--base", "nope", "--dry-run")
    assert_one_sentence(both, 2, *foo)
    based = project.weft("run", "plan.md", "--dry-run", "--base", "nope")
    assert_one_sentence(based, 2, "--base nope")
    assert_one_sentence(
        project.weft("run", "plan.md", "--into", "main"), 2, "--into main", "checked out"
    )
    assert untouched(project) == before


def test_what_belongs_to_a_new_run_is_refused_with_resume(project: Project) -> None:
    """A dry run of it was a real one."""
    project.write(ASKS)
    assert project.weft("run", "plan.md").returncode == 1
    before = untouched(project)
    assert_one_sentence(project.weft("run", "--resume", "--dry-run"), 2, "--dry-run", "--resume")
    others = ("--stages=test", "--base=HEAD", "--allow-red", "--restart")
    done = project.weft("run", "--resume", *others)
    assert_one_sentence(done, 2, "--stages", "--base", "--allow-red", "--restart")
    assert untouched(project) == before


def test_the_run_of_a_plan_file_can_be_resumed_by_the_file(project: Project) -> None:
    project.write(ASKS)
    assert project.weft("run", "plan.md").returncode == 1
    run = project.run_id()
    (project.root / "other.md").write_text(ASKS)
    assert_one_sentence(project.weft("run", "other.md", "--resume"), 2, "no unfinished run of")
    assert_one_sentence(project.weft("run", "other.md", "--resume", run), 2, run, "other.md")
    assert_one_sentence(project.weft("run", "no.md", "--resume"), 2, "There is no file no.md")
    assert project.answer("run", "plan.md", "--resume", "--json")["run"] == run


def test_a_dry_run_shows_all_that_will_happen(project: Project) -> None:
    project.agent("review", runs="no-such-program")
    project.settings('[gate]\nrun = ["test", "-e", "plan.md"]\n')
    project.write(TWO)
    git(project.root, "branch", "release")
    options = ("--into", "release", "--stages", "implement,review", "--slots", "2", "--budget", "3")
    before = untouched(project)
    done = project.weft("run", "plan.md", "--dry-run", *options)
    assert done.returncode == 0, done.stderr
    for words in (
        "2 tasks, up to 2 at once, 2 slots",
        f"HEAD, commit {git(project.root, 'rev-parse', 'HEAD')[:12]}",
        "weft/plan-…; release moves there",
        "implement → review (2 tasks)",
        "implement: scripted, ",
        "review: no-such-program, not installed",
        "test -e plan.md",
        "$3.00",
        "its longest task",
    ):
        assert words in done.stdout, words
    assert "Nothing is checked" not in done.stdout
    told = project.answer("run", "plan.md", "--dry-run", "--json", *options)
    assert told["base"] == git(project.root, "rev-parse", "HEAD").strip()
    assert (told["into"], told["slots"], told["at_once"]) == ("release", 2, 2)
    assert told["stages"] == [{"stages": ["implement", "review"], "tasks": 2}]
    assert [(one["agent"], one["path"] is None) for one in told["agents"]] == [
        ("implement", False),
        ("review", True),
    ]
    assert told["checks"] == {"run": "test -e plan.md", "own": 0, "unchecked": 0}
    assert told["problems"] == []
    assert untouched(project) == before


def test_a_dry_run_makes_no_store(project: Project, tmp_path: Path) -> None:
    project.write(ONE)
    place = tmp_path / "other.db"
    done = project.weft("run", "plan.md", "--dry-run", WEFT_STORE=f"sqlite:///{place}")
    assert done.returncode == 0, done.stderr
    assert not place.exists()


def test_warnings_are_shown_where_a_plan_is_run(project: Project) -> None:
    """A few of them; and tasks that each claim everything are not said to run side by side."""
    tasks = "".join(f"- [ ] Task {n}: Write\n  - script: write {n}.txt 1\n" for n in range(1, 6))
    project.write(f"## Phase 1: All\n<!-- execution: parallel -->\n{tasks}")
    for options in (["--dry-run"], []):
        done = project.weft("run", "plan.md", *options)
        assert done.returncode == 0, done.stderr
        assert "5 tasks, up to 1 at once" in done.stdout
        assert done.stdout.count("so it runs alone") == 3
        assert "2 more warnings: `weft plan check plan.md`" in done.stdout
        assert "Nothing is checked before it lands" in done.stdout


def test_what_lands_without_a_check_is_never_said_to_have_been_checked(project: Project) -> None:
    project.write(ONE)
    assert "note     check: none" in project.weft("doctor").stdout
    done = project.weft("run", "plan.md")
    assert done.returncode == 0
    assert "check of 1.1" not in done.stdout
    assert "0 checks" in done.stdout
    told = project.weft("verify", project.run_id())
    assert told.returncode == 0
    assert "nothing was checked" in told.stdout
    assert "exactly the tree that was checked" not in told.stdout
    assert "✓ check" not in project.weft("why", "1.1").stdout
    [number] = project.rows("SELECT count(*) AS n FROM verdicts WHERE check_id <> 'none'")
    assert number["n"] == 0


def test_one_task_with_a_check_leaves_the_others_without(project: Project) -> None:
    one_by_one = TWO.replace("execution: parallel", "execution: sequential")
    checked = one_by_one.replace(
        "<!-- files: one.txt -->", "<!-- files: one.txt; check: test -e one.txt -->"
    )
    project.write(checked)
    done = project.weft("run", "plan.md")
    assert done.returncode == 0
    assert "1 of the tasks land without a check" in done.stdout
    assert "check of 1.1 passed" in done.stdout
    assert "but 1 had no check configured" in project.weft("verify", project.run_id()).stdout


def test_a_branch_moves_when_everything_has_landed_and_not_before(project: Project) -> None:
    project.write(ASKS)
    git(project.root, "branch", "release")
    before = git(project.root, "rev-parse", "release")
    assert project.weft("run", "plan.md", "--into", "release").returncode == 1
    assert git(project.root, "rev-parse", "release") == before, "one is blocked"
    assert project.weft("skip", "1.2").returncode == 0
    told = project.answer("run", "--resume", "--json")
    assert told["into"]["state"] == "moved", "kept with the run, and skipped is as good as landed"
    assert git(project.root, "rev-parse", "release") == git(
        project.root, "rev-parse", told["branch"]
    )


def test_a_branch_stays_where_it_is_if_a_task_was_cancelled(project: Project) -> None:
    project.write(ASKS)
    assert project.weft("run", "plan.md", "--into", "release").returncode == 1
    assert project.weft("cancel", "1.2").returncode == 0
    done = project.weft("run", "--resume")
    assert done.returncode == 1
    assert "release was left alone: 1.2 is cancelled" in done.stdout
    assert "release" not in git(project.root, "branch", "--format=%(refname:short)").split()


def test_a_worker_that_ends_a_run_moves_its_branch(project: Project) -> None:
    """Nobody follows the run when it ends."""
    project.write(ASKS)
    assert project.weft("run", "plan.md", "--into", "release").returncode == 1
    assert project.weft("skip", "1.2").returncode == 0
    worker = project.start("worker")
    try:
        wait_until(
            lambda: project.rows("SELECT target_state FROM runs") == [{"target_state": "moved"}]
        )
    finally:
        worker.terminate()
        worker.wait(timeout=PATIENCE)
    assert git(project.root, "rev-parse", "release") == git(
        project.root, "rev-parse", f"weft/{project.run_id()}"
    )


@pytest.mark.parametrize("obstacle", ["checked out", "commits of its own"])
def test_a_branch_that_cannot_move_in_the_end_is_an_error_that_says_what_to_do(
    project: Project, obstacle: str
) -> None:
    project.write(ASKS)
    git(project.root, "branch", "release")
    assert project.weft("run", "plan.md", "--into", "release").returncode == 1
    if obstacle == "checked out":
        git(project.root, "worktree", "add", "-q", str(project.root.parent / "there"), "release")
    else:
        git(project.root, "branch", "-f", "release", more_than(project, "release"))
    before = git(project.root, "rev-parse", "release")
    assert project.weft("skip", "1.2").returncode == 0
    done = project.weft("run", "--resume")
    assert done.returncode == 1
    assert f"! release was not moved: it {'is' if 'out' in obstacle else 'has'} {obstacle}" in (
        done.stdout
    )
    assert f"weft/{project.run_id()}`" in done.stdout, "how to do it by hand"
    assert git(project.root, "rev-parse", "release") == before
    if obstacle == "checked out":  # and once it is out of the way, the same command does it
        git(project.root, "worktree", "remove", str(project.root.parent / "there"))
        assert project.weft("run", "--resume", project.run_id()).returncode == 0
        assert git(project.root, "rev-parse", "release") != before


def test_a_run_that_has_ended_can_still_be_given_a_branch(project: Project) -> None:
    project.write(ONE)
    assert project.weft("run", "plan.md").returncode == 0
    run = project.run_id()
    assert_one_sentence(project.weft("run", "--resume", run, "--into", "main"), 2, "checked out")
    done = project.weft("run", "--resume", run, "--into", "release", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["into"]["state"] == "moved"
    assert git(project.root, "rev-parse", "release") == git(
        project.root, "rev-parse", f"weft/{run}"
    )


def test_a_plans_id_goes_on_working_when_its_run_has_ended(project: Project) -> None:
    """Of several runs the latest is meant, and that is said."""
    path = project.write(ONE)
    assert project.weft("run", "plan.md", "--no-write").returncode == 0
    first = project.run_id()
    for command, words in (("why", f"{first}/1.1"), ("diff", "+1"), ("logs", "write")):
        done = project.weft(command, "1.1")
        assert done.returncode == 0, done.stderr
        assert words in done.stdout
        assert done.stderr == ""
    path.write_text(path.read_text().replace("one.txt 1", "one.txt second"))
    commit_all(project.root, "another")
    assert project.weft("run", "plan.md", "--no-write").returncode == 0
    [second] = [one["id"] for one in project.rows("SELECT id FROM runs") if one["id"] != first]
    for command, words in (("why", f"{second}/1.1"), ("diff", "+second")):
        done = project.weft(command, "1.1")
        assert done.returncode == 0, done.stderr
        assert words in done.stdout
        assert done.stderr == f"weft: 2 runs had a task 1.1; this is {second}/1.1, of the latest.\n"
    exact = project.weft("why", f"{first}/1.1")
    assert first in exact.stdout
    assert exact.stderr == ""
