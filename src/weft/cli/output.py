"""Output of the commands: JSON for programs, lines and aligned columns for people."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def worker_slots_option(command: F) -> F:
    return click.option(
        "--slots",
        type=click.IntRange(min=1, max=10_000),
        metavar="N",
        help="How many agents it runs at once. Default: MAX_CONCURRENT_TASKS, or 4.",
    )(command)


def print_json(value: object) -> None:
    """Print a value, in which records may stand, as JSON."""
    from msgspec import to_builtins  # late: `weft --help` prints no JSON

    from weft.formats import json_text

    click.echo(json_text(to_builtins(value)))


def show(value: object, lines: Iterable[str], *, as_json: bool) -> None:
    """Print the value for programs, or the lines for people."""
    if as_json:
        print_json(value)
        return
    for line in lines:
        say(line)


def say(line: str) -> None:
    """Print a line without control characters; ignore a closed standard output."""
    try:
        click.echo(printable(line))
    except BrokenPipeError:
        discard_output()


def printable(line: str) -> str:
    return "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in line)


def escape_unencodable_output() -> None:
    """Print characters that the terminal's encoding lacks as backslash escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Send all further output to /dev/null, because the reader of standard output has gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def wrap_words(line: str, width: int) -> list[str]:
    """Break a line between words, never in a command; the rest stands below its first letter."""
    from textwrap import wrap  # late: few commands print long sentences

    indent = " " * (len(line) - len(line.lstrip(" !")))
    parts = line.split("`")
    parts[1::2] = [command.replace(" ", "\N{NO-BREAK SPACE}") for command in parts[1::2]]
    lines = wrap(
        "`".join(parts),
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines] or [line]


WIDTH: Final = 80  # columns that every table fits into
_LEAST: Final = 8  # columns that a shortened cell keeps


def table_width() -> int:
    """Return the columns of the terminal; without one, those that every terminal has."""
    from shutil import get_terminal_size  # late: 2 ms for its compressors

    return max(WIDTH, get_terminal_size((WIDTH, 24)).columns) if sys.stdout.isatty() else WIDTH


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print aligned columns, numbers to the right; shorten the last ones to the width of a page."""
    from weft.formats import cells as cell_width  # late: `weft --help` prints no table
    from weft.formats import fit

    cells = [[str(cell) for cell in row] for row in rows]
    numeric = [
        bool(rows) and all(isinstance(row[column], int) for row in rows)
        for column in range(len(header))
    ]
    columns = zip(header, *cells, strict=True)
    widths = _fit_widths([max(map(cell_width, column)) for column in columns])
    for line in [list(header), *cells]:
        padded = [
            cell.rjust(width) if right else fit(cell, width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        click.echo(printable("  ".join(padded).rstrip()))


def _fit_widths(widths: list[int]) -> list[int]:
    """Shorten the last column until the table fits, then the widest of the others."""
    room = table_width() - 2 * (len(widths) - 1)
    if sum(widths) > room:
        rest = sum(widths[:-1])
        widths = [*widths[:-1], max(min(_LEAST, widths[-1]), room - rest)]
    while sum(widths) > room and max(widths) > _LEAST:
        widths[widths.index(max(widths))] -= 1
    return widths
