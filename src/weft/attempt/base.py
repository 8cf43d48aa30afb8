"""Where an attempt begins: what its work is made on, and what of earlier work is there already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from weft import git, stages
from weft.errors import WeftError
from weft.git.refs import find_commits
from weft.model import Attempt, ErrorClass, Grant, State, Task
from weft.project.site import Site
from weft.store.gate import find_landed
from weft.store.runs import get_run
from weft.store.tasks import list_attempts, list_needs, list_run
from weft.workspace.names import trunk_ref

RESUMED: Final = frozenset({ErrorClass.RATE_LIMIT, ErrorClass.OVERLOAD, ErrorClass.CAPACITY})
"""Ends after which the next attempt resumes the session, with the work as it was left."""


class Beginning(Struct, frozen=True, kw_only=True):
    base: str  # the work is all that differs from this
    start: str  # what is in the workspace at first
    resumed: Attempt | None = None  # whose session goes on
    tests: tuple[str, ...] = ()  # files of an earlier stage that must stay as they are
    subject: tuple[str, str] | None = None  # what is only looked at, and what it is made on


def choose(site: Site, task: Task, grant: Grant) -> Beginning:
    """Read after the claims were granted: what others have landed in these files is in it."""
    earlier = [one for one in list_attempts(site.store, task.id) if one.number < grant.attempt]
    resumed = _resumed(site, earlier, grant)
    if resumed is not None and resumed.base is not None:
        return Beginning(
            base=resumed.base, start=resumed.candidate or resumed.base, resumed=resumed
        )
    if stages.looks(grant.stage):
        return _looking(site, task, earlier)
    base = _base(site, task)
    made = _made_before(task, grant, earlier)
    if made is None or made.candidate is None or made.base is None:
        return Beginning(base=base, start=base)
    start = made.candidate
    if made.base != base:
        start = site.combine(base, [(made.candidate, made.base)])
    kept = made.stage == stages.before(task.request.stages, grant.stage)
    tests = _paths(site, made.base, made.candidate) if kept else ()
    return Beginning(base=base, start=start, tests=tests)


def _resumed(site: Site, earlier: Sequence[Attempt], grant: Grant) -> Attempt | None:
    """The attempt before this one, if its session can be resumed here."""
    last = earlier[-1] if earlier else None
    if last is None or last.outcome not in RESUMED or last.agent != grant.agent:
        return None
    wanted = [one for one in (last.base, last.candidate) if one is not None]
    if len(find_commits(site.common, wanted)) < len(set(wanted)):
        return None  # it ran on another machine
    return last if last.session else None


def _looking(site: Site, task: Task, earlier: Sequence[Attempt]) -> Beginning:
    maker = stages.maker(task.request.stages)
    made = [one for one in earlier if maker and one.stage == maker.name and one.candidate]
    if not made or made[-1].candidate is None or made[-1].base is None:
        base = _base(site, task)
        parts = _candidates_of(site, _subtasks(site, task))
        whole = site.combine(base, parts) if parts else base
        return Beginning(base=whole, start=whole, subject=(whole, base))
    subject = (made[-1].candidate, made[-1].base)
    return Beginning(base=subject[0], start=subject[0], subject=subject)


def _made_before(task: Task, grant: Grant, earlier: Sequence[Attempt]) -> Attempt | None:
    """Work to build on: the candidate a reviewer refused, or what the stage before made."""
    if earlier and stages.looks(earlier[-1].outcome):
        mine = [one for one in earlier if one.stage == grant.stage and one.candidate]
        if mine:
            return mine[-1]
    before = stages.before(task.request.stages, grant.stage)
    done = [one for one in earlier if one.stage == before and one.outcome == "success"]
    return done[-1] if before is not None and done else None


def _base(site: Site, task: Task) -> str:
    if task.run is None:
        return git.get_commit(site.root, "HEAD").id
    base = _tip(site, task.run)
    siblings = _candidates_of_siblings(site, task)
    return site.combine(base, siblings) if siblings else base


def _tip(site: Site, run: str) -> str:
    """Return the tip of a run's trunk; refuse a trunk that lacks a landed commit."""
    landed = find_landed(site.store, run)  # read before the tip: trunk moves before its rows do
    tip = git.find_tip(site.root, trunk_ref(run))
    if landed is None:
        return (tip or git.get_commit(site.root, get_run(site.store, run).base or "HEAD")).id
    if tip is not None and (tip.id == landed or git.is_ancestor(site.root, landed, tip.id)):
        return tip.id
    short = trunk_ref(run).removeprefix("refs/heads/")
    raise WeftError(
        f"{short} is {'gone' if tip is None else f'at {tip.id[:12]}'} and lacks what has landed "
        f"there. Put it back (`git branch -f {short} {landed[:12]}`), then `weft retry` this task."
    )


def _candidates_of_siblings(site: Site, task: Task) -> list[tuple[str, str]]:
    """What subtasks of the same story did that this one builds on and that has not landed."""
    needs = [one for one, _ in list_needs(site.store, task.id)]
    return _candidates_of(
        site, [one for one in needs if one.story is not None and one.story == task.story]
    )


def _subtasks(site: Site, story: Task) -> list[Task]:
    assert story.run is not None
    return [one for one in list_run(site.store, story.run) if one.story == story.id]


def _candidates_of(site: Site, tasks: Iterable[Task]) -> list[tuple[str, str]]:
    """The candidates of tasks at the gate, those that others built on first."""
    waiting = [one for one in tasks if one.state is State.GATING]
    last = [list_attempts(site.store, one.id)[-1] for one in waiting]
    return [
        (one.candidate, one.base)
        for one in sorted(last, key=lambda one: one.ended or 0.0)
        if one.candidate and one.base
    ]


def _paths(site: Site, base: str, candidate: str) -> tuple[str, ...]:
    old, new = git.get_commit(site.root, base), git.get_commit(site.root, candidate)
    found = git.compare_trees(site.root, old.tree, new.tree)
    return tuple(sorted({path for change in found for path in change.paths}))
