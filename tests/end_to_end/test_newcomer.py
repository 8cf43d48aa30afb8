"""A newcomer with an ordinary project walks through README's five minutes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from disk_directory import tmp_path as tmp_path
from documents import ROOT, blocks, programs, run_block
from repositories import commit_all, git, make_repository

TEST = """\
import unittest

from lib import one


class OneTest(unittest.TestCase):
    def test_one(self):
        self.assertEqual(one(), 1)
"""
WITHOUT_CLAUDE = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"


def make_python_project(root: Path) -> None:
    """Make a project with a `.venv`, an editable install, a `.env`, and a test that fails."""
    make_repository(root)
    (root / ".gitignore").write_text(".venv/\n.env\n__pycache__/\n")
    (root / "pyproject.toml").write_text('[project]\nname = "lib"\nversion = "1"\n')
    (root / "src" / "lib").mkdir(parents=True)
    (root / "src" / "lib" / "__init__.py").write_text("def one():\n    return 2\n")
    (root / "tests").mkdir()
    (root / "tests" / "test_one.py").write_text(TEST)
    (root / ".env").write_text("SETTING=1\n")
    commit_all(root)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / ".venv"], check=True)
    [site] = (root / ".venv").glob("lib/python3*/site-packages")
    (site / "__editable__.lib-1.pth").write_text(f"{root}/src\n")


def test_a_newcomer_lands_a_plan_and_pays_for_no_mistake_of_the_set_up(tmp_path: Path) -> None:
    root = tmp_path / "project"
    make_python_project(root)
    readme = ROOT / "README.md"
    set_up, work = blocks(readme, "sh")
    [plan] = blocks(readme, "markdown")
    environment = programs(tmp_path / "bin")
    starts = tmp_path / ".claude" / "starts"

    # Without an agent and with failing tests: both are said, and no run is made.
    lacking = {**environment, "PATH": WITHOUT_CLAUDE}
    done = run_block(set_up, root, lacking)
    assert done.returncode == 1, done.stderr
    for words in (
        'export PYTHONPATH="$PWD/src" && .venv/bin/python -m unittest discover -s tests',
        ".venv: linked into each workspace",
        ".env: copied into each workspace",
        "claude is not installed",
        "Your tests fail on main",
    ):
        assert words in done.stdout, done.stdout
    (root / "plan.md").write_text(plan)
    refused = run_block("weft run plan.md", root, lacking)
    assert refused.returncode == 2
    assert "claude is not installed" in refused.stderr

    # With the agent, the failing tests alone are left.
    refused = run_block("weft run plan.md", root, environment)
    assert refused.returncode == 2
    assert "Your tests fail on main" in refused.stderr
    assert "before any agent has touched it" in refused.stderr
    assert json.loads(run_block("weft runs --json", root, environment).stdout) == []
    assert not starts.exists(), "no agent has started"

    # Repaired, the documented commands lead to landed work, an agent for each task.
    (root / "src" / "lib" / "__init__.py").write_text("def one():\n    return 1\n")
    commit_all(root, "Repair one()")
    done = run_block(work, root, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"USAGE.md", "QUESTIONS.md", "INDEX.md"} <= {*git(root, "ls-files").split()}
    assert (root / "USAGE.md").is_file(), "the checkout follows `weft land`"
    assert len(starts.read_text().splitlines()) == 3
    assert os.listdir(root / ".venv"), "the environment is as it was"
