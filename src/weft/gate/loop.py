"""The gate of one run: whoever holds its lease merges, checks, rejects and lands.

Each turn rereads the rows, lets `policy.batches` say what follows, and does it. There is no
state but the rows and the checks that run, so another process can take over at any moment.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync

from weft import git
from weft.attempt.site import Site
from weft.errors import Refused, StaleFence, StoreError, WeftError
from weft.gate import check as checks
from weft.gate import trunk
from weft.gate.conflicts import report
from weft.gate.plumbing import Plumbing, open_plumbing
from weft.gate.trunk import Blocked, Fault
from weft.model import CheckVerdict, Entry, GateRows, MergeConflict
from weft.policy import batches, odds
from weft.policy.checks import Candidate, Check, Conflict, Landing, Plan, Purpose, Scene, Verdict
from weft.policy.first_checks import first_checks
from weft.process.place import boottime
from weft.store.gate import (
    block_gate,
    known_verdicts,
    pass_on,
    read_gate,
    record_conflict,
    record_verdict,
    reject,
    see_entries,
)
from weft.store.leases import release, renew, take
from weft.store.runs import get_run
from weft.store.tasks import get_task
from weft.store.wake import Listener
from weft.workspace.names import trunk_ref

log = logging.getLogger(__name__)

_NET: Final = 5.0  # seconds after which to look although nobody rang
_TRIES: Final = (Purpose.RETRY, Purpose.BLAME)


@dataclass(kw_only=True)
class _Under:
    """A check under way."""

    check: checks.Check
    fence: int
    scope: anyio.CancelScope


class Gate:
    def __init__(
        self, site: Site, worker: str, run: str, *, at: Fault = lambda point: None
    ) -> None:
        self.run = run
        self._site = site
        self._worker = worker
        self._at = at
        self._under: dict[Check, _Under] = {}
        self._firsts: set[Check] = set()  # of entries that are looked at before they land
        self._changed = anyio.Event()

    async def serve(self, listener: Listener) -> None:
        """Hold the gate whenever nobody else does, until cancelled."""
        while True:
            fence = await run_sync(self._take)
            if fence is not None:
                try:
                    await self._hold(fence, listener)
                finally:
                    with anyio.CancelScope(shield=True):
                        await run_sync(self._let_go, fence)
            await self._wait(listener)

    def _take(self) -> int | None:
        if get_run(self._site.store, self.run).blocked:
            return None  # a person has to look first
        demand = {f"gate:{self.run}": 1}
        return take(
            self._site.store, "gate", self.run, demand, worker=self._worker, now=time.time()
        )

    def _let_go(self, fence: int) -> None:
        release(self._site.store, fence, now=time.time(), reason="gate left")

    async def _hold(self, fence: int, listener: Listener) -> None:
        with ExitStack() as stack:
            plumbing = await run_sync(lambda: stack.enter_context(open_plumbing(self._site.root)))
            async with anyio.create_task_group() as group:
                group.start_soon(self._renew_loop, fence, group)
                try:
                    while not await self._turn(fence, plumbing, group):
                        await self._wait(listener)
                except (StaleFence, Blocked) as error:
                    log.info("the gate of run %s: %s", self.run, error)
                group.cancel_scope.cancel()

    async def _renew_loop(self, fence: int, group: TaskGroup) -> None:
        while True:
            await anyio.sleep(self._site.config.tuning.heartbeat)
            sent = boottime()
            fences = [fence, *(one.fence for one in self._under.values())]
            try:
                lost = await run_sync(
                    lambda: renew(self._site.store, fences, now=time.time())  # noqa: B023
                )
            except StoreError as error:
                log.warning("the gate of run %s gave no sign of life: %s", self.run, error)
                continue
            for one in self._under.values():
                one.check.renew(sent)
            if fence in lost:
                group.cancel_scope.cancel()  # somebody else holds the gate now
                return

    async def _wait(self, listener: Listener) -> None:
        """Until a check has ended, the store has changed, or a while has passed."""
        with anyio.move_on_after(_NET):
            async with anyio.create_task_group() as waits:

                async def wait_checks() -> None:
                    await self._changed.wait()
                    waits.cancel_scope.cancel()

                waits.start_soon(wait_checks)
                await anyio.wait_readable(listener)
                waits.cancel_scope.cancel()
        listener.wait(0)
        self._changed = anyio.Event()

    async def _turn(self, fence: int, plumbing: Plumbing, group: TaskGroup) -> bool:
        """Do what follows from the rows, until nothing does. True: it waits for a person."""
        while True:
            rows = await run_sync(read_gate, self._site.store, self.run)
            if rows.blocked:
                return True
            tip = await run_sync(self._tip, fence, plumbing, rows)
            rows = await run_sync(self._see, fence, tip)
            plan = self._plan(rows, tip)
            changed = await self._follow(plan, rows, tip, fence, plumbing, group)
            if not changed and not await self._check_first(rows, tip, fence, plumbing, group):
                return False

    def _tip(self, fence: int, plumbing: Plumbing, rows: GateRows) -> str:
        """Where trunk is; completes a landing that somebody began, and refuses foreign moves."""
        root = self._site.root
        run = get_run(self._site.store, self.run)
        trunk.open_trunk(root, self.run, run.base)
        for landing in rows.landings:
            if landing.state == "intended":
                trunk.roll_forward(self._site.store, root, plumbing, fence, landing, at=self._at)
        expected = rows.landings[-1].new if rows.landings else git.get_commit(root, run.base).id
        where = git.find_ref(root, trunk_ref(self.run))
        if where != expected:
            trunk.refuse_foreign(self._site.store, fence, self.run, expected, where)
        return expected

    def _see(self, fence: int, tip: str) -> GateRows:
        see_entries(self._site.store, fence, self.run, tip)
        return read_gate(self._site.store, self.run)

    def _plan(self, rows: GateRows, tip: str) -> Plan:
        scene = Scene(
            tip=tip,
            queue=tuple(
                _candidate(one, tip)
                for one in rows.entries
                if one.state == "queued" and not one.looked_at
            ),
            slots=self._site.config.gate.slots,
            odds=odds.estimate(
                one.state == "rejected"
                for one in rows.entries
                if one.state in ("landed", "rejected")
            ),
            verdicts=tuple(
                Verdict(base=one.base, candidates=one.combination, passed=one.passed)
                for one in rows.verdicts
            ),
            conflicts=tuple(
                Conflict(base=one.base, candidate=one.entry, others=one.others)
                for one in rows.conflicts
            ),
            landings=tuple(_landings(rows)),
            running=tuple(self._under.keys() - self._firsts),
        )
        every = self._site.config.gate.every_commit
        return batches.step_every_commit(scene) if every else batches.step(scene)

    async def _follow(
        self,
        plan: Plan,
        rows: GateRows,
        tip: str,
        fence: int,
        plumbing: Plumbing,
        group: TaskGroup,
    ) -> bool:
        """Do what a plan says; whether the rows have changed by that."""
        entries = {one.id: one for one in rows.entries}
        for check in plan.cancel:
            self._under[check].scope.cancel()
        for rejection in plan.reject:
            reason = _reason(rejection.candidate, rejection.combination, rows)
            await run_sync(self._reject, fence, rejection.candidate, rejection.reason.value, reason)
        for one in plan.wait:
            await run_sync(
                self._reject, fence, one, "conflict", "What it was built on is not there any more."
            )
        if plan.land:
            landing = [entries[one] for one in plan.land]
            await run_sync(self._land, fence, plumbing, tip, landing, rows)
        changed = bool(plan.reject or plan.wait or plan.land)
        for check in plan.start:
            changed |= await self._start(check, entries, fence, plumbing, group)
        return changed

    async def _check_first(
        self, rows: GateRows, tip: str, fence: int, plumbing: Plumbing, group: TaskGroup
    ) -> bool:
        """Check what is to be looked at, and pass on what passes; whether the rows changed."""
        entries = {one.id: one for one in rows.entries}
        waiting = [one for one in rows.entries if one.state == "queued" and one.looked_at]
        first = first_checks(
            [(one.id, one.base or tip) for one in waiting],
            [
                Verdict(base=one.base, candidates=one.combination, passed=one.passed)
                for one in rows.verdicts
            ],
            [
                Conflict(base=one.base, candidate=one.entry, others=one.others)
                for one in rows.conflicts
            ],
            self._under.keys(),
            self._site.config.gate.slots - len(self._under),
        )
        for entry in first.pass_on:
            await run_sync(self._pass_on, fence, entry)
        for kind, refused in (("red", first.red), ("conflict", first.conflict)):
            for entry in refused:
                await run_sync(self._reject, fence, entry, kind, _reason(entry, (entry,), rows))
        changed = bool(first.pass_on or first.red or first.conflict)
        for check in first.start:
            self._firsts.add(check)
            changed |= await self._start(check, entries, fence, plumbing, group)
        return changed

    def _pass_on(self, fence: int, entry: str) -> None:
        pass_on(self._site.store, fence, self.run, entry, now=time.time())

    def _reject(self, fence: int, entry: str, kind: str, reason: str) -> None:
        self._at("rejecting")
        reject(self._site.store, fence, self.run, entry, kind, reason, now=time.time())

    def _land(
        self, fence: int, plumbing: Plumbing, tip: str, entries: Sequence[Entry], rows: GateRows
    ) -> None:
        ids = tuple(one.id for one in entries)
        trees = {trees[-1].tree for trees in trunk.merged(plumbing, tip, entries)[-1:]}
        [tree] = trees
        way = self._way(entries)
        passed = any(
            one.passed and one.tree == tree and one.check_id == way[1] for one in rows.verdicts
        )
        if not passed:
            raise WeftError(f"The tree of {', '.join(ids)} has not passed; nothing lands.")
        trunk.land(
            self._site.store,
            self._site.root,
            plumbing,
            fence,
            self.run,
            tip=tip,
            entries=entries,
            tree=tree,
            squash=self._site.config.gate.squash,
            at=self._at,
        )

    async def _start(
        self,
        check: Check,
        entries: Mapping[str, Entry],
        fence: int,
        plumbing: Plumbing,
        group: TaskGroup,
    ) -> bool:
        """Start a check, or settle it without running; whether the rows have changed."""
        combination = [entries[one] for one in check.candidates]
        tree = await run_sync(self._merge, check, combination, fence, plumbing)
        if tree is None:
            return True
        commands, way = await run_sync(self._way, combination)
        known = await run_sync(known_verdicts, self._site.store, tree, way)
        if len(known) > check.nth:
            passed, output = known[check.nth]
            await run_sync(self._record, fence, check, tree, way, passed, 0.0, output)
            return True
        lease = await run_sync(self._take_check)
        if lease is None:
            return False  # no room: whoever makes some rings
        under = _Under(
            check=checks.Check(self._site, lease, self.run),
            fence=lease,
            scope=anyio.CancelScope(),
        )
        self._under[check] = under
        group.start_soon(self._run, check, under, tree, commands, way, fence)
        return False

    def _merge(
        self, check: Check, combination: Sequence[Entry], fence: int, plumbing: Plumbing
    ) -> str | None:
        """The tree of a combination; None if it does not merge, which is written down."""
        works = trunk.merged(plumbing, check.base, combination)
        for number, (entry, steps) in enumerate(zip(combination, works, strict=True)):
            found = [conflict for step in steps for conflict in step.conflicts]
            if not found:
                continue
            if check.purpose in _TRIES:
                self._record(fence, check, "", "merge", False, 0.0, report(found))
                return None
            record_conflict(
                self._site.store,
                fence,
                self.run,
                MergeConflict(
                    base=check.base,
                    entry=entry.id,
                    others=tuple(one.id for one in combination[:number]),
                    report=report(found),
                ),
                now=time.time(),
            )
            return None
        return works[-1][-1].tree

    def _way(self, entries: Sequence[Entry]) -> tuple[list[checks.Command], str]:
        """The commands that a combination has to pass, and what names them."""
        config = self._site.config
        commands: list[checks.Command] = [] if config.gate.run is None else [config.gate.run]
        for entry in entries:
            for task in entry.tasks:
                own = get_task(self._site.store, task).details.get("check")
                command = ("sh", "-c", own) if isinstance(own, str) else tuple(own or ())
                if command and command not in commands:
                    commands.append(command)
        return commands, checks.check_id(
            commands, checks.environment(config, self._site.environment)
        )

    def _take_check(self) -> int | None:
        return take(
            self._site.store,
            "check",
            self.run,
            {"requests": 1},
            worker=self._worker,
            now=time.time(),
        )

    async def _run(
        self,
        check: Check,
        under: _Under,
        tree: str,
        commands: Sequence[checks.Command],
        way: str,
        fence: int,
    ) -> None:
        try:
            with under.scope:
                found = await under.check.carry_out(tree, check.base, commands)
            if not under.scope.cancelled_caught:
                self._at("checked")
                await run_sync(
                    self._record, fence, check, tree, way, found.passed, found.seconds, found.output
                )
        except Refused as refused:
            log.info("a check of run %s no longer counts: %s", self.run, refused)
        except WeftError as error:
            # Neither passed nor failed: blaming a candidate for a full disk would be wrong.
            reason = f"A check could not be carried out: {error} Mend that, then `weft resume`."
            await run_sync(self._block, fence, reason)
        finally:
            del self._under[check]
            self._firsts.discard(check)
            with anyio.CancelScope(shield=True):
                await run_sync(self._let_go, under.fence)
            self._changed.set()

    def _block(self, fence: int, reason: str) -> None:
        block_gate(self._site.store, fence, self.run, reason, now=time.time())

    def _record(
        self,
        fence: int,
        check: Check,
        tree: str,
        way: str,
        passed: bool,
        seconds: float,
        output: str,
    ) -> None:
        verdict = CheckVerdict(
            base=check.base,
            combination=check.candidates,
            purpose=check.purpose.value,
            tree=tree,
            check_id=way,
            passed=passed,
            seconds=seconds,
            output=output,
        )
        record_verdict(self._site.store, fence, self.run, verdict, now=time.time())


def _candidate(entry: Entry, tip: str) -> Candidate:
    return Candidate(id=entry.id, base=entry.base or tip, needs=entry.needs, alone=entry.alone)


def _landings(rows: GateRows) -> list[Landing]:
    entries = {one.id: one for one in rows.entries}
    return [
        Landing(
            old=one.old,
            new=one.new,
            candidates=tuple(_candidate(entries[entry], one.old) for entry in one.entries),
        )
        for one in rows.landings
        if one.state == "landed"
    ]


def _reason(entry: str, combination: Sequence[str], rows: GateRows) -> str:
    """What a rejected entry's next attempt is told."""
    for conflict in rows.conflicts:
        if conflict.entry == entry:
            return f"It does not merge with what landed before it:\n{conflict.report}"
    failed = [
        one
        for one in rows.verdicts
        if not one.passed and entry in one.combination and set(one.combination) <= {*combination}
    ] or [one for one in rows.verdicts if not one.passed and entry in one.combination]
    with_others = "" if len(combination) == 1 else " together with what landed before it"
    output = failed[-1].output if failed else ""
    return f"The checks fail{with_others}:\n{output}"
