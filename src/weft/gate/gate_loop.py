"""The gate of one run: held by one process at a time, by whichever comes first.

Taking it, keeping it and letting it go is here; what its holder does is in `tenure`. Whatever
goes wrong with one gate stays with it: it waits for a person, or for the store to be back.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from typing import Final

import anyio
from anyio.abc import TaskGroup
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
from weft.gate.check_pool import Debts
from weft.gate.holder import Tenure
from weft.gate.trunk import Blocked, Fault
from weft.git.object_store import Plumbing, open_plumbing
from weft.project.site import Site
from weft.store.gate import block_gate
from weft.store.leases import take
from weft.store.ring import wait_rung
from weft.store.runs import get_run
from weft.store.wake import Listener

log = logging.getLogger(__name__)

_NET: Final = 5.0  # seconds after which to look although nobody rang
_PAUSE: Final = 1.0  # after the store failed
_TRIES: Final = 3  # failures of git within _LATELY before the gate is blocked
_LATELY: Final = 60.0
_YIELDS: Final = 0.2  # seconds for which slots that change hands go first


class Gate:
    def __init__(
        self, site: Site, worker: str, run: str, *, at: Fault = lambda point: None
    ) -> None:
        self.run = run
        self._site = site
        self._worker = worker
        self._at = at
        self._debts = Debts(site)
        self._failures: list[float] = []  # when git failed lately
        self._told = ""  # the machine's fault that was logged last

    async def serve(self, listener: Listener) -> None:
        """Hold the gate whenever nobody else does, until its run has ended."""
        while True:
            try:
                await self._debts.settle()
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
            return None  # a person has to look first
        gate = {f"gate:{self.run}": 1}
        return take(self._site.store, "gate", self.run, gate, worker=self._worker, now=time.time())

    async def _hold(self, fence: int, listener: Listener) -> None:
        """See the gate through until it is lost, or has to wait for a person or for the store."""
        try:
            with ExitStack() as stack:
                plumbing = await run_sync(stack.enter_context, open_plumbing(self._site.root))
                await self._take_turns(fence, plumbing, listener)
        except* (StaleFence, Blocked) as told:
            log.info("the gate of run %s is left: %s", self.run, _first(told))
        except* StoreError as down:
            log.warning("the gate of run %s cannot go on: %s", self.run, _first(down))
            await anyio.sleep(_PAUSE)
        except* Exception as unexpected:  # noqa: BLE001 - whatever it is, a person is told
            await run_sync(self._block, fence, _first(unexpected))
        finally:
            await self._debts.settle(fence)

    async def _take_turns(self, fence: int, plumbing: Plumbing, listener: Listener) -> None:
        site = await run_sync(self._site.for_run, self.run)
        async with anyio.create_task_group() as group:
            tenure = Tenure(
                site,
                self._worker,
                self.run,
                fence,
                plumbing,
                group,
                self._debts,
                block=lambda error: self._block(fence, error),
                at=self._at,
            )
            group.start_soon(self._keep, tenure, group)
            while await tenure.turn():
                await self._wait(listener, tenure.changed)
                await self._site.changeover.let_pass(_YIELDS)
                tenure.changed = anyio.Event()
            group.cancel_scope.cancel()

    def _block(self, fence: int, error: Exception) -> None:
        """Block the gate until a person resumes it, unless the error may pass by itself."""
        if self._may_pass(error):
            time.sleep(_PAUSE)
            return
        if not isinstance(error, WeftError | OSError):
            log.error("the gate of run %s failed", self.run, exc_info=error)
        said = str(error) or type(error).__name__
        reason = f"The gate cannot go on: {said} Mend that, then `weft resume {self.run}`."
        try:
            block_gate(self._site.store, fence, self.run, reason, now=time.time())
        except (Refused, StoreError) as refused:
            log.warning("the gate of run %s: %s (%s)", self.run, reason, refused)

    def _may_pass(self, error: Exception) -> bool:
        """Tell whether to try again: always after a fault of the machine, a few times after a
        failure of git. The next try also repeats merges that a `git gc --prune=now` removed."""
        if fault := find_passing_fault(error):
            if fault != self._told:
                self._told = fault
                log.warning("the gate of run %s waits and tries again: %s", self.run, error)
            return True
        if not isinstance(error, git.GitFailed) or isinstance(error, git.RefMoved):
            return False
        now = time.monotonic()
        self._failures = [*(one for one in self._failures if one > now - _LATELY), now]
        log.warning("the gate of run %s: %s", self.run, error)
        return len(self._failures) <= _TRIES

    async def _keep(self, tenure: Tenure, group: TaskGroup) -> None:
        while True:
            await anyio.sleep(self._site.config.tuning.heartbeat)
            if not await tenure.renew():
                group.cancel_scope.cancel()
                return
            await self._debts.settle()

    async def _wait(self, listener: Listener, changed: anyio.Event) -> None:
        """Until a check has ended, the store has changed, or a while has passed.

        Nobody rings when a deadline passes.
        """
        seconds = min(_NET, self._site.config.tuning.heartbeat)
        await wait_rung(listener, seconds=seconds, event=changed)


def _first(group: BaseExceptionGroup[Exception]) -> Exception:
    """What happened, out of the task groups it passed through."""
    error: Exception | BaseExceptionGroup[Exception] = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
