"""The order that the text of a task states: "depends on Task 2", "after S-1", "after the above"."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

_STRONG = r"depend(?:s|ing|ent)?[ ](?:up)?on|blocked[ ]by"
_CUE = re.compile(
    rf"\b(?:(?P<strong>{_STRONG})|after|once|requires?|needs?|builds?[ ]on|relies[ ]on|"
    r"waits?[ ]for)\b[:]?[ \t\n]*",
    re.IGNORECASE,
)
_EARLIER = re.compile(
    r"(?:all[ ]|both[ ]|each[ ])?(?:of[ ])?(?:the[ ])?(?:tasks?[ ])?"
    r"(?:above|previous|preceding|earlier)\b(?P<one>[ ](?:task|step|one|item)\b)?",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"(?:the[ ])?(?P<noun>(?:tasks?|steps?|story|stories|items?)[ ]*#?)?[`*\"(]*"
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9_-]{0,40}(?:\.[A-Za-z0-9]{1,8}){0,3})[`*\")]*",
    re.IGNORECASE,
)
_AND = re.compile(r"[ \t]*(?:,[ ]*and\b|,|and\b|&|\+|or\b)[ \t]*", re.IGNORECASE)
_LONGEST_TEXT: Final = 20_000


class StatedOrder(Struct, frozen=True, kw_only=True):
    """The needs that a text states."""

    needs: tuple[str, ...] = ()  # ids
    unclear: str = ""  # the words of a need that names no task; empty if all are clear


def find_stated_order(text: str, names: Mapping[str, str], earlier: Sequence[str]) -> StatedOrder:
    """Read the needs that a text states.

    `names` maps the names of tasks to their ids; `earlier` are the ids before the task, in order.
    """
    text = text[:_LONGEST_TEXT]
    known = {name.upper(): id for name, id in names.items() if _has_digit(name)} | dict(names)
    needs: dict[str, None] = {}
    unclear = ""
    for cue in _CUE.finditer(text):
        if whole := _EARLIER.match(text, cue.end()):
            needs.update(dict.fromkeys(earlier[-1:] if whole["one"] else earlier))
            continue
        named = _read_names(text, cue.end(), known, is_strong=cue["strong"] is not None)
        needs.update(dict.fromkeys(named))
        if cue["strong"] is not None and not named:
            unclear = unclear or " ".join(text[cue.start() : cue.start() + 60].split())
    return StatedOrder(needs=tuple(needs), unclear=unclear)


def _read_names(text: str, at: int, known: Mapping[str, str], *, is_strong: bool) -> list[str]:
    """Read a list of names: `Task 1, 2 and 3`. A bare number needs a noun or a strong cue.

    A name without a digit may be any word, so its letters have to be large and small as in the id.
    """
    names: list[str] = []
    counted = is_strong
    while match := _NAME.match(text, at):
        counted = counted or match["noun"] is not None
        name = match["name"]
        task = known.get(name) or known.get(name.upper() if _has_digit(name) else "")
        if task is None or (name.isdigit() and not counted):
            break
        names.append(task)
        more = _AND.match(text, match.end())
        if more is None:
            break
        at = more.end()
    return names


def _has_digit(name: str) -> bool:
    return any(letter.isdigit() for letter in name)
