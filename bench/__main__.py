"""Run the figures whose names start with the given prefixes; all without any."""

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
    for name in chosen:
        figure = FIGURES[name]
        value = figure.measure()
        bound = f"  # {figure.bound}" if figure.bound else ""
        print(f"{name} {value:.3g} {figure.unit}{bound}", flush=True)
    return 0


sys.exit(main(sys.argv[1:]))
