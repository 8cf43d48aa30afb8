"""The hints on a base that is not in order: a table of failures, checkouts and cures."""

from __future__ import annotations

from cases import each_case
from weft.config import WorkspaceSettings
from weft.gate.base_check import BaseFault, BaseResult, Surroundings, find_hints

NOT_FOUND = "sh: 1: .venv/bin/python: not found\nIt ended with 127."
NO_MODULE = "ModuleNotFoundError: No module named 'requests'\nIt ended with 1."
NO_JEST = "Error: Cannot find module 'jest'\nIt ended with 1."
ASSERTION = "E   assert 1 == 2\nIt ended with 1."


def red(output: str, line: str = "make test") -> BaseResult:
    return BaseResult(fault=BaseFault.RED, command=("sh", "-c", line), output=output)


def checkout(
    *ignored: str, top: tuple[str, ...] = (), below: dict[str, tuple[str, ...]] | None = None
) -> Surroundings:
    return Surroundings(
        ignored=frozenset(ignored), at_top=frozenset(top or ("Makefile",)), below=below or {}
    )


@each_case(
    ("output", "around", "cures"),
    [
        (NOT_FOUND, checkout(".venv"), ('link = [".venv"]', 'setup = "python3 -m venv .venv')),
        (NO_MODULE, checkout(".venv"), ('link = [".venv"]', "pip install -e .")),
        (NOT_FOUND, checkout("venv"), ('link = ["venv"]', "venv/bin/pip install")),
        (NO_JEST, checkout("node_modules"), ('link = ["node_modules"]', 'setup = "npm ci"')),
        (NOT_FOUND, checkout(".venv", top=("pyproject.toml", "uv.lock")), ('setup = "uv sync"',)),
        (
            NO_JEST,
            checkout("node_modules", top=("package.json", "yarn.lock")),
            ('setup = "yarn install --frozen-lockfile"',),
        ),
        (ASSERTION, checkout(".env"), ('copy = [".env"]',)),
        (ASSERTION, checkout(".env.test", ".env"), ('copy = [".env", ".env.test"]',)),
    ],
)
def test_an_ignored_part_of_the_checkout_is_named_with_its_cure(
    output: str, around: Surroundings, cures: tuple[str, ...]
) -> None:
    [hint] = find_hints(red(output), WorkspaceSettings(), around)
    assert all(cure in hint for cure in cures), hint
    assert "[workspace] in weft.toml" in hint


def test_each_missing_part_has_its_own_hint() -> None:
    around = checkout(".venv", "node_modules", ".env")
    hints = find_hints(red(NOT_FOUND), WorkspaceSettings(), around)
    assert [hint.split()[3].rstrip(",") for hint in hints] == [".venv", "node_modules", ".env"]


@each_case(
    ("output", "settings", "around"),
    [
        (ASSERTION, WorkspaceSettings(), checkout(".venv", "node_modules")),
        (ASSERTION, WorkspaceSettings(), checkout(below={"backend": ("pyproject.toml",)})),
        (NOT_FOUND, WorkspaceSettings(), checkout()),
        (NOT_FOUND, WorkspaceSettings(link=(".venv",)), checkout(".venv")),
        (NOT_FOUND, WorkspaceSettings(link=(".venv/",)), checkout(".venv")),
        (NOT_FOUND, WorkspaceSettings(copy=(".venv",)), checkout(".venv")),
        (NO_JEST, WorkspaceSettings(keep=("node_modules",)), checkout("node_modules")),
        (NO_JEST, WorkspaceSettings(setup=("npm", "ci")), checkout("node_modules")),
        (ASSERTION, WorkspaceSettings(copy=(".env",)), checkout(".env")),
    ],
)
def test_a_cause_that_the_failure_or_the_settings_exclude_is_not_named(
    output: str, settings: WorkspaceSettings, around: Surroundings
) -> None:
    assert find_hints(red(output), settings, around) == []


def test_a_project_below_the_top_gives_the_directory_of_the_check() -> None:
    output = "npm error enoent Could not read package.json: no such file or directory"
    around = Surroundings(
        ignored=frozenset(), at_top=frozenset(), below={"web": ("package.json", "Makefile")}
    )
    [hint] = find_hints(red(output, "npm test"), WorkspaceSettings(), around)
    assert "web/package.json exists" in hint
    assert '`run = "cd web && npm test"` in [gate]' in hint
    at_top = checkout(top=("package.json",), below={"web": ("package.json",)})
    assert find_hints(red(output, "npm test"), WorkspaceSettings(), at_top) == []


@each_case(
    ("imported", "path"),
    [
        (("src/greeting/__init__.py",), '"$PWD/src"'),
        (("src/a/b/__init__.py", "src/a/__init__.py"), '"$PWD/src"'),
        (("greeting/__init__.py", "greeting/words.py"), '"$PWD"'),
        (("greeting.py",), '"$PWD"'),
    ],
)
def test_an_editable_install_is_cured_by_the_directory_above_its_package(
    imported: tuple[str, ...], path: str
) -> None:
    result = BaseResult(
        fault=BaseFault.FOREIGN,
        command=("sh", "-c", ".venv/bin/pytest"),
        output=NOT_FOUND,
        imported=imported,
    )
    [hint] = find_hints(result, WorkspaceSettings(link=(".venv",)), checkout(".venv", ".env"))
    assert f"`run = 'export PYTHONPATH={path} && .venv/bin/pytest'` in [gate]" in hint
    assert "An editable install (`pip install -e`) leads there" in hint
    assert "without .venv in `link`" in hint
