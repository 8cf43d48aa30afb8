"""Each mutant in `mutants/*.toml` is caught by the test that it names.

A mutant is a small, meaningful change to the code. `file` is below src/weft, `before` stands there
exactly once and is replaced by `after`, `test` fails then. A mutant that is `quick` is tried by
every `make test`, the others by `make mutants` and `make chaos`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src"
MUTANTS: list[dict[str, Any]] = [
    mutant
    for path in sorted(Path(__file__).with_name("mutants").glob("*.toml"))
    for mutant in tomllib.loads(path.read_text())["mutant"]
]
LATER = pytest.mark.skipif("WEFT_CHAOS" not in os.environ, reason="by `make chaos`")


def mutate(mutant: dict[str, Any], sources: Path) -> None:
    path = sources / "weft" / mutant["file"]
    path.write_text(path.read_text().replace(mutant["before"], mutant["after"]))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant["name"])
def test_a_mutant_still_names_one_place_and_a_test_that_exists(mutant: dict[str, Any]) -> None:
    text = (SOURCES / "weft" / mutant["file"]).read_text()
    assert text.count(mutant["before"]) == 1
    file, _, test = mutant["test"].partition("::")
    assert f"def {test}" in (ROOT / file).read_text() if test else (ROOT / file).exists()


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
    [
        pytest.param(mutant, id=mutant["name"], marks=[] if mutant.get("quick") else [LATER])
        for mutant in MUTANTS
    ],
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
