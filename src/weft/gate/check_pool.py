"""The checks that run at a time under the holder of a gate.

A check runs here, or on a worker host that takes it as an order (`start` decides). Each check here
has a lease, which ends with the last of its processes. When the pool's task group ends, for any
reason, no process of its checks is left here, and hosts stop the ordered checks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync
from msgspec import Struct
from msgspec.structs import replace

from weft import git
from weft.candidate_records import HostResult, NewCheckOrder
from weft.errors import Refused, StoreError
from weft.gate.base_check import BaseCommands, check_base, describe_base
from weft.gate.check_jobs import CheckJob
from weft.gate.check_run import (
    CheckLost,
    CheckResult,
    CheckRun,
    commit_to_check,
    describe_machine,
)
from weft.gate.policy.gate_records import Check, Purpose
from weft.git.refs import Update, list_refs, update_refs
from weft.model import Lease, LeaseState
from weft.project.held_leases import HeldLeases
from weft.project.site import Site
from weft.store.check_orders import (
    CheckHosts,
    count_hosts,
    list_orders,
    order_check,
    take_back_order,
    withdraw_order,
)
from weft.store.leases import list_open, take
from weft.store.workers import find_workers
from weft.workspace.names import ordered_checks

log = logging.getLogger(__name__)

_PATIENT: Final = 5.0  # seconds in which hosts may take an order before it is taken back


class RunningCheck(Struct, frozen=True, kw_only=True):
    run: CheckRun
    fence: int
    scope: anyio.CancelScope


class OrderedCheck(Struct, frozen=True, kw_only=True):
    """A check that hosts may take."""

    job: CheckJob
    number: int  # of the order
    head: str  # the commit that hosts fetch
    since: float  # monotonic time


class CheckPool:
    def __init__(
        self,
        site: Site,
        worker: str,
        run: str,
        group: TaskGroup,
        leases: HeldLeases,
        *,
        gate: int = 0,
        record: Callable[[CheckJob, CheckResult, int], None],
        fail: Callable[[Exception], None],
        ring: Callable[[], None],
    ) -> None:
        """`record` writes a verdict under a fence, `fail` blocks the gate; both run in threads.

        Hosts get orders under the fence of the gate; without it all checks run here. `ring` is
        called when a check here has ended.
        """
        self._site = site
        self._worker = worker
        self._run = run
        self._gate = gate
        self._group = group
        self._leases = leases
        self._record = record
        self._fail = fail
        self._ring = ring
        self._checks: dict[Check, RunningCheck] = {}
        self._orders: dict[Check, OrderedCheck] = {}
        self._declined: set[Check] = set()  # by a host: they run here
        self._hosts = CheckHosts()

    @property
    def running(self) -> tuple[Check, ...]:
        """Every check that has a process, also while it is being ended, or is ordered."""
        return (*self._checks, *self._orders)

    @property
    def slots(self) -> int:
        """The number of checks that may run at once, here and on hosts."""
        return self._own_slots + len(self._orders) + self._hosts.free

    @property
    def is_full(self) -> bool:
        return len(self.running) >= self.slots

    @property
    def _own_slots(self) -> int:
        """The slots of this process; a process that leaves its checks to hosts has none."""
        leaves = self._hosts.workers > 0 and not self._site.checks
        return 0 if leaves else self._site.config.gate.slots

    async def start(self, job: CheckJob) -> bool:
        """Start a check here, or order it from the hosts; return False if there is no room yet."""
        may_leave = self._may_leave(job)
        if self._own_slots or not may_leave:
            fence = await run_sync(self._take, job.check.combination)
            if fence is not None:
                self._start_here(job, fence)
                return True
        if may_leave and self._hosts.free > 0:
            self._orders[job.check] = await run_sync(self._order, job)
            self._hosts = replace(self._hosts, free=self._hosts.free - 1)
            return True
        return False

    def _may_leave(self, job: CheckJob) -> bool:
        """Tell whether a host can run a check: not the check of a base, which examines this
        checkout, nor a check that needs ignored files of this checkout."""
        files = self._site.config.workspace
        if job.check.purpose is Purpose.BASE or files.copy or files.link:
            return False
        return bool(job.commands) and job.check not in self._declined

    def _start_here(self, job: CheckJob, fence: int) -> None:
        running = RunningCheck(
            run=CheckRun(self._site, fence, self._run), fence=fence, scope=anyio.CancelScope()
        )
        self._checks[job.check] = running
        self._leases.hold(fence, renewed=running.run.renew, lost=running.scope.cancel)
        self._group.start_soon(self._complete, job, running)

    def _order(self, job: CheckJob) -> OrderedCheck:
        root, base = self._site.root, job.check.base
        head = commit_to_check(root, job.tree, base)
        self._keep(head)
        order = NewCheckOrder(
            tree=job.tree,
            head=head,
            base=base,
            commands=job.commands,
            entries=job.check.combination,
            machine=describe_machine(),
        )
        number = order_check(self._site.store, self._gate, self._run, order, now=time.time())
        return OrderedCheck(job=job, number=number, head=head, since=time.monotonic())

    def _keep(self, *heads: str) -> None:
        """Keep the commits of these orders and of those under way for the hosts that fetch them."""
        root, prefix = self._site.root, ordered_checks(self._run)
        wanted = {f"{prefix}{head}": head for head in (*heads, *self._list_heads())}
        present = list_refs(root, prefix)
        names = sorted(wanted.keys() ^ present.keys())
        update_refs(
            root, [Update(ref=ref, old=present.get(ref), new=wanted.get(ref)) for ref in names]
        )

    def _list_heads(self) -> list[str]:
        return [ordered.head for ordered in self._orders.values()]

    async def cancel(self, check: Check) -> None:
        if check in self._checks:
            self._checks[check].scope.cancel()
        elif check in self._orders:
            await run_sync(self._withdraw, self._orders.pop(check))

    def _withdraw(self, ordered: OrderedCheck) -> None:
        store, now = self._site.store, time.time()
        withdraw_order(store, self._gate, ordered.number, now=now)
        self._keep()

    async def collect(self) -> None:
        """Count the hosts that take checks, and settle the orders that they have answered."""
        store, run, machine = self._site.store, self._run, describe_machine()
        self._hosts = await run_sync(lambda: count_hosts(store, run, machine, now=time.time()))
        if not self._orders:
            return
        states = {state.number: state for state in await run_sync(list_orders, store, self._gate)}
        for check, ordered in list(self._orders.items()):
            state = states[ordered.number]
            if state.result is not None:
                await self._take_over(ordered, state.host, state.result)
            elif state.declined:
                log.warning("%s cannot check run %s: %s", state.host, run, state.declined)
                self._declined.add(check)
            elif state.taken or not await run_sync(self._take_back, ordered):
                continue
            del self._orders[check]
            await run_sync(self._withdraw, ordered)

    def _take_back(self, ordered: OrderedCheck) -> bool:
        """Take an order back that no host takes, if there is room here."""
        fresh = time.monotonic() - ordered.since < _PATIENT
        if (fresh and self._hosts.workers) or len(self._checks) >= self._own_slots:
            return False
        return take_back_order(self._site.store, self._gate, ordered.number)

    async def _take_over(self, ordered: OrderedCheck, host: str, result: HostResult) -> None:
        """Record the result of a host as if the check had run here."""
        taken_over = CheckResult(
            passed=result.passed,
            seconds=result.seconds,
            output=result.output,
            ran=ordered.job.commands[: result.ran],
            host=host,
        )
        try:
            await run_sync(self._record, ordered.job, taken_over, self._gate)
        except (Refused, StoreError) as error:
            log.warning("order %s of run %s has no verdict: %s", ordered.number, self._run, error)

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
        """List the checks of this run that run or are sure to end, on any worker at home.

        The checks of a worker that hangs may stay for ever: they keep their amounts, but no slot.
        """
        leases = [
            lease
            for lease in list_open(self._site.store)
            if (lease.kind, lease.holder) == ("check", self._run)
        ]
        workers = find_workers(self._site.store, {str(lease.worker) for lease in leases}, now=now)
        here = [lease for lease in leases if workers[str(lease.worker)].gates]
        return [
            lease
            for lease in here
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
                await run_sync(self._record, job, result, running.fence)
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
