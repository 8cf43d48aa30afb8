"""The map of a repository that a planner gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from repositories import commit_all, make_repository
from weft.operations.repository_map import write_map
from weft.project.project import Project, get_project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """40 commits: `core.py` changes in each, `lexer.py` with `parser.py` in four."""
    root = make_repository(tmp_path_factory.mktemp("map") / "project")
    (root / "tests").mkdir()
    (root / "tests" / "test_parser.py").write_text("pass\n")
    (root / "weft.toml").write_text('[gate]\nrun = "make test"\n')
    for number in range(40):
        (root / "core.py").write_text(f"{number}\n")
        pair = ("lexer.py", "parser.py") if number % 13 == 0 else (f"other{number}.py",)
        for name in pair:
            (root / name).write_text(f"{number}\n")
        commit_all(root, "parse numbers" if number % 13 == 0 else "more")
    return get_project(root, {"PATH": "/usr/bin:/bin"})


def test_the_map_has_hubs_clusters_tests_checks_and_the_files_of_the_goal(project: Project) -> None:
    with project.open_store() as store:
        text = write_map(project, store, "Parse hexadecimal numbers")
    assert "tracked files" in text
    assert "  core.py (" in text
    assert "no two parallel tasks may share one" in text
    assert "Files that change together:\n  lexer.py, parser.py" in text
    assert "Tests:\n  tests/ (1 file)" in text
    assert "Every change must also pass: make test" in text
    likely = text[text.index("Files that the goal may change") :]
    assert "parser.py (" in likely
    assert "lexer.py (" in likely
    assert "core.py (" not in likely, "a hub is no news"


def test_the_map_of_a_large_repository_is_bounded_and_harmless(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "project")
    for number in range(150):
        place = root / f"d{number}-{'x' * 100}"
        place.mkdir()
        (place / "a\x1b[31m.txt").write_text("x")
    commit_all(root, "many")
    found = get_project(root, {"PATH": "/usr/bin:/bin"})
    with found.open_store() as store:
        text = write_map(found, store, "Anything")
    assert len(text) <= 12_000
    assert "\x1b" not in text
    assert "Directories with most files:" in text
