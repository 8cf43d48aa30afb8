"""The scheduler: takes the best admissible tasks for its free slots, and carries out each attempt.

Workers pull; no process hands tasks out. The scheduler renews its leases, stops attempts whose
lease is lost, and adopts the attempts of dead workers on this host. The reaper frees the leases
of dead workers.

An attempt that breaks ends alone: its task is blocked with the reason, or its lease is left to the
reaper, which frees it on proof.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync

from weft.agents.classify import Stop
from weft.attempt.adoption import adopt
from weft.attempt.attempt import RunningAttempt
from weft.attempt.disk_space import find_shortage
from weft.attempt.orphans import find_orphans
from weft.attempt.start import StillRuns
from weft.attempt.start_failure import fail_to_start, hand_back_unstarted
from weft.errors import StoreError, Unauthenticated, WeftError, find_passing_fault
from weft.model import Grant, Lease, Outcome, State
from weft.process import BrokenOff
from weft.process.death_proof import end_unstarted
from weft.process.process_identity import ProcessPlace, boottime
from weft.project.site import Site
from weft.store.attempt_end import finish
from weft.store.attempt_reports import report_all
from weft.store.leases import find_lost, renew
from weft.store.tasks import find_next_due
from weft.store.wake import Listener, wait_rung

log = logging.getLogger(__name__)

_LOOK: Final = 0.1  # seconds between two looks at the output of agents
_MEASURE: Final = 5.0  # seconds between two looks at all files of all workspaces
_SOON: Final = 0.02  # the shortest wait for a task that is due
_FOLLOWED: Final = 0.03  # seconds in which an ended attempt is followed by the next
_CLEANS_AFTER: Final = 1.0  # seconds after which a workspace is freed although attempts start
_FIRST_PAUSE: Final = 0.2  # before the store is asked again to take an outcome
_LAST_PAUSE: Final = 5.0
_KILLED: Final = 5.0  # seconds for a killed agent's end to be recorded
_FAULTY: Final = 1.0  # seconds without new tasks after a first fault of the machine
_LAST_FAULTY: Final = 15.0  # the same after many faults: each try uses up an attempt number

Take = Callable[[], Sequence[Grant]]
Sign = Callable[[], None]


class Scheduler:
    """The attempts of a worker process. `take` asks for tasks, `sign` sends its heartbeat."""

    def __init__(self, site: Site, worker: str, slots: int, *, take: Take, sign: Sign) -> None:
        self.worker = worker
        self._site = site
        self._slots = slots
        self._take = take
        self._sign = sign
        self._attempts: dict[int, RunningAttempt] = {}
        self._starting: dict[int, Grant] = {}
        self._unwanted: set[int] = set()  # fences that were lost while their attempt started
        self._asking = False  # work was asked for, and may come
        self._adopting = 0
        self._checking = 0  # checks of gates elsewhere
        self._leaving = 0  # attempts whose outcome is stored and whose workspace is not free yet
        self._reports: dict[int, Mapping[str, Any]] = {}  # not stored yet
        self._doubtful: set[int] = set()  # fences whose report the store may have: no answer came
        self._turn = anyio.Lock()  # held while output is read and reports are stored
        self._sent = boottime()  # when the last renewal that succeeded was sent
        self._measured = -_MEASURE  # time of the last look at the agents' use of the disk
        self._draining = self._killing = False
        self._stopping: Stop | None = None  # the reason to end all agents
        self._faulty_until = 0.0  # monotonic time until which no task is taken
        self._faulty_pause = _FAULTY
        self._waits: set[anyio.CancelScope] = set()  # waits for the ends of agents
        self._faults: set[str] = set()  # faults of the machine that were logged
        self._ends = anyio.Event()  # set, and replaced, whenever an attempt has ended
        # Threads of their own: starts may all be busy with slow set-ups, signs of life may not.
        self._starts = anyio.CapacityLimiter(max(1, slots))
        self._signs = anyio.CapacityLimiter(1)
        self._looks = anyio.CapacityLimiter(1)

    @property
    def busy(self) -> int:
        """The number of attempts, and checks of gates elsewhere, under way."""
        return len(self._attempts) + len(self._starting) + self._adopting + self._checking

    @property
    def draining(self) -> bool:
        return self._draining

    @contextmanager
    def occupied(self) -> Iterator[None]:
        """Count a check of a gate elsewhere as under way."""
        self._checking += 1
        try:
            yield
        finally:
            self._checking -= 1
            self._ring()

    def holds(self, lease: Lease) -> bool:
        return lease.fence in self._attempts or lease.fence in self._starting

    def drain(self) -> None:
        """Take no more tasks; running attempts go on."""
        self._draining = True

    async def stop_all(self, why: Stop = Stop.SHUTDOWN) -> None:
        """Ask every agent to end; each is handed back when it has. The first reason stands."""
        self._draining = True
        self._stopping = self._stopping or why
        for attempt in list(self._attempts.values()):
            attempt.stop(self._stopping)
        await self._end_starts(list(self._starting.values()))

    async def kill_all(self) -> None:
        self._draining = self._killing = True
        self._stopping = self._stopping or Stop.SHUTDOWN
        for attempt in list(self._attempts.values()):
            attempt.kill()
        await self._end_starts(list(self._starting.values()))
        await anyio.sleep(self._site.config.tuning.kill_grace)
        self._site.breaker.break_off()  # ends git commands that still work on agents' files
        await anyio.sleep(_KILLED)
        for wait in self._waits:
            wait.cancel()

    async def wait_idle(self) -> None:
        while self.busy or self._leaving or self._asking:
            await self._ends.wait()

    async def admit_loop(self, group: TaskGroup, listener: Listener) -> None:
        """Fill free slots after each ring, end of an attempt, or due time of a parked task."""
        while True:
            begun = False
            patience = self._site.config.tuning.capacity_poll
            try:
                await self._stop_lost()
                faulty = self._faulty_until - time.monotonic()
                if faulty > 0:
                    patience = faulty
                elif self.busy < self._slots and not self._draining:
                    begun = await self._begin_more(group)
                    if not begun:
                        patience = await run_sync(self._until_due)
            except WeftError as error:
                log.warning("could not ask for tasks: %s", error)
            if not begun:
                await wait_rung(listener, seconds=patience, event=self._ends)

    async def _begin_more(self, group: TaskGroup) -> bool:
        """Ask for tasks and begin them; hand back grants that arrive after a drain began."""
        self._asking = True
        try:
            with anyio.CancelScope(shield=True):  # no grant may get lost
                grants = await run_sync(self._take)
                if self._draining:
                    for grant in grants:
                        await run_sync(self._hand_back, grant)
                    return False
                for grant in grants:
                    self._starting[grant.fence] = grant
                    group.start_soon(self._carry_out, grant)
            return bool(grants)
        finally:
            self._asking = False
            self._ring()

    async def heartbeat_loop(self) -> None:
        """Renew the worker and its leases regularly; stop the attempts whose lease is lost."""
        while True:
            sent = boottime()
            try:
                lost = await run_sync(self._renew, limiter=self._signs)
            except WeftError as error:
                # The agents' watchdogs count from the last renewal that succeeded.
                log.warning("could not send a heartbeat: %s", error)
            else:
                self._sent = sent
                for fence, attempt in list(self._attempts.items()):
                    if fence not in lost:
                        attempt.renew(sent)
                await self._stop(lost)
            await anyio.sleep(self._site.config.tuning.heartbeat)

    async def report_loop(self) -> None:
        """Read the output of agents, and store their reports in batches."""
        while True:
            await anyio.sleep(_LOOK)
            if self._attempts:
                async with self._turn:
                    lost = await run_sync(self._look, limiter=self._looks)
                await self._stop(lost)

    async def adopt_orphans(self, group: TaskGroup, here: ProcessPlace) -> None:
        """Go on with the running and the unsettled attempts of dead workers of this host."""
        if self._draining:
            return
        for lease in await run_sync(find_orphans, self._site, here):
            self._adopting += 1
            try:
                attempt = await adopt(self._site, self.worker, lease)
            finally:
                self._adopting -= 1
            if attempt is not None:
                self._attempts[attempt.fence] = attempt
                group.start_soon(self._see_through, attempt)
                if self._stopping:
                    attempt.stop(self._stopping)
        self._ring()

    async def _carry_out(self, grant: Grant) -> None:
        start = self._pass_barrier if grant.agent is None else self._start
        try:
            with self._site.changeover.one():
                attempt = await run_sync(start, grant, limiter=self._starts)
        finally:
            del self._starting[grant.fence]
        if attempt is None:
            self._unwanted.discard(grant.fence)
            self._ring()
            return
        self._attempts[grant.fence] = attempt
        attempt.renew(self._sent)  # a heartbeat may have come in between
        if self._killing:
            attempt.kill()
        elif self._stopping:
            attempt.stop(self._stopping)
        elif grant.fence in self._unwanted:
            attempt.stop(Stop.CANCEL)
        self._unwanted.discard(grant.fence)
        await self._see_through(attempt)

    async def _see_through(self, attempt: RunningAttempt) -> None:
        settled = False
        try:
            if await self._wait_ended(attempt):
                with self._site.changeover.one():
                    await self._hear_out(attempt)
                    settled = await self._settle(attempt)
        except Unauthenticated as error:
            log.warning("task %s stays unsettled: %s", attempt.order.task, error)
        except Exception:
            # Its lease is no longer renewed: the reaper frees it once its processes are gone.
            log.exception("task %s was lost sight of", attempt.order.task)
            attempt.kill()
        finally:
            del self._attempts[attempt.fence]
            self._reports.pop(attempt.fence, None)
            self._leaving += 1
            self._ring()  # the slot is free, although its workspace is not cleaned up yet
        try:
            if settled:
                if not self._draining:
                    await self._site.changeover.let_pass(_CLEANS_AFTER, after=_FOLLOWED)
                await run_sync(attempt.free_workspace)
            else:
                attempt.let_go()
        finally:
            self._leaving -= 1
            self._ring()

    async def _wait_ended(self, attempt: RunningAttempt) -> bool:
        """Wait for the end of an agent; False if weft ends first.

        The wrapper of an agent that was killed cannot record its exit while the disk is full.
        The next weft that comes adopts the attempt.
        """
        with anyio.CancelScope() as wait:
            self._waits.add(wait)
            try:
                await attempt.wait_ended()
            finally:
                self._waits.discard(wait)
        return not wait.cancelled_caught

    async def _hear_out(self, attempt: RunningAttempt) -> None:
        """Store the last words of an agent that has ended, before it is settled."""
        words = attempt.last_words()
        pause = _FIRST_PAUSE
        more = True
        while True:
            async with self._turn:
                more = more and await run_sync(_step, attempt, words, limiter=self._looks)
                if not self._gather(attempt) and not more:
                    return
                answered = await run_sync(self._try_to_store) is not None
            if not answered:
                if self._killing:
                    return
                await anyio.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)

    async def _settle(self, attempt: RunningAttempt) -> bool:
        """Store the outcome of an ended attempt; return False if weft ends first.

        Try again while the store does not answer or a fault of the machine lasts, so that finished
        work need not be repeated.
        """
        pause = _FIRST_PAUSE
        while True:
            try:
                await run_sync(attempt.settle)
            except BrokenOff:  # it was cancelled, or weft ends and another worker adopts it
                if self._killing:
                    return False
            except StoreError as error:
                log.warning(
                    "the result of task %s cannot be recorded yet: %s", attempt.order.task, error
                )
                if self._killing:
                    return False
            except Unauthenticated:  # the server has ended the token of this host
                raise
            except Exception as error:
                if fault := find_passing_fault(error):
                    self._tell_fault(fault, error)
                    if self._killing:
                        return False
                else:
                    log.exception("could not settle task %s", attempt.order.task)
                    await run_sync(attempt.give_up, error)
                    return True
            else:
                return True
            await anyio.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE)

    def _look(self) -> list[int]:
        for attempt in list(self._attempts.values()):
            try:
                attempt.look()
            except Exception as error:  # noqa: BLE001 - the other attempts are looked at as well
                attempt.break_off(error)
            self._gather(attempt)
        self._leave_room()
        return self._try_to_store() or []

    def _leave_room(self) -> None:
        """End the attempt that uses most of a disk that is almost full."""
        rules = self._site.config.workspace
        disks = (self._site.common, *([Path(rules.root).expanduser()] if rules.root else []))
        shortages = (find_shortage(disk, rules.spare_disk_mb << 20) for disk in disks)
        short = next(filter(None, shortages), None)
        if short is None or time.monotonic() < self._measured + _MEASURE:
            return
        self._measured = time.monotonic()
        attempts = list(self._attempts.values())
        taken = [(attempt.taken_room(), attempt.fence, attempt) for attempt in attempts]
        for most, _, greedy in sorted(taken)[-1:]:
            if most >= short.wanted:  # no other attempt is ended: it may be a victim of this one
                greedy.end_for_room(most, short.left)

    def _gather(self, attempt: RunningAttempt) -> bool:
        """Take an attempt's next report, once its previous report is stored."""
        if attempt.fence not in self._reports and (report := attempt.report()) is not None:
            self._reports[attempt.fence] = report
        return attempt.fence in self._reports

    def _try_to_store(self) -> list[int] | None:
        """Store the reports; return the refused fences, or None if the store does not answer."""
        try:
            self._drop_stored()
            reports = dict(self._reports)
            if not reports:
                return []
            self._doubtful.update(reports)
            lost = report_all(self._site.store, list(reports.items()), now=time.time())
        except StoreError as error:
            log.warning("could not store the reports of agents yet: %s", error)
            return None
        self._doubtful.clear()
        for fence in reports:
            self._reports.pop(fence, None)
        return lost

    def _drop_stored(self) -> None:
        """Drop the reports that were stored before an error came: the commit may have succeeded."""
        for fence in sorted(self._doubtful):
            attempt, report = self._attempts.get(fence), self._reports.get(fence)
            if attempt is not None and report is not None and attempt.is_stored(report):
                del self._reports[fence]
            self._doubtful.discard(fence)

    def _ring(self) -> None:
        self._ends.set()
        self._ends = anyio.Event()

    def _pass_barrier(self, grant: Grant) -> None:
        """Finish a barrier: its needs are met, and it runs no agent."""
        try:
            finish(self._site.store, grant.fence, Outcome(state=State.DONE), now=time.time())
        except WeftError as error:
            log.info("could not finish barrier %s: %s", grant.task, error)
            self._hand_back(grant)

    def _start(self, grant: Grant) -> RunningAttempt | None:
        try:
            attempt = RunningAttempt.start(self._site, grant, renewed=lambda: self._sent)
        except StillRuns as error:
            log.warning("task %s: %s", grant.task, error)  # left to the reaper, as it is
        except Exception as error:  # noqa: BLE001 - it ends this attempt and no other
            log.info("could not start task %s: %s", grant.task, error)
            self._come_to_nothing(grant, error)
        else:
            self._faults.clear()
            self._faulty_pause = _FAULTY
            return attempt
        return None

    def _come_to_nothing(self, grant: Grant, error: Exception) -> None:
        if self._stopping or grant.fence in self._unwanted or isinstance(error, StoreError):
            self._hand_back(grant)
            return
        if fault := find_passing_fault(error):
            self._tell_fault(fault, error)
            self._faulty_until = time.monotonic() + self._faulty_pause
            self._faulty_pause = min(2 * self._faulty_pause, _LAST_FAULTY)
            self._hand_back(grant)
            return
        try:
            fail_to_start(self._site, grant, error)
        except WeftError as again:  # no process runs, so the reaper can free it
            log.warning("could not store the failure of task %s: %s", grant.task, again)

    def _tell_fault(self, fault: str, error: Exception) -> None:
        """Log a fault of the machine once, however many tasks it affects before it passes."""
        if fault not in self._faults:
            self._faults.add(fault)
            log.warning("could not start or settle tasks, trying again: %s", error)

    def _hand_back(self, grant: Grant) -> None:
        try:
            hand_back_unstarted(self._site, grant, "handed_back")
        except WeftError as error:  # no process runs, so the reaper can free it
            log.warning("could not hand back task %s: %s", grant.task, error)

    def _until_due(self) -> float:
        """Return the seconds to wait without admissible tasks: until a parked task is due."""
        due = find_next_due(self._site.store)
        net = self._site.config.tuning.capacity_poll
        return net if due is None else min(net, max(_SOON, due - time.time()))

    def _renew(self) -> list[int]:
        fences = [*self._attempts, *self._starting]
        lost = renew(self._site.store, fences, now=time.time())
        self._sign()
        return lost

    async def _stop_lost(self) -> None:
        fences = [*self._attempts, *self._starting]
        if fences:
            await self._stop(await run_sync(find_lost, self._site.store, fences))

    async def _stop(self, fences: Sequence[int]) -> None:
        for fence in fences:
            if fence in self._attempts:
                self._attempts[fence].stop(Stop.CANCEL)
        starts = [self._starting[fence] for fence in fences if fence in self._starting]
        fresh = [grant for grant in starts if grant.fence not in self._unwanted]
        self._unwanted.update(grant.fence for grant in fresh)
        await self._end_starts(fresh)

    async def _end_starts(self, grants: Sequence[Grant]) -> None:
        """End the set-up commands of attempts that are no longer wanted.

        The thread that prepares such an attempt gives its lease back.
        """
        for grant in grants:
            directory = self._site.directory(grant.task, grant.attempt)
            marker = self._site.marker(grant.task, grant.attempt)
            try:
                await run_sync(end_unstarted, directory, marker)
            except OSError as error:
                fault = find_passing_fault(error)
                if fault is None:
                    raise
                self._tell_fault(fault, error)  # attempts that start later are stopped then


def _step(attempt: RunningAttempt, words: Iterator[None]) -> bool:
    """Read one more piece of the last output; return False at its end."""
    try:
        return next(words, words) is not words
    except OSError as error:
        attempt.break_off(error)
        return False
