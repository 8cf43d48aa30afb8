"""The life of one attempt, from its start or its adoption to its outcome.

Every effect on the store carries the fence. Once that is refused nothing here counts any more:
the agent is stopped, its work is kept under a ref, and the lease is let go.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

import anyio
from anyio.to_thread import run_sync

from weft import git, workspace
from weft.agents.adapters import ADAPTERS
from weft.agents.agent import Budget
from weft.agents.classify import Ending, Failure, Stop, classify
from weft.agents.usage import exceeded
from weft.attempt import begin, order, outcome
from weft.attempt.follow import Follower
from weft.attempt.order import Order
from weft.attempt.outcome import Next, Work
from weft.attempt.site import Site
from weft.errors import InputError, Refused, WeftError
from weft.model import ErrorClass, Grant, Lease, Outcome, State
from weft.process import agent as process
from weft.process.agent import Exit, Running, Why
from weft.process.limits import Limits, Progress, find_passed
from weft.store.agents import stop_agent
from weft.store.events import history
from weft.store.leases import count_failures, extend, finish, release, report, reserve
from weft.store.limits import penalise
from weft.workspace import Author, Candidate, Workspace
from weft.workspace.candidate import NoChange

log = logging.getLogger(__name__)

Report = Callable[[int, Mapping[str, Any]], None]
"""Takes what a fence has to tell, to be stored soon."""

_LOOK: Final = 0.05  # seconds between looks at an agent that talks
_LOOK_LESS: Final = 0.25  # and at one that does not


class Attempt:
    """One attempt under way in this process."""

    def __init__(self, site: Site, fence: int, begun: begin.Begun, *, reported: int = 0) -> None:
        self.fence = fence
        self.order: Order = begun.order
        self.warnings = begun.warnings
        self._site = site
        self._workspace: Workspace = begun.workspace
        self._running: Running = begun.running
        directory = site.directory(self.order.task, self.order.attempt)
        self._follower = Follower(self.order, directory, reported=reported)
        self._stopped: Stop | None = None
        self._reserved = self.order.reserved
        self._ended = anyio.Event()
        self._exit: Exit | None = None

    @classmethod
    def start(cls, site: Site, grant: Grant, *, renewed: float) -> Self:
        """Start the agent of a grant. Blocks while the workspace is made."""
        return cls(site, grant.fence, begin.begin(site, grant, renewed=renewed))

    @classmethod
    def adopt(cls, site: Site, fence: int, lease: Lease) -> Self:
        """Go on with an attempt whose worker is gone; `fence` is the new one."""
        assert lease.task is not None
        assert lease.attempt is not None
        directory = site.directory(lease.task, lease.attempt)
        ordered = order.find(directory)
        if ordered is None:
            raise WeftError(f"Attempt {lease.attempt} of task {lease.task} was never started here.")
        running = process.attach(directory)
        found = begin.on_base(site, workspace.attach(site.root, ordered.branch), ordered.base)
        begun = begin.Begun(order=ordered, workspace=found, running=running)
        return cls(site, fence, begun, reported=reported_before(site, lease))

    def renew(self, sent: float) -> None:
        self._running.renew(sent)

    def stop(self, why: Stop) -> None:
        """End the agent: asked first, killed after its grace. The first reason stands."""
        if self._stopped is None and not self._ended.is_set():
            self._stopped = why
            self._running.ask_to_stop()

    def kill(self) -> None:
        """End the agent at once."""
        self.stop(Stop.SHUTDOWN)
        self._running.kill()

    async def carry_out(self, tell: Report) -> State | None:
        """Follow the agent to its end and settle the attempt; returns its task's state."""
        for warning in self.warnings:
            tell(self.fence, {"warning": warning})
        async with anyio.create_task_group() as group:
            group.start_soon(self._wait_ended)
            await self._follow(tell)
        await run_sync(self._follower.look_to_the_end)
        return await run_sync(self._settle, self._follower.report())

    async def _wait_ended(self) -> None:
        self._exit = await self._running.wait_ended()
        self._ended.set()

    async def _follow(self, tell: Report) -> None:
        started = grown = time.monotonic()
        size = 0
        while not self._ended.is_set():
            talks = self._follower.look()
            if (said := self._follower.report()) is not None:
                tell(self.fence, said)
            now = time.monotonic()
            if self._follower.size != size:
                size, grown = self._follower.size, now
            await self._stop_if_over(Progress(started=started, printed=grown), now)
            with anyio.move_on_after(_LOOK if talks else _LOOK_LESS):
                await self._ended.wait()

    async def _stop_if_over(self, progress: Progress, now: float) -> None:
        limits = Limits(wall=self.order.wall or self._site.config.tuning.wall, idle=self.order.idle)
        passed = find_passed(limits, progress, now)
        if passed is not None:
            self.stop(Stop(passed.value))
            return
        over = exceeded(self._follower.spent, self._budget())
        if over == "tokens" or (over and not await run_sync(self._reserve_more)):
            self.stop(Stop(over))

    def _budget(self) -> Budget:
        if self.order.usd is None:
            return self.order.budget
        return replace(self.order.budget, micro_usd=self._reserved)

    def _reserve_more(self) -> bool:
        """Half as much again, if the run's budget has it. Without a run there is no more."""
        if self.order.usd is None:
            return False
        total = max(self._reserved, self._follower.spent.micro_usd or 0) * 3 // 2 + 1
        try:
            granted = reserve(
                self._site.store, self.fence, {self.order.usd: total}, now=time.time()
            )
        except Refused:
            return False
        if granted:
            self._reserved = total
        return granted

    def _settle(self, last: Mapping[str, Any] | None) -> State | None:
        """Everything that follows the agent's end. Nothing of it is lost if this is cut short:
        whoever adopts the attempt does it again, to the same result."""
        assert self._exit is not None
        try:
            if last is not None:
                report(self._site.store, self.fence, last, now=time.time())
            return self._judge(self._exit)
        except Refused as refused:
            log.info("attempt of task %s no longer counts: %s", self.order.task, refused)
            self._hand_back("refused")
            return None
        finally:
            self._free_workspace()

    def _judge(self, exit_: Exit) -> State | None:
        ending = Ending(
            program=self.order.program,
            says_result=ADAPTERS[self.order.adapter].FACTS.says_result,
            status=_status(exit_),
            seen=self._follower.seen,
            stopped=self._stopped,
            errors=exit_.unstarted or self._follower.errors(),
        )
        failure = _broken_off(exit_) or classify(ending)
        if failure is not None and failure.kind is ErrorClass.STOPPED:
            self._hand_back(failure.reason)
            return None
        return self._take_work() if failure is None else self._fail(failure)

    def _take_work(self) -> State:
        found = workspace.changes(self._workspace)
        outside = workspace.out_of_scope(found, self.order.files)
        work = Work(
            paths=found.paths,
            outside=outside,
            escapes=found.escapes,
            conflicts=found.conflicts,
            unusable=found.unusable,
        )
        fault = outcome.find_fault(work, self.order.files)
        if fault is not None:
            return self._fail(fault)
        claims = self.order.files
        if outside:
            now = time.time()
            held = extend(self._site.store, self.fence, outside, now=now)
            if held:
                return self._ask_for_more(outside, held)
            claims = (*claims, *outside)
        if not claims:  # it was to change nothing, and did
            return self._finish(Next(state=State.DONE), None)
        made = self._commit()
        assert isinstance(made, Candidate)
        state = State.DONE if self.order.run is None else State.GATING
        return self._finish(Next(state=state), made.commit)

    def _ask_for_more(self, outside: tuple[str, ...], held: Mapping[str, int]) -> State:
        """Others hold what it changed beside its claims: try again, with all of it claimed."""
        holders = ", ".join(sorted({f"task {task}" for task in held.values()}))
        reason = (
            f"The agent changed {outcome.listed(outside)}, which it had not claimed and "
            f"{holders} holds; the next attempt claims it from the start."
        )
        made = self._commit()
        next_ = Next(state=State.READY, kind=ErrorClass.SCOPE, reason=reason)
        files = (*self.order.files, *outside)
        return self._finish(next_, getattr(made, "commit", None), files=files)

    def _fail(self, failure: Failure) -> State:
        now = time.time()
        store, task = self._site.store, self.order.task
        next_ = outcome.after_failure(
            failure,
            earlier=count_failures(store, task, failure.kind),
            now=now,
            chance=random.random(),  # noqa: S311 - spreads retries, guards nothing
            tuning=self._site.config.tuning,
        )
        if failure.kind is ErrorClass.SCOPE:
            next_ = replace(next_, state=State.BLOCKED)  # no larger claim would cure it
        made = self._commit()
        state = self._finish(
            next_,
            getattr(made, "commit", None),
            session=None if failure.new_session else self._follower.seen.session or None,
        )
        if failure.kind is ErrorClass.RATE_LIMIT and self.order.provider:
            penalise(store, self.order.provider, now=now)
        if next_.stops_agent:
            stop_agent(store, self.order.agent, failure.reason, now=now)
        return state

    def _finish(
        self,
        next_: Next,
        commit: str | None,
        *,
        session: str | None = None,
        files: tuple[str, ...] | None = None,
    ) -> State:
        spent = self._follower.spent
        text = self._follower.seen.result.text if self._follower.seen.result else ""
        return finish(
            self._site.store,
            self.fence,
            Outcome(
                state=next_.state,
                kind=next_.kind,
                reason=next_.reason,
                until=next_.until,
                result=text or self._follower.seen.last_text,
                signature=next_.signature,
                spent=self._settled(),
                candidate=commit,
                base=self.order.base,
                session=session or self._follower.seen.session or None,
                tokens=spent.tokens.total,
                micro_usd=spent.micro_usd or 0,
                sent_back=files is not None,
                files=files,
            ),
            now=time.time(),
        )

    def _settled(self) -> dict[str, int]:
        """What it used up of a consumable. Where its program says nothing, all it had reserved."""
        spent = self._follower.spent.micro_usd
        if self.order.usd is None or spent is None:
            return {}
        return {self.order.usd: spent}

    def _commit(self) -> Candidate | NoChange:
        """All that is in the workspace as one commit on the attempt's branch."""
        settings = git.settings(self._site.root)
        author = Author(
            name=settings.get("user.name") or "weft",
            email=settings.get("user.email") or "weft@localhost",
        )
        seen = self._follower.seen
        said = (seen.result.text if seen.result else "") or seen.last_text
        return workspace.candidate(
            self._workspace,
            message(self.order.title, said),
            author=author,
            trailers={
                "Weft-Run": self.order.run or begin.AD_HOC,
                "Weft-Task": self.order.name,
                "Weft-Attempt": str(self.order.attempt),
            },
            date=f"{int(self.order.started)} +0000",
        )

    def _hand_back(self, reason: str) -> None:
        spent = self._settled() or None
        release(self._site.store, self.fence, now=time.time(), reason=reason, spent=spent)

    def _free_workspace(self) -> None:
        try:
            kept = workspace.release(self._workspace)
        except WeftError as error:
            log.warning("the workspace of %s stays: %s", self.order.branch, error)
            return
        if kept.obstacle is not None:
            log.warning("the workspace of %s stays: %s", self.order.branch, kept.obstacle)


def reported_before(site: Site, lease: Lease) -> int:
    """How far into its output an attempt was reported by whoever followed it before."""
    assert lease.task is not None
    offsets = [
        event.data["offset"]
        for event in history(site.store, lease.task)
        if event.kind == "progress" and event.data.get("attempt") == lease.attempt
    ]
    return max(offsets, default=0)


def message(title: str, said: str) -> str:
    """A commit message: the task in a line, and what its agent said of its work."""
    body = said.strip()[:4_000]
    head = " ".join(title.split())
    head = head if len(head) <= 72 else head[:71] + "…"
    return f"{head}\n\n{body}" if body else head


def _status(exit_: Exit) -> int | None:
    if exit_.unstarted:
        return 127
    return -exit_.signal if exit_.signal is not None else exit_.code


def _broken_off(exit_: Exit) -> Failure | None:
    """Ends that neither the agent nor a limit of its own caused."""
    if exit_.why is Why.FORSAKEN:
        reason = "weft was gone for too long, and the agent was ended beside it."
        return Failure(kind=ErrorClass.STOPPED, reason=reason, signature="")
    if exit_.why is Why.OUTPUT:
        return Failure(
            kind=ErrorClass.OTHER,
            reason="The agent printed more than it may, and was ended.",
            signature="other: output",
        )
    return None


def start_failure(error: WeftError) -> Failure:
    """Why an agent could not even be started."""
    kind = ErrorClass.CONFIG if isinstance(error, InputError) else ErrorClass.OTHER
    return Failure(kind=kind, reason=str(error), signature=f"{kind}: start")


def directory_of(site: Site, lease: Lease) -> Path | None:
    if lease.task is None or lease.attempt is None:
        return None
    return site.directory(lease.task, lease.attempt)
