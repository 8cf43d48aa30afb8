"""The loop that takes, keeps and leaves the gate of a run; a single process holds it at a time.

An error concerns only this run's gate: it is blocked for a person, or waits for the store.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from typing import Final

import anyio
from anyio.to_thread import run_sync

from weft import git
from weft.errors import (
    NotFound,
    Refused,
    StaleFence,
    StoreError,
    WeftError,
    find_passing_fault,
)
from weft.gate.holder import GateHolder
from weft.gate.trunk import CrashPoint, GateBlocked
from weft.git import gc_lock
from weft.git.object_store import ObjectStore, open_object_store
from weft.project.held_leases import HeldLeases
from weft.project.site import Site
from weft.store.gate import block_gate
from weft.store.leases import take
from weft.store.runs import get_run
from weft.store.wake import Listener, wait_rung

log = logging.getLogger(__name__)

_NET: Final = 5.0  # seconds between turns without a ring
_PAUSE: Final = 1.0  # after the store failed
_TRIES: Final = 3  # failures of git within _LATELY before the gate is blocked
_GC_TRIES: Final = 100  # the same while objects vanish: a `git gc --prune=now` is at work
_GC_PAUSE: Final = 0.1
_LATELY: Final = 60.0
_YIELD: Final = 0.2  # seconds for which the hand-over of slots goes first


class Gate:
    def __init__(
        self, site: Site, worker: str, run: str, *, at: CrashPoint = lambda point: None
    ) -> None:
        self.run = run
        self._site = site
        self._worker = worker
        self._at = at
        self._leases = HeldLeases(site)
        self._failures: list[float] = []  # when git failed lately
        self._last_fault = ""  # the passing fault that was logged last

    async def serve(self, listener: Listener) -> None:
        """Hold the gate whenever it is free, until its run has ended."""
        while True:
            try:
                await self._leases.release()
                if await run_sync(self._is_over):
                    return
                fence = await run_sync(self._take)
                if fence is not None:
                    await self._hold(fence, listener)
            except (StoreError, Refused) as error:
                log.warning("the gate of run %s cannot be served now: %s", self.run, error)
                await anyio.sleep(_PAUSE)
            await self._wait(listener, anyio.Event())

    def _is_over(self) -> bool:
        try:
            return get_run(self._site.store, self.run).state == "ended"
        except NotFound:
            return True

    def _take(self) -> int | None:
        if get_run(self._site.store, self.run).blocked:
            return None
        gate = {f"gate:{self.run}": 1}
        return take(self._site.store, "gate", self.run, gate, worker=self._worker, now=time.time())

    async def _hold(self, fence: int, listener: Listener) -> None:
        """Take turns until the gate is lost or blocked, or the store fails."""
        try:
            with ExitStack() as stack:
                await run_sync(gc_lock.guard, self._site.common)
                objects = await run_sync(stack.enter_context, open_object_store(self._site.root))
                await self._take_turns(fence, objects, listener)
        except* (StaleFence, GateBlocked) as group:
            log.info("left the gate of run %s: %s", self.run, _first(group))
        except* StoreError as group:
            log.warning("left the gate of run %s: %s", self.run, _first(group))
            await anyio.sleep(_PAUSE)
        except* Exception as group:  # noqa: BLE001 - a person has to see any other error
            await run_sync(self._block, fence, _first(group))
        finally:
            await self._leases.release(fence)

    async def _take_turns(self, fence: int, objects: ObjectStore, listener: Listener) -> None:
        site = await run_sync(self._site.for_run, self.run)
        async with anyio.create_task_group() as group:
            holder = GateHolder(
                site,
                self._worker,
                self.run,
                fence,
                objects,
                group,
                self._leases,
                block=lambda error: self._block(fence, error),
                at=self._at,
            )
            self._leases.hold(fence, lost=group.cancel_scope.cancel)
            group.start_soon(self._leases.keep_renewed)
            while await holder.take_turn():
                await self._wait(listener, holder.changed)
                await self._site.changeover.let_pass(_YIELD)
                holder.changed = anyio.Event()
            group.cancel_scope.cancel()

    def _block(self, fence: int, error: Exception) -> None:
        """Block the gate until a person resumes it, unless the error may pass by itself."""
        if self._may_pass(error):
            time.sleep(_GC_PAUSE if isinstance(error, git.ObjectsGone) else _PAUSE)
            return
        if not isinstance(error, WeftError | OSError):
            log.error("the gate of run %s failed", self.run, exc_info=error)
        text = str(error) or type(error).__name__
        reason = f"The gate cannot go on: {text} Repair that, then `weft resume {self.run}`."
        try:
            block_gate(self._site.store, fence, self.run, reason, now=time.time())
        except (Refused, StoreError) as refused:
            log.warning("could not block the gate of run %s: %s (%s)", self.run, reason, refused)

    def _may_pass(self, error: Exception) -> bool:
        """Tell whether to try again: always after a fault of the machine, a few times after a
        failure of git. The next try also repeats merges that `git gc --prune=now` removed."""
        if fault := find_passing_fault(error):
            if fault != self._last_fault:
                self._last_fault = fault
                log.warning("the gate of run %s waits and tries again: %s", self.run, error)
            return True
        if not isinstance(error, git.GitFailed) or isinstance(error, git.RefMoved):
            return False
        now = time.monotonic()
        self._failures = [*(time for time in self._failures if time > now - _LATELY), now]
        log.warning("the gate of run %s: %s", self.run, error)
        return len(self._failures) <= (_GC_TRIES if isinstance(error, git.ObjectsGone) else _TRIES)

    async def _wait(self, listener: Listener, changed: anyio.Event) -> None:
        """Wait until a check has ended, the store has changed, or some seconds have passed:
        a deadline rings no bell."""
        seconds = min(_NET, self._site.config.tuning.heartbeat)
        await wait_rung(listener, seconds=seconds, event=changed)


def _first(group: BaseExceptionGroup[Exception]) -> Exception:
    """Unwrap the error from the groups of the task groups that it passed."""
    error: Exception | BaseExceptionGroup[Exception] = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
