"""How commands print: JSON for programs, aligned columns for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as they need to be; numbers to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    numeric = [
        bool(rows) and all(isinstance(row[column], int) for row in rows)
        for column in range(len(header))
    ]
    widths = [
        max(len(line[column]) for line in [list(header), *cells]) for column in range(len(header))
    ]
    for line in [list(header), *cells]:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())
