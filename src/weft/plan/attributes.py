"""The attributes of a task that a plan sets to a single value, and the parsers of values.

A parser takes text and returns a value, or raises `ValueError` with the expected form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from weft.host_labels import parse_labels
from weft.model import Class, Priority
from weft.plan.plan_records import Budget
from weft.teams.team_text import parse_team

_MONEY = re.compile(r"\$?[ ]*([0-9]{1,9}(?:\.[0-9]{1,4})?)[ ]*(?:\$|usd)?", re.IGNORECASE)
_DURATION = re.compile(
    r"(?:([0-9]{1,6})[ ]*h)?[ ]*(?:([0-9]{1,6})[ ]*m(?:in)?)?[ ]*(?:([0-9]{1,6})[ ]*s)?"
)
_AMOUNT = re.compile(r"([A-Za-z][A-Za-z0-9_.:/-]{0,60})[ ]*=[ ]*([0-9]{1,9}(?:\.[0-9]{1,3})?)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,60}")
_ID = re.compile(r"[^\s,;\"'`]{1,80}")

_LONGEST_PHRASE: Final = 80


def parse_priority(text: str) -> Priority:
    try:
        return Priority[text.upper()]
    except KeyError:
        raise ValueError("critical, high, normal, low or background") from None


def parse_class(text: str) -> Class:
    try:
        return Class[text.upper()]
    except KeyError:
        raise ValueError("interactive, standard or batch") from None


def parse_execution(text: str) -> bool:
    """Return True for a parallel phase."""
    if text.lower() not in ("parallel", "sequential"):
        raise ValueError("parallel or sequential")
    return text.lower() == "parallel"


def parse_review(text: str) -> bool:
    """Return True: a person reviews the candidate."""
    if text.lower() != "you":
        raise ValueError("you")
    return True


def parse_budget(text: str) -> Budget:
    expected = "an amount and a time, such as `$3, 30m`"
    if len(text) > _LONGEST_PHRASE:
        raise ValueError(expected)
    usd: float | None = None
    seconds: int | None = None
    for part in text.split(","):
        part = part.strip()
        if time := _DURATION.fullmatch(part.lower()) if part else None:
            seconds = sum(
                int(amount or 0) * unit
                for amount, unit in zip(time.groups(), (3600, 60, 1), strict=True)
            )
        elif money := _MONEY.fullmatch(part):
            usd = float(money[1])
        else:
            raise ValueError(expected)
    return Budget(usd=usd, seconds=seconds)


def parse_amount(text: str) -> tuple[str, float]:
    amount = _AMOUNT.fullmatch(text)
    if amount is None or float(amount[2]) == 0 or text.startswith("label:"):
        raise ValueError("amounts of resources, such as `port=1, ram_gb=2`")
    return amount[1], float(amount[2])


def parse_risky(text: str) -> bool:
    if text.lower() not in ("yes", "no"):
        raise ValueError("yes or no")
    return text.lower() == "yes"


def parse_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("a name without spaces")
    return text


def parse_id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise ValueError("a short name without spaces, commas and quotes")
    return text


def parse_phrase(text: str) -> str:
    if not 0 < len(text) <= _LONGEST_PHRASE:
        raise ValueError("a short name")
    return text


def parse_command(text: str) -> str:
    if not text:
        raise ValueError("a command, such as `make test`")
    return text


def _names(levels: type[Class] | type[Priority]) -> tuple[str, ...]:
    return tuple(level.name.lower() for level in levels)


class Attribute(Struct, frozen=True):
    field: str  # of PlanTask
    parse: Callable[[str], Any]
    names: tuple[str, ...] = ()  # its values, if they are few
    many: bool = False  # its value in JSON may be a list
    in_json: bool = False  # may also be set in a prd.json, and in the metadata of an issue


ATTRIBUTES: Final[Mapping[str, Attribute]] = {
    "parallel-group": Attribute("group", parse_phrase),
    "agent": Attribute("agent", parse_name, in_json=True),
    "priority": Attribute("priority", parse_priority, names=_names(Priority)),
    "class": Attribute("klass", parse_class, names=_names(Class)),
    "budget": Attribute("budget", parse_budget),
    "needs-labels": Attribute("needs_labels", parse_labels, many=True, in_json=True),
    "check": Attribute("check", parse_command, in_json=True),
    "review": Attribute("review", parse_review, names=("you",), in_json=True),
    "team": Attribute("team", parse_team, in_json=True),
    "part-of": Attribute("part_of", parse_phrase),
    "judge": Attribute("judge", parse_name),
    "risky": Attribute("risky", parse_risky, names=("yes", "no")),
    "id": Attribute("id", parse_id),
}
"""The attributes by their keys in annotations."""

JSON_ATTRIBUTES: Final[Mapping[str, Attribute]] = {
    key.replace("-", "_"): attribute for key, attribute in ATTRIBUTES.items() if attribute.in_json
}
"""The attributes by their keys in a JSON document."""
