"""Plans: readers of plan.md and the other formats, and their compilation into a graph.

Pure: bytes in, records out; callers read and write the files. The entry points are `read` and
`compile`; `writeback`, `annotator`, `split_writer` and `plan_json` each serve a command.

The format of a plan, found by the name and the content of its file, in a fixed order.

1. `.jsonl`, or a file whose first line is a whole JSON object: a beads export.
2. `.json`, or a file that begins with a bracket or brace: task-master if the document or an object
   in it has `tasks` and the document no stories; otherwise a prd.json.
3. `### Task N` headings with `**Files:**` lists: superpowers.
4. Boxes that begin with T and a number: spec-kit.
5. Boxes with numbers under headings with the same numbers (`## 1.`, `- [ ] 1.1`): OpenSpec.
6. Boxes with numbers, at least one of them nested, optional or with `_Requirements: …_`: Kiro.
7. Everything else: plan.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from weft.plan import beads, checklist, markdown, prd
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
    "detect",
    "read",
    "suffix_for",
]

Reader = Callable[[str, bytes, ReaderOptions], ParsedPlan]

_READERS: Final[Mapping[Source, Reader]] = {
    Source.MARKDOWN: markdown.read,
    Source.PRD: partial(prd.read_as, Source.PRD),
    Source.BEADS: beads.read,
    Source.TASK_MASTER: partial(prd.read_as, Source.TASK_MASTER),
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


_BOM: Final = b"\xef\xbb\xbf"
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STORIES: Final = frozenset({"stories", "userstories"})
_WHOLE_PLAN: Final = re.compile(rb'"(?:stories|userStories|tasks)"\s*:\s*\[')
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"
_LONGEST: Final = 1_000_000  # bytes that are looked at
_BOX = r"^[ \t]*[-*+][ \t]+\[.\]\*?[ \t]+"
_FENCED = re.compile(r"^[ \t]*(```+|~~~+).*?^[ \t]*\1[^\n]*$", re.MULTILINE | re.DOTALL)
_TASK_HEADING = re.compile(r"^#{2,4}[ \t]+Task[ \t]+[0-9]", re.MULTILINE)
_FILES_LIST = re.compile(r"^[ \t]*\*\*Files:?\*\*", re.MULTILINE)
_SPEC_KIT = re.compile(_BOX + r"T[0-9]{2,6}[ \t:.]", re.MULTILINE)
_NUMBERED_HEADING = re.compile(r"^##[ \t]+([0-9]{1,4})\.?[ \t]", re.MULTILINE)
_NUMBERED = re.compile(_BOX + r"([0-9]{1,4})(?:\.[0-9]{1,4})*\.?[ \t]+\S", re.MULTILINE)
_SUB_NUMBERED = re.compile(_BOX + r"([0-9]{1,4})\.[0-9]{1,4}", re.MULTILINE)
_KIRO = re.compile(
    r"^[ \t]+[-*+][ \t]+\[.\]\*?[ \t]+[0-9]+\.[0-9]|_Requirements:|\[.\]\*[ \t]+[0-9]",
    re.MULTILINE,
)


def detect(name: str, data: bytes) -> Source:
    """Return the format of a plan."""
    suffix = name.lower().rpartition(".")[2]
    if suffix == "jsonl":
        return Source.BEADS
    if suffix == "json":
        return _detect_json(data)
    if suffix not in ("md", "markdown") and data[:4096].lstrip(_BLANK).startswith((b"{", b"[")):
        # In a beads export each object ends with its line.
        first_line = data.lstrip(_BLANK).partition(b"\n")[0].rstrip()
        is_beads = (
            first_line.endswith(b"}")
            and b'"stories"' not in first_line
            and b'"tasks"' not in first_line
        )
        return Source.BEADS if is_beads else _detect_json(data)
    return _detect_markdown(data[:_LONGEST].decode("utf-8", "replace").replace("\r\n", "\n"))


def _detect_json(data: bytes) -> Source:
    """Tell the two kinds of document apart; leave a document that is no JSON to its reader."""
    try:
        root = _MEMBERS.decode(data.removeprefix(_BOM).decode("utf-8", "replace"))
        if not any(key.replace("_", "").lower() in _STORIES for key in root):
            tags = [value for value in root.values() if bytes(value).startswith(b"{")]
            if "tasks" in root or any("tasks" in _MEMBERS.decode(tag) for tag in tags):
                return Source.TASK_MASTER
    except (msgspec.DecodeError, RecursionError):
        return Source.PRD
    return Source.PRD


def _detect_markdown(text: str) -> Source:
    if "```" in text or "~~~" in text:
        text = _FENCED.sub("", text)
    if _TASK_HEADING.search(text) and _FILES_LIST.search(text):
        return Source.SUPERPOWERS
    if _SPEC_KIT.search(text):
        return Source.SPEC_KIT
    headings = set(_NUMBERED_HEADING.findall(text))
    groups = set(_SUB_NUMBERED.findall(text))
    if headings and groups and groups <= headings:
        return Source.OPENSPEC
    if _NUMBERED.search(text) and _KIRO.search(text):
        return Source.KIRO
    return Source.MARKDOWN
