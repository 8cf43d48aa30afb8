"""Plans: readers of plan.md and the other formats, and their compilation into a graph.

Pure: bytes in, records out; callers read and write the files. The entry points are `read` and
`compile`; `writeback`, `annotator`, `parallel_state` and `plan_json` each serve a command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from weft.plan import beads, checklist, markdown, prd, task_master
from weft.plan.compiler import collector_paused, compile
from weft.plan.plan_format import detect
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
    "detect",
    "read",
    "suffix_for",
]

Reader = Callable[[str, bytes, ReaderOptions], ParsedPlan]

_READERS: Final[Mapping[Source, Reader]] = {
    Source.MARKDOWN: markdown.read,
    Source.PRD: prd.read,
    Source.BEADS: beads.read,
    Source.TASK_MASTER: task_master.read,
    Source.SUPERPOWERS: checklist.read_superpowers,
    Source.SPEC_KIT: partial(checklist.read_as, Source.SPEC_KIT),
    Source.KIRO: partial(checklist.read_as, Source.KIRO),
    Source.OPENSPEC: partial(checklist.read_as, Source.OPENSPEC),
}
_PLAIN: Final = ReaderOptions()


def read(name: str, data: bytes, options: ReaderOptions = _PLAIN) -> ParsedPlan:
    """Read a plan of any kind, in the format that `detect` finds unless the options name it."""
    with collector_paused():
        return _READERS[options.format or detect(name, data)](name, data, options)


def suffix_for(data: bytes) -> str:
    """Return the suffix for a file with this plan: md, json or jsonl."""
    kind = detect("", data)
    return {Source.PRD: "json", Source.TASK_MASTER: "json", Source.BEADS: "jsonl"}.get(kind, "md")
