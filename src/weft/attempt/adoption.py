"""Adoption: a worker takes over the attempts of a dead worker of the same host.

The agent of such an attempt still runs, or has ended and its outcome is not recorded yet.
"""

from __future__ import annotations

import logging
import time

from anyio.to_thread import run_sync

from weft.agents.classify import Stop
from weft.attempt import start
from weft.attempt.attempt import RunningAttempt
from weft.attempt.start import Begun
from weft.errors import InUse, Refused, WeftError
from weft.model import Lease, LeaseState
from weft.process import agent_process as process
from weft.process.process_identity import boottime
from weft.project.site import Site
from weft.store import leases

log = logging.getLogger(__name__)


async def adopt(site: Site, worker: str, lease: Lease) -> RunningAttempt | None:
    """Take over the attempt of a dead worker, under a new fence; return None if that fails.

    If its task has ended, the attempt keeps its old fence and is cancelled. If its record cannot be
    read, its agent is ended and the lease is released. Leave it alone if its last holder still has
    it open, or if another worker took it.
    """
    sent = boottime()
    begun: Begun | None = None
    try:
        begun = await run_sync(start.find, site, lease)
    except InUse:
        return None  # its last holder still has it open
    except (WeftError, OSError, ValueError, KeyError, TypeError) as error:
        log.warning("could not adopt the attempt of task %s: %s", lease.task, error)
    fence: int | None = None
    try:
        fence = await run_sync(_take_over, site, worker, lease)
    finally:
        if begun is not None and fence is None:
            begun.workspace.close()
    if fence is None:
        return None
    if begun is None:
        await _end(site, lease, fence)
        return None
    attempt = await run_sync(RunningAttempt.go_on, site, fence, lease, begun)
    if fence == lease.fence:
        attempt.stop(Stop.CANCEL)
    else:
        attempt.renew(sent)
    return attempt


def _take_over(site: Site, worker: str, lease: Lease) -> int | None:
    """Return a new fence for an orphan, its own if its task has ended, None if another has it."""
    try:
        return leases.adopt(site.store, lease.fence, worker, now=time.time())
    except Refused:
        still = leases.get_lease(site.store, lease.fence).state is LeaseState.SUSPECT
        ended = leases.find_lost(site.store, [lease.fence])
        return lease.fence if still and ended else None


async def _end(site: Site, lease: Lease, fence: int) -> None:
    assert lease.task is not None
    assert lease.attempt is not None
    await process.attach(site.directory(lease.task, lease.attempt)).stop()
    await run_sync(lambda: leases.release(site.store, fence, now=time.time(), reason="unadoptable"))
