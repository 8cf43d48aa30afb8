"""The stages a task of a plan may go through, and in which order. Pure.

What becomes of a task between them is `policy.pipeline`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

MAKING: Final = ("test", "implement")
"""Stages that make a change, each on top of the one before it."""

LOOKING: Final = ("review", "judge")
"""Stages that give a verdict on what was made, and change nothing."""

STAGES: Final = (*MAKING, *LOOKING)

RULE: Final = (
    "legal are test, implement, review and judge, in this order, each once at most, "
    "with test or implement among them"
)


class Fault(Struct, frozen=True, kw_only=True):
    place: int  # in the list, of what is wrong with it
    why: str  # a clause


def find_fault(names: Sequence[str]) -> Fault | None:
    """What keeps a list of stages from being one that a task can go through."""
    for place, name in enumerate(names):
        before = names[:place]
        if name not in STAGES:
            return Fault(place=place, why=f"there is no stage {name!r}")
        if name in before:
            return Fault(place=place, why=f"{name} comes twice")
        if late := [one for one in before if STAGES.index(one) > STAGES.index(name)]:
            return Fault(place=place, why=f"{name} comes before {late[0]}, not after it")
    if not any(name in MAKING for name in names):
        lost = f"nothing makes the change that {names[0]} would look at" if names else "it is empty"
        return Fault(place=0, why=lost)
    return None
