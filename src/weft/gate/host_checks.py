"""The checks that a worker host takes from gates elsewhere.

A check runs from the mirror of this host, with the settings of its run, and under its own lease.
Its result goes home; a check that this host cannot carry out is handed back. A worker that stops
takes no further check.
"""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager
from typing import Final, Protocol

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync

from weft import git
from weft.candidate_records import CheckOrder, HostResult
from weft.errors import NoAnswer, Refused, StoreError, WeftError
from weft.gate.check_run import CheckLost, CheckResult, CheckRun, is_set_up_failure
from weft.git.refs import find_commits
from weft.project.held_leases import HeldLeases
from weft.project.site import Site, Transport
from weft.store.check_orders import decline_check, find_order, report_check, take_check
from weft.store.leases import find_lost
from weft.store.wake import Listener, wait_rung

log = logging.getLogger(__name__)

_NEXT: Final = "next check"  # the use of the mirror by a check that is not taken yet
_NET: Final = 5.0  # seconds between two looks for orders without a ring
_PUBLISHED: Final = 30.0  # seconds in which home publishes a commit


class Duty(Protocol):
    """The state of the worker process that runs checks."""

    worker: str

    @property
    def draining(self) -> bool:
        """True once the worker stops."""
        ...

    def occupied(self) -> AbstractContextManager[None]:
        """Let the worker wait for the end of the block before it leaves."""
        ...


class HostChecks:
    def __init__(self, site: Site, duty: Duty) -> None:
        self._site = site
        self._duty = duty
        self._taken: dict[int, anyio.CancelScope] = {}  # by fence
        self._leases = HeldLeases(site)

    async def serve(self, listener: Listener) -> None:
        """Take orders and run their checks, until the worker stops and they have ended."""
        async with anyio.create_task_group() as renewals:
            renewals.start_soon(self._leases.keep_renewed)
            async with anyio.create_task_group() as group:
                while not self._duty.draining:
                    if not await self._try_to_take(group):
                        await wait_rung(listener, seconds=_NET)
            renewals.cancel_scope.cancel()

    async def _try_to_take(self, group: TaskGroup) -> bool:
        try:
            await self._stop_lost()
            return await self._take(group)
        except WeftError as error:
            log.warning("could not ask for checks: %s", error)
            return False

    async def _take(self, group: TaskGroup) -> bool:
        """Take a check and begin it; hand it back if the worker stops meanwhile."""
        if await run_sync(find_order, self._site.store, self._duty.worker) is None:
            return False
        with anyio.CancelScope(shield=True):  # no lease may get lost
            order = await run_sync(self._take_order)
            if order is None:
                return False
            if self._duty.draining:
                await self._let_go(order)
                return False
            group.start_soon(self._carry_out, order)
        return True

    def _take_order(self) -> CheckOrder | None:
        """Take a check; the mirror is not collected from now on until it has ended."""
        use = self._mirror.use
        use.hold(_NEXT)
        try:
            order = take_check(self._site.store, self._duty.worker, now=time.time())
            if order is not None:
                use.hold(f"check {order.fence}")
            return order
        finally:
            use.drop(_NEXT)

    @property
    def _mirror(self) -> Transport:
        assert self._site.transport is not None
        return self._site.transport

    async def _carry_out(self, order: CheckOrder) -> None:
        with self._duty.occupied():
            try:
                site = await run_sync(self._site.for_run, order.run)
                check, scope = CheckRun(site, order.fence, order.run), anyio.CancelScope()
                self._taken[order.fence] = scope
                self._leases.hold(order.fence, renewed=check.renew, lost=scope.cancel)
                with scope:
                    await self._check(order, check)
            except CheckLost:
                log.warning("a watchdog ended check %s of run %s", order.fence, order.run)
            except (Refused, StoreError) as error:
                log.warning("check %s of run %s has no result: %s", order.fence, order.run, error)
            finally:
                self._taken.pop(order.fence, None)
                await self._let_go(order)

    async def _let_go(self, order: CheckOrder) -> None:
        self._mirror.use.drop(f"check {order.fence}")
        await self._leases.release(order.fence)

    async def _check(self, order: CheckOrder, check: CheckRun) -> None:
        try:
            tree = await run_sync(self._fetch, order)
            result = await check.check(tree, order.base, order.commands)
        except (WeftError, OSError) as error:
            await run_sync(self._decline, order, str(error))
            return
        if not result.passed and is_set_up_failure(result.output):
            await run_sync(self._decline, order, f"A program is missing here.\n{result.output}")
            return
        await run_sync(self._report, order, tree, result)

    def _fetch(self, order: CheckOrder) -> str:
        """Fetch the commit to check; return its tree, read from the mirror."""
        give_up = time.monotonic() + _PUBLISHED
        while order.head not in find_commits(self._site.common, [order.head]):
            if time.monotonic() > give_up:
                raise NoAnswer(f"home has not published {order.head} for {_PUBLISHED:.0f} s")
            self._mirror.fetch(order.run, [order.head])
        return git.get_commit(self._site.root, order.head).tree

    def _report(self, order: CheckOrder, tree: str, result: CheckResult) -> None:
        reported = HostResult(
            tree=tree,
            passed=result.passed,
            seconds=result.seconds,
            output=result.output,
            ran=len(result.ran),
        )
        report_check(self._site.store, order.fence, reported, now=time.time())

    def _decline(self, order: CheckOrder, reason: str) -> None:
        log.warning("check %s of run %s goes back home: %s", order.fence, order.run, reason)
        decline_check(self._site.store, order.fence, reason, now=time.time())

    async def _stop_lost(self) -> None:
        """Stop the checks that no gate waits for any more."""
        if self._taken:
            for fence in await run_sync(find_lost, self._site.store, list(self._taken)):
                if fence in self._taken:
                    self._taken[fence].cancel()


async def check_for_gates(site: Site, duty: Duty) -> None:
    """Run checks for gates elsewhere until the worker stops, if this host takes them."""
    if site.checks:
        with site.store.listen("work") as listener:
            await HostChecks(site, duty).serve(listener)
