"""Teams: several entrants work on a task, and exactly one candidate lands."""

from __future__ import annotations

import json

import pytest

from end_to_end.run_project import RunProject
from repositories import git

pytestmark = pytest.mark.timeout(120)

BETTER = """\
import json, sys
prompt = sys.stdin.read()
first = prompt.index("## Candidate 1"); second = prompt.index("## Candidate 2")
place = prompt.index("MARKED")
print(json.dumps({"better": 1 if first < place < second else 2, "why": "it is marked"}))
"""
"""A judge that prefers the candidate with the word MARKED, wherever it stands."""


def plan(*teams: str) -> str:
    """A plan with a task for each text of annotations, called a, b, c …"""
    lines = ["## Phase 1: All", "<!-- execution: parallel -->", ""]
    for name, team in zip("abcdefgh", teams, strict=False):
        lines += [f"- [ ] The task {name}", f"  <!-- id: {name}; files: src/{name}/**; {team} -->"]
    return "\n".join(lines) + "\n"


def write(project: RunProject, name: str, *script: str) -> None:
    """An agent that carries out a script, the same for each task."""
    project.agent(name, "stage: implement\n", "".join(f"script: {line}\n" for line in script))


def landed(project: RunProject, path: str) -> str:
    return git(project.root, "show", f"weft/{project.run_id()}:{path}").strip()


def steps(project: RunProject, name: str) -> dict[str, list[int]]:
    """The candidates left after each step of a choice."""
    rows = project.rows(
        "SELECT e.data FROM events e JOIN tasks t ON t.id = e.task"
        " WHERE e.kind = 'team_step' AND t.name = ? ORDER BY e.id",
        name,
    )
    data = [json.loads(row["data"]) for row in rows]
    return {step["step"]: step["left"] for step in data}


def assert_closed(project: RunProject) -> None:
    """Nothing of a team is held once its run has ended."""
    assert project.rows("SELECT * FROM leases WHERE state <> 'released'") == []
    assert project.rows("SELECT * FROM claims") == []


CHECK = "! grep -rqs BROKEN src && for t in $(find src -name 'test_*'); do sh $t || exit 1; done"
FIRST = 'print(\'{"better": 1, "why": "it came first"}\')'


def judge(project: RunProject, name: str, program: str) -> None:
    argv = json.dumps(["python3", "-c", program])
    project.write(**{f".weft/agents/{name}.md": f"---\nruns: {argv}\nstage: judge\n---\n"})


def test_the_evidence_chooses_the_candidate_that_lands(project: RunProject) -> None:
    it = "write src/{{ task.name }}/it"
    write(project, "bad", f"{it} BROKEN")
    write(project, "angel", f"{it} fine")
    write(project, "short", f"{it} short")
    write(project, "long", f"{it} long\\nlong\\nlong")
    write(project, "same", f"{it} fine")
    write(project, "marked", f"{it} MARKED\\nMARKED\\n")
    write(
        project, "tester", f"{it} right\\n", "write src/{{ task.name }}/test_it grep right src/d/it"
    )
    judge(project, "judge", BETTER)
    judge(project, "first", FIRST)
    project.settings(CHECK)
    project.commit()
    assert project.weft("limits", "set", "run/teams", "8").returncode == 0
    teams = {
        "a": ("team: bad, angel", "fine", 2),
        "b": ("team: same, angel", "fine", 1),
        "c": ("team: long, short", "short", 2),
        "d": ("team: short, tester", "right", 2),
        "e": ("team: short, marked; judge: judge", "MARKED\nMARKED", 2),
        "f": ("team: long, short; judge: first", "short", 2),
        "g": ("team: hedge; agent: angel", "fine", 1),
        "h": ("team: hedge; agent: bad", "fine", 2),
    }
    project.plan.write_text(plan(*(team for team, _, _ in teams.values())))
    project.run("plan.md", "--slots", "8")
    states = project.states()
    for name, (_, text, winner) in teams.items():
        assert landed(project, f"src/{name}/it") == text, name
        won = [entrant for entrant in (1, 2, 3) if states.get(f"{name}/{entrant}") == "done"]
        assert (states[name], won) == ("done", [winner]), name
    assert "g/2" not in states
    assert steps(project, "a") == {"scope and merge": [1, 2], "gate check": [2], "task check": [2]}
    assert steps(project, "b")["equal candidates"] == [1]
    assert steps(project, "d")["tests of the others"] == [2]
    assert steps(project, "e")["judge"] == [2]
    assert steps(project, "f")["judge"] == [1, 2]
    assert steps(project, "f")["smaller diff"] == [2]
    assert steps(project, "h")["first green candidate"] == [2]
    assert_closed(project)


def test_a_person_compares_and_chooses_when_no_candidate_passes(project: RunProject) -> None:
    """One entrant hangs until its time is over, the other is red; so is the attempt after them."""
    project.agent("hanging", "timeout: 1s\n", "script: grandchild 600 deaf\nscript: hang\n")
    write(project, "red", "attempt 1: write src/a/it BROKEN", "attempt 2: write src/a/it fine")
    project.commit()
    project.plan.write_text(plan("team: hanging, red"))
    asked = project.run("plan.md", code=1)
    assert project.states() == {"a": "blocked", "a/1": "failed", "a/2": "failed", "a/3": "failed"}
    assert project.marked() == {}
    assert "--compare`" in asked["needs_you"][0]["text"]
    [last] = project.rows("SELECT id FROM tasks WHERE name = 'a/3'")
    [prompt] = project.root.glob(f".git/weft/attempts/*/{last['id']}.1/stdin")
    assert "Entrant 2: Its checks fail" in prompt.read_text()
    shown = project.weft("review", "a", "--compare").stdout
    assert "1 hanging: no candidate in scope" in shown
    assert "2 red: fails the gate's check" in shown
    assert "+BROKEN" in shown
    assert max(map(len, shown.splitlines())) <= 200
    compared = json.loads(project.weft("review", "a", "--compare", "--json").stdout)
    assert [entrant["entrant"]["result"] for entrant in compared["entrants"]] == [
        "failed",
        "gate_red",
        "failed",
    ]
    assert "has left no candidate" in project.weft("review", "a", "--choose", "1").stderr
    assert project.weft("review", "a", "--choose", "2").returncode == 0
    project.run("--resume")
    assert landed(project, "src/a/it") == "fine"
    assert project.outcomes("a/2") == ["success", "success"]
    assert_closed(project)
    assert "entrant 2 was chosen" in project.weft("why", "a").stdout


def test_weft_do_lets_a_team_do_a_single_task(project: RunProject) -> None:
    write(project, "long", "write src/it long\\nlong")
    write(project, "short", "write src/it short")
    project.agent("implement", "team: long, short\n")
    project.commit()
    done = project.weft("do", "Write it", "--files", "src/it", "--team", "long, short", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert landed(project, "src/it") == "short"
    report = json.loads(project.weft("report", "--json").stdout)
    chosen = [(choice["task"], choice["step"], choice["left"]) for choice in report["choices"]]
    assert chosen[-2:] == [("do", "smaller diff", [2]), ("do", "chosen", [2])]
    losers = project.rows(
        "SELECT a.candidate FROM attempts a JOIN tasks t ON t.id = a.task"
        " WHERE t.state = 'cancelled'"
    )
    for loser in losers:
        refs = git(project.root, "for-each-ref", "--contains", loser["candidate"])
        assert "refs/weft/" in refs  # kept, although it lost
    assert len(losers) == 1
    project.plan.write_text(plan("priority: high"))  # the team of its agent's file
    poor = project.weft("run", "plan.md", "--budget", "5")
    assert "The team of task a reserves $6.00, and the run has $5.00" in poor.stderr
    project.weft("run", "plan.md")
    assert {"a", "a/1", "a/2"} <= project.states().keys()
