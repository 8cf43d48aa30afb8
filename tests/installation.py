"""An environment with weft's wheel, as a stranger installs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("WEFT_", "VIRTUAL_ENV", "PYTHON", "MAX_CONCURRENT"))
}
UNREACHABLE = "No matching distribution found"


def call(
    *command: str | Path, directory: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {**CLEAN, **variables}
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )


def install(place: Path) -> Path:
    """Install the wheel into a new environment; return the directory of its programs."""
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    _pip(*pip, "wheel", "--no-deps", "--wheel-dir", place, ROOT, directory=place)
    [wheel] = place.glob("*.whl")
    made = call(sys.executable, "-m", "venv", "--without-pip", place / "venv", directory=place)
    assert made.returncode == 0, made.stderr
    python = str(place / "venv" / "bin" / "python")
    _pip(*pip, "--python", python, "install", str(wheel), directory=place)
    return place / "venv" / "bin"


def _pip(*command: str | Path, directory: Path) -> None:
    done = call(*command, directory=directory)
    if UNREACHABLE in done.stderr:
        pytest.skip("pip reaches no package index")
    assert done.returncode == 0, done.stderr
