"""The base of an attempt: its first commit, and the earlier work that it builds on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from weft import git, stages
from weft.attempt import start_record
from weft.attempt.home_transfer import contains, fetch_trunk
from weft.errors import WeftError
from weft.git.refs import find_commits
from weft.model import GOES_ON, RESUMED, Attempt, Grant, Hop, State, Task, TaskKind
from weft.project.site import Site
from weft.store.attempt_end import list_hops
from weft.store.gate import find_landed
from weft.store.leases import fix_team_base
from weft.store.reviews import find_round
from weft.store.runs import get_run
from weft.store.tasks import list_attempts, list_needs, list_run
from weft.workspace.names import trunk_ref


class Beginning(Struct, frozen=True, kw_only=True):
    base: str  # the commit that the work is compared with
    start: str  # the first commit in the workspace
    resumed: Attempt | None = None  # the attempt whose session continues
    interrupted: Attempt | None = None  # the attempt whose work continues without its session
    tests: tuple[str, ...] = ()  # protected files of an earlier stage
    subject: tuple[str, str] | None = None  # the reviewed candidate and its base


def choose(site: Site, task: Task, grant: Grant) -> Beginning:
    """Choose the base; it is read after the claims were granted, so landed changes are in it."""
    attempts = list_attempts(site.store, task.id)
    earlier = [attempt for attempt in attempts if attempt.number < grant.attempt]
    resumed = _resumed(site, earlier, grant)
    resumed = resumed or _continued(site, task, grant, earlier)
    if resumed is not None and resumed.base is not None:
        return Beginning(
            base=resumed.base, start=resumed.candidate or resumed.base, resumed=resumed
        )
    interrupted = _interrupted(site, task, grant, earlier)
    if interrupted is not None:
        return interrupted
    if task.request.kind is TaskKind.COMPARISON:
        base = _base(site, task)
        return Beginning(base=base, start=base)
    if stages.looks(grant.stage):
        return _review_base(site, task, earlier)
    reviewed = _sent_back(site, task, grant, earlier)
    if reviewed is not None:
        return reviewed
    base = _base(site, task)
    if task.request.kind is TaskKind.ENTRANT:
        base = fix_team_base(site.store, grant.fence, base)
    chained = _chain_base(site, task, grant, earlier, base)
    if chained is not None:
        return chained
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
    """Return the attempt before this attempt, if its session can be resumed here."""
    last = earlier[-1] if earlier else None
    return last if last and last.outcome in RESUMED and _can_resume(site, last, grant) else None


def _interrupted(
    site: Site, task: Task, grant: Grant, earlier: Sequence[Attempt]
) -> Beginning | None:
    """Go on from the work of an attempt that was cut short, in a session of its own: the session
    is on another host, or lost."""
    last = earlier[-1] if earlier else None
    if last is None or last.outcome not in RESUMED or stages.looks(grant.stage):
        return None
    if not last.session:
        return None  # its program has no sessions: it starts over
    if last.candidate is None or last.base is None or not _has_commits(site, last):
        return None
    tests = _protected(site, task, grant, earlier)
    return Beginning(base=last.base, start=last.candidate, interrupted=last, tests=tests)


def _continued(site: Site, task: Task, grant: Grant, earlier: Sequence[Attempt]) -> Attempt | None:
    """Return the last attempt of the task that this task continues, if this is the first attempt
    and that session can be resumed here."""
    if task.request.continues is None or earlier:
        return None
    attempts = list_attempts(site.store, task.request.continues)
    return attempts[-1] if attempts and _can_resume(site, attempts[-1], grant) else None


def _can_resume(site: Site, last: Attempt, grant: Grant) -> bool:
    if not last.session or last.agent != grant.agent:
        return False
    return _ran_here(site, last) and _has_commits(site, last)


def _ran_here(site: Site, attempt: Attempt) -> bool:
    """Tell whether an attempt ran on this host, which alone has its session and its workspace."""
    return start_record.find(site.directory(attempt.task, attempt.number)) is not None


def _has_commits(site: Site, attempt: Attempt) -> bool:
    wanted = {commit for commit in (attempt.base, attempt.candidate) if commit is not None}
    return len(find_commits(site.common, wanted)) == len(wanted)


def find_hop(hops: Sequence[Hop], earlier: Sequence[Attempt]) -> Hop | None:
    """Return the hand-over by which the present agent got its task.

    Return None if the chain has ended since: its work went to the gate, and came back.
    """
    last = hops[-1] if hops else None
    if last is None or any(old.number > last.attempt and _is_end(old) for old in earlier):
        return None
    return last


def _is_end(attempt: Attempt) -> bool:
    return attempt.outcome == "success"


def _chain_base(
    site: Site, task: Task, grant: Grant, earlier: Sequence[Attempt], base: str
) -> Beginning | None:
    """Go on from the work of a chain: the last hand-over's, or that of an agent that asked,
    slept or proposed a step that was refused."""
    hop = find_hop(list_hops(site.store, task.id), earlier)
    last = earlier[-1] if earlier else None
    goes_on = last is not None and last.outcome in GOES_ON and last.agent == grant.agent
    made: Hop | Attempt | None = last if goes_on else hop
    session = last if goes_on and last is not None and _can_resume(site, last, grant) else None
    cut_off = last if goes_on and last is not None and last.session and not session else None
    if made is None or made.candidate is None or made.base is None:
        return None if session is None else Beginning(base=base, start=base, resumed=session)
    start = made.candidate
    if made.base != base:
        try:
            start = site.combine(base, [(made.candidate, made.base)])
        except WeftError:  # it does not merge with trunk: the gate sends it back with the conflict
            base = made.base
    tests = _protected(site, task, grant, earlier)
    return Beginning(base=base, start=start, resumed=session, interrupted=cut_off, tests=tests)


def _protected(site: Site, task: Task, grant: Grant, earlier: Sequence[Attempt]) -> tuple[str, ...]:
    """List the files that the stage before made."""
    before = stages.before(task.request.stages, grant.stage)
    done = [old for old in earlier if old.stage == before and old.outcome == "success"]
    if before is None or not done or done[-1].base is None:
        return ()
    return _paths(site, done[-1].base, done[-1].candidate or "")


def _sent_back(
    site: Site, task: Task, grant: Grant, earlier: Sequence[Attempt]
) -> Beginning | None:
    """Go on from a candidate that a person sent back, in its session if that can be resumed.

    Return None if there is none, or if a later candidate was made of it.
    """
    round = find_round(site.store, task.id)
    if round is None or not earlier:
        return None
    mine = [old for old in earlier if old.stage == grant.stage and old.outcome == "success"]
    if not mine or mine[-1].candidate not in round.candidates or mine[-1].base is None:
        return None
    made, base = mine[-1], mine[-1].base
    if not _has_commits(site, made):
        return None  # its host is gone
    later = [old for old in earlier if old.number > made.number]
    goes_on = _can_resume(site, made, grant) and all(stages.looks(old.stage) for old in later)
    before = _made_before(task, grant, earlier)
    tests = _paths(site, before.base, before.candidate or "") if before and before.base else ()
    return Beginning(
        base=base,
        start=made.candidate or base,
        resumed=made if goes_on else None,
        tests=tests,
    )


def _review_base(site: Site, task: Task, earlier: Sequence[Attempt]) -> Beginning:
    maker = stages.maker(task.request.stages)
    made = [old for old in earlier if maker and old.stage == maker.name and old.candidate]
    if not made or made[-1].candidate is None or made[-1].base is None:
        base = _base(site, task)
        parts = _candidates_of(site, _subtasks(site, task))
        whole = site.combine(base, parts) if parts else base
        return Beginning(base=whole, start=whole, subject=(whole, base))
    subject = (made[-1].candidate, made[-1].base)
    return Beginning(base=subject[0], start=subject[0], subject=subject)


def _made_before(task: Task, grant: Grant, earlier: Sequence[Attempt]) -> Attempt | None:
    """Return the work to build on: a refused candidate, or the work of the stage before."""
    if earlier and stages.looks(earlier[-1].outcome):
        mine = [old for old in earlier if old.stage == grant.stage and old.candidate]
        if mine:
            return mine[-1]
    before = stages.before(task.request.stages, grant.stage)
    done = [old for old in earlier if old.stage == before and old.outcome == "success"]
    return done[-1] if before is not None and done else None


def _base(site: Site, task: Task) -> str:
    if task.run is None:
        return git.get_commit(site.root, "HEAD").id
    base = _tip(site, task.run)
    merge = task.request.merge
    if merge is not None:
        parts = [(merge.commit, merge.trunk)]
        return merge.commit if base == merge.trunk else site.combine(base, parts)
    siblings = _candidates_of_siblings(site, task)
    return site.combine(base, siblings) if siblings else base


def _tip(site: Site, run: str) -> str:
    """Return the tip of a run's trunk; refuse a trunk that lacks a landed commit."""
    landed = find_landed(
        site.store, run
    )  # read before the tip, because trunk moves before its rows
    tip = git.find_tip(site.root, trunk_ref(run))
    if landed is None:
        return (tip or git.get_commit(site.root, get_run(site.store, run).base or "HEAD")).id
    if site.transport is not None and not contains(site, tip, landed):
        fetch_trunk(site, run)  # it landed after this attempt fetched from home
        tip = git.find_tip(site.root, trunk_ref(run))
    if tip is not None and contains(site, tip, landed):
        return tip.id
    short = trunk_ref(run).removeprefix("refs/heads/")
    raise WeftError(
        f"{short} is {'gone' if tip is None else f'at {tip.id[:12]}'} and lacks what has landed "
        f"there. Put it back (`git branch -f {short} {landed[:12]}`), then `weft retry` this task."
    )


def _candidates_of_siblings(site: Site, task: Task) -> list[tuple[str, str]]:
    """List the unlanded candidates of needed tasks in the same story."""
    needs = [need for need, _ in list_needs(site.store, task.id)]
    return _candidates_of(
        site, [need for need in needs if need.story is not None and need.story == task.story]
    )


def _subtasks(site: Site, story: Task) -> list[Task]:
    assert story.run is not None
    return [task for task in list_run(site.store, story.run) if task.story == story.id]


def _candidates_of(site: Site, tasks: Iterable[Task]) -> list[tuple[str, str]]:
    """List (candidate, base) of the tasks at the gate, oldest first."""
    last = [list_attempts(site.store, task.id)[-1] for task in tasks if task.state is State.GATING]
    return [
        (attempt.candidate, attempt.base)
        for attempt in sorted(last, key=lambda attempt: attempt.ended or 0.0)
        if attempt.candidate and attempt.base
    ]


def _paths(site: Site, base: str, candidate: str) -> tuple[str, ...]:
    old, new = git.get_commit(site.root, base), git.get_commit(site.root, candidate)
    changes = git.compare_trees(site.root, old.tree, new.tree)
    return tuple(sorted({path for change in changes for path in change.paths}))
