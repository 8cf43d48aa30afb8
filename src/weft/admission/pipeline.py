"""The stages of a task: those that make its candidate, then those that look at it.

A task's details carry its pipeline. Whoever makes works on what was made before; whoever looks
changes nothing and says whether the candidate may land. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.model import Stage
from weft.stages import LOOKING


def stages(details: Mapping[str, Any]) -> tuple[Stage, ...]:
    """The pipeline of a task; none for one that was handed in without a plan.

    Whoever wrote it down, each stage is in it once: what follows a stage is then always a later
    one, and a task comes to its end.
    """
    found: dict[str, Stage] = {}
    for one in details.get("stages", ()):
        stage = Stage(name=one["stage"], agent=one["agent"], demand=one["demand"])
        found.setdefault(stage.name, stage)
    return tuple(found.values())


def looks(stage: str | None) -> bool:
    return stage in LOOKING


def after(details: Mapping[str, Any], stage: str | None) -> Stage | None:
    """The stage that follows; None after the last one."""
    pipeline = stages(details)
    names = [one.name for one in pipeline]
    if stage not in names:
        return None
    following = pipeline[names.index(stage) + 1 :]
    return following[0] if following else None


def before(details: Mapping[str, Any], stage: str | None) -> str | None:
    """The stage whose work this one builds on."""
    names = [one.name for one in stages(details) if not looks(one.name)]
    if stage not in names:
        return None
    place = names.index(stage)
    return names[place - 1] if place else None


def maker(details: Mapping[str, Any]) -> Stage | None:
    """Who makes the candidate again when it was refused: the last of those that make it."""
    making = [one for one in stages(details) if not looks(one.name)]
    return making[-1] if making else None


def is_to_be_looked_at(details: Mapping[str, Any], stage: str | None) -> bool:
    """Whether the candidate of this stage is reviewed or judged before it lands."""
    following = after(details, stage)
    return following is not None and looks(following.name)
