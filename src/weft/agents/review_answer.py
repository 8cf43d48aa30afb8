"""The answers of reviewers and judges: the last JSON object in their text, read leniently.

The agent files `review` and `judge` define the forms. An answer without a clear verdict counts as
no verdict, and nothing lands without a verdict.
"""

from __future__ import annotations

import json
from typing import Any, Final

from msgspec import Struct

_LONGEST: Final = 200_000
_TRIES: Final = 2_000
_LINE: Final = 20  # a line this long is not repeated by chance
_UNSURE: Final = frozenset({"unsure", "yes", "no"})


class ReviewVerdict(Struct, frozen=True, kw_only=True):
    accepted: bool
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(f"- {one}" for one in self.reasons)


def without_prompt(text: str, template: str) -> str:
    """Return the text after the last repeated line of the prompt. Some programs print their
    prompt, which contains an example of a verdict."""
    for line in reversed(template.splitlines()):
        if len(line.strip()) >= _LINE and "{{" not in line and "{%" not in line:
            return text.rpartition(line.strip())[2]
    return text


def read(text: str) -> ReviewVerdict | None:
    """The verdict in an answer; None if there is none."""
    found = _last_object(text[-_LONGEST:])
    if found is None:
        return None
    if "verdict" in found:
        return _judged(found)
    answers = {
        question: one
        for question, one in found.items()
        if isinstance(one, dict) and one.get("answer") in _UNSURE
    }
    if not answers:
        return None
    refused = [
        f"{question.replace('_', ' ')}: {one.get('why') or 'no'}"
        for question, one in answers.items()
        if one["answer"] == "no"
    ]
    reasons = (*_to_fix(found), *refused)
    return ReviewVerdict(accepted=not reasons, reasons=reasons)


def _judged(found: dict[str, Any]) -> ReviewVerdict | None:
    if found["verdict"] not in ("accept", "reject"):
        return None
    accepted = found["verdict"] == "accept"
    why = found.get("why")
    said = (str(why),) if isinstance(why, str) and why.strip() else ()
    reasons = (*_to_fix(found), *said) if not accepted else ()
    return ReviewVerdict(accepted=accepted, reasons=reasons)


def _to_fix(found: dict[str, Any]) -> tuple[str, ...]:
    listed = found.get("must_be_fixed")
    if not isinstance(listed, list):
        return ()
    return tuple(text for one in listed if (text := _fix(one)))


def _fix(one: object) -> str:
    if isinstance(one, str):
        return one.strip()
    if not isinstance(one, dict):
        return ""
    what = str(one.get("what") or "").strip()
    where = ":".join(str(one[key]) for key in ("file", "line") if one.get(key))
    return f"{where}: {what}" if where and what else what


def _last_object(text: str) -> dict[str, Any] | None:
    """The last JSON object in a text that is not part of another one."""
    decoder = json.JSONDecoder()
    last = None
    place = text.find("{")
    for _ in range(_TRIES):
        if place < 0:
            break
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            end = place + 1
        else:
            last = value
        place = text.find("{", end)
    return last
