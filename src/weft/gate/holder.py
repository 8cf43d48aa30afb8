"""The turns of a process that holds a run's gate: merge, check, reject and land.

Each turn rereads the rows, asks `gate.policy` for the next step, and does it. All state is in the
rows and the running checks, so another process can take the gate over at any moment.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Sequence

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync
from msgspec import Struct

from weft import git
from weft.candidate_records import CheckVerdict, Entry, GateRows, MergeConflict
from weft.errors import Refused, SetUpFailed, StaleFence, WeftError
from weft.gate import check_run, trunk
from weft.gate.base_check import BaseCommands, base_ids, is_base_known, list_own_checks
from weft.gate.check_jobs import CheckJob, CheckJobs, make_verdict
from weft.gate.check_pool import CheckPool
from weft.gate.check_run import CheckResult
from weft.gate.conflicts import describe
from weft.gate.merge import EntryConflict, EntrySteps
from weft.gate.policy import next_step
from weft.gate.policy.doubt import (
    MERGE,
    UNABLE,
    FailedCheck,
    drop_stale_verdicts,
    explain_doubt,
    find_conflict,
    find_failure,
    is_base_proved,
)
from weft.gate.policy.gate_records import (
    Check,
    Combination,
    GateState,
    GateStep,
    Purpose,
    Rejection,
    RejectionReason,
)
from weft.gate.policy.queue_analysis import TRIALS
from weft.gate.trunk import CrashPoint
from weft.git.object_store import ObjectStore
from weft.git.trees import ChangeKind, count_lines
from weft.model import TaskKind
from weft.project.held_leases import HeldLeases
from weft.project.site import Site
from weft.store.event_log import list_of_kind
from weft.store.gate import (
    DOUBTED,
    accept_base,
    accept_entrant,
    doubt_base,
    find_pass,
    get_output,
    pass_on,
    read_open,
    record_conflict,
    record_verdict,
    refuse_base,
    reject,
    see_entries,
)
from weft.store.runs import get_run
from weft.store.tasks import list_run
from weft.store.teams import list_wanted_tests
from weft.teams.test_files import is_test_file
from weft.workspace import SetupFiles
from weft.workspace.names import trunk_ref

log = logging.getLogger(__name__)


class _GateView(Struct, frozen=True, kw_only=True):
    """The rows, the tip of trunk and the name of the set-up files at a moment."""

    rows: GateRows
    tip: str
    files: str

    def entries(self, combination: Combination) -> list[Entry]:
        entries = {entry.id: entry for entry in self.rows.entries}
        return [entries[id] for id in combination]


class GateHolder:
    def __init__(
        self,
        site: Site,
        worker: str,
        run: str,
        fence: int,
        objects: ObjectStore,
        group: TaskGroup,
        leases: HeldLeases,
        *,
        block: Callable[[Exception], None],
        at: CrashPoint,
    ) -> None:
        """Hold a run's gate under a fence; `site` has the settings of that run."""
        self._site = site
        self._run = run
        self._fence = fence
        self._objects = objects
        self._at = at
        self._block = block
        self._opened = False  # trunk was seen at its recorded commit
        self._files = SetupFiles(site.root, site.config.workspace)
        self._jobs = CheckJobs(site, objects)
        self.changed = anyio.Event()  # set when a check has ended
        self._pool = CheckPool(
            site,
            worker,
            run,
            group,
            leases,
            gate=fence,
            record=self._record_result,
            fail=self._fail,
            ring=self._ring,
        )

    def _ring(self) -> None:
        self.changed.set()  # each turn has another event

    def _fail(self, error: Exception) -> None:
        self._jobs.forget_merges()  # `git gc` may have removed their objects
        if isinstance(error, SetUpFailed):  # also on the base: attempts would fail the same way
            doubt_base(self._site.store, self._fence, self._run, str(error), now=time.time())
        self._block(error)

    async def take_turn(self) -> bool:
        """Do the steps that follow from the rows until none is left; return False if the gate has
        to be left."""
        while True:
            await self._pool.collect()
            running = self._pool.running  # before the rows: a check that ends now may settle them
            view = await run_sync(self._read)
            if view is None:
                return False
            if view.rows.untested:
                if not await self._test_base(view, running):
                    return True
                continue
            step = await run_sync(self._plan, view, running)
            if not await self._follow(step, view):
                await self._start_tests(view)
                return True

    async def _test_base(self, view: _GateView, running: Sequence[Check]) -> bool:
        """Start the check of the base; return whether the rows have changed by that."""
        job = await run_sync(self._prepare_base, view)
        if job is None:
            return True
        if job.check not in running and not self._pool.is_full:
            await self._pool.start(job)
        return False

    def _prepare_base(self, view: _GateView) -> CheckJob | None:
        """Return the check of the tip; None after accepting a tip that needs none.

        An earlier pass holds, unless a failure has raised a doubt since.
        """
        store, config = self._site.store, self._site.config
        own = list_own_checks(list_run(store, self._run))
        commands = BaseCommands(gate=config.gate.run, own=own)
        ids = base_ids(commands, config, self._site.environment, view.files)
        tree = git.get_commit(self._site.root, view.tip).tree
        doubted = any(not verdict.passed for verdict in view.rows.verdicts) or bool(
            list_of_kind(store, self._run, DOUBTED)  # by attempts that could not be set up
        )
        if not doubted and is_base_known(store, tree, ids):
            accept_base(store, self._fence, self._run)
            return None
        return CheckJob(
            check=Check(base=view.tip, combination=(), purpose=Purpose.BASE),
            tree=tree,
            commands=(config.gate.run,) if config.gate.run else (),
            check_id=ids.gate,
            files=view.files,
            own=own,
        )

    def _read(self) -> _GateView | None:
        """Read the gate's rows; first finish a landing that a dead holder left half-done.

        Return None if the gate is blocked or its run ended, or if the run's settings have changed:
        the next holder of the gate reads them anew.
        """
        store, run = self._site.store, self._run
        rows = read_open(store, run)
        for landing in rows.landings:
            if landing.state == "intended" and not rows.blocked:
                trunk.roll_forward(
                    store, self._site.root, self._objects, self._fence, landing, at=self._at
                )
                rows = read_open(store, run)
        settings = self._site.settings
        if rows.blocked or rows.ended or settings is None or settings.revision != rows.revision:
            return None
        tip = self._find_tip(rows)
        if any(entry.state == "queued" and entry.base is None for entry in rows.entries):
            see_entries(store, self._fence, run, tip)
        return _GateView(rows=rows, tip=tip, files=self._files.name())

    def _find_tip(self, rows: GateRows) -> str:
        """Return the tip of trunk; block the gate if trunk is not at its recorded commit."""
        root = self._site.root
        if rows.landings:
            expected = rows.landings[-1].new
        else:
            expected = self._base
            if not self._opened:
                trunk.open_trunk(root, self._run, expected)
        if self._opened and not any(entry.state == "queued" for entry in rows.entries):
            return expected  # spares a call of git while the queue is empty
        where = git.find_ref(root, trunk_ref(self._run))
        if where != expected:
            store, fence, run = self._site.store, self._fence, self._run
            trunk.refuse_foreign(store, root, self._objects, fence, run, expected, where)
        self._opened = True
        return expected

    @functools.cached_property
    def _base(self) -> str:
        return git.get_commit(self._site.root, get_run(self._site.store, self._run).base).id

    def _plan(self, view: _GateView, running: Sequence[Check]) -> GateStep:
        gate = self._site.config.gate
        state = GateState(
            rows=drop_stale_verdicts(
                view.rows, lambda entries: self._jobs.check_id(entries, view.files)
            ),
            tip=view.tip,
            slots=self._pool.slots,
            running=tuple(check for check in running if check.purpose is not Purpose.TESTS),
        )
        return next_step.step_every_commit(state) if gate.every_commit else next_step.step(state)

    async def _follow(self, step: GateStep, view: _GateView) -> bool:
        """Do a step; return whether the rows have changed by that."""
        for check in step.cancel:
            await self._pool.cancel(check)
        for entry in step.pass_on:
            await run_sync(self._pass_on, entry, view)
        for rejection in step.reject:
            await run_sync(self._reject, rejection, view)
        for entry in step.stranded:
            await run_sync(self._strand, entry)
        if step.land:
            await run_sync(self._land, step.land, view)
        changed = bool(step.pass_on or step.reject or step.stranded or step.land)
        for check in step.start:
            if self._pool.is_full:
                break
            job = await run_sync(self._prepare, check, view)
            if job is None:
                changed = True
            elif not await self._pool.start(job):
                break
        return changed

    async def _start_tests(self, view: _GateView) -> None:
        """Start the checks of candidates with the new tests of their team's other candidates."""
        for tests in await run_sync(list_wanted_tests, self._site.store, self._run):
            check = Check(
                base=tests.base,
                combination=(tests.candidate, tests.author),
                purpose=Purpose.TESTS,
            )
            if self._pool.is_full:
                return
            if check not in self._pool.running:
                job = await run_sync(self._jobs.make_for_tests, check, tests, view.files)
                await self._pool.start(job)

    def _pass_on(self, id: str, view: _GateView) -> None:
        store, now = self._site.store, time.time()
        [entry] = view.entries((id,))
        first = self._jobs.get_task(entry.tasks[0])
        if entry.story is None and first.request.kind is TaskKind.ENTRANT:
            root = self._site.root
            commit, base = entry.work[-1]
            changes = git.compare_trees(root, base, commit)
            added = [
                change.path
                for change in changes
                if change.kind in (ChangeKind.ADDED, ChangeKind.RENAMED)
            ]
            accept_entrant(
                store,
                self._fence,
                self._run,
                id,
                tree=git.get_commit(root, commit).tree,
                lines=count_lines(root, base, commit),
                tests=tuple(filter(is_test_file, added)),
                now=now,
            )
            return
        pass_on(store, self._fence, self._run, id, now=now)

    def _reject(self, rejection: Rejection, view: _GateView) -> None:
        self._at("rejecting")
        if doubt := self._explain_doubt(rejection, view):
            doubt_base(self._site.store, self._fence, self._run, doubt, now=time.time())
            return
        self._send_back(rejection.combination, rejection.reason, self._explain(rejection, view))

    def _explain_doubt(self, rejection: Rejection, view: _GateView) -> str:
        """Return the reason to check the base before a rejection; "" if there is none."""
        failure = find_failure(rejection, view.rows, view.tip)
        if (
            rejection.reason is RejectionReason.CONFLICT
            or failure is None
            or is_base_proved(view.rows, failure)
        ):
            return ""
        failures = [
            verdict for verdict in view.rows.verdicts if not verdict.passed and verdict.tree
        ]
        failed = self._failed_check(rejection.entry, failure, view)
        return explain_doubt(
            failed,
            (
                self._failed_check(verdict.combination[-1], verdict, view)
                for verdict in failures
                if verdict.combination and verdict.combination[-1] != rejection.entry
            ),
        )

    def _failed_check(self, entry: str, failure: CheckVerdict, view: _GateView) -> FailedCheck:
        [its_entry] = view.entries((entry,))
        output = get_output(self._site.store, self._run, failure.number)
        return FailedCheck(
            entry=entry,
            files=tuple(f for task in its_entry.tasks for f in self._jobs.get_task(task).files),
            output=output,
            unable=check_run.is_set_up_failure(output),
        )

    def _strand(self, entry: str) -> None:
        self._send_back([entry], RejectionReason.CONFLICT, "The commit it was built on is missing.")

    def _send_back(self, combination: Sequence[str], kind: RejectionReason, reason: str) -> None:
        store = self._site.store
        reject(store, self._fence, self._run, combination, kind.value, reason, now=time.time())

    def _explain(self, rejection: Rejection, view: _GateView) -> str:
        """Return the text for the next attempt."""
        *before, _ = view.entries(rejection.combination)
        names = ", ".join(
            self._jobs.get_task(task).name for entry in before for task in entry.tasks
        )
        if rejection.reason is RejectionReason.CONFLICT:
            conflict = find_conflict(rejection, view.rows)
            after = f"after {names}" if names else "with what has landed since it was begun"
            return f"It does not merge {after}: {conflict.report if conflict else 'git says no.'}"
        failure = find_failure(rejection, view.rows, view.tip)
        output = get_output(self._site.store, self._run, failure.number) if failure else ""
        together = f" together with {names}, which came first, and pass without" if names else ""
        line = check_run.find_telling_line(output)
        return f"Its checks fail{together}{f': {line}' if line else '.'}\n{output}"

    def _land(self, combination: Combination, view: _GateView) -> None:
        entries = view.entries(combination)
        steps = self._jobs.combine(view.tip, entries)
        if isinstance(steps, EntryConflict) or not self._have_passed(steps, combination, view):
            raise WeftError(f"The tree of {', '.join(combination)} never passed; it cannot land.")
        chain = [
            (entry, self._jobs.commits_of(entry, its_steps))
            for entry, its_steps in zip(entries, steps, strict=True)
        ]
        try:
            trunk.land(
                self._site.store,
                self._site.root,
                self._objects,
                self._fence,
                self._run,
                tip=view.tip,
                chain=chain,
                revision=view.rows.revision,
                every_commit=self._site.config.gate.every_commit,
                at=self._at,
            )
        except StaleFence:
            raise
        except Refused as refused:  # an entry was just cancelled: the next turn lands the rest
            log.info("run %s: %s", self._run, refused)
        self._jobs.forget_merges()

    def _have_passed(self, steps: EntrySteps, combination: Combination, view: _GateView) -> bool:
        """Tell whether the tree to land passed, and with `every_commit` the tree of each commit."""
        whole = len(combination)
        lengths = range(1, whole + 1) if self._site.config.gate.every_commit else (whole,)
        return all(
            self._has_passed(steps[length - 1][-1].tree, combination[:length], view)
            for length in lengths
        )

    def _has_passed(self, tree: str, combination: Combination, view: _GateView) -> bool:
        """Tell whether exactly this tree passed the present check of these entries.

        In the verdict, entries that have landed since may stand before them.
        """
        return any(
            verdict.passed
            and verdict.tree == tree
            and verdict.combination[-len(combination) :] == combination
            and verdict.check_id
            == self._jobs.check_id(view.entries(verdict.combination), view.files)
            for verdict in view.rows.verdicts
        )

    def _prepare(self, check: Check, view: _GateView) -> CheckJob | None:
        """Return the check of a combination.

        Return None after recording a verdict that needs no run: a conflict, or a known pass.
        """
        job = self._jobs.make(check, view.entries(check.combination), view.files)
        self._at("merged")
        if isinstance(job, EntryConflict):
            self._record_conflict(check, job)
            return None
        output = find_pass(self._site.store, job.tree, job.check_id)
        if output is None:
            return job
        self._record(job, CheckResult(passed=True, seconds=0, output=output))
        return None

    def _record_conflict(self, check: Check, conflict: EntryConflict) -> None:
        report = describe(conflict.conflicts)
        if check.purpose in TRIALS:
            job = CheckJob(check=check, tree="", commands=(), check_id=MERGE, files="")
            self._record(job, CheckResult(passed=False, seconds=0, output=report))
            return
        row = MergeConflict(
            base=check.base,
            entry=conflict.entry.id,
            after=tuple(entry.id for entry in conflict.earlier),
            report=report,
        )
        record_conflict(self._site.store, self._fence, self._run, row, now=time.time())

    def _record_result(self, job: CheckJob, result: CheckResult, _fence: int) -> None:
        self._at("checked")
        if self._files.keeps(job.files):
            self._record(job, result)
            if job.check.purpose is Purpose.BASE:
                self._settle_base(result)
            elif job.check.purpose is Purpose.TESTS:
                pass  # a candidate that fails the tests of another is no doubt about the base
            elif not result.passed and check_run.is_set_up_failure(result.output):
                self._doubt_early(job)
        else:
            # The check may have seen the old or the new files, so its id would be a guess.
            log.info("run %s: copied files have changed, so a check is run again", self._run)

    def _doubt_early(self, job: CheckJob) -> None:
        """Check the base at the first sign of a missing program: a second try would not help."""
        rows = read_open(self._site.store, self._run)
        failure = next(v for v in reversed(rows.verdicts) if v.tree == job.tree)
        if not is_base_proved(rows, failure):
            doubt_base(self._site.store, self._fence, self._run, UNABLE, now=time.time())

    def _settle_base(self, result: CheckResult) -> None:
        store = self._site.store
        if result.passed:
            accept_base(store, self._fence, self._run)
        else:
            refuse_base(store, self._fence, self._run, result.output, now=time.time())

    def _record(self, job: CheckJob, result: CheckResult) -> None:
        store, verdict = self._site.store, make_verdict(job, result)
        record_verdict(store, self._fence, self._run, verdict, result.output, now=time.time())
