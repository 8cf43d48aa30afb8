"""The prose of a plan.md that every agent reads: before the first phase, and before its tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from weft.plan.plan_records import Plan

LONGEST: Final = 6_000  # characters of the plan's own prose
LONGEST_PHASE: Final = 2_000
_LONGEST_IN_ALL: Final = 60_000

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+\n")


def clean_prose(lines: Sequence[str]) -> str:
    """Return lines without comments, which are weft's, and without control characters."""
    text = _CONTROL.sub("�", _COMMENT.sub("", "\n".join(lines)))
    return _BLANK_LINES.sub("\n\n", text).strip()


def shorten_prose(text: str, most: int) -> str:
    """Keep the beginning of a text, up to the end of a line where there is one."""
    if len(text) <= most:
        return text
    kept = text[:most]
    return (kept[: kept.rfind("\n")] if "\n" in kept[most // 2 :] else kept).rstrip() + "\n[…]"


def collect_prose(plan: Plan) -> dict[str, str]:
    """Return the prose of a plan under "", and that of each phase under its title, all bounded."""
    phases = {phase.title: phase.prose for phase in plan.phases if phase.title}
    return dict(_bounded({"": plan.description, **phases}))


def _bounded(texts: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    room = _LONGEST_IN_ALL
    for title, text in texts.items():
        kept = shorten_prose(text.strip(), LONGEST_PHASE if title else LONGEST)
        room -= len(kept)
        if kept and room >= 0:
            yield title, kept
