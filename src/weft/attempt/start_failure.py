"""Attempts whose agent could not be started."""

from __future__ import annotations

import time

from weft.admission.capacity import is_consumable
from weft.agents.classify import Failure
from weft.attempt import outcome
from weft.errors import InputError, Refused, SetUpFailed, WeftError
from weft.model import ErrorClass, Grant, Outcome
from weft.process.launcher import LaunchFailed
from weft.project.site import Site
from weft.store.attempt_end import finish
from weft.store.attempt_reports import count_failures
from weft.store.gate import doubt_set_up
from weft.store.leases import release


def _describe(error: Exception) -> Failure:
    """Return the failure of an agent that could not be started.

    A wrapper that did not start is tried again: its machine may have been out of processes.
    """
    kind = ErrorClass.CONFIG if isinstance(error, InputError) else ErrorClass.OTHER
    if isinstance(error, LaunchFailed):
        kind = ErrorClass.CRASH
    reason = str(error) if isinstance(error, WeftError) else f"It could not be started: {error!r}"
    return Failure(kind=kind, reason=reason, signature=f"{kind}: start")


def fail_to_start(site: Site, grant: Grant, error: Exception) -> None:
    """End an attempt that could not start: block its task, stop its agent, or doubt the base."""
    failure = _describe(error)
    now = time.time()
    if isinstance(error, SetUpFailed) and doubt_set_up(
        site.store, grant.fence, str(error), now=now, spent=_nothing(grant)
    ):
        return
    next_ = outcome.after_failure(
        failure,
        earlier=count_failures(site.store, grant.task, failure.kind),
        now=now,
        chance=0.5,
        tuning=site.config.tuning,
    )
    outcome_ = Outcome(
        state=next_.state,
        kind=next_.kind,
        reason=next_.reason,
        until=next_.until,
        signature=next_.signature,
        spent=_nothing(grant),
        stops_agent=grant.agent if next_.stops_agent else None,
    )
    try:
        finish(site.store, grant.fence, outcome_, now=now)
    except Refused:
        hand_back_unstarted(site, grant, "refused")


def hand_back_unstarted(site: Site, grant: Grant, reason: str) -> None:
    """Release the lease of an attempt that never started, with no spending."""
    release(site.store, grant.fence, now=time.time(), reason=reason, spent=_nothing(grant) or None)


def _nothing(grant: Grant) -> dict[str, int]:
    return {name: 0 for name in grant.demand if is_consumable(name)}
