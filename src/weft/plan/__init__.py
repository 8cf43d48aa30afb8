"""Plans: reading plan.md, prd.json and beads exports, and compiling them into a graph.

Pure: bytes in, records out. Files are read and written by whoever asks. The entry points are
`read` and `compile`; `writeback`, `annotate`, `convert`, `state` and `report` serve the commands
they are named after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from weft.plan import beads, markdown, prd
from weft.plan.compile import compile
from weft.plan.pause import collector_paused
from weft.plan.records import Compiled, Plan, PlanTask, Problem, Reading, Severity, Source
from weft.plan.report import as_json

__all__ = [
    "Compiled",
    "Plan",
    "PlanTask",
    "Problem",
    "Reading",
    "Severity",
    "Source",
    "as_json",
    "compile",
    "read",
]

_BLANK: Final = b"\xef\xbb\xbf \t\r\n"


def read(name: str, data: bytes) -> Reading:
    """Read a plan of any kind, told by the name of its file or, failing that, by its first line."""
    with collector_paused():
        return _reader(name, data)(name, data)


def _reader(name: str, data: bytes) -> Callable[[str, bytes], Reading]:
    suffix = name.lower().rpartition(".")[2]
    if suffix in ("md", "markdown"):
        return markdown.read
    if suffix == "jsonl":
        return beads.read
    if suffix == "json":
        return prd.read
    start = data[:4096].lstrip(_BLANK)
    if not start.startswith((b"{", b"[")):
        return markdown.read
    # An object that ends with its line is one of many.
    first_line = data.lstrip(_BLANK).partition(b"\n")[0].rstrip()
    is_beads = first_line.endswith(b"}") and b'"stories"' not in first_line
    return beads.read if is_beads else prd.read
