"""The CPU time of short commands against an import of click, and the size of an install."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.figures import figure, median_ratio
from bench.measure_looking import fill

_ROOT = Path(__file__).parent.parent
_ROUNDS = 21


def cpu(*command: str, directory: Path) -> float:
    """Run a command; return the seconds of CPU that it and its children took."""
    compiled = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(
        command, cwd=directory, env=compiled, stdout=subprocess.DEVNULL
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return usage.ru_utime + usage.ru_stime


def against_click(directory: Path, *arguments: str) -> float:
    def weft() -> float:
        return cpu(sys.executable, "-m", "weft", *arguments, directory=directory)

    def click() -> float:
        return cpu(sys.executable, "-c", "import click", directory=directory)

    weft(), click()  # compile both
    return median_ratio(weft, click, rounds=_ROUNDS)


@figure("help_ms", "times the CPU of import click", at_most=1.6)
def help_ms() -> float:
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as place:
        return against_click(Path(place), "--help")


@figure("ps_ratio", "times the CPU of import click", at_most=1.8)
def ps_ratio() -> float:
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as place:
        directory = Path(place)
        fill(directory)
        return against_click(directory, "ps")


def install(place: Path) -> Path:
    """Install weft without extras into a directory of its own."""
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    subprocess.run([*pip, "install", "--target", str(place), str(_ROOT)], check=True)
    return place


@figure("install_packages", "packages")
def install_packages() -> float:
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as place:
        return len(list(install(Path(place)).glob("*.dist-info")))


@figure("install_mb", "MB")
def install_mb() -> float:
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as place:
        files = install(Path(place)).rglob("*")
        blocks = sum(file.lstat().st_blocks for file in files if file.is_file())
        return blocks * 512 / 1e6
