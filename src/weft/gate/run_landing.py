"""The operation behind `weft land`: choose a run and a branch, check the merge, move the branch.

The check of a run that was merged onto a branch is the gate's command and the tasks' own, on
exactly the merged tree.
"""

from __future__ import annotations

import contextlib
import shlex
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import anyio
from msgspec import Struct
from msgspec.structs import asdict, replace

from weft import git
from weft.attempt.outcome import is_settings
from weft.candidate_records import BranchLanding
from weft.config import Config
from weft.errors import InputError, Refused, WeftError
from weft.gate.branch_landing import (
    BranchMoved,
    Move,
    MoveKind,
    carry_out,
    choose_move,
    drop_kept,
    is_landed_work,
    keep_move,
    record_taken,
    require_movable,
    roll_forward_branch,
)
from weft.gate.check_jobs import CheckJob, make_verdict
from weft.gate.check_pool import CheckPool
from weft.gate.check_run import CheckResult, check_id, commands_of, environment
from weft.gate.policy.gate_records import Check, Purpose
from weft.gate.trunk import CrashPoint
from weft.git import gc_lock
from weft.git.object_store import ObjectStore, open_object_store
from weft.model import Run
from weft.project.held_leases import HeldLeases
from weft.project.own_repository import get_repository
from weft.project.project import Project
from weft.project.site import Site
from weft.runs.task_names import get_named_run
from weft.store import Store
from weft.store.branch_landings import list_landed_branches, list_open_branch_landings
from weft.store.gate import find_landed, find_pass, record_branch_verdict
from weft.store.runs import get_settings, list_runs
from weft.store.server_operations import hosted
from weft.store.tasks import list_run
from weft.workspace import SetupFiles
from weft.workspace.locks import Lock, land_lock
from weft.workspace.names import OLD_BRANCHES, TRUNKS
from weft.workspace.worktree import find_checkout

_TRIES = 3  # to land on a branch that other programs move meanwhile

Checker = Callable[[Move, CheckJob], CheckResult]
"""Runs the check of a merged run; returns its result."""
_PAUSE = 1.0  # seconds before a check asks for room again


class LandOutcome(Move, frozen=True, kw_only=True):
    """The end of `weft land` for a run: a landing, or the trouble that kept the branch in place."""

    checkout: str | None = None  # the working tree that followed
    undo: str = ""  # the command that takes it back
    settings: tuple[str, ...] = ()  # weft.toml and files below .weft that the move changed
    checked: bool = True  # False: no check is configured
    output: str = ""  # of the check that failed

    @property
    def landed(self) -> bool:
        return not self.conflicts and not self.output


class LandContext(Struct, frozen=True, kw_only=True):
    """The parts that the steps of `weft land` share."""

    project: Project
    store: Store
    check: Checker
    lock: Lock
    at: CrashPoint

    @property
    def root(self) -> Path:
        return self.project.root

    @property
    def holds(self) -> Sequence[int]:
        return (self.lock.fileno(),)


@contextlib.contextmanager
def hold_land_lock(root: Path, waiting: Callable[[], None]) -> Iterator[Lock]:
    """Let one `weft land` at a time work on a repository; call `waiting` before a wait.

    A git that a killed weft has left moving files holds the lock until it has ended.
    """
    lock = land_lock(git.common_directory(root))
    try:
        if not lock.attempt():
            waiting()
            lock.wait()
        yield lock
    finally:
        lock.close()


def complete_interrupted(context: LandContext) -> list[BranchLanding]:
    """Complete the moves that an interrupted `weft land` left; return them."""
    repo = get_repository(context.root, context.store)
    completed = []
    for left in list_open_branch_landings(context.store, repo):
        with contextlib.suppress(BranchMoved):  # withdrawn: the branch went elsewhere
            roll_forward_branch(
                context.store, context.root, left, holds=context.holds, at=context.at
            )
            completed.append(left)
    return completed


def land_run(context: LandContext, run: Run, branch: str) -> LandOutcome:
    """Land a run on a branch; try again if another program moves the branch meanwhile."""
    common = git.common_directory(context.root)
    gc_lock.guard(common)
    try:
        with open_object_store(context.root) as objects:

            def land() -> LandOutcome:
                return git.outlast_gc(lambda: _try_to_land(context, objects, run, branch))

            for _ in range(_TRIES - 1):
                with contextlib.suppress(BranchMoved):
                    return land()
            return land()
    finally:
        gc_lock.release(common)


def _try_to_land(context: LandContext, objects: ObjectStore, run: Run, branch: str) -> LandOutcome:
    move = choose_move(context.store, context.root, objects, run, branch)
    outcome = LandOutcome(**asdict(move), checked=run.check is not None)
    if move.conflicts:
        return outcome
    if move.kind is MoveKind.NONE:
        drop_kept(context.root, run.id)
        record_taken(context.store, move)
        return outcome
    require_movable(context.store, context.root, move)
    keep_move(context.root, move)
    context.at("built")
    if move.needs_check and (output := _check(context, move)):
        drop_kept(context.root, run.id)
        return replace(outcome, output=output)
    context.at("checked")
    done = carry_out(context.store, context.root, move, holds=context.holds, at=context.at)
    undo = _undo_command(context.root, move)
    changes = git.compare_trees(context.root, move.old, move.new)
    settings = tuple(sorted({path for change in changes for path in change.paths}))
    return replace(
        outcome,
        checkout=done.checkout or None,
        undo=undo,
        settings=tuple(filter(is_settings, settings)),
    )


def _check(context: LandContext, move: Move) -> str:
    """Return the output of the check of a merged run if it failed, else nothing."""
    config = _config(context, move.run)
    job = make_branch_job(context.store, context.root, config, context.project.environment, move)
    result = find_known_result(context.store, job) or context.check(move, job)
    return "" if result.passed else result.output or "The check printed nothing."


def _config(context: LandContext, run: str) -> Config:
    return context.project.config.with_run(get_settings(context.store, run))


def _undo_command(root: Path, move: Move) -> str:
    """Return the command that takes a move back, as long as the branch has not moved on."""
    parents = git.get_commit(root, move.new).parents
    if len(parents) > 1 and move.old in parents:
        return f"git revert -m {parents.index(move.old) + 1} {move.new[:12]}"
    return f"git revert --no-edit {move.old[:12]}..{move.new[:12]}"


def choose_run(store: Store, name: str | None) -> Run:
    """Return the named run, or the newest run that has ended and landed work."""
    if name is None:
        ended = (run for run in list_runs(store) if run.state == "ended")
        newest = next((run for run in ended if find_landed(store, run.id)), None)
        if newest is None:
            raise InputError("No run has ended with landed work yet; `weft ps` shows the runs.")
        return newest
    run = get_named_run(store, name)
    if run.state != "ended":
        raise Refused(f"Run {run.id} has not ended; `weft run --resume {run.id}` goes on with it.")
    return run


def list_unlanded(store: Store) -> list[str]:
    """List the ended runs whose landed work is on no branch of the user, newest first."""
    return [
        run.id
        for run in list_runs(store)
        if run.state == "ended"
        and find_landed(store, run.id)
        and not list_landed_branches(store, run.id)
    ]


def choose_branch(root: Path, run: Run, onto: str | None) -> str:
    """Return the branch to land on: the named branch, or the branch that the run started from."""
    branch = onto or run.branch
    if not branch:
        raise InputError(
            f"Run {run.id} started from commit {run.base[:12]}, not from a branch; name the "
            f"branch: `weft land {run.id} --onto BRANCH`."
        )
    if not git.is_branch_name(root, branch):
        raise InputError(f"--onto {branch}: no branch can be called that.")
    if f"refs/heads/{branch}".startswith((TRUNKS, OLD_BRANCHES)):
        raise InputError(f"--onto {branch}: branches that begin so are weft's own.")
    if target := git.find_symbolic_target(root, f"refs/heads/{branch}"):
        name = target.removeprefix("refs/heads/")
        raise InputError(
            f"{branch} is another name for {name}; land there: "
            f"`weft land {run.id} --onto {shlex.quote(name)}`."
        )
    return branch


@hosted("write")
def land_at_home(project: Project, run: str | None, onto: str | None) -> LandOutcome:
    """Land a run on a branch that no checkout has, for a caller on another machine.

    Raise `Refused` for a checked-out branch, whose files belong to a person at this machine, and
    for a merged tree that no check has passed yet.
    """
    with project.open_store() as store, hold_land_lock(project.root, _refuse_wait) as lock:
        chosen = choose_run(store, run)
        branch = choose_branch(project.root, chosen, onto)
        if checkout := find_checkout(project.root, f"refs/heads/{branch}"):
            raise Refused(
                f"{branch} is checked out in {checkout} on the server's machine; land there: "
                f"`weft -C {checkout} land {chosen.id}`."
            )
        context = LandContext(
            project=project, store=store, check=_refuse_check, lock=lock, at=lambda point: None
        )
        return land_run(context, chosen, branch)


def _refuse_wait() -> None:
    raise Refused("Another `weft land` is at work in this repository; try again later.")


def _refuse_check(move: Move, job: CheckJob) -> CheckResult:
    raise Refused(
        f"{move.branch} has moved since run {move.run} began, and the merged tree has to be "
        f"checked first: `weft land {move.run}` on the server's machine does that."
    )


def make_branch_job(
    store: Store, root: Path, config: Config, own: Mapping[str, str], move: Move
) -> CheckJob:
    """Return the check of a move; `config` has the settings of its run, `own` is the user's
    environment."""
    tasks = [task for task in list_run(store, move.run) if is_landed_work(task)]
    commands = commands_of(config.gate.run, tasks)
    files = SetupFiles(root, config.workspace).name()
    return CheckJob(
        check=Check(base=move.old, combination=(), purpose=Purpose.BRANCH),
        tree=move.tree,
        commands=commands,
        check_id=check_id(commands, config, environment(config, own), files),
        files=files,
    )


def find_known_result(store: Store, job: CheckJob) -> CheckResult | None:
    """Return the result of the same check on the same tree, if it passed before."""
    output = find_pass(store, job.tree, job.check_id)
    return None if output is None else CheckResult(passed=True, seconds=0, output=output)


class BranchCheck:
    """A check of a merged run under way; `site` has the settings of the run."""

    def __init__(self, site: Site, run: str, job: CheckJob) -> None:
        self._site = site
        self._run = run
        self._job = job
        self._result: CheckResult | None = None
        self._error: Exception | None = None

    async def run(self, worker: str) -> CheckResult:
        """Run the check under a lease of this worker, and record the verdict."""
        ended = anyio.Event()
        leases = HeldLeases(self._site)
        async with anyio.create_task_group() as group:
            pool = CheckPool(
                self._site,
                worker,
                self._run,
                group,
                leases,
                record=self._record,
                fail=self._fail,
                ring=ended.set,
            )
            while not await pool.start(self._job):
                await anyio.sleep(_PAUSE)
            group.start_soon(leases.keep_renewed)
            await ended.wait()
            group.cancel_scope.cancel()
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise WeftError("The check was cut short and has no verdict; `weft land` repeats it.")
        return self._result

    def _fail(self, error: Exception) -> None:
        self._error = error

    def _record(self, job: CheckJob, result: CheckResult, fence: int) -> None:
        verdict = make_verdict(job, result)
        if not SetupFiles(self._site.root, self._site.config.workspace).keeps(job.files):
            # The check may have seen the old or the new files: its verdict serves this move alone.
            verdict = replace(verdict, check_id=uuid.uuid4().hex)
        record_branch_verdict(
            self._site.store, fence, self._run, verdict, result.output, now=time.time()
        )
        self._result = result
