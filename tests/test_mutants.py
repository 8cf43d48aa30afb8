"""Each mutant in `mutants/*.toml` is caught by the test that it names.

A mutant is a small, meaningful change to the code. `file` is below src/weft, `before` stands there
exactly once and is replaced by `after`, `test` fails then. `make mutants` tries them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import psutil
import pytest

from chaos import CHAOS

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src"
MUTANTS: list[dict[str, Any]] = [
    mutant
    for path in sorted(Path(__file__).with_name("mutants").glob("*.toml"))
    for mutant in tomllib.loads(path.read_text())["mutant"]
]


def mutate(mutant: dict[str, Any], sources: Path) -> None:
    path = sources / "weft" / mutant["file"]
    path.write_text(path.read_text().replace(mutant["before"], mutant["after"]))


def test_each_mutant_names_one_place_and_a_test_that_exists() -> None:
    text = functools.cache(Path.read_text)
    wrong = []
    for mutant in MUTANTS:
        file, _, test = mutant["test"].partition("::")
        if text(SOURCES / "weft" / mutant["file"]).count(mutant["before"]) != 1:
            wrong.append((mutant["name"], "`before` does not name one place"))
        if f"def {test}" not in text(ROOT / file):
            wrong.append((mutant["name"], f"no test {mutant['test']}"))
    assert wrong == []


LATER = pytest.mark.skip(reason="by `make chaos` and `make mutants`")


def end_leftovers(sources: Path) -> None:
    """Kill the wrappers that a mutant left, which name its sources, and all that they started."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(sources) in process.cmdline():
                for child in process.children(recursive=True):
                    child.kill()
                process.kill()


@pytest.mark.chaos
@pytest.mark.parametrize(
    "mutant",
    MUTANTS if CHAOS else [pytest.param({}, marks=LATER, id="all")],
    ids=lambda mutant: mutant["name"],
)
def test_a_mutant_is_caught(mutant: dict[str, Any], tmp_path: Path) -> None:
    sources = tmp_path / "src"
    shutil.copytree(SOURCES, sources)
    mutate(mutant, sources)
    options = ["-x", "--timeout", "60", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, mutant["test"]],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(sources)},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        end_leftovers(sources)
    assert done.returncode == 1, f"the mutant lives:\n{done.stdout}{done.stderr}"
