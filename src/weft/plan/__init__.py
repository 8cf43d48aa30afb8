"""Plans: readers of plan.md, prd.json and beads exports, and their compilation into a graph.

Pure: bytes in, records out; callers read and write the files. The entry points are `read` and
`compile`; `writeback`, `annotator`, `parallel_state` and `plan_json` each serve a command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from weft.plan import beads, markdown, prd
from weft.plan.compiler import collector_paused, compile
from weft.plan.plan_json import as_json
from weft.plan.plan_records import (
    Compiled,
    ParsedPlan,
    Plan,
    PlanTask,
    Problem,
    ReaderOptions,
    Severity,
    Source,
)

__all__ = [
    "Compiled",
    "ParsedPlan",
    "Plan",
    "PlanTask",
    "Problem",
    "ReaderOptions",
    "Severity",
    "Source",
    "as_json",
    "compile",
    "read",
    "suffix_for",
]

_BLANK: Final = b"\xef\xbb\xbf \t\r\n"
Reader = Callable[[str, bytes, ReaderOptions], ParsedPlan]

_READERS: Final[Mapping[str, Reader]] = {
    "md": markdown.read,
    "markdown": markdown.read,
    "json": prd.read,
    "jsonl": beads.read,
}


_PLAIN: Final = ReaderOptions()


def read(name: str, data: bytes, options: ReaderOptions = _PLAIN) -> ParsedPlan:
    """Read a plan of any kind, told by the name of its file or, failing that, by its first line."""
    with collector_paused():
        return _reader(name, data)(name, data, options)


def _reader(name: str, data: bytes) -> Reader:
    suffix = name.lower().rpartition(".")[2]
    return _READERS.get(suffix) or _READERS[suffix_for(data)]


def suffix_for(data: bytes) -> str:
    """Return the suffix for a file with this plan: md, json or jsonl."""
    start = data[:4096].lstrip(_BLANK)
    if not start.startswith((b"{", b"[")):
        return "md"
    # In a beads export each object ends with its line.
    first_line = data.lstrip(_BLANK).partition(b"\n")[0].rstrip()
    is_beads = first_line.endswith(b"}") and b'"stories"' not in first_line
    return "jsonl" if is_beads else "json"
