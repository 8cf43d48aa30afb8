"""The scheduler: takes the best admissible work for its free slots, and sees each attempt through.

Pull only: nobody hands work out, so there is nothing to steal and nothing to fail over. It
renews what it holds, stops what it no longer owns, and adopts what a dead worker on this host
left behind. Freeing what is proved dead is the reaper's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync

from weft.agents.classify import Stop
from weft.attempt.attempt import Attempt, start_failure
from weft.attempt.outcome import after_failure
from weft.attempt.site import Site
from weft.errors import Refused, StoreError, WeftError
from weft.model import Grant, Lease, LeaseState, Outcome, State
from weft.process import records
from weft.process.place import Place, boottime
from weft.store.admission import admit
from weft.store.agents import stop_agent
from weft.store.leases import (
    adopt,
    count_failures,
    find_lost,
    finish,
    list_open,
    release,
    renew,
    report_all,
)
from weft.store.wake import Listener
from weft.store.workers import find_workers, heartbeat

log = logging.getLogger(__name__)

_NET: Final = 5.0  # seconds after which to look although nobody rang
_FLUSH: Final = 0.1  # seconds for which reports are gathered

Admit = Callable[[], Sequence[Grant]]


class Scheduler:
    """The attempts of one worker process."""

    def __init__(self, site: Site, worker: str, slots: int, *, take: Admit | None = None) -> None:
        self.worker = worker
        self._site = site
        self._slots = slots
        self._take = take or (lambda: admit(site.store, worker, now=time.time()))
        self._attempts: dict[int, Attempt] = {}
        self._starting = 0
        self._reports: list[tuple[int, Mapping[str, Any]]] = []
        self._sent = boottime()  # when the last renewal that succeeded was sent
        self._draining = self._stopping = False
        self._ends = anyio.Event()  # set, and replaced, whenever an attempt has ended

    @property
    def busy(self) -> int:
        """How many attempts are under way."""
        return len(self._attempts) + self._starting

    def drain(self) -> None:
        """Take nothing more; what runs goes on."""
        self._draining = True

    def stop_all(self) -> None:
        """Ask every agent to end; each is handed back when it has."""
        self._draining = self._stopping = True
        for attempt in self._attempts.values():
            attempt.stop(Stop.SHUTDOWN)

    def kill_all(self) -> None:
        self._draining = self._stopping = True
        for attempt in self._attempts.values():
            attempt.kill()

    async def wait_idle(self) -> None:
        while self.busy:
            await self._ends.wait()

    async def admit_loop(self, group: TaskGroup, listener: Listener) -> None:
        """Fill free slots whenever something may have become admissible."""
        while not self._draining:
            try:
                await self._stop_lost()
                grants = await run_sync(self._take) if self.busy < self._slots else ()
            except StoreError as error:
                log.warning("no work could be asked for: %s", error)
                grants = ()
            for grant in grants:
                self._starting += 1
                group.start_soon(self._carry_out, grant)
            if not grants:
                with anyio.move_on_after(_NET):
                    await self._wait_for_change(listener)
                listener.wait(0)

    async def heartbeat_loop(self) -> None:
        """Signs of life for the worker and all it holds; what is lost is stopped."""
        while True:
            sent = boottime()
            try:
                lost = await run_sync(self._renew)
            except StoreError as error:
                # The agents' watchdogs count from the last renewal that succeeded.
                log.warning("no sign of life could be given: %s", error)
            else:
                self._sent = sent
                self._stop(lost)
                for fence, attempt in list(self._attempts.items()):
                    if fence not in lost:
                        attempt.renew(sent)
            await anyio.sleep(self._site.config.tuning.heartbeat)

    async def report_loop(self) -> None:
        """What agents say, stored in batches."""
        while True:
            await anyio.sleep(_FLUSH)
            await self.flush()

    async def flush(self) -> None:
        reports, self._reports = self._reports, []
        if not reports:
            return
        try:
            lost = await run_sync(lambda: report_all(self._site.store, reports, now=time.time()))
        except StoreError as error:
            log.warning("what agents said could not be stored yet: %s", error)
            self._reports = [*reports, *self._reports]
        else:
            self._stop(lost)

    async def _wait_for_change(self, listener: Listener) -> None:
        async with anyio.create_task_group() as waits:

            async def wait_ends() -> None:
                await self._ends.wait()
                waits.cancel_scope.cancel()

            waits.start_soon(wait_ends)
            await anyio.wait_readable(listener)
            waits.cancel_scope.cancel()

    async def adopt_orphans(self, group: TaskGroup, here: Place) -> None:
        """Go on with what workers of this host left running, or finished and unsettled."""
        if self._draining:
            return
        for lease in await run_sync(find_orphans, self._site, here):
            attempt = await run_sync(self._adopt, lease)
            if attempt is not None:
                self._attempts[attempt.fence] = attempt
                group.start_soon(self._see_through, attempt)

    def _adopt(self, lease: Lease) -> Attempt | None:
        sent = boottime()
        try:
            fence = adopt(self._site.store, lease.fence, self.worker, now=time.time())
        except Refused:
            return None  # somebody else was faster, or its holder is back
        try:
            attempt = Attempt.adopt(self._site, fence, lease)
        except WeftError as error:
            log.warning("attempt of task %s cannot be gone on with: %s", lease.task, error)
            release(self._site.store, fence, now=time.time(), reason="unadoptable")
            return None
        attempt.renew(sent)
        return attempt

    async def _carry_out(self, grant: Grant) -> None:
        if grant.agent is None:  # a mere barrier: whatever it waited for has happened
            done = Outcome(state=State.DONE)
            await run_sync(lambda: finish(self._site.store, grant.fence, done, now=time.time()))
            self._starting -= 1
            self._ring()
            return
        try:
            attempt = await run_sync(self._start, grant)
        finally:
            self._starting -= 1
        if attempt is None:
            self._ring()
            return
        self._attempts[grant.fence] = attempt
        if self._stopping:
            attempt.stop(Stop.SHUTDOWN)
        await self._see_through(attempt)

    async def _see_through(self, attempt: Attempt) -> None:
        try:
            await attempt.carry_out(self._tell)
            await self.flush()
        finally:
            del self._attempts[attempt.fence]
            self._ring()

    def _tell(self, fence: int, data: Mapping[str, Any]) -> None:
        self._reports.append((fence, data))

    def _ring(self) -> None:
        self._ends.set()
        self._ends = anyio.Event()

    def _start(self, grant: Grant) -> Attempt | None:
        try:
            return Attempt.start(self._site, grant, renewed=self._sent)
        except WeftError as error:
            log.info("task %s could not be started: %s", grant.task, error)
            _fail_to_start(self._site, grant, error)
            return None

    def _renew(self) -> list[int]:
        now = time.time()
        fences = list(self._attempts)
        lost = renew(self._site.store, fences, now=now)
        heartbeat(self._site.store, self.worker, now=now)
        return lost

    async def _stop_lost(self) -> None:
        fences = list(self._attempts)
        if fences:
            self._stop(await run_sync(find_lost, self._site.store, fences))

    def _stop(self, fences: Sequence[int]) -> None:
        for fence in fences:
            if fence in self._attempts:
                self._attempts[fence].stop(Stop.CANCEL)


def _fail_to_start(site: Site, grant: Grant, error: WeftError) -> None:
    """An attempt that came to nothing: blocked with the reason, or its agent is stopped."""
    failure = start_failure(error)
    now = time.time()
    next_ = after_failure(
        failure,
        earlier=count_failures(site.store, grant.task, failure.kind),
        now=now,
        chance=0.5,
        tuning=site.config.tuning,
    )
    nothing = {name: 0 for name in grant.demand if name.endswith("/usd")}
    outcome = Outcome(
        state=next_.state,
        kind=next_.kind,
        reason=next_.reason,
        until=next_.until,
        signature=next_.signature,
        spent=nothing,
    )
    try:
        finish(site.store, grant.fence, outcome, now=now)
    except Refused:
        release(site.store, grant.fence, now=now, reason="refused", spent=nothing)
    if next_.stops_agent and grant.agent is not None:
        stop_agent(site.store, grant.agent, failure.reason, now=now)


def find_orphans(site: Site, here: Place) -> list[Lease]:
    """Attempts of workers that are gone from this host, which somebody can go on with."""
    suspects = [one for one in list_open(site.store) if one.state is LeaseState.SUSPECT]
    known = {one.worker for one in suspects if one.worker is not None}
    holders = find_workers(site.store, known, now=time.time()) if known else {}
    return [
        lease
        for lease in suspects
        if lease.worker is not None
        and (holder := holders.get(lease.worker)) is not None
        and holder.left is not None
        and (holder.host, holder.boot) == (here.host, here.boot)
        and was_started(site, lease)
    ]


def was_started(site: Site, lease: Lease) -> bool:
    """Whether an attempt came so far that its agent may have done something."""
    if lease.task is None or lease.attempt is None:
        return False
    return (site.directory(lease.task, lease.attempt) / records.WRAPPER).exists()
