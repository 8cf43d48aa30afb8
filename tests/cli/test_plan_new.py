"""`weft plan new "goal"` with planners of every quality, played by the scripted agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cli.shell import make_project, weft
from databases import look
from repositories import content, git

AGENT = "---\nruns: scripted\nstage: plan\n{settings}---\n{{{{ task.text }}}}\n{script}\n"
AGAIN = "{% if '## The problems of your last plan' in task.text %}"


def planner(*script: str, settings: str = "") -> str:
    return AGENT.format(settings=settings, script="\n".join(f"- script: {line}" for line in script))


def answering(plan: str, dollars: str = "0.01") -> tuple[str, str]:
    escaped = plan.replace("\\", "\\\\").replace("\n", "\\n")
    return f"use 100 10 {dollars}", f"answer {escaped}"


def make_task(number: int, file: str, key: str = "new") -> str:
    return (
        f"- [ ] Task {number}: Write {file}\n"
        f"  - script: write {file} made\n"
        f"  <!-- {key}: {file}; check: grep -q made {file} -->\n"
    )


HEAD = "# Greetings\n\n## Phase 1: All\n<!-- execution: parallel -->\n\n"
GOOD = HEAD + make_task(1, "hello.txt") + make_task(2, "bye.txt")
UNMARKED = HEAD + make_task(1, "hello.txt", key="files") + make_task(2, "bye.txt")


def improving(first: str, second: str, settings: str = "") -> str:
    """A planner that gives a better plan when it is told the problems of the first."""
    lines = [f"- script: {line}" for line in answering(first)]
    better = [f"- script: {line}" for line in answering(second)]
    script = "\n".join([AGAIN, *better, "{% else %}", *lines, "{% endif %}"])
    return AGENT.format(settings=settings, script=script)


def plan_for(project: Path, agent: str, *options: str) -> dict[str, Any]:
    done = weft(project, "plan", "new", "Greet", "--agent", agent, "--json", *options)
    assert done.returncode in (0, 1), done
    answer: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode == 0) == (answer["file"] is not None and not answer["problems"])
    return answer


def states(project: Path) -> list[str]:
    url = f"sqlite:///{project / '.git' / 'weft' / 'weft.db'}"
    return [str(row["state"]) for row in look(url, "SELECT state FROM tasks ORDER BY id")]


def test_a_goal_becomes_a_plan_that_runs_and_lands(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", plan=improving(UNMARKED, GOOD))
    done = weft(project, "plan", "new", "Greet the world")
    assert done.returncode == 0, done
    assert "round 2 of at most 3" in done.stdout
    assert "[no-such-path]" in done.stdout
    assert "Wrote plan.md: 2 tasks, no problems. Nothing was run." in done.stdout
    assert "Planning took 2 rounds" in done.stdout
    assert "$0.02" in done.stdout
    assert (project / "plan.md").read_text() == GOOD
    assert git(project, "branch", "--list", "weft/*") == ""
    ran = weft(project, "run", "plan.md", "--agent", "try")
    assert ran.returncode == 0, ran
    [branch] = git(project, "branch", "--list", "--format=%(refname:short)", "weft/*").split()
    assert content(project, branch, "hello.txt") == "made\n"
    assert content(project, branch, "bye.txt") == "made\n"


def test_problems_go_back_into_the_same_session_with_line_numbers(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", plan=improving(UNMARKED, GOOD))
    assert plan_for(project, "plan")["rounds"] == 2
    url = f"sqlite:///{project / '.git' / 'weft' / 'weft.db'}"
    sessions = {row["session"] for row in look(url, "SELECT session FROM attempts")}
    assert len(sessions) == 1
    [_, second] = look(url, "SELECT text FROM tasks ORDER BY id")
    assert "line 6 (`- [ ] Task 1: Write hello.txt`): 1.1 names hello.txt" in second["text"]
    assert "[no-such-path]" in second["text"]
