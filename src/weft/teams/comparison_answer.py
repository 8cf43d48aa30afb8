"""The answer of a judge that compares two candidates: the last JSON object in its text. Pure."""

from __future__ import annotations

from typing import Final

from weft.teams.choice import Preference

_ANSWERS: Final = {
    "1": Preference.FIRST,
    "2": Preference.SECOND,
    "equal": Preference.EQUAL,
}


def read_preference(answer: object) -> Preference | None:
    """Return the preference in the JSON object of an answer; None if it states none."""
    if not isinstance(answer, dict):
        return None
    return _ANSWERS.get(str(answer.get("better")).strip().lower())
