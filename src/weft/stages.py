"""The stages of a task: first those that make its candidate, then those that judge it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from weft.model import Stage

MAKING: Final = ("test", "implement")
"""Stages that make a change, each on top of the stage before."""

LOOKING: Final = ("review", "judge")
"""Stages that give a verdict on the candidate, and change no files."""

STAGES: Final = (*MAKING, *LOOKING)

RULE: Final = (
    "legal are test, implement, review and judge, in this order, each once at most, "
    "with test or implement among them"
)


class Fault(Struct, frozen=True, kw_only=True):
    place: int  # of the wrong stage, from 0
    why: str  # a clause


def find_fault(names: Sequence[str]) -> Fault | None:
    """Return the first fault of a list of stages; None if a task can go through it."""
    for place, name in enumerate(names):
        before = names[:place]
        if name not in STAGES:
            return Fault(place=place, why=f"there is no stage {name!r}")
        if name in before:
            return Fault(place=place, why=f"{name} comes twice")
        if late := [earlier for earlier in before if STAGES.index(earlier) > STAGES.index(name)]:
            return Fault(place=place, why=f"{name} comes before {late[0]}, not after it")
    if not any(name in MAKING for name in names):
        lost = f"nothing makes the change that {names[0]} would look at" if names else "it is empty"
        return Fault(place=0, why=lost)
    return None


def looks(stage: str | None) -> bool:
    return stage in LOOKING


def after(pipeline: Sequence[Stage], stage: str | None) -> Stage | None:
    """Return the stage that follows; None after the last stage.

    Counts from the last stage of this name: a task comes to its end even if a name is there twice.
    """
    names = [step.name for step in pipeline]
    if stage not in names:
        return None
    place = len(names) - names[::-1].index(stage)
    return pipeline[place] if place < len(pipeline) else None


def before(pipeline: Sequence[Stage], stage: str | None) -> str | None:
    """Return the name of the stage whose work this stage builds on."""
    names = [step.name for step in pipeline if not looks(step.name)]
    place = names.index(stage) if stage in names else 0
    return names[place - 1] if place else None


def maker(pipeline: Sequence[Stage]) -> Stage | None:
    """Return the last stage that makes the candidate: it makes a refused candidate again."""
    return next((step for step in reversed(pipeline) if not looks(step.name)), None)


def is_to_be_looked_at(pipeline: Sequence[Stage], stage: str | None) -> bool:
    """Tell whether the candidate of this stage is reviewed or judged before it lands."""
    following = after(pipeline, stage)
    return following is not None and looks(following.name)
