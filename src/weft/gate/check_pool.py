"""The checks that run at a time under the holder of a gate.

Each check has a lease, which ends with the last of its processes. When the pool's task group ends,
for any reason, no process of its checks is left.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync
from msgspec import Struct

from weft import git
from weft.errors import Refused, StoreError
from weft.gate.base_check import BaseCommands, check_base
from weft.gate.base_report import describe_base
from weft.gate.check_run import CheckLost, CheckResult, CheckRun, Command
from weft.gate.policy.gate_records import Check, Purpose
from weft.model import CheckVerdict, Lease, LeaseState
from weft.project.site import Site
from weft.store.leases import list_open, release, take
from weft.store.workers import find_workers

log = logging.getLogger(__name__)


class CheckJob(Struct, frozen=True, kw_only=True):
    """A tree to check and the commands to run on it."""

    check: Check
    tree: str
    commands: tuple[Command, ...]
    check_id: str
    files: str  # the name of the set-up files that the check will find
    own: tuple[Command, ...] = ()  # of a base: checks of tasks, which only have to start


def make_verdict(job: CheckJob, result: CheckResult) -> CheckVerdict:
    return CheckVerdict(
        base=job.check.base,
        combination=job.check.combination,
        purpose=job.check.purpose.value,
        tree=job.tree,
        check_id=job.check_id,
        commands=job.commands if result.passed else result.ran,
        passed=result.passed,
        seconds=result.seconds,
    )


class RunningCheck(Struct, frozen=True, kw_only=True):
    run: CheckRun
    fence: int
    scope: anyio.CancelScope


class UnreleasedLeases:
    """Leases to release, which the store may be unable to do at the moment."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._fences: set[int] = set()

    async def release(self, *more: int) -> None:
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
        leases: UnreleasedLeases,
        *,
        record: Callable[[CheckJob, CheckResult], None],
        fail: Callable[[Exception], None],
        ring: Callable[[], None],
    ) -> None:
        """`record` writes a verdict, `fail` blocks the gate after an error; both run in threads.

        `ring` is called when a check has ended.
        """
        self._site = site
        self._worker = worker
        self._run = run
        self._group = group
        self._leases = leases
        self._record = record
        self._fail = fail
        self._ring = ring
        self._checks: dict[Check, RunningCheck] = {}

    @property
    def running(self) -> tuple[Check, ...]:
        """Every check that has a process, also while it is being ended."""
        return tuple(self._checks)

    @property
    def fences(self) -> list[int]:
        return [running.fence for running in self._checks.values()]

    @property
    def is_full(self) -> bool:
        return len(self._checks) >= self._site.config.gate.slots

    async def start(self, job: CheckJob) -> bool:
        """Start a check; return False if there is no room yet."""
        fence = await run_sync(self._take, job.check.combination)
        if fence is None:
            return False
        running = RunningCheck(
            run=CheckRun(self._site, fence, self._run), fence=fence, scope=anyio.CancelScope()
        )
        self._checks[job.check] = running
        self._group.start_soon(self._complete, job, running)
        return True

    def cancel(self, check: Check) -> None:
        if check in self._checks:
            self._checks[check].scope.cancel()

    def renew(self, sent: float, lost: Collection[int]) -> None:
        """Tell the watchdogs when the leases were renewed; cancel the checks of lost leases."""
        for running in self._checks.values():
            if running.fence in lost:
                running.scope.cancel()
            else:
                running.run.renew(sent)

    def _take(self, entries: Sequence[str]) -> int | None:
        store, now = self._site.store, time.time()
        if len(self._list_unended(now)) >= self._site.config.gate.slots:
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

    def _list_unended(self, now: float) -> list[Lease]:
        """List the checks of this run that run or are sure to end, on any worker.

        The checks of a worker that hangs may stay for ever: they keep their amounts, but no slot.
        """
        leases = [
            lease
            for lease in list_open(self._site.store)
            if (lease.kind, lease.holder) == ("check", self._run)
        ]
        workers = find_workers(self._site.store, {str(lease.worker) for lease in leases}, now=now)
        return [
            lease
            for lease in leases
            if lease.state is LeaseState.HELD or workers[str(lease.worker)].left is not None
        ]

    async def _check(self, run: CheckRun, job: CheckJob) -> CheckResult:
        if job.check.purpose is not Purpose.BASE:
            return await run.check(job.tree, job.check.base, job.commands)
        commit = await run_sync(git.get_commit, self._site.root, job.check.base)
        gate = next(iter(job.commands), None)
        base = await check_base(run, commit, BaseCommands(gate=gate, own=job.own))
        cure = f"Repair that, then `weft resume {self._run}`: the gate tries it again."
        return CheckResult(
            passed=base.fault is None,
            seconds=base.seconds,
            output=describe_base(self._site, commit.id, f"weft/{self._run}", base, cure),
            ran=job.commands,
        )

    async def _complete(self, job: CheckJob, running: RunningCheck) -> None:
        try:
            with running.scope:
                result = await self._check(running.run, job)
            if not running.scope.cancelled_caught:
                await run_sync(self._record, job, result)
        except CheckLost:
            log.warning("a watchdog ended check %s of run %s", running.fence, self._run)
        except (Refused, StoreError) as error:
            log.warning("check %s of run %s has no verdict: %s", running.fence, self._run, error)
        except Exception as error:  # noqa: BLE001 - a person has to see any other error
            # Neither a pass nor a failure: an entry is not to blame for a full disk.
            await run_sync(self._fail, error)
        finally:
            await self._leases.release(running.fence)
            del self._checks[job.check]
            self._ring()
