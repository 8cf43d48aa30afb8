"""Commits between a host with a mirror and the home of the repository.

The commits that an attempt builds on are fetched before it starts. A candidate is pushed before its
outcome is recorded, so the gate can read every candidate that the store names.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Final

from weft.attempt.start_record import Order
from weft.errors import NoAnswer
from weft.git import Commit, find_tip, is_ancestor
from weft.git.http_backend import CandidateName
from weft.git.refs import find_commits
from weft.model import Task
from weft.project.site import Site
from weft.store import Store
from weft.store.gate import find_landed
from weft.store.runs import get_run
from weft.store.tasks import list_related_commits
from weft.workspace.names import trunk_ref

_PUBLISHED: Final = 30.0  # seconds in which home publishes a commit
_PAUSE: Final = 0.5


def fetch_for(site: Site, task: Task) -> None:
    """Fetch the commits that the next attempt of a task needs from home, if home is another host.

    Raise `NoAnswer` if home does not have trunk within 30 s.
    """
    if site.transport is None:
        return
    missing = _find_missing(site, list_start_commits(site.store, task))
    if missing or task.run is None or not _has_trunk(site, task.run):
        site.transport.fetch(task.run, missing)
    if task.run is not None:
        fetch_trunk(site, task.run)


def fetch_trunk(site: Site, run: str) -> None:
    """Fetch from home until the mirror has the base of a run and its trunk with every landing.

    Raise `NoAnswer` if home does not have them within 30 s.
    """
    assert site.transport is not None
    base = get_run(site.store, run).base
    give_up = time.monotonic() + _PUBLISHED
    pause = 0.0
    while (missing := _find_missing(site, [base] if base else [])) or not _has_trunk(site, run):
        if time.monotonic() > give_up:
            raise NoAnswer(
                f"Trunk of run {run} is not here: home has not published it for {_PUBLISHED:.0f} s."
            )
        time.sleep(pause)
        site.transport.fetch(run, missing)
        pause = _PAUSE


def _find_missing(site: Site, commits: Iterable[str]) -> set[str]:
    wanted = set(commits)
    return wanted - find_commits(site.common, wanted).keys()


def push_candidate(site: Site, order: Order, fence: int, commit: str | None) -> None:
    if site.transport is not None and commit is not None:
        name = CandidateName(task=order.task, attempt=order.attempt, fence=fence)
        site.transport.push(commit, name)


def list_start_commits(store: Store, task: Task) -> Iterator[str]:
    """Yield the commits that an attempt may start from.

    These are the base of its run, the commits that it merges, and the work of the task, of the
    tasks it needs and of the tasks of its story.
    """
    if task.run is not None:
        base = get_run(store, task.run).base
        if base:
            yield base
    if task.request.merge is not None:
        yield from (task.request.merge.commit, task.request.merge.trunk)
    yield from list_related_commits(store, task.id)


def _has_trunk(site: Site, run: str) -> bool:
    """Tell whether the trunk in the mirror has every landing of a run."""
    landed = find_landed(site.store, run)
    if landed is None:
        return True  # an attempt starts from the base of the run
    return contains(site, find_tip(site.root, trunk_ref(run)), landed)


def contains(site: Site, tip: Commit | None, landed: str) -> bool:
    """Tell whether a tip contains a landed commit; this host may not have that commit yet."""
    if tip is None or not find_commits(site.common, [landed]):
        return False
    return tip.id == landed or is_ancestor(site.root, landed, tip.id)
