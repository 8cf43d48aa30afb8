"""`weft init`: the suggestions for each kind of project, and the files that follow from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.shell import answer, weft
from repositories import commit_all, make_repository
from weft.agents.agent_file import parse_agent
from weft.config import parse
from weft.maintenance.detection import detect, with_check
from weft.maintenance.project_files import init
from weft.maintenance.suggested_check import suggest_check
from weft.process.sandbox import SandboxKind, available

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
    assert done.returncode == 0, done.stderr
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
    sandbox = available().best()
    loud = "WARNING  sandbox: OFF" if sandbox is SandboxKind.OFF else f"sandbox: {sandbox}"
    assert loud in done.stdout


def test_init_works_again_and_names_a_check_that_weft_toml_lacks(project: Path) -> None:
    (project / "weft.toml").write_text("")
    first = answer(project, "init", "--json")
    assert first["kept"] == ["weft.toml"]
    assert any("weft.toml has no check" in line for line in first["assumed"])
    again = answer(project, "init", "--json")
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
