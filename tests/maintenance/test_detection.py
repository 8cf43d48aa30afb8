"""`weft init`: the suggestions for each kind of project, and the files that follow from them."""

from __future__ import annotations

import io
import json
import os
import select
import sys
from pathlib import Path

import pytest

from cli.shell import weft
from cli.terminal import Terminal
from repositories import commit_all, make_repository
from weft.agents.agent_file import parse_agent
from weft.cli.check_progress import CheckProgress
from weft.config import BoxKind, parse
from weft.maintenance.detection import detect, suggest_check, with_check
from weft.maintenance.project_files import init
from weft.process.box import available

PYTEST = "[tool.pytest.ini_options]\n"


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({"Makefile": "test := 1\ntest: all\n\tx\n"}, "make test"),
        ({"Makefile": "check:\n\tx\n", "Cargo.toml": ""}, "make check"),
        ({"Makefile": "all:\n\tx\ncheck := 1\n"}, None),
        ({"justfile": "test *args:\n  x\n"}, "just test"),
        ({"tox.ini": "", "pytest.ini": ""}, "tox"),
        ({"noxfile.py": ""}, "nox"),
        ({"pyproject.toml": "[tool.tox]\n"}, "tox"),
        ({"pyproject.toml": PYTEST}, "python3 -m pytest"),
        ({"pyproject.toml": PYTEST, ".venv/bin/python": ""}, ".venv/bin/python -m pytest"),
        ({"setup.cfg": "[tool:pytest]\n"}, "python3 -m pytest"),
        ({"tests/conftest.py": ""}, "python3 -m pytest"),
        ({"tests/test_a.py": ""}, "python3 -m unittest discover -s tests"),
        ({"tests/test_a.py": "", "tests/__init__.py": ""}, "python3 -m unittest discover"),
        ({"pyproject.toml": "not toml ["}, None),
        ({"package.json": '{"scripts": {"test": "jest"}}'}, "npm test"),
        ({"package.json": '{"scripts": {"test": "jest"}}', "pnpm-lock.yaml": ""}, "pnpm test"),
        ({"package.json": '{"scripts": {"test": "echo no test specified"}}'}, None),
        ({"package.json": "[1]"}, None),
        ({"Cargo.toml": ""}, "cargo test"),
        ({"go.mod": ""}, "go test ./..."),
        ({"build.gradle.kts": "", "gradlew": ""}, "./gradlew test"),
        ({"build.gradle": ""}, "gradle test"),
        ({"pom.xml": ""}, "mvn test"),
        ({}, None),
    ],
)
def test_the_files_of_a_project_suggest_its_check(
    tmp_path: Path, files: dict[str, str], line: str | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    suggestion = suggest_check(tmp_path, lambda _: True)
    assert (suggestion and suggestion.line) == line


def test_a_check_whose_program_is_installed_comes_first(tmp_path: Path) -> None:
    (tmp_path / "tox.ini").write_text("")
    (tmp_path / "pytest.ini").write_text("")
    installed = suggest_check(tmp_path, lambda name: name == "python3")
    assert installed is not None
    assert installed.line == "python3 -m pytest"
    missing = suggest_check(tmp_path, lambda _: False)
    assert missing is not None
    assert missing.line == "tox"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A Python project with an environment, an editable install and a settings file."""
    root = make_repository(tmp_path / "project")
    (root / ".gitignore").write_text(".venv/\n.env\n")
    (root / "pyproject.toml").write_text(PYTEST)
    site = root / ".venv" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (site / "lib.pth").write_text(f"{root}/src\n")
    (root / "src").mkdir()
    (root / ".env").write_text("A=1\n")
    (root / "node_modules").mkdir()
    commit_all(root)
    return root


def install(directory: Path, *names: str) -> dict[str, str]:
    directory.mkdir()
    for name in names:
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)
    return {"PATH": f"{directory}:/usr/local/bin:/usr/bin:/bin"}


def test_init_writes_down_the_facts_of_the_checkout(project: Path, tmp_path: Path) -> None:
    programs = install(tmp_path / "bin", "codex", "gemini")
    init(project, detect(project, programs))
    config = parse((project / "weft.toml").read_text(), {})
    check = 'export PYTHONPATH="$PWD/src" && python3 -m pytest'
    assert config.gate.run == ("sh", "-c", check)
    assert (config.workspace.link, config.workspace.copy) == ((".venv",), (".env",))
    texts = {file.stem: file.read_text() for file in (project / ".weft/agents").iterdir()}
    agents = {name: parse_agent(text, name=name, file=name) for name, text in texts.items()}
    assert (agents["implement"].runs, agents["implement"].provider) == ("codex", "openai")
    assert (agents["gemini"].runs, agents["gemini"].provider) == ("gemini", "google")
    assert agents["try"].runs == "scripted"


def test_an_answer_replaces_the_suggested_check(project: Path) -> None:
    detection = detect(project, {})
    assert with_check(detection, "-").check is None
    assert with_check(detection, "make").check == "make"
    assert with_check(detection, detection.check or "").check == detection.check


def test_init_says_the_facts_and_the_guesses_and_tries_them(project: Path) -> None:
    done = weft(project, "init", "--yes", PATH="/usr/bin:/bin")
    assert done.returncode == 1, done.stderr
    for words in (
        "found    tests: `export PYTHONPATH",
        "found    .venv: linked into each workspace",
        "found    .env: copied into each workspace",
        "assumed  agents: claude, though none",
        "assumed  imports: an editable install",
        "PROBLEM  Agent implement cannot start: claude is not installed",
        "before any agent has touched it",
    ):
        assert words in done.stdout, done.stdout
    sandbox = available().resolve(BoxKind.ON)
    loud = "WARNING  sandbox: OFF" if sandbox is BoxKind.OFF else f"sandbox: {sandbox}"
    assert loud in done.stdout


def test_init_works_again_and_names_a_check_that_weft_toml_lacks(project: Path) -> None:
    (project / "weft.toml").write_text("")
    first = json.loads(weft(project, "init", "--json", PATH="/usr/bin:/bin").stdout)
    assert first["kept"] == ["weft.toml"]
    assert any("weft.toml has no check" in line for line in first["assumed"])
    again = json.loads(weft(project, "init", "--json", PATH="/usr/bin:/bin").stdout)
    assert again["created"] == []
    assert (project / "weft.toml").read_text() == ""


def test_a_project_that_is_in_order_ends_with_the_next_step(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "project")
    (root / "Makefile").write_text("test:\n\ttrue\n")
    commit_all(root)
    programs = install(tmp_path / "bin", "claude")
    done = weft(root, "init", **programs)
    assert "PROBLEM" not in done.stdout
    assert "next: commit these files." in done.stdout
    assert json.loads(weft(root, "init", "--json", **programs).stdout)["problems"] == []


def test_init_gives_a_verdict_on_the_check_without_an_agent(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "project")
    (root / "Makefile").write_text("test:\n\ttrue\n")
    commit_all(root)
    done = weft(root, "init", "--yes", PATH="/usr/bin:/bin")
    assert done.returncode == 1
    assert "PROBLEM  Agent implement cannot start: claude is not installed" in done.stdout
    assert "ok       the set-up and the check work on HEAD" in done.stdout
    told = json.loads(weft(root, "init", "--json", PATH="/usr/bin:/bin").stdout)
    assert told["check_passed"]
    assert len(told["problems"]) == 1


def test_init_counts_the_seconds_of_the_check_on_a_terminal(tmp_path: Path) -> None:
    root, go = make_repository(tmp_path / "project"), tmp_path / "go"
    check = f"test:\n\techo at work; until test -e {go}; do sleep 0.05; done\n"
    (root / "Makefile").write_text(check)
    commit_all(root)
    command = [sys.executable, "-m", "weft", "init", "--yes"]
    with Terminal(command, directory=root, environment=install(tmp_path / "bin")) as terminal:
        terminal.wait_for("  2 s  ")
        assert "at work" in terminal.text()
        go.touch()
        assert terminal.wait_end() == 1
        assert "ok       the set-up and the check work on HEAD" in terminal.text()
        assert "  2 s  " not in terminal.text()


@pytest.mark.parametrize(("typed", "goes_on"), [(b"s\n", False), (b"\n", True), (b"g\n", True)])
def test_after_two_minutes_a_person_may_stop_the_check(typed: bytes, goes_on: bool) -> None:
    outer, inner = os.openpty()
    with os.fdopen(inner, "rb+", 0) as raw, io.TextIOWrapper(raw) as stream:
        watch = CheckProgress("trying", asks=True, screen=stream, answers=stream)
        assert watch(0, "")
        assert watch(119, "at work")
        assert watch(121, "at work")
        assert watch(122, "at work"), "it goes on until the answer"
        shown = ""
        while not shown.endswith("Go on, or stop it? [G/s] "):
            shown += os.read(outer, 10_000).decode()
        assert "weft: the check has run for 2 min" in shown
        os.write(outer, typed)
        select.select([stream], [], [])
        assert watch(123, "at work") is goes_on
        assert watch(300, "at work")
    os.close(outer)


def test_without_a_terminal_a_long_check_goes_on_and_weft_says_so() -> None:
    screen = io.StringIO()
    watch = CheckProgress("trying", asks=True, screen=screen, answers=io.StringIO("s\n"))
    assert all(watch(seconds, "at work") for seconds in range(300))
    told = screen.getvalue().splitlines()
    assert told[:2] == ["trying", "  30 s  at work"]
    [long] = [line for line in told if "and goes on; Ctrl-C stops it" in line]
    assert long.startswith("weft: the check has run for 2 min")
    assert len(told) < 15
