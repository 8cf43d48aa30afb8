"""The checks that run at one time under one holder of a gate.

Each has a lease, which ends when the last of its processes has. So does the pool: whoever
leaves its task group, for whatever reason, leaves nothing running behind.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync
from msgspec import Struct

from weft.errors import Refused, StoreError
from weft.gate.check_run import CheckResult, CheckRun, Command, Forsaken
from weft.gate.policy import check_records as policy
from weft.model import Lease, LeaseState
from weft.project.site import Site
from weft.store.leases import list_open, release, take
from weft.store.workers import find_workers

log = logging.getLogger(__name__)


class CheckJob(Struct, frozen=True, kw_only=True):
    """A tree to check, what to run on it, and what its verdict will be about."""

    about: policy.Check
    tree: str
    commands: tuple[Command, ...]
    way: str
    brought: str  # what names the rest of what the check will find


class _Under(Struct, frozen=True, kw_only=True):
    """A check under way."""

    check: CheckRun
    fence: int
    scope: anyio.CancelScope


class Debts:
    """Leases that are to be released, which the store may be unable to do just now."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._fences: set[int] = set()

    async def settle(self, *more: int) -> None:
        self._fences.update(more)
        for fence in sorted(self._fences):
            with anyio.CancelScope(shield=True):
                try:
                    await run_sync(self._release, fence)
                except StoreError as error:
                    log.warning("lease %s cannot be released yet: %s", fence, error)
                    return
                self._fences.discard(fence)

    def _release(self, fence: int) -> None:
        release(self._site.store, fence, now=time.time(), reason="ended")


class CheckPool:
    def __init__(
        self,
        site: Site,
        worker: str,
        run: str,
        group: TaskGroup,
        debts: Debts,
        *,
        settle: Callable[[CheckJob, CheckResult], None],
        fail: Callable[[Exception], None],
        ring: Callable[[], None],
    ) -> None:
        """`settle` writes a verdict down, `fail` that none can be had; both in threads."""
        self._site = site
        self._worker = worker
        self._run = run
        self._group = group
        self._debts = debts
        self._settle = settle
        self._fail = fail
        self._ring = ring
        self._under: dict[policy.Check, _Under] = {}

    @property
    def running(self) -> tuple[policy.Check, ...]:
        """Every check that has a process, those that are being ended included."""
        return tuple(self._under)

    @property
    def fences(self) -> list[int]:
        return [one.fence for one in self._under.values()]

    @property
    def is_full(self) -> bool:
        return len(self._under) >= self._site.config.gate.slots

    async def start(self, job: CheckJob) -> bool:
        """Start a check; False if there is no room, and whoever makes some will ring."""
        fence = await run_sync(self._take, job.about.candidates)
        if fence is None:
            return False
        check = CheckRun(self._site, fence, self._run)
        under = _Under(check=check, fence=fence, scope=anyio.CancelScope())
        self._under[job.about] = under
        self._group.start_soon(self._see_through, job, under)
        return True

    def cancel(self, about: policy.Check) -> None:
        if about in self._under:
            self._under[about].scope.cancel()

    def renew(self, sent: float, lost: Collection[int]) -> None:
        """The leases were renewed by a request sent at this boot time, except those lost."""
        for one in self._under.values():
            if one.fence in lost:
                one.scope.cancel()
            else:
                one.check.renew(sent)

    def _take(self, entries: Sequence[str]) -> int | None:
        store, now = self._site.store, time.time()
        if len(self._unended(now)) >= self._site.config.gate.slots:
            return None
        return take(
            store,
            "check",
            self._run,
            {"requests": 1},
            worker=self._worker,
            now=now,
            entries=entries,
        )

    def _unended(self, now: float) -> list[Lease]:
        """The checks of this run that run, or soon will have ended, whoever started them.

        Those of a worker that hangs may stay for ever: they keep what they hold of the limits,
        but keep nobody from checking.
        """
        found = [
            one
            for one in list_open(self._site.store)
            if (one.kind, one.holder) == ("check", self._run)
        ]
        workers = find_workers(self._site.store, {str(one.worker) for one in found}, now=now)
        return [
            one
            for one in found
            if one.state is LeaseState.HELD or workers[str(one.worker)].left is not None
        ]

    async def _see_through(self, job: CheckJob, under: _Under) -> None:
        try:
            with under.scope:
                found = await under.check.carry_out(job.tree, job.about.base, job.commands)
            if not under.scope.cancelled_caught:
                await run_sync(self._settle, job, found)
        except Forsaken:
            log.warning("a check of run %s was forsaken and is run again", self._run)
        except (Refused, StoreError) as error:
            log.warning("a check of run %s came to nothing: %s", self._run, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, a person is told
            # Neither passed nor failed: blaming a candidate for a full disk would be wrong.
            await run_sync(self._fail, error)
        finally:
            await self._debts.settle(under.fence)
            del self._under[job.about]
            self._ring()
