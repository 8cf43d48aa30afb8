"""Before the first agent of a run starts: programs, set-up and checks are known to work."""

from __future__ import annotations

import os
import signal
import sys
import venv
from pathlib import Path

import pytest

from cli.in_process import Tell, teller
from cli.plan_project import Project, plan
from databases import sqlite_store
from repositories import commit_all, git
from wait_until import wait_until
from weft.errors import InputError
from weft.project.project import get_project
from weft.store import open_store
from weft.store.limit_table import stop_agent
from weft.worker.preflight import preflight_checkout

ONE = plan("Write a: one.txt: write one.txt 1")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project", sqlite_store(tmp_path / "weft.db"))


@pytest.fixture
def tell(project: Project, monkeypatch: pytest.MonkeyPatch) -> Tell:
    monkeypatch.setenv("WEFT_SCRIPTED_STATE", project.environment["WEFT_SCRIPTED_STATE"])
    return teller(project.root, project.url)


def refusal(tell: Tell, *arguments: str) -> str:
    with pytest.raises(InputError) as refused:
        tell("run", "plan.md", *arguments)
    return str(refused.value)


def is_untouched(project: Project) -> bool:
    """Neither a run nor an attempt was made, and no lease or workspace is left."""
    return not (
        project.rows("SELECT * FROM runs")
        or project.rows("SELECT * FROM attempts")
        or project.rows("SELECT * FROM leases WHERE state <> 'released'")
        or project.rows("SELECT * FROM workers WHERE departed IS NULL")
    )


def test_a_missing_program_is_refused_with_the_agents_that_can_start(
    project: Project, tell: Tell
) -> None:
    project.agent("implement", runs="no-such-program")
    project.agent("other")
    project.agent("broken", front="nonsense: 1\n")
    project.write(ONE)
    text = refusal(tell)
    assert "Agent implement cannot start: no-such-program is not installed" in text
    assert "Agents that can start: other (scripted)" in text
    assert is_untouched(project)
    assert "next: weft land" in tell("run", "plan.md", "--agent", "other")


def test_a_missing_program_without_another_agent_says_so(project: Project, tell: Tell) -> None:
    project.agent("implement", runs="no-such-program")
    project.write(ONE)
    assert "`weft agents` lists them" in refusal(tell)
    assert is_untouched(project)


def test_a_stopped_agent_is_refused_before_a_run_is_made(project: Project, tell: Tell) -> None:
    project.agent("other")
    project.write(ONE)
    with open_store(project.url) as store:
        store.write(lambda tx: stop_agent(tx, "implement", "not logged in", now=1))
    text = refusal(tell)
    assert "Agent implement is stopped (not logged in)" in text
    assert "other (scripted)" in text
    assert is_untouched(project)
    assert "next: weft land" in tell("run", "plan.md", "--agent", "other")


def test_a_base_that_fails_its_check_is_refused_with_the_last_lines(
    project: Project, tell: Tell
) -> None:
    project.settings('[gate]\nrun = "echo three wrong; false"\n')
    project.write(ONE)
    head = git(project.root, "rev-parse", "HEAD")
    text = refusal(tell)
    begin = f"Your tests fail on main ({head[:7]}) before any agent has touched it"
    assert text.startswith(begin)
    assert "\n  three wrong\n  It ended with 1.\n" in text
    assert is_untouched(project)
    assert refusal(tell).startswith(begin), "a failure is not remembered"


def test_no_preflight_starts_the_run_anyway(project: Project, tell: Tell) -> None:
    project.settings('[gate]\nrun = "test -e one.txt"\n')
    project.write(ONE)
    assert "next: weft land" in tell("run", "plan.md", "--no-preflight")


def test_the_exit_code_of_a_red_base_is_2(project: Project) -> None:
    project.settings('[gate]\nrun = "false"\n')
    project.write(ONE)
    done = project.weft("run", "plan.md", "--json")
    assert (done.returncode, done.stdout) == (2, "")


def test_a_pass_is_known_by_tree_command_and_what_the_workspace_brings(
    project: Project, tell: Tell, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    check = f'[gate]\nsandbox = "off"\nrun = "echo x >> {count}"\n'

    def runs_since(before: int) -> int:
        tell("run", "plan.md", "--no-write")
        return len(count.read_text().split()) - before

    project.settings(check)
    project.write(ONE)
    (project.root / ".env").write_text("A=1\n")
    assert runs_since(0) == 2, "the base, and the tree that landed"
    assert runs_since(2) == 0, "both are known"
    project.settings(check + '[workspace]\ncopy = [".env"]\n')
    assert runs_since(2) == 2, "the workspace brings a file"
    (project.root / ".env").write_text("A=2\n")
    assert runs_since(4) == 2, "the file is another"
    (project.root / "more").write_text("more\n")
    commit_all(project.root)
    assert runs_since(6) == 2, "the tree is another"


def test_a_pass_with_files_that_changed_meanwhile_is_not_known(
    project: Project, tell: Tell, tmp_path: Path
) -> None:
    """Weakened, the pass is kept under the name of files that the check did not see."""
    count = tmp_path / "count"
    env = project.root / ".env"
    env.write_text("broken\n")
    setup = f"sh -c 'echo fine > {env}; cp {env} .env'"
    project.settings(
        f'[gate]\nsandbox = "off"\nrun = "echo x >> {count}; grep -q fine .env"\n'
        f'[workspace]\ncopy = [".env"]\nsetup = """{setup}"""\n'
    )
    project.write(ONE)
    tell("run", "plan.md", "--no-write")
    env.write_text("broken\n")
    before = len(count.read_text().split())
    tell("run", "plan.md", "--no-write")
    assert len(count.read_text().split()) > before


def test_the_check_of_a_task_must_start_but_need_not_pass(project: Project, tell: Tell) -> None:
    annotated = ONE.replace("files: one.txt", "files: one.txt; check: test -e one.txt")
    project.write(annotated)
    assert "next: weft land" in tell("run", "plan.md", "--no-write")


def test_the_check_of_a_task_that_cannot_start_is_refused(project: Project, tell: Tell) -> None:
    project.write(ONE.replace("files: one.txt", "files: one.txt; check: no-such-check one.txt"))
    text = refusal(tell)
    assert "A task's check, `no-such-check one.txt`, cannot start" in text
    assert is_untouched(project)


def test_a_long_check_of_a_task_is_only_started(project: Project, tell: Tell) -> None:
    check = "test -e one.txt || sleep 600"
    project.write(ONE.replace("files: one.txt", f"files: one.txt; check: {check}"))
    assert "next: weft land" in tell("run", "plan.md")


def test_a_set_up_that_fails_on_the_base_is_refused(project: Project, tell: Tell) -> None:
    project.settings('[workspace]\nsetup = "echo no network; exit 3"\n')
    project.write(ONE)
    text = refusal(tell)
    assert text.startswith("A workspace of main (")
    assert "no network" in text
    assert is_untouched(project)


def test_a_missing_environment_is_named_with_its_cure(project: Project, tell: Tell) -> None:
    venv.create(project.root / ".venv", symlinks=True, with_pip=False)
    (project.root / ".gitignore").write_text(".venv\n")
    check = '[gate]\nrun = ".venv/bin/python -c pass"\n'
    project.settings(check)
    project.write(ONE)
    text = refusal(tell)
    assert ".venv/bin/python: not found" in text
    assert '`link = [".venv"]`' in text
    assert "`setup = " in text
    project.settings(check + '[workspace]\nlink = [".venv"]\n')
    assert "next: weft land" in tell("run", "plan.md")


def make_package(project: Project, source: str) -> None:
    """A package with a test, and a linked environment with an editable install of it."""
    package = project.root / source / "greeting"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("WORD = 'hello'\n")
    (project.root / "check.py").write_text("import greeting\nassert greeting.WORD == 'hello'\n")
    (project.root / "tests").mkdir()
    (project.root / "tests" / "check.py").write_text("import greeting\n")
    venv.create(project.root / ".venv", symlinks=True, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = project.root / ".venv" / "lib" / version / "site-packages"
    (packages / "__editable__.greeting-1.pth").write_text(f"{project.root / source}\n")
    (project.root / ".gitignore").write_text(".venv\n__pycache__\n")


def link(check: str) -> str:
    return f"[gate]\nrun = '''{check}'''\n[workspace]\nlink = [\".venv\"]\n"


def test_an_editable_install_that_leads_to_the_checkout_is_refused(
    project: Project, tell: Tell
) -> None:
    make_package(project, "src")
    project.settings(link(".venv/bin/python tests/check.py"))
    project.write(ONE)
    text = refusal(tell)
    assert "it imports src/greeting/__init__.py from your checkout" in text
    cure = 'export PYTHONPATH="$PWD/src" && .venv/bin/python tests/check.py'
    assert cure in text
    assert is_untouched(project)
    project.settings(link(cure))
    assert "next: weft land" in tell("run", "plan.md")


def test_an_editable_install_that_the_check_does_not_use_is_no_fault(
    project: Project, tell: Tell
) -> None:
    """A flat package is imported from the workspace, which comes first."""
    make_package(project, ".")
    project.settings(link(".venv/bin/python check.py"))
    project.write(ONE)
    assert "next: weft land" in tell("run", "plan.md")


def test_a_preflight_that_is_killed_leaves_nothing(project: Project, tmp_path: Path) -> None:
    started = tmp_path / "started"
    project.settings(
        f'[gate]\nsandbox = "off"\nrun = "test -e {started} || {{ touch {started}; sleep 600; }}"\n'
    )
    project.write(ONE)
    process = project.start("run", "plan.md")
    wait_until(started.exists)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert project.rows("SELECT * FROM leases WHERE state <> 'released'")
    done = project.weft("run", "plan.md")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: not project.rows("SELECT * FROM leases WHERE state <> 'released'"))
    assert "%check" not in git(project.root, "for-each-ref")


def test_a_check_that_a_person_stops_is_a_fault_and_leaves_nothing(
    project: Project, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    project.settings(f'[gate]\nsandbox = "off"\nrun = "touch {started}; echo at work; sleep 600"\n')
    commit_all(project.root)
    seen: list[str] = []

    def watch(_seconds: float, line: str) -> bool:
        seen.append(line)
        return not started.exists()

    environment = {**os.environ, "WEFT_STORE": project.url}
    _, fault = preflight_checkout(get_project(project.root, environment), watch)
    assert fault.startswith("You stopped the check of main (")
    assert "a quicker check" in fault
    assert seen[0] == ""
    assert is_untouched(project)
    assert "%check" not in git(project.root, "for-each-ref")


UNITTEST = f"[gate]\nrun = '{sys.executable} -m unittest discover -s tests'\n"
CASE = """import os, unittest


class T(unittest.TestCase):
    def test_old(self):
        self.fail("as ever")

    def test_new(self):
        self.assertFalse(os.path.exists("bad.txt"))
"""


def test_with_allow_red_only_tests_that_pass_on_the_base_count(
    project: Project, tell: Tell
) -> None:
    (project.root / "tests").mkdir()
    (project.root / "tests" / "test_a.py").write_text(CASE)
    project.settings(UNITTEST)
    project.write(
        plan(
            "Good: one.txt: write one.txt 1",
            "Bad: bad.txt: attempt 1: write bad.txt 1; attempt 2: write bad.txt 2",
        )
    )
    text = refusal(tell)
    assert "Your tests fail on main" in text
    assert "`weft run PLAN --allow-red` starts the run and allows the 1 test" in text
    output = tell("run", "plan.md", "--allow-red", "--no-write")
    assert "1 test may fail, as on the base" in output
    states = project.states()
    assert states["1.1"] == "done"
    assert states["1.2"] != "done", "test_new fails on no base"
    [settings] = project.rows("SELECT gate FROM run_settings")
    assert "test_old" in settings["gate"]
    assert "test_new" not in settings["gate"]


def test_allow_red_is_refused_for_another_runner(project: Project, tell: Tell) -> None:
    project.settings('[gate]\nrun = "echo not ok 1; false"\n')
    project.write(ONE)
    text = refusal(tell, "--allow-red")
    assert text.startswith("--allow-red cannot tell which tests fail: its output has no summary")
    assert "add `-rfE` to it" in text
    assert "`--allow-red` cannot be used" in refusal(tell)
    assert is_untouched(project)


def test_allow_red_is_no_cure_for_a_missing_program(project: Project, tell: Tell) -> None:
    project.settings('[gate]\nrun = "no-such-program"\n')
    project.write(ONE)
    assert "no-such-program: not found" in refusal(tell, "--allow-red")
    assert "--no-preflight skips" in refusal(tell, "--allow-red", "--no-preflight")


def test_declared_files_with_uncommitted_changes_are_named(project: Project, tell: Tell) -> None:
    (project.root / "dir").mkdir(exist_ok=True)
    (project.root / "dir" / "old.txt").write_text("old\n")
    project.write(plan("Change: dir/*.txt: write dir/old.txt 2", "Other: a: write a 1"))
    (project.root / "dir" / "old.txt").write_text("mine\n")
    (project.root / "dir" / "new.txt").write_text("new\n")
    (project.root / "elsewhere.txt").write_text("no task declares it\n")
    output = tell("run", "plan.md", "--dry-run")
    assert "Uncommitted changes in dir/old.txt, dir/new.txt: agents work from the commit" in output
    assert "elsewhere.txt" not in output
    assert "Uncommitted changes in dir/old.txt" in tell("run", "plan.md")
    assert (project.root / "dir" / "old.txt").read_text() == "mine\n"
