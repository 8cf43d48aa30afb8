"""`weft loop`: the agents of `weft init --template loop` with a program that needs no model."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from cli.shell import make_project, weft
from repositories import commit_all, content, git
from weft.agents.agent_file import parse_agent

AGENT = Path(__file__).with_name("loop_agent.py")
ROLES = ("dispatch", "develop", "review", "land")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = make_project(tmp_path / "project")
    made = weft(root, "init", "--yes", "--template", "loop")
    assert made.returncode == 1, "claude is not installed"
    for role in ROLES:
        file = root / ".weft" / "agents" / f"{role}.md"
        text = re.sub(
            r"(?m)^runs: .*$", f"runs: [{sys.executable}, {AGENT}, {role}]", file.read_text()
        )
        text = re.sub(r"(?m)^provider: .*\n", "", text)
        file.write_text(re.sub(r"(?m)^sandbox: .*$", "sandbox: off", text))
    (root / "issues").mkdir()
    commit_all(root, "A loop")
    return root


def add_issue(project: Path, name: str, state: str = "open") -> None:
    (project / "issues" / f"{name}.md").write_text(f"---\nstate: {state}\n---\nAdd {name}.\n")
    commit_all(project, f"Add the issue {name}")


def test_the_template_writes_agents_with_their_limits(project: Path) -> None:
    agents = {
        role: parse_agent(
            (project / ".weft" / "agents" / f"{role}.md").read_text(), name=role, file=role
        )
        for role in ROLES
    }
    assert {name: agent.max_concurrency for name, agent in agents.items()} == {
        "dispatch": 1,
        "develop": 3,
        "review": 2,
        "land": 1,
    }
    assert agents["dispatch"].hands_to == ("develop",)
    assert agents["develop"].takes == {"issue": "text", "files": "files"}


def test_a_loop_works_through_the_issues_until_nothing_is_left(project: Path) -> None:
    add_issue(project, "first")
    add_issue(project, "second")
    done = weft(project, "loop", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["state"] == "done"
    trunk = f"weft/{told['run']}"
    for name in ("first", "second"):
        assert "state: done" in content(project, trunk, f"issues/{name}.md")
        assert content(project, trunk, f"src/{name}.py") == f"{name} = 1\n"
    titles = git(project, "log", "--format=%s", f"HEAD..{trunk}").splitlines()
    assert sorted(titles) == ["Add first", "Add second"]
    assert weft(project, "why", f"{told['run']}/1").stdout.count("dispatch → develop") == 1
    again = weft(project, "recordings", "play", told["run"], "--fast", "--json")
    assert json.loads(again.stdout)["same"], "the chains are played again"


def test_a_loop_ends_when_its_dispatcher_sleeps_and_goes_on_later(project: Path) -> None:
    add_issue(project, "wait", "later")
    done = weft(project, "loop")
    assert done.returncode == 0, done.stderr
    assert "the dispatcher sleeps" in done.stdout
    again = weft(project, "loop", "--json")
    assert json.loads(again.stdout)["state"] == "sleeps"
    assert git(project, "for-each-ref", "refs/heads/weft/").count("\n") == 1, "the same run"


def test_an_agent_that_hands_over_to_no_agent_cannot_lead_a_loop(project: Path) -> None:
    refused = weft(project, "loop", "--agent", "try")
    assert refused.returncode == 2
    assert "weft init --template loop" in refused.stderr
