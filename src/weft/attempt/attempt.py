"""An attempt under way in this process, started here or adopted.

`look` reads the agent's output and enforces its limits. `settlement` handles the agent's end. Only
`wait_ended` waits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Self

import anyio
from msgspec.structs import replace

from weft import workspace
from weft.agents.adapters import ADAPTERS
from weft.agents.classify import Stop
from weft.agents.usage import Spent, find_exceeded
from weft.attempt import settlement as settling
from weft.attempt.disk_space import taken_since
from weft.attempt.ended_attempt import TOO_MUCH, Ended
from weft.attempt.output_reader import OutputReader
from weft.attempt.recordings import (
    GO,
    get_recordings,
    has_come,
    make_recording,
    save_recording,
)
from weft.attempt.start import Begun, begin
from weft.attempt.start_facts import list_questions
from weft.attempt.start_record import Order
from weft.errors import Refused, StoreError, WeftError, find_passing_fault
from weft.model import Grant, Lease, State
from weft.process import attempt_files
from weft.process.agent_process import Exit, Running, StopReason
from weft.project.site import Site
from weft.store.event_log import history
from weft.store.leases import reserve
from weft.store.tasks import list_attempts
from weft.workspace import Workspace

log = logging.getLogger(__name__)

_STOP = "stop"
"""The record of weft's reason to end an agent, kept for an adopter."""


class RunningAttempt:
    def __init__(
        self, site: Site, fence: int, begun: Begun, *, reported: int | None = None
    ) -> None:
        """`reported` is the output offset up to which an adopted attempt was reported."""
        self.fence = fence
        self.order: Order = begun.order
        self._site = site
        self._workspace: Workspace = begun.workspace
        self._running: Running = begun.running
        self._directory = site.directory(self.order.task, self.order.attempt)
        self._follower = OutputReader(
            self.order, self._directory, hide=site.store.redactor, reported=reported
        )
        self._adopted = reported is not None
        self._warnings = list(begun.warnings)
        self._stopped = _find_stop(begun.running)
        self._fault = ""  # weft's own reason to break the attempt off
        self._reserved = self.order.reserved
        self._size = 0
        self._grown = time.monotonic()
        self._ended = anyio.Event()
        self._exit: Exit | None = None

    @classmethod
    def start(cls, site: Site, grant: Grant, *, renewed: Callable[[], float]) -> Self:
        """Start the agent of a grant by the settings of its run. Blocks while the workspace is
        made."""
        with site.store.remembering(list_questions(grant.task, grant.run)):
            site = site.for_run(grant.run)
            return cls(site, grant.fence, begin(site, grant, renewed=renewed))

    @classmethod
    def go_on(cls, site: Site, fence: int, lease: Lease, begun: Begun) -> Self:
        """Continue the attempt of a dead worker under a new fence."""
        assert lease.task is not None
        assert lease.attempt is not None
        reported = reported_before(site, lease.task, lease.attempt)
        return cls(site.for_run(begun.order.run), fence, begun, reported=reported)

    def renew(self, sent: float) -> None:
        try:
            self._running.renew(sent)
        except OSError as error:
            self.break_off(error)  # without the renewal its watchdog ends it anyway

    def stop(self, why: Stop) -> None:
        """End the agent: send TERM first, KILL after its grace. The first reason stands.

        Cancelling an ended agent breaks off weft's own work on its files.
        """
        if self._ended.is_set():
            if why is Stop.CANCEL:
                self._stopped = why
                self._workspace.terms.breaker.break_off()
            return
        if self._stopped is not None:
            return
        self._stopped = why
        try:
            attempt_files.write_record(str(self._directory / _STOP), {"why": why})
        except OSError as error:
            log.warning("could not record the stop reason of task %s: %s", self.order.task, error)
        self._running.ask_to_stop()

    def kill(self) -> None:
        """End the agent at once."""
        self.stop(Stop.SHUTDOWN)
        self._running.kill()

    def break_off(self, error: Exception) -> None:
        """End an agent that weft cannot follow any more; on a fault that passes, keep following
        it."""
        if fault := find_passing_fault(error):
            log.warning("could not follow the agent of task %s: %s", self.order.task, fault)
        elif not self._fault:
            log.error("could not follow task %s, ending its agent: %r", self.order.task, error)
            self._end_for(f"weft could not follow the agent: {error!r}")

    def taken_room(self) -> int:
        """Sum the bytes that the agent wrote; this reads all files of the workspace."""
        return taken_since(self._workspace.path, self.order.started)

    def end_for_room(self, taken: int, left: int) -> None:
        self._end_for(
            f"The agent was ended: it took {taken >> 20} MB of the disk, on which only "
            f"{left >> 20} MB were left."
        )

    def _end_for(self, fault: str) -> None:
        self._fault = fault
        self._running.kill()

    async def wait_ended(self) -> None:
        self._exit = await self._running.wait_ended()
        self._ended.set()

    def look(self) -> None:
        """Read the new output, and stop an agent that has passed a limit.

        Blocks: files are read, and the store may be asked for more budget.
        """
        if self._ended.is_set():
            return
        self._follower.look()
        self._let_player_end()
        now = time.monotonic()
        if self._follower.size != self._size:
            self._size, self._grown = self._follower.size, now
        if self._size > self._site.config.tuning.output:
            # The wrapper notices only at its next tick; a disk fills faster.
            self._end_for(TOO_MUCH)
        elif self._stopped is None:
            self._stop_if_over(now)

    def _let_player_end(self) -> None:
        """Let a played recording print its last line, once all that came before it has come."""
        go = self._directory / GO
        if self.order.after and not go.exists():
            with suppress(StoreError):  # asked again at the next look
                if has_come(self._site.store, self.order, now=time.time()):
                    go.touch()

    def last_words(self) -> Iterator[None]:
        """Read the rest of an ended agent's output in pieces; skip it after a flood of output."""
        flood = self._exit is not None and self._exit.why is StopReason.OUTPUT
        return iter(()) if flood or self._fault else self._follower.last_words()

    def report(self) -> Mapping[str, Any] | None:
        """Return the news since the last report, or None."""
        if self._warnings:
            about = {"attempt": self.order.attempt, "agent": self.order.agent}
            return {**about, "warning": self._warnings.pop(0)}
        return self._follower.report()

    def is_stored(self, report: Mapping[str, Any]) -> bool:
        """Tell whether the store has a report whose confirmation was lost."""
        before = reported_before(self._site, self.order.task, self.order.attempt)
        return "offset" in report and int(report["offset"]) <= before

    def settle(self) -> State | None:
        """Settle the ended attempt; return its task's state, or None if it was handed back.

        After an interruption a second call, here or by an adopter, comes to the same result.
        """
        state = settling.settle(self._end())
        if self._site.config.record.on:
            self._record()
        return state

    def _record(self) -> None:
        """Record the settled attempt; a failure concerns the recording alone."""
        order, store = self.order, self._site.store
        try:
            [attempt] = [
                row for row in list_attempts(store, order.task) if row.number == order.attempt
            ]
            made = make_recording(
                self._site.root,
                self._directory,
                attempt,
                history(store, order.task),
                store.redactor,
            )
            save_recording(get_recordings(self._site.common, order.run), made)
        except (WeftError, OSError) as error:
            log.warning("could not record the attempt of task %s: %s", order.task, error)

    def give_up(self, error: Exception) -> None:
        """Block the task, because its settlement failed."""
        settling.block(self._end(), f"weft could not settle the attempt: {error!r}")

    def free_workspace(self) -> None:
        """Free the workspace; an adopter needs it until the outcome is stored."""
        try:
            # Cancelling broke off git in the workspace; this git command must still run.
            kept = workspace.release(replace(self._workspace, terms=self._site.terms()))
        except Exception as error:  # noqa: BLE001 - an agent's files may only fail its own attempt
            log.warning("the workspace of %s stays: %s", self.order.branch, error)
            return
        if kept.obstacle is not None:
            log.warning("the workspace of %s stays: %s", self.order.branch, kept.obstacle)

    def let_go(self) -> None:
        """Close all handles and leave the attempt to an adopter."""
        self._running.close()
        self._workspace.close()

    def _end(self) -> Ended:
        assert self._exit is not None
        return Ended(
            site=self._site,
            fence=self.fence,
            order=self.order,
            workspace=self._workspace,
            follower=self._follower,
            exit=self._exit,
            stopped=self._stopped,
            fault=self._fault,
            adopted=self._adopted,
        )

    def _stop_if_over(self, now: float) -> None:
        if now >= self.order.clock + (self.order.wall or self._site.config.tuning.wall):
            self.stop(Stop.WALL)
            return
        quiet = now - self._grown
        if (self.order.idle is not None and quiet >= self.order.idle) or self._is_stuck():
            self.stop(Stop.IDLE)
            return
        spent = self._follower.spent
        over = find_exceeded(spent, self.order.budget)
        if over is not None:
            self.stop(Stop(over))
        elif self._is_short(spent) and not self._reserve_more():
            self.stop(Stop.DOLLARS)

    def _is_stuck(self) -> bool:
        """Tell whether the program repeats a failing request. Its log lines would count as a
        sign of life for ever."""
        tries = ADAPTERS[self.order.adapter].FACTS.tries
        return tries is not None and self._follower.seen.failed >= tries

    def _is_short(self, spent: Spent) -> bool:
        return self.order.usd is not None and (spent.micro_usd or 0) > self._reserved

    def _reserve_more(self) -> bool:
        """Reserve half as much again, if the run's budget allows it and no budget of the task or
        the agent file forbids it."""
        assert self.order.usd is not None
        total = max(self._reserved, self._follower.spent.micro_usd or 0) * 3 // 2 + 1
        total = min(total, self.order.budget.micro_usd or total)
        try:
            granted = reserve(
                self._site.store, self.fence, {self.order.usd: total}, now=time.time()
            )
        except StoreError:
            return True  # the store is unreachable: ask again, until T1 ends the lease
        except Refused:
            return False
        if granted:
            self._reserved = total
        return granted


def reported_before(site: Site, task: int, attempt: int) -> int:
    """Return the output offset up to which the store has reports of an attempt."""
    offsets = [
        event.data["offset"]
        for event in history(site.store, task)
        if event.kind == "progress"
        and event.data.get("attempt") == attempt
        and "offset" in event.data
    ]
    return max(offsets, default=0)


def _find_stop(running: Running) -> Stop | None:
    record = attempt_files.find_record(str(running.directory / _STOP))
    if record is None:
        return None
    running.ask_to_stop()  # the writer of the record may have died before it asked
    return Stop(record["why"])
