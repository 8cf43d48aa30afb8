"""Teams that are killed again and again: the same results give the same choice."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from chaos import CHAOS
from end_to_end.run_observer import Watcher
from end_to_end.run_project import RunProject
from wait_until import PATIENCE, wait_until

pytestmark = pytest.mark.timeout(600)

JUDGE = """\
import json, os, signal, sys
prompt = sys.stdin.read()
if os.environ["WEFT_ATTEMPT"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
first = prompt.index("## Candidate 1"); second = prompt.index("## Candidate 2")
print(json.dumps({"better": 1 if first < prompt.index("MARKED") < second else 2}))
"""
"""A judge that crashes at its first attempt, and then prefers the candidate that is marked."""

TEAMS = {
    "best": ("team: slow, long, short", "short"),
    "crash": ("team: crashing, long", "once"),
    "judged": ("team: short, marked; judge: judge", "MARKED\nMARKED"),
    "hedged": ("team: hedge; agent: bad", "short"),
}
"""The annotations of each task, and the text that has to land."""


def make(project: RunProject, go: Path) -> None:
    scripts = {
        "bad": ["write {it} BROKEN"],
        "crashing": ["attempt 1: crash KILL", "sleep 0.2", "write {it} once"],
        "long": ["sleep 0.3", "write {it} long\\nlong"],
        "marked": ["write {it} MARKED\\nMARKED"],
        "short": ["sleep 0.1", "write {it} short"],
        "slow": [f"wait {go}", "write {it} slow\\nslow\\nslow"],
    }
    for name, script in scripts.items():
        # Only `short` may follow in a hedge: it is the only other agent of the stage.
        front = "stage: implement\n" if name in ("bad", "short") else ""
        lines = [line.format(it="src/{{ task.name }}") for line in script]
        project.agent(name, front, "".join(f"script: {line}\n" for line in lines))
    argv = json.dumps(["python3", "-c", JUDGE])
    project.write(**{".weft/agents/judge.md": f"---\nruns: {argv}\nstage: judge\n---\n"})
    plan = ["## Phase 1: All", "<!-- execution: parallel -->", ""]
    for name, (team, _) in TEAMS.items():
        plan += [f"- [ ] The task {name}", f"  <!-- id: {name}; files: src/{name}; {team} -->"]
    project.plan.write_text("\n".join(plan) + "\n")
    project.write(**{".weft/agents/implement.md": "---\nruns: scripted\n---\n"})
    project.commit()


def disturb(project: RunProject, chance: random.Random, kills: int) -> None:
    """Kill `weft run`, alone or with all its agents, at random moments; go on each time."""
    process = project.start("run", "plan.md", "--slots", "4")
    for _ in range(kills):
        question = "SELECT workers.id FROM workers, runs WHERE pid = ?"
        wait_until(lambda: process.poll() is not None or project.rows(question, process.pid))  # noqa: B023
        time.sleep(chance.uniform(0.0, 0.9) ** 2)
        if process.poll() is not None:
            break
        project.kill(process, whole=chance.random() < 0.4)
        if project.rows("SELECT state FROM runs") == [{"state": "ended"}]:
            return
        process = project.start("run", "--resume")
    out, err = process.communicate(timeout=PATIENCE * 2)
    assert process.returncode == 0, (out, err)


def survive(project: RunProject, seed: int, kills: int) -> None:
    go = project.root.parent / "go"  # made when the watcher has seen an agent at work
    make(project, go)
    with Watcher(project, go=go) as watcher:
        disturb(project, random.Random(seed), kills)
    watcher.assert_saw_nothing()
    for name, (_, text) in TEAMS.items():
        assert project.landed(f"src/{name}").strip() == text, name
    landed = project.rows("SELECT story FROM entries WHERE state = 'landed'")
    teams = project.rows("SELECT task FROM teams WHERE state = 'decided'")
    assert sorted(row["story"] for row in landed) == sorted(row["task"] for row in teams)
    assert len(landed) == len(TEAMS)
    assert project.rows("SELECT * FROM leases WHERE state <> 'released'") == []
    assert project.rows("SELECT * FROM claims") == []
    assert project.marked() == {}


def test_killed_teams_come_to_the_same_choice(either: RunProject) -> None:
    survive(either, seed=3, kills=3)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not CHAOS, reason="the longer version: make chaos")
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.each_store
def test_teams_survive_many_kills(tmp_path: Path, url: str, seed: int) -> None:
    project = RunProject(tmp_path, url)
    try:
        survive(project, seed=seed, kills=15)
    finally:
        project.close()
