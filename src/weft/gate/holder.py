"""One holder's time at the gate of a run: merge, check, reject and land, until it is lost.

Each turn rereads the rows, lets `policy.batches` say what follows, and does it. There is no
state but the rows and the checks that run, so another process can take over at any moment.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync
from msgspec import Struct

from weft import git
from weft.attempt.briefing import title
from weft.errors import Refused, StaleFence, StoreError, WeftError
from weft.gate import check_run as checks
from weft.gate import trunk
from weft.gate.check_pool import CheckJob, CheckPool, Debts
from weft.gate.check_run import CheckResult, Command, point_of
from weft.gate.combination import Clash, Steps, combine
from weft.gate.conflicts import report
from weft.gate.gate_rows import MERGE, find_conflict, find_failure, scene
from weft.gate.policy import next_step
from weft.gate.policy.check_records import (
    Check,
    Combination,
    GateScene,
    GateStep,
    Purpose,
    Rejection,
    RejectionReason,
)
from weft.gate.policy.first_checks import first_checks
from weft.gate.trunk import Fault
from weft.git.object_store import Plumbing
from weft.model import CheckVerdict, Entry, GateRows, MergeConflict, Task
from weft.process.process_identity import boottime
from weft.project.site import Site
from weft.store.gate import (
    find_pass,
    get_output,
    pass_on,
    read_open,
    record_conflict,
    record_verdict,
    reject,
    see_entries,
)
from weft.store.leases import renew
from weft.store.runs import get_run
from weft.store.tasks import get_task
from weft.workspace import Brought
from weft.workspace.names import trunk_ref

log = logging.getLogger(__name__)

_TRIALS: Final = (Purpose.RETRY, Purpose.BLAME)


class _Seen(Struct, frozen=True, kw_only=True):
    """The rows at one moment, where trunk was, and what checks were brought."""

    rows: GateRows
    tip: str
    brought: str

    def named(self, combination: Sequence[str]) -> list[Entry]:
        entries = {one.id: one for one in self.rows.entries}
        return [entries[one] for one in combination]


class Tenure:
    def __init__(
        self,
        site: Site,
        worker: str,
        run: str,
        fence: int,
        plumbing: Plumbing,
        group: TaskGroup,
        debts: Debts,
        *,
        block: Callable[[Exception], None],
        at: Fault,
    ) -> None:
        """Serve a run's gate under a fence; `site` has the settings of that run."""
        self._site = site
        self._run = run
        self._fence = fence
        self._plumbing = plumbing
        self._at = at
        self._block = block
        self._firsts: set[Check] = set()  # checks of what is looked at before it lands
        self._opened = False  # trunk was seen to be where it should be
        self._tasks: dict[int, Task] = {}  # as submitted: their names and their own checks
        self._brought = Brought(site.root, site.config.workspace)
        self._ways: dict[tuple[tuple[Command, ...], str], str] = {}
        self._merged: dict[tuple[str, Combination], Steps | Clash] = {}
        self.changed = anyio.Event()  # set when a check has ended
        self._pool = CheckPool(
            site,
            worker,
            run,
            group,
            debts,
            settle=self._settle,
            fail=self._fail,
            ring=self._ring,
        )

    def _ring(self) -> None:
        self.changed.set()

    def _fail(self, error: Exception) -> None:
        self._merged.clear()  # `git gc` may have removed its objects
        self._block(error)

    async def renew(self) -> bool:
        """Give a sign of life; False if the gate is somebody else's by now."""
        sent = boottime()
        fences = [self._fence, *self._pool.fences]
        try:
            lost = await run_sync(lambda: renew(self._site.store, fences, now=time.time()))
        except StoreError as error:
            log.warning("the gate of run %s gave no sign of life: %s", self._run, error)
            return True
        self._pool.renew(sent, lost)
        return self._fence not in lost

    async def turn(self) -> bool:
        """Do what follows from the rows, until nothing does; False if that is all for now."""
        while True:
            seen = await run_sync(self._look)
            if seen is None:
                return False
            plan = await run_sync(self._plan, seen)
            if not await self._follow(plan, seen) and not await self._check_first(seen):
                return True

    def _look(self) -> _Seen | None:
        """Read the gate's rows; first finish a landing that a dead holder left half-done.

        Return None if there is nothing to do, or if the run's settings have changed: the next
        holder of the gate reads them anew.
        """
        store, run = self._site.store, self._run
        rows = read_open(store, run)
        for landing in rows.landings:
            if landing.state == "intended" and not rows.blocked:
                trunk.roll_forward(
                    store, self._site.root, self._plumbing, self._fence, landing, at=self._at
                )
                rows = read_open(store, run)
        settings = self._site.settings
        if rows.blocked or rows.ended or settings is None or settings.revision != rows.revision:
            return None
        tip = self._find_tip(rows)
        if any(one.state == "queued" and one.base is None for one in rows.entries):
            see_entries(store, self._fence, run, tip)
        return _Seen(rows=rows, tip=tip, brought=self._brought.name())

    def _find_tip(self, rows: GateRows) -> str:
        """Where trunk is; refuses to go on if that is not where it was left."""
        root = self._site.root
        if rows.landings:
            expected = rows.landings[-1].new
        else:
            expected = self._base
            if not self._opened:
                trunk.open_trunk(root, self._run, expected)
        if self._opened and not any(one.state == "queued" for one in rows.entries):
            return expected  # nobody asks
        where = git.find_ref(root, trunk_ref(self._run))
        if where != expected:
            trunk.refuse_foreign(self._site.store, self._fence, self._run, expected, where)
        self._opened = True
        return expected

    @functools.cached_property
    def _base(self) -> str:
        """The commit the run began at."""
        return git.get_commit(self._site.root, get_run(self._site.store, self._run).base).id

    def _plan(self, seen: _Seen) -> GateStep:
        now = self._scene(seen)
        every = self._site.config.gate.every_commit
        return next_step.step_every_commit(now) if every else next_step.step(now)

    def _scene(self, seen: _Seen) -> GateScene:
        return scene(
            seen.rows,
            seen.tip,
            slots=self._site.config.gate.slots,
            running=[one for one in self._pool.running if one not in self._firsts],
            way_of=lambda entries: self._way(self._commands(entries), seen.brought),
        )

    async def _follow(self, plan: GateStep, seen: _Seen) -> bool:
        """Do what a plan says; whether the rows have changed by that."""
        for check in plan.cancel:
            self._pool.cancel(check)
        for rejection in plan.reject:
            await run_sync(self._reject, rejection, seen)
        for one in plan.wait:
            await run_sync(self._strand, one)
        changed = bool(plan.reject or plan.wait)
        if plan.land:
            await run_sync(self._land, plan.land, seen)
            changed = True
        for check in plan.start:
            if self._pool.is_full:
                break
            job = await run_sync(self._prepare, check, seen)
            if job is None:
                changed = True
            elif not await self._pool.start(job):
                break
        return changed

    async def _check_first(self, seen: _Seen) -> bool:
        """Check what is to be looked at, and pass on what passes; whether the rows changed."""
        self._firsts.intersection_update(self._pool.running)
        waiting = [one for one in seen.rows.entries if one.state == "queued" and one.looked_at]
        if not waiting:
            return False
        facts = self._scene(seen)
        room = self._site.config.gate.slots - len(self._pool.running)
        first = first_checks(
            [(one.id, one.base or seen.tip) for one in waiting],
            facts.verdicts,
            facts.conflicts,
            self._pool.running,
            room,
        )
        for entry in first.pass_on:
            await run_sync(self._pass_on, entry)
        for rejection in first.reject:
            await run_sync(self._reject, rejection, seen)
        changed = bool(first.pass_on or first.reject)
        for check in first.start:
            job = await run_sync(self._prepare, check, seen)
            if job is None:
                changed = True
            elif await self._pool.start(job):
                self._firsts.add(check)
        return changed

    def _pass_on(self, entry: str) -> None:
        pass_on(self._site.store, self._fence, self._run, entry, now=time.time())

    def _reject(self, rejection: Rejection, seen: _Seen) -> None:
        self._at("rejecting")
        reason = self._explain(rejection, seen)
        self._send_back(rejection.combination, rejection.reason.value, reason)

    def _strand(self, entry: str) -> None:
        self._send_back(
            [entry], RejectionReason.CONFLICT.value, "What it was built on is not there."
        )

    def _send_back(self, combination: Sequence[str], kind: str, reason: str) -> None:
        store = self._site.store
        reject(store, self._fence, self._run, combination, kind, reason, now=time.time())

    def _explain(self, rejection: Rejection, seen: _Seen) -> str:
        """What the next attempt is told."""
        *before, _ = seen.named(rejection.combination)
        others = ", ".join(self._get_task(task).name for one in before for task in one.tasks)
        if rejection.reason is RejectionReason.CONFLICT:
            conflict = find_conflict(rejection, seen.rows)
            after = f"after {others}" if others else "with what has landed since it was begun"
            return f"It does not merge {after}: {conflict.report if conflict else 'git says no.'}"
        failure = find_failure(rejection, seen.rows, seen.tip)
        output = get_output(self._site.store, self._run, failure.number) if failure else ""
        together = f" together with {others}, which came first, and pass without" if others else ""
        point = point_of(output)
        return f"Its checks fail{together}{f': {point}' if point else '.'}\n{output}"

    def _land(self, combination: Combination, seen: _Seen) -> None:
        entries = seen.named(combination)
        steps = self._combine(seen.tip, entries)
        if isinstance(steps, Clash) or not self._have_passed(steps, combination, seen):
            raise WeftError(f"The tree of {', '.join(combination)} never passed; it cannot land.")
        chain = [
            (entry, trunk.commits_of(entry, its, self._story(entry)))
            for entry, its in zip(entries, steps, strict=True)
        ]
        store, root = self._site.store, self._site.root
        try:
            trunk.land(
                store,
                root,
                self._plumbing,
                self._fence,
                self._run,
                tip=seen.tip,
                chain=chain,
                revision=seen.rows.revision,
                every_commit=self._site.config.gate.every_commit,
                at=self._at,
            )
        except StaleFence:
            raise
        except Refused as refused:  # cancelled just now: what remains is another matter
            log.info("run %s: %s", self._run, refused)
        self._merged.clear()

    def _have_passed(self, steps: Steps, combination: Combination, seen: _Seen) -> bool:
        """Tell whether the tree to land passed, and with `every_commit` the tree of each commit."""
        whole = len(combination)
        lengths = range(1, whole + 1) if self._site.config.gate.every_commit else (whole,)
        return all(
            self._has_passed(steps[length - 1][-1].tree, combination[:length], seen)
            for length in lengths
        )

    def _has_passed(self, tree: str, combination: Combination, seen: _Seen) -> bool:
        """Tell whether exactly this tree passed the present check of these entries.

        In the verdict, entries that have landed since may stand before them.
        """
        return any(
            one.passed
            and one.tree == tree
            and one.combination[-len(combination) :] == combination
            and one.check_id == self._way(self._commands(seen.named(one.combination)), seen.brought)
            for one in seen.rows.verdicts
        )

    def _story(self, entry: Entry) -> str | None:
        """What to call a story that is to be one commit; None where it is one per task."""
        gate = self._site.config.gate
        # Only the last of a story's commits is the tree that was checked.
        whole = gate.squash == "story" or gate.every_commit
        return title(self._get_task(entry.story)) if entry.story is not None and whole else None

    def _prepare(self, check: Check, seen: _Seen) -> CheckJob | None:
        """What to run for a check; None if its verdict is clear without, and written down."""
        combination = seen.named(check.candidates)
        merged = self._combine(check.base, combination)
        self._at("merged")
        if isinstance(merged, Clash):
            self._record_clash(check, merged)
            return None
        commands = self._commands(combination)
        way = self._way(commands, seen.brought)
        tree = merged[-1][-1].tree
        job = CheckJob(about=check, tree=tree, commands=commands, way=way, brought=seen.brought)
        output = find_pass(self._site.store, job.tree, way)
        if output is None:
            return job
        self._record(job, CheckResult(passed=True, seconds=0, output=output))
        return None

    def _combine(self, base: str, entries: Sequence[Entry]) -> Steps | Clash:
        key = (base, tuple(one.id for one in entries))
        merged = self._merged.get(key)
        if merged is None:
            merged = self._merged[key] = combine(self._plumbing, base, entries)
        return merged

    def _record_clash(self, check: Check, clash: Clash) -> None:
        said = report(clash.conflicts)
        if check.purpose in _TRIALS:
            job = CheckJob(about=check, tree="", commands=(), way=MERGE, brought="")
            self._record(job, CheckResult(passed=False, seconds=0, output=said))
            return
        conflict = MergeConflict(
            base=check.base,
            entry=clash.entry.id,
            others=tuple(one.id for one in clash.others),
            report=said,
        )
        record_conflict(self._site.store, self._fence, self._run, conflict, now=time.time())

    def _commands(self, entries: Sequence[Entry]) -> tuple[Command, ...]:
        """The commands that a combination has to pass."""
        tasks = [self._get_task(task) for entry in entries for task in entry.tasks]
        return checks.commands_of(self._site.config.gate.run, tasks)

    def _way(self, commands: tuple[Command, ...], brought: str) -> str:
        """What names these commands, run with what is brought."""
        key = (commands, brought)
        if key not in self._ways:
            config = self._site.config
            environment = checks.environment(config, self._site.environment)
            self._ways[key] = checks.check_id(commands, config, environment, brought)
        return self._ways[key]

    def _get_task(self, number: int) -> Task:
        if number not in self._tasks:
            self._tasks[number] = get_task(self._site.store, number)
        return self._tasks[number]

    def _settle(self, job: CheckJob, found: CheckResult) -> None:
        self._at("checked")
        if not self._brought.keeps(job.brought):
            # Nobody knows which of it this check got: its verdict would be in the wrong name.
            log.info("run %s: what is copied has changed, a check is run again", self._run)
            return
        self._record(job, found)

    def _record(self, job: CheckJob, found: CheckResult) -> None:
        verdict = CheckVerdict(
            base=job.about.base,
            combination=job.about.candidates,
            purpose=job.about.purpose.value,
            tree=job.tree,
            check_id=job.way,
            commands=job.commands,
            passed=found.passed,
            seconds=found.seconds,
        )
        store = self._site.store
        record_verdict(store, self._fence, self._run, verdict, found.output, now=time.time())
