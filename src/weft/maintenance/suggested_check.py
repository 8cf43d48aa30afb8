"""The test command of a project, guessed from its files."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

_LARGEST: Final = 1 << 20  # bytes of a file that is looked at
_MAKE_TARGET: Final = re.compile(r"^(test|tests|check)\s*:(?!=)", re.MULTILINE)
_JUST_RECIPE: Final = re.compile(r"^@?(test|tests|check)\b[^:=\n]*:(?!=)", re.MULTILINE)
_NO_TEST: Final = "no test specified"  # in the script that `npm init` writes
_PACKAGE_MANAGERS: Final = {
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "bun.lock": "bun",
    "bun.lockb": "bun",
}

HasProgram = Callable[[str], bool]


class SuggestedCheck(Struct, frozen=True, kw_only=True):
    """A command line for `[gate] run`, and the file that suggests it."""

    line: str
    source: str
    program: str  # the program that must be installed


def suggest_check(root: Path, has_program: HasProgram) -> SuggestedCheck | None:
    """Return the first suggestion whose program is installed, else the first suggestion."""
    suggestions = list(_suggest(root))
    usable = (suggestion for suggestion in suggestions if has_program(suggestion.program))
    return next(usable, suggestions[0] if suggestions else None)


def _suggest(root: Path) -> Iterator[SuggestedCheck]:
    yield from _make(root)
    yield from _python(root)
    yield from _node(root)
    if (root / "Cargo.toml").is_file():
        yield _command("cargo test", "Cargo.toml")
    if (root / "go.mod").is_file():
        yield _command("go test ./...", "go.mod")
    yield from _java(root)


def _command(line: str, source: str) -> SuggestedCheck:
    return SuggestedCheck(line=line, source=source, program=shlex.split(line)[0])


def _make(root: Path) -> Iterator[SuggestedCheck]:
    for name in ("GNUmakefile", "makefile", "Makefile"):
        if match := _MAKE_TARGET.search(_read(root / name)):
            yield _command(f"make {match[1]}", f"{name}, target {match[1]}")
    for name in ("justfile", "Justfile", ".justfile"):
        if match := _JUST_RECIPE.search(_read(root / name)):
            yield _command(f"just {match[1]}", f"{name}, recipe {match[1]}")


def _python(root: Path) -> Iterator[SuggestedCheck]:
    project = _read_toml(root / "pyproject.toml")
    tools = project.get("tool", {})
    if (root / "tox.ini").is_file() or "tox" in tools:
        yield _command("tox", "tox.ini" if (root / "tox.ini").is_file() else "pyproject.toml")
    if (root / "noxfile.py").is_file():
        yield _command("nox", "noxfile.py")
    source = _pytest_source(root, tools)
    if source:
        yield _command(f"{_python_program(root)} -m pytest", source)
    elif any((root / "tests").glob("test*.py")):
        start = "" if (root / "tests" / "__init__.py").is_file() else " -s tests"
        yield _command(f"{_python_program(root)} -m unittest discover{start}", "tests/")


def _pytest_source(root: Path, tools: dict[str, Any]) -> str:
    if (root / "pytest.ini").is_file():
        return "pytest.ini"
    if "pytest" in tools:
        return "pyproject.toml, [tool.pytest]"
    if "[tool:pytest]" in _read(root / "setup.cfg"):
        return "setup.cfg, [tool:pytest]"
    if "pytest" in _read(root / "pyproject.toml") and (root / "tests").is_dir():
        return "pyproject.toml, which names pytest"
    if any((place / "conftest.py").is_file() for place in (root, root / "tests")):
        return "conftest.py"
    return ""


def _python_program(root: Path) -> str:
    """Return the Python of the project's environment, or the python3 on the PATH."""
    for name in (".venv", "venv"):
        if (root / name / "bin" / "python").exists():
            return f"{name}/bin/python"
    return "python3"


def _node(root: Path) -> Iterator[SuggestedCheck]:
    try:
        package = json.loads(_read(root / "package.json") or "{}")
        script = package["scripts"]["test"]
    except (ValueError, KeyError, TypeError):
        return
    if isinstance(script, str) and _NO_TEST not in script:
        locks = (name for file, name in _PACKAGE_MANAGERS.items() if (root / file).is_file())
        yield _command(f"{next(locks, 'npm')} test", "package.json, script test")


def _java(root: Path) -> Iterator[SuggestedCheck]:
    for wrapper, program, files in (
        ("gradlew", "gradle", ("build.gradle", "build.gradle.kts")),
        ("mvnw", "mvn", ("pom.xml",)),
    ):
        named = [name for name in files if (root / name).is_file()]
        if named:
            program = f"./{wrapper}" if (root / wrapper).is_file() else program
            yield _command(f"{program} test", named[0])


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST).decode(errors="replace")
    except OSError:
        return ""


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_read(path))
    except (ValueError, RecursionError):
        return {}
