"""The facts of a checkout and a machine that `weft init` writes into its files."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from weft.agents.agent import MODEL_PROGRAMS
from weft.config import BoxKind
from weft.git.repository import find_ignored
from weft.process import box

_ENVIRONMENTS: Final = (".venv", "venv", "node_modules")
_SETTINGS_FILES: Final = (".env", ".env.local", ".env.test", ".env.development")
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


class Detection(Struct, frozen=True, kw_only=True):
    agents: tuple[str, ...]  # installed programs, the first choice first
    test: SuggestedCheck | None
    missing_program: bool = False  # the program of the test command is not installed
    link: tuple[str, ...] = ()
    copy: tuple[str, ...] = ()
    editable: str | None = None  # directory of sources that an editable install leads to
    sandbox: BoxKind

    @property
    def check(self) -> str | None:
        """The line for `[gate] run`."""
        if self.test is None:
            return None
        if self.editable is None:
            return self.test.line
        # Otherwise the check would import the user's checkout and test the wrong code.
        return f'export PYTHONPATH="$PWD{self.editable}" && {self.test.line}'


def detect(root: Path, environment: Mapping[str, str]) -> Detection:
    """Look for agents, the test command, ignored files that tests need, and a sandbox."""
    directories = environment.get("PATH") or os.defpath

    def has_program(name: str) -> bool:
        place = str(root / name) if "/" in name else name
        return shutil.which(place, path=directories) is not None

    test = suggest_check(root, has_program)
    link = tuple(_ignored(root, _ENVIRONMENTS))
    return Detection(
        agents=tuple(name for name in MODEL_PROGRAMS if has_program(name)),
        test=test,
        missing_program=test is not None and not has_program(test.program),
        link=link,
        copy=tuple(_ignored(root, _SETTINGS_FILES)),
        editable=next(_editable_sources(root, link), None),
        sandbox=box.available().resolve(BoxKind.ON),
    )


def with_check(detection: Detection, line: str) -> Detection:
    """Return the detection with the check that a person entered; `-` means no check."""
    if line == "-":
        return replace(detection, test=None)
    if line == detection.check:
        return detection
    test = SuggestedCheck(line=line, source="your answer", program=line.split()[0])
    return replace(detection, test=test, editable=None, missing_program=False)


def _ignored(root: Path, names: tuple[str, ...]) -> Iterator[str]:
    """Yield the names that exist, are no links, and are ignored by git."""
    there = [name for name in names if (root / name).exists() and not (root / name).is_symlink()]
    ignored = find_ignored(root, there) if there else set()
    yield from (name for name in there if name in ignored)


def _editable_sources(root: Path, environments: tuple[str, ...]) -> Iterator[str]:
    """Yield `/src` or "" for an editable install that leads to this checkout."""
    for name in environments:
        for site in (root / name).glob("lib/python3*/site-packages"):
            for file in (*site.glob("*.pth"), *site.glob("*.dist-info/direct_url.json")):
                if _leads_to(root, file):
                    yield "/src" if (root / "src").is_dir() else ""


def _leads_to(root: Path, file: Path) -> bool:
    text = _read(file)
    if file.name == "direct_url.json":
        return '"editable"' in text and root.resolve().as_uri() in text
    return any(line.startswith(str(root.resolve())) for line in text.splitlines())


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
