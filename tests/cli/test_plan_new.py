"""`weft plan new "goal"` with planners of every quality, played by the scripted agent."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from cli.shell import (
    agents_of,
    assert_one_sentence,
    make_project,
    runs,
    started,
    wait_line,
    weft,
)
from databases import look
from repositories import content, git
from wait_until import wait_until

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


def tasks_plan(*tasks: str) -> str:
    return HEAD + "".join(tasks)


HOSTILE = tasks_plan(
    "- [ ] Task 1: Read it\n  <!-- files: ../../etc/passwd, .git/config; check: x -->\n"
)
CYCLE = tasks_plan(
    "- [ ] Task 1: One\n  <!-- new: a; check: x; depends: task2 -->\n",
    "- [ ] Task 2: Two\n  <!-- new: b; check: x; depends: task1 -->\n",
)
MANY = tasks_plan(*(f"- [ ] Task {number}: More\n" for number in range(1, 3001)))


@pytest.mark.parametrize(
    ("plan", "code"),
    [(HOSTILE, "bad-path"), (CYCLE, "cycle"), (MANY, "too-many-tasks"), (UNMARKED, "no-such-path")],
    ids=["hostile paths", "cycle", "thousands of tasks", "the same plan again"],
)
def test_a_planner_that_does_not_learn_is_ended_and_its_problems_are_told(
    tmp_path: Path, plan: str, code: str
) -> None:
    project = make_project(tmp_path / "project", plan=planner(*answering(plan)))
    answer = plan_for(project, "plan")
    assert code in {problem["code"] for problem in answer["problems"]}
    assert answer["rounds"] == 2, "the same plan again is the end"
    assert "the same plan again" in answer["end"]
    assert answer["micro_usd"] == 20_000
    assert (project / "plan.md").read_text() == plan, "the person gets the plan"
    assert git(project, "branch", "--list", "weft/*") == "", "nothing is run"
    assert states(project) == ["done", "done"]


def test_a_planner_without_a_plan_writes_no_file_and_its_cost_is_told(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", plan=planner("use 100 10 0.01", "answer No."))
    done = weft(project, "plan", "new", "Greet")
    assert done.returncode == 1, done
    assert "The planner gave no plan again." in done.stdout
    assert "No plan was written." in done.stdout
    assert "Planning took 2 rounds" in done.stdout
    assert "$0.02" in done.stdout
    assert not (project / "plan.md").exists()


def test_a_planner_that_gets_worse_leaves_its_last_plan_after_three_rounds(tmp_path: Path) -> None:
    rounds = [f"- script: attempt 1: {line}" for line in answering(UNMARKED)]
    text = (
        "{% if '[placeholder]' in task.text %}\n- script: answer I give up.\n"
        f"{{% elif '[no-such-path]' in task.text %}}\n"
        f"- script: {answering(UNMARKED.replace('Write bye', 'TODO: bye'))[1]}\n"
        "{% else %}\n" + "\n".join(rounds) + "\n{% endif %}"
    )
    project = make_project(tmp_path / "project", plan=AGENT.format(settings="", script=text))
    answer = plan_for(project, "plan")
    assert (answer["rounds"], answer["end"]) == (3, "The planner had 3 rounds.")
    assert "TODO" in (project / "plan.md").read_text()


@pytest.mark.parametrize(
    ("script", "settings", "words"),
    [
        ("crash KILL", "", "failed 3 times in the same way"),
        ("hang", "timeout: 1s\n", "took too long"),
        ("fail auth no key", "", "stopped"),
    ],
)
def test_a_planner_that_dies_hangs_or_is_not_logged_in_comes_to_a_clear_end(
    tmp_path: Path, script: str, settings: str, words: str
) -> None:
    agent = planner("use 100 10 0.01", script, settings=settings)
    project = make_project(tmp_path / "project", plan=agent)
    answer = plan_for(project, "plan")
    assert answer["file"] is None
    assert "The planner failed" in answer["end"]
    assert words in answer["end"]
    assert answer["micro_usd"] >= 10_000
    assert states(project) == ["cancelled"], "no later worker plans for a command that has ended"


def test_all_rounds_share_the_budget_of_the_planner(tmp_path: Path) -> None:
    agent = improving(UNMARKED, UNMARKED.replace("Greetings", "Hello"), "budget: $0.015\n")
    project = make_project(tmp_path / "project", plan=agent)
    answer = plan_for(project, "plan")
    assert answer["rounds"] == 2
    assert "The budget of plan, $0.01" in answer["end"]
    assert "is used up" in answer["end"]


def test_a_plan_that_the_planner_wrote_to_a_file_counts_and_no_other_file_does(
    tmp_path: Path,
) -> None:
    escaped = GOOD.replace("\n", "\\n").removesuffix("\\n")
    agent = planner(f"write plan.md {escaped}", "write README.md spoiled", "answer It is written.")
    project = make_project(tmp_path / "project", plan=agent)
    readme = (project / "README.md").read_text() if (project / "README.md").exists() else None
    answer = plan_for(project, "plan", "-o", "greet.md")
    assert (answer["file"], answer["problems"], answer["tasks"]) == ("greet.md", [], 2)
    assert (project / "greet.md").read_text() == GOOD
    assert not (project / "plan.md").exists()
    assert readme is None or (project / "README.md").read_text() == readme


def test_what_could_only_fail_is_refused_before_an_agent_starts(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    assert_one_sentence(weft(project, "plan", "new", "x"), 2, "`stage: plan`", "`weft init`")
    gone = runs("no-such-program").replace("---\nruns", "---\nstage: plan\nruns", 1)
    (project / ".weft" / "agents" / "plan.md").write_text(gone)
    assert_one_sentence(weft(project, "plan", "new", "x"), 2, "no-such-program is not installed")
    (project / ".weft" / "agents" / "plan.md").write_text(planner(*answering(GOOD)))
    (project / "plan.md").write_text("mine")
    refused = weft(project, "plan", "new", "x")
    assert_one_sentence(refused, 2, "plan.md exists already", "--overwrite")
    assert_one_sentence(weft(project, "plan", "new", " ", "-o", "b.md"), 2, "what the plan is for")
    assert_one_sentence(
        weft(project, "plan", "new", "--from", "gaol.md", "-o", "b.md"), 2, "gaol.md"
    )
    assert (project / "plan.md").read_text() == "mine"
    assert not (project / ".git" / "weft" / "weft.db").exists(), "no task was submitted"
    done = weft(project, "plan", "new", "x", "--overwrite")
    assert done.returncode == 0, done
    assert (project / "plan.md").read_text() == GOOD


def test_the_goal_comes_from_a_file_or_is_the_text_of_an_issue(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", plan=planner(*answering(GOOD)))
    (project / "issue.md").write_text("Greet as issue 12 says")
    for number, source in enumerate(("issue.md", "Greet as issue 12 says")):
        done = weft(project, "plan", "new", "--from", source, "-o", f"{number}.md", "--json")
        assert done.returncode == 0, done
    url = f"sqlite:///{project / '.git' / 'weft' / 'weft.db'}"
    texts = [row["text"] for row in look(url, "SELECT text FROM tasks")]
    assert all(text.startswith("Greet as issue 12 says\n") for text in texts)
    assert all("## The repository" in text for text in texts)


def test_an_interrupted_planner_is_ended_with_all_its_processes(tmp_path: Path) -> None:
    agent = planner("say thinking", "grandchild 600", "hang", settings="commands: yes\n")
    project = make_project(tmp_path / "project", plan=agent)
    with started(project, "plan", "new", "Greet", SHUTDOWN_TIMEOUT="0") as process:
        wait_line(process, "thinking")
        wait_until(lambda: len(agents_of(project)) > 1)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    wait_until(lambda: not agents_of(project))
    assert not (project / "plan.md").exists()
    assert states(project) == ["cancelled"]
