"""While a run is under way: a check that stops working pauses the run, and charges no task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.in_process import Tell, teller, told
from cli.plan_project import Project, plan
from repositories import git
from weft.operations.submission import draft_run, submit_draft
from weft.project import project as projects
from weft.runs.plan_check import check, load, setting_of
from weft.runs.preparation import RunOptions

FOUR = (
    "Write a: a.txt: write a.txt 1",
    "Write b: b.txt: write b.txt 1",
    "More of a: a.txt: append a.txt 2",
    "More of b: b.txt: append b.txt 2",
)


@pytest.fixture
def project(tmp_path: Path, url: str) -> Project:
    return Project(tmp_path / "project", url)


@pytest.fixture
def tell(project: Project, monkeypatch: pytest.MonkeyPatch) -> Tell:
    monkeypatch.setenv("WEFT_SCRIPTED_STATE", project.environment["WEFT_SCRIPTED_STATE"])
    return teller(project.root, project.url)


def make_tool(path: Path) -> Path:
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(0o755)
    return path


def breaking(tool: Path) -> str:
    """A plan whose agents remove a program of the check before they end."""
    return plan(*(f"{task}; until rm -f {tool} || true" for task in FOUR))


def attempts(project: Project) -> int:
    return len(project.rows("SELECT * FROM attempts"))


def run_plan(tell: Tell, *arguments: str) -> Any:
    """Run the plan; return the summary without the lines before it."""
    output = tell("run", "plan.md", "--json", *arguments)
    return json.loads(output[output.index("{\n") :])


def needs(tell: Tell) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = told(tell, "run", "--resume")["needs_you"]
    return found


def test_a_missing_program_of_the_check_pauses_the_run_and_charges_nobody(
    project: Project, tell: Tell, tmp_path: Path
) -> None:
    tool = make_tool(tmp_path / "tool")
    project.settings(f'[gate]\nsandbox = "off"\nrun = "{tool}"\n')
    project.write(breaking(tool))
    summary = run_plan(tell, "--slots", "2")
    [need] = summary["needs_you"]
    assert "Your tests fail on weft/" in need["text"]
    assert project.rows("SELECT * FROM failures") == []
    assert attempts(project) == 2, "no agent starts for a run whose check does not work"
    run = project.run_id()

    make_tool(tool)
    tool.chmod(0o444)
    assert len(needs(tell)) == 1
    tell("resume", run)
    assert len(needs(tell)) == 1, "still not executable"

    tool.unlink()
    tool.mkdir()  # the agents' `rm -f` leaves it, and `test -d` is the check now
    project.settings(f'[gate]\nsandbox = "off"\nrun = "test -d {tool}"\n')
    tell("runs", "update", run)
    tell("resume", run)
    summary = told(tell, "run", "--resume")
    assert summary["state"] == "ended"
    assert attempts(project) == 4, "the two of before are not repeated"
    assert "checked by" in tell("verify", run)


def test_the_same_failure_of_two_tasks_without_a_common_file_makes_the_base_suspect(
    project: Project, tell: Tell, tmp_path: Path
) -> None:
    service = tmp_path / "service"
    service.touch()
    line = f"test -e {service} || {{ echo cannot reach the database; exit 1; }}"
    project.settings(f'[gate]\nsandbox = "off"\nrun = "{line}"\n')
    project.write(breaking(service))
    [need] = run_plan(tell, "--slots", "2")["needs_you"]
    assert "Your tests fail on weft/" in need["text"]
    assert project.rows("SELECT * FROM failures") == [], "a task sent back before is not charged"
    run = project.run_id()
    service.mkdir()
    tell("resume", run)
    assert told(tell, "run", "--resume")["state"] == "ended"
    assert project.rows("SELECT * FROM failures") == []


def test_a_task_that_breaks_the_check_itself_is_sent_back(project: Project, tell: Tell) -> None:
    (project.root / "check.sh").write_text("#!/bin/sh\nexit 0\n")
    (project.root / "check.sh").chmod(0o755)
    project.settings('[gate]\nrun = "./check.sh"\n')
    project.write(
        plan(
            "Break: check.sh: attempt 1: delete check.sh; attempt 2: append check.sh # more",
            "Write b: b.txt: write b.txt 1",
        )
    )
    assert run_plan(tell)["state"] == "ended"
    kinds = [row["kind"] for row in project.rows("SELECT kind FROM failures")]
    assert kinds == ["red"]
    purposes = [row["purpose"] for row in project.rows("SELECT purpose FROM verdicts")]
    assert purposes.count("base") == 2, "before the run, and when it was in doubt"


def submit_untested(project: Project) -> str:
    """Submit the plan as a server does: the gate checks its base."""
    place = projects.get_project(project.root, project.environment)
    with place.open_store() as store:
        checked = check(load(project.root, "plan.md"), setting_of(place, store), None)
        draft = draft_run(place, checked, project.root / "plan.md", RunOptions())
        return submit_draft(place, store, draft)[0].run


def test_no_agent_of_an_untested_run_starts_on_a_red_base(
    project: Project, tell: Tell, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    project.settings(f'[gate]\nsandbox = "off"\nrun = "test -e {flag}"\n')
    project.write(plan(*FOUR))
    run = submit_untested(project)
    [need] = needs(tell)
    assert (need["subject"], need["do"]) == (f"the gate of {run}", [f"weft resume {run}"])
    assert attempts(project) == 0
    flag.touch()
    tell("resume", run)
    assert told(tell, "run", "--resume")["state"] == "ended"
    assert attempts(project) == 4


def test_an_untested_run_with_a_green_base_goes_on_by_itself(project: Project, tell: Tell) -> None:
    project.settings('[gate]\nrun = "true"\n')
    project.write(plan(*FOUR))
    submit_untested(project)
    assert told(tell, "run", "--resume")["state"] == "ended"
    assert git(project.root, "for-each-ref", "refs/heads/weft/")


def test_a_set_up_that_fails_in_an_untested_run_is_one_need(project: Project, tell: Tell) -> None:
    project.settings('[workspace]\nsetup = "echo no network; exit 3"\n')
    project.write(plan(*FOUR))
    submit_untested(project)
    [need] = needs(tell)
    assert "cannot be set up" in need["text"]
    assert attempts(project) == 0


def test_a_set_up_that_stops_working_is_one_need_and_charges_nobody(
    project: Project, tell: Tell, tmp_path: Path
) -> None:
    service = tmp_path / "service"
    service.touch()
    project.settings(f"[gate]\nsandbox = 'off'\n[workspace]\nsetup = 'test -e {service}'\n")
    project.write(breaking(service))
    [need] = run_plan(tell, "--slots", "1")["needs_you"]
    assert "cannot be set up" in need["text"]
    assert project.rows("SELECT * FROM failures") == []
    assert "blocked" not in project.states().values()
    run = project.run_id()
    service.mkdir()  # the agents' `rm -f` leaves it
    tell("resume", run)
    assert told(tell, "run", "--resume")["state"] == "ended"


def test_a_set_up_that_fails_for_a_task_and_not_on_the_base_blocks_the_task(
    project: Project, tell: Tell, tmp_path: Path
) -> None:
    """The set-ups: of the preflight, of the first attempt, of the base, of the second attempt."""
    count = tmp_path / "count"
    line = f"echo x >> {count}; case $(grep -c x {count}) in 2|4) exit 3;; esac"
    project.settings(f"[gate]\nsandbox = 'off'\n[workspace]\nsetup = '{line}'\n")
    project.write(plan(FOUR[0]))
    [need] = run_plan(tell)["needs_you"]
    assert "The set-up command" in need["text"]
    assert project.states() == {"1.1": "blocked"}
    assert attempts(project) == 2
    assert len(count.read_text().split()) == 4
