"""`weft run` ends with 1 where only a person can help, and names the command that does.

Each of these runs once stood for ever without a word.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from end_to_end.run_project import RunProject
from wait_until import PATIENCE, wait_until

REFUSED = json.dumps({"must_be_fixed": ["say more"]})


@pytest.fixture
def project(project: RunProject) -> RunProject:
    project.settings(check=None)
    return project


def write_plan(
    project: RunProject, *tasks: tuple[str, str], execution: str = "parallel", file: str = "plan.md"
) -> None:
    """Each task is a note and a script, and has a file of its own."""
    lines = ["## Phase 1: All", f"<!-- execution: {execution} -->", ""]
    for number, (note, script) in enumerate(tasks, 1):
        lines.append(f"- [ ] Task {number}: Some work")
        lines.append(f"  <!-- files: src/{number}{note and '; '}{note} -->")
        lines.append(f"  - script: write src/{number} x")
        lines += [f"  - script: {one}" for one in script.split("; ") if one]
    project.write(**{file: "\n".join(lines) + "\n"})


def number(project: RunProject, name: str) -> int:
    [row] = project.rows("SELECT id FROM tasks WHERE name = ?", name)
    return int(row["id"])


def assert_stands(done: subprocess.CompletedProcess[str], command: str) -> None:
    """It ended by itself, with 1; the command that helps is named, and is what comes next."""
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    assert f"`{command}`" in done.stdout
    assert f"next: {command}, then weft run --resume " in done.stdout


def assert_helps(project: RunProject, command: str) -> None:
    """`weft ps` names the same, and once it is done the run goes on to its end."""
    [need] = json.loads(project.weft("ps", "--json").stdout)["needs_you"]
    assert need["do"][0] == command
    helped = project.weft(*command.split()[1:])
    assert helped.returncode == 0, helped.stderr
    project.run("--resume")


def test_a_story_that_is_refused_three_times_asks_for_a_person(project: RunProject) -> None:
    project.agent("review", text=f"- script: answer {REFUSED}")
    parts = [
        {
            "id": f"S.{n}",
            "title": "A part",
            "files": [f"src/{n}"],
            "description": f"- script: append src/{n} x",
        }
        for n in (1, 2)
    ]
    story = {"id": "S", "title": "A story", "subtasks": parts}
    project.write(**{"prd.json": json.dumps({"title": "Stories", "stories": [story]})})
    done = project.weft("run", "prd.json", "--stages", "implement,review")
    states = project.states()
    assert (states["S"], states["S.1"], states["S.2"]) == ("blocked", "gating", "gating")
    assert_stands(done, f"weft retry {project.run_id()}/S")
    told = [line for line in done.stdout.splitlines() if "] ✗ S: " in line]
    assert len(told) == 3, done.stdout
    assert "needs you" in told[-1]
    assert project.weft("skip", str(number(project, "S"))).returncode == 0
    project.run("--resume")
    assert project.landed("src/1") == project.landed("src/2") == "x\n"


def test_a_budget_that_is_used_up_can_be_raised(project: RunProject) -> None:
    write_plan(project, ("", "use 10 10 3.00"), ("", ""), execution="sequential")
    done = project.weft("run", "plan.md", "--budget", "3")
    command = f"weft limits set run:{project.run_id()}/usd 5.00"
    assert_stands(done, command)
    assert "$3.00 of $3.00 is spent" in done.stdout
    assert_helps(project, command)
    project.assert_landed_once("1.1", "1.2")


def test_a_drained_store_is_named(project: RunProject) -> None:
    write_plan(project, ("", ""))
    assert project.weft("drain").returncode == 0
    assert_stands(project.weft("run", "plan.md"), "weft drain --undo")
    assert_helps(project, "weft drain --undo")


def test_a_limit_of_0_is_named_when_all_that_ran_has_ended(
    project: RunProject, tmp_path: Path
) -> None:
    """It keeps tasks from starting, and the gate from checking what asks to land."""
    go = tmp_path / "go"
    write_plan(project, ("", f"wait {go}"), ("", ""), execution="sequential")
    run = project.start("run", "plan.md")
    wait_until(lambda: "running" in project.states().values(), "the first task runs")
    assert project.weft("limits", "set", "requests", "0").returncode == 0
    go.touch()
    out, err = run.communicate(timeout=PATIENCE)
    done = subprocess.CompletedProcess((), run.returncode, out, err)
    assert project.states()["1.1"] == "gating", "what ran was waited for"
    assert_stands(done, "weft limits set requests 24")
    assert_helps(project, "weft limits set requests 24")


def test_more_than_any_host_has_is_named_and_the_rest_lands(project: RunProject) -> None:
    write_plan(project, ("uses: ram_gb=9999", ""), ("", ""))
    done = project.weft("run", "plan.md")
    assert project.states() == {"1.1": "ready", "1.2": "done"}
    assert_stands(done, f"weft skip {project.run_id()}/1.1")
    assert f"/1.1 asks for {9999 * 1024} of host:" in done.stdout


def test_a_run_waits_for_its_place_while_another_is_at_work_and_no_longer(
    project: RunProject, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    assert project.weft("limits", "set", "runs", "1").returncode == 0
    write_plan(project, ("", f"wait {go}; fail other No"))
    first = project.start("run", "plan.md")
    wait_until(lambda: "running" in project.states().values(), "the first run is at work")
    write_plan(project, ("", ""), file="other.md")
    second = project.start("run", "other.md")
    wait_until(lambda: len(project.rows("SELECT id FROM runs")) == 2, "the second is submitted")
    time.sleep(2)  # longer than a run may look stuck before it is taken to be
    assert second.poll() is None, "something may still move"
    go.touch()
    assert first.wait(PATIENCE) == 1
    out, err = second.communicate(timeout=PATIENCE)
    done = subprocess.CompletedProcess((), second.returncode, out, err)
    assert_stands(done, "weft limits set runs 2")


def test_labels_that_no_worker_has_ask_for_a_worker(project: RunProject) -> None:
    write_plan(project, ("needs_labels: gpu", ""))
    assert_stands(project.weft("run", "plan.md"), "weft worker --label gpu")


def test_a_run_waits_until_a_worker_that_left_comes_back(project: RunProject) -> None:
    """Its labels are those that the task needs; `weft run` itself has none."""
    project.settings(check=None, gone_after=120.0)
    go, began = project.root.parent / "go", project.root.parent / "began"
    wait = (
        f"cat > /dev/null; touch {began}; while [ ! -e {go} ]; do sleep 0.1; done; echo x > src/1"
    )
    project.shell("slow", wait)
    project.commit()
    write_plan(project, ("agent: slow; needs_labels: gpu", ""))
    worker = ("worker", "--slots", "1", "--label", "gpu")
    project.start(*worker)
    wait_until(lambda: project.rows("SELECT * FROM workers"))
    run = project.start("run", "plan.md")
    wait_until(began.exists)
    assert project.weft("worker", "--leave").returncode == 0
    go.touch()
    assert run.stdout is not None
    needed = "needs a worker with the label gpu, and no present worker has it: weft waits 2 min"
    assert any(needed in line for line in run.stdout)
    project.start(*worker)
    assert run.wait(timeout=PATIENCE) == 0
