"""The way of a stranger: install by pip, `weft init`, and a plan on a terminal, in three projects.

The programs `npm` and `go` are stand-ins that need no network; like mocha, that of npm finds no
test file below a directory whose name begins with a dot.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.terminal import Terminal
from disk_directory import tmp_path as tmp_path
from documents import programs
from installation import call
from repositories import commit_all, git, make_repository
from wait_until import wait_until

PYTEST = {
    "pyproject.toml": '[project]\nname = "lib"\nversion = "1"\n[tool.pytest.ini_options]\n',
    "tests/test_lib.py": "def test_one():\n    assert 1 == 1\n",
}
NPM = {
    "package.json": '{"name": "lib", "scripts": {"test": "mocha"}}\n',
    "test/lib.spec.js": "it('works')\n",
}
GO = {"go.mod": "module lib\n", "lib_test.go": "package lib\n"}
STAND_INS = {
    "npm": """\
#!{python}
import sys
from pathlib import Path

files = [
    path
    for path in Path.cwd().rglob("*.spec.js")
    if not any(part.startswith(".") for part in path.parts)
]
sys.exit(0 if files else "Error: No test files found")
""",
    "go": """\
#!{python}
import sys
from pathlib import Path

sys.exit(0 if Path("go.mod").is_file() and [*Path().rglob("*_test.go")] else "no test files")
""",
}
PLAN = """\
## Phase 1: Words <!-- execution: parallel -->
- [ ] Task 1: Write a greeting
  <!-- files: hello.txt -->
  - script: write hello.txt Hello
- [ ] Task 2: Write a farewell
  <!-- files: bye.txt -->
  - script: write bye.txt Bye
"""


@pytest.mark.xdist_group("install")
@pytest.mark.parametrize(
    ("files", "check"),
    [(PYTEST, "python3 -m pytest"), (NPM, "npm test"), (GO, "go test ./...")],
    ids=["pytest", "npm", "go"],
)
def test_a_stranger_installs_sets_up_and_lands_a_plan(
    files: dict[str, str], check: str, installed: Path, tmp_path: Path
) -> None:
    environment = programs(tmp_path / "bin")  # with a claude that answers
    for name, text in STAND_INS.items():
        (tmp_path / "bin" / name).write_text(text.format(python=sys.executable))
        (tmp_path / "bin" / name).chmod(0o755)
    root = make_repository(tmp_path / "project")
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / ".gitignore").write_text("__pycache__/\n.pytest_cache/\n")
    commit_all(root)
    weft = installed / "weft"

    set_up = call(weft, "init", "--yes", directory=root, **environment)
    assert set_up.returncode == 0, set_up.stdout + set_up.stderr
    assert f"found    tests: `{check}`" in set_up.stdout
    assert "ok       the set-up and the check work on HEAD" in set_up.stdout
    (root / "plan.md").write_text(PLAN)
    commit_all(root, "Set up weft")

    def list_ended() -> list[Any]:
        shown = call(weft, "ps", "--json", directory=root, **environment)
        ended: list[Any] = json.loads(shown.stdout)["ended"]
        return ended

    command = [str(weft), "run", "plan.md", "--agent", "try"]
    with Terminal(command, directory=root, environment=environment) as terminal:
        wait_until(list_ended, "the run ends")
        assert terminal.wait_end() == 0, terminal.text()
    [run] = list_ended()
    assert run["tasks"] == {"done": 2}
    git(root, "checkout", "--quiet", "--", "plan.md")
    landed = call(weft, "land", directory=root, **environment)
    assert landed.returncode == 0, landed.stderr
    assert (root / "hello.txt").read_text().strip() == "Hello"
    assert (root / "bye.txt").read_text().strip() == "Bye"
