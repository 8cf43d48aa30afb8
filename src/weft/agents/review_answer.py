"""The answers of reviewers and judges: the last JSON object in their text, read leniently.

The agent files `review` and `judge` define the forms. An answer without a clear verdict counts as
no verdict, and no change lands without a verdict.
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
        return "\n".join(f"- {reason}" for reason in self.reasons)


def remove_prompt(text: str, template: str) -> str:
    """Return the text after the last repeated line of the prompt. Some programs print their
    prompt, which contains an example of a verdict."""
    for line in reversed(template.splitlines()):
        if len(line.strip()) >= _LINE and "{{" not in line and "{%" not in line:
            return text.rpartition(line.strip())[2]
    return text


def read(text: str) -> ReviewVerdict | None:
    """Return the verdict in an answer; None if there is none."""
    answer = find_last_object(text)
    if answer is None:
        return None
    if "verdict" in answer:
        return _judged(answer)
    answers = {
        question: entry
        for question, entry in answer.items()
        if isinstance(entry, dict) and entry.get("answer") in _UNSURE
    }
    if not answers:
        return None
    refused = [
        f"{question.replace('_', ' ')}: {entry.get('why') or 'no'}"
        for question, entry in answers.items()
        if entry["answer"] == "no"
    ]
    reasons = (*_to_fix(answer), *refused)
    return ReviewVerdict(accepted=not reasons, reasons=reasons)


def _judged(answer: dict[str, Any]) -> ReviewVerdict | None:
    if answer["verdict"] not in ("accept", "reject"):
        return None
    accepted = answer["verdict"] == "accept"
    why = answer.get("why")
    own = (str(why),) if isinstance(why, str) and why.strip() else ()
    reasons = (*_to_fix(answer), *own) if not accepted else ()
    return ReviewVerdict(accepted=accepted, reasons=reasons)


def _to_fix(answer: dict[str, Any]) -> tuple[str, ...]:
    listed = answer.get("must_be_fixed")
    if not isinstance(listed, list):
        return ()
    return tuple(text for entry in listed if (text := _fix(entry)))


def _fix(entry: object) -> str:
    if isinstance(entry, str):
        return entry.strip()
    if not isinstance(entry, dict):
        return ""
    what = str(entry.get("what") or "").strip()
    where = ":".join(str(entry[key]) for key in ("file", "line") if entry.get(key))
    return f"{where}: {what}" if where and what else what


def find_last_object(text: str) -> dict[str, Any] | None:
    """Return the last JSON object in a text that is not nested in another object."""
    decoder = json.JSONDecoder()
    text = text[-_LONGEST:]
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
