"""Run the figures whose names start with the given prefixes; all without any.

Each figure runs in a process of its own with a time limit, so that a figure which hangs or fails
costs only itself. Exits with 1 if a figure fails or misses its bound.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import signal
import subprocess
import sys

import bench
from bench.figures import FIGURES

_ALONE = "--alone"
_GRACE = 20.0  # seconds in which an interrupted figure ends its own processes


def main(arguments: list[str]) -> int:
    for module in pkgutil.iter_modules(bench.__path__):
        if module.name.startswith("measure_"):
            importlib.import_module(f"bench.{module.name}")
    if arguments[:1] == [_ALONE]:
        return _measure(arguments[1])
    chosen = [name for name in FIGURES if not arguments or name.startswith(tuple(arguments))]
    if not chosen:
        print(f"No figure starts with {' or '.join(arguments)}.", file=sys.stderr)
        return 2
    missed = [
        name
        for name in chosen
        if not holds(name, [sys.executable, "-m", "bench", _ALONE, name], FIGURES[name].seconds)
    ]
    if missed:
        print(
            f"{len(missed)} of {len(chosen)} figures missed: {', '.join(missed)}.", file=sys.stderr
        )
    return 1 if missed else 0


def _measure(name: str) -> int:
    figure = FIGURES[name]
    value = figure.measure()
    print(f"{name} {value:.3g} {figure.unit}", flush=True)
    if figure.holds(value):
        return 0
    print(f"{name} is outside of {figure.at_least} to {figure.at_most}.", file=sys.stderr)
    return 1


def holds(name: str, command: list[str], limit: float) -> bool:
    """Run the command of a figure in its own session; return False if it fails, misses its bound
    or takes longer than its time limit."""
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            return process.wait(limit) == 0
        except subprocess.TimeoutExpired:
            print(f"{name} did not end within {limit:g} s.", file=sys.stderr)
            return False
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a figure that still runs, so that it cleans up; kill it after the grace."""
    try:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
