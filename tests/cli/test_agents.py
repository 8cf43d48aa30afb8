"""`weft agents`: what is listed, what a trial finds out, and what it leaves behind: nothing."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from cli.shell import answer, assert_one_sentence, make_project, runs, started, wait_line, weft
from databases import look, postgres_later
from repositories import commit_all, content, make_repository
from weft.agents.prompt import Briefing, write_prompt
from weft.config import BoxKind
from weft.maintenance.detection import detect
from weft.maintenance.examination import examine
from weft.maintenance.project_files import init
from weft.process import box
from weft.project.site import read_agent
from weft.store import open_store
from weft.store.limit_table import stop_agent

CLAUDE = (
    "---\ndescription: Thinks.\nruns: claude\nstage: implement\nprovider: anthropic\n---\nDo it.\n"
)


def install(directory: Path, name: str, script: str) -> str:
    """A program on a PATH of its own, which is returned."""
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)
    return f"{directory}:/usr/local/bin:/usr/bin:/bin"


def test_agents_are_listed_with_their_programs_and_broken_files_with_their_errors(
    tmp_path: Path,
) -> None:
    limited = "---\nruns: scripted\ncommands: yes\nmax_concurrency: 2\n---\n{{ task.text }}\n"
    project = make_project(
        tmp_path / "project", think=CLAUDE, broken="---\nrums: claude\n---\n", limited=limited
    )
    path = install(tmp_path / "bin", "claude", "echo '2.1.325 (Claude Code)'")
    listed = {one["name"]: one for one in answer(project, "agents", "--json", PATH=path)["agents"]}
    assert listed["think"] == {
        "name": "think",
        "description": "Thinks.",
        "runs": "claude",
        "program": "claude",
        "installed": str(tmp_path / "bin" / "claude"),
        "version": "2.1.325",
        "stage": "implement",
        "provider": "anthropic",
        "sandbox": box.available().resolve(BoxKind.ON).value,
        "running": 0,
        "limit": None,
        "stopped": None,
        "error": None,
    }
    assert listed["limited"]["limit"] == 2
    assert listed["broken"]["runs"] is None
    assert "line 2" in listed["broken"]["error"]
    assert "Did you mean runs?" in listed["broken"]["error"]
    shown = weft(project, "agents", PATH="/usr/bin:/bin")
    assert shown.returncode == 0
    assert "claude (not installed)" in shown.stdout
    assert "weft looked for it on your PATH (for think)" in shown.stdout
    assert "unknown setting 'rums'" in shown.stdout
    assert not (project / ".git" / "weft").exists(), "looking makes no store"


def test_without_agent_files_the_list_says_what_writes_some(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    (project / ".weft" / "agents" / "try.md").unlink()
    assert "`weft init`" in weft(project, "agents").stdout


def test_an_agent_that_is_not_logged_in_is_stopped_and_the_task_is_not_left(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path / "project")
    done = weft(project, "do", "x\nscript: fail auth no key given", "--agent", "try")
    assert done.returncode == 1
    assert "no key given" in done.stdout
    assert "cancelled (its agent is stopped)" in done.stdout
    [finding] = [one for one in examine(project, {}, now=time.time()) if "stopped" in one.text]
    assert finding.good
    assert "Agent try is stopped" in finding.text


@postgres_later
def test_a_stopped_agent_is_refused_until_a_trial_shows_that_it_works(
    tmp_path: Path, url: str
) -> None:
    project = make_project(tmp_path / "project")
    with open_store(url) as store:
        store.write(lambda tx: stop_agent(tx, "try", "It has \x1b[31mno key.", now=1))
    done = weft(project, "do", "x", "--agent", "try", "--json", WEFT_STORE=url)
    assert_one_sentence(done, 2, "no key).", "`weft agents test try`")
    shown = weft(project, "agents", WEFT_STORE=url).stdout
    assert "stopped" in shown
    assert "\x1b" not in shown + done.stderr
    told = answer(project, "agents", "test", "try", "--json", WEFT_STORE=url)
    assert (told["works"], told["problem"], told["resumed"]) == (True, None, True)
    assert look(url, "SELECT * FROM stopped_agents") == []


def test_a_stopped_agent_can_be_resumed_by_hand(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    url = f"sqlite:///{tmp_path / 'weft.db'}"
    with open_store(url) as store:
        store.write(lambda tx: stop_agent(tx, "try", "no key", now=1))
    done = weft(project, "agents", "resume", "try", WEFT_STORE=url)
    assert done.stdout == "try can be started again.\n"
    assert not answer(project, "agents", "resume", "try", "--json", WEFT_STORE=url)["resumed"]


def test_a_trial_says_in_plain_words_what_is_wrong(tmp_path: Path) -> None:
    project = make_project(
        tmp_path / "project",
        silent=runs("sh", "-c", "cat > /dev/null"),
        gone=runs("no-such-program"),
        broken="---\nruns: scripted\n---\n{{ task.txt }}\n",
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = weft(project, "agents", "test", "silent", "--json", TMPDIR=str(temporary))
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["problem"] == "no_change"
    assert "may not do so without asking" in told["text"]
    done = weft(project, "agents", "test", "gone")
    assert done.returncode == 1
    assert "no-such-program is not installed" in done.stdout
    assert "The PATH is " in done.stdout
    assert_one_sentence(weft(project, "agents", "test", "broken"), 2, "line 4", "task.txt")
    assert list(temporary.iterdir()) == []
    assert not (project / ".git" / "weft").exists(), "a trial takes nothing from the project"


@pytest.mark.parametrize("script", ["echo no > hello.txt", "echo hello > other.txt"])
def test_a_trial_looks_at_the_file_it_asked_for(tmp_path: Path, script: str) -> None:
    project = make_project(tmp_path / "project", odd=runs("sh", "-c", f"cat > /dev/null; {script}"))
    done = weft(project, "agents", "test", "odd", "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert (told["works"], told["problem"]) == (False, "wrong_file")
    assert "hello.txt does not contain" in told["text"]


def test_an_interrupted_trial_leaves_neither_directory_nor_process(tmp_path: Path) -> None:
    pidfile = tmp_path / "pid"
    project = make_project(
        tmp_path / "project", slow=runs("sh", "-c", f"echo $$ > {pidfile}; echo up; exec sleep 600")
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with started(project, "agents", "test", "slow", TMPDIR=str(temporary)) as process:
        wait_line(process, "up")
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    assert list(temporary.iterdir()) == []
    assert not Path(f"/proc/{pidfile.read_text().strip()}").exists()


def test_what_init_writes_can_be_tried_at_once(tmp_path: Path) -> None:
    project = make_repository(tmp_path / "project")
    init(project, detect(project, {}))
    told = answer(project, "do", "Hello there", "--agent", "try", "--json")
    assert told["state"] == "done"
    assert content(project, told["branch"], "hello.txt") == "Hello there\n"
    question = Briefing(task="t", title="Why?", text="Why?")
    assert "script: answer You said: Why?" in write_prompt(read_agent(project, "try"), question)


def test_doctor_calls_a_broken_agent_file_a_problem_and_a_missing_program_a_note(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path / "project", broken="no front matter", gone=runs("no-such"))
    done = weft(project, "doctor")
    assert done.returncode == 2
    [problem] = [line for line in done.stdout.splitlines() if line.startswith("PROBLEM")]
    assert "agents" in problem
    assert "broken.md" in problem
    assert "note     agents: gone: no-such, not installed" in done.stdout
    for name in ("sandbox", "cgroup", "watchdog"):
        assert f"ok       {name}: " in done.stdout


def test_a_program_that_its_box_does_not_reach_is_said_before_the_first_attempt(
    tmp_path: Path,
) -> None:
    """A link on the PATH leads into a directory of keys, which no box opens by itself."""
    if box.available().resolve(BoxKind.BWRAP) is BoxKind.OFF:
        pytest.skip("bubblewrap is not to be had on this machine")
    home, programs = tmp_path / "home", tmp_path / "home" / ".local" / "bin"
    programs.mkdir(parents=True)
    install(home / ".docker", "tool", "echo hello > hello.txt")
    (programs / "tool").symlink_to(home / ".docker" / "tool")
    own = {"HOME": str(home), "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin"}
    closed = "---\nruns: [tool]\nsandbox: bwrap\n---\n{{ task.text }}\n"
    project = make_project(tmp_path / "project", implement=closed)
    (project / "plan.md").write_text("- [ ] Say hello `hello.txt`\n")
    commit_all(project)
    cure = f"`sandbox: {{read: [{home}/.docker/tool]}}` in .weft/agents/implement.md"
    tried = weft(project, "agents", "test", "implement", "--json", **own)
    assert json.loads(tried.stdout)["problem"] == "unreachable"
    ran = weft(project, "run", "plan.md", **own)
    assert ran.returncode == 2
    for text in (tried.stdout, ran.stderr, weft(project, "doctor", **own).stdout):
        assert "cannot start: its box does not show" in text
        assert cure in text
    opened = f"sandbox: {{kind: bwrap, read: [{home}/.docker/tool]}}"
    agent = project / ".weft" / "agents" / "implement.md"
    agent.write_text(closed.replace("sandbox: bwrap", opened))
    assert answer(project, "agents", "test", "implement", "--json", **own)["works"]
    assert "cannot start" not in weft(project, "doctor", **own).stdout
