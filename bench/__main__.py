"""Run the figures whose names start with the given prefixes; all without any.

Exits with 1 if one of them misses its bound.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

import bench
from bench.figures import FIGURES


def main(prefixes: list[str]) -> int:
    for module in pkgutil.iter_modules(bench.__path__):
        if module.name.startswith("measure_"):
            importlib.import_module(f"bench.{module.name}")
    chosen = [name for name in FIGURES if not prefixes or name.startswith(tuple(prefixes))]
    if not chosen:
        print(f"No figure starts with {' or '.join(prefixes)}.", file=sys.stderr)
        return 2
    missed = 0
    for name in chosen:
        figure = FIGURES[name]
        value = figure.measure()
        print(f"{name} {value:.3g} {figure.unit}", flush=True)
        if not figure.holds(value):
            bounds = f"{figure.at_least} to {figure.at_most}"
            print(f"{name} is outside of {bounds}.", file=sys.stderr)
            missed = 1
    return missed


sys.exit(main(sys.argv[1:]))
