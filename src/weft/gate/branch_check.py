"""The check of a run that was merged onto a branch: the gate's command and the tasks' own, on
exactly the merged tree."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from pathlib import Path

import anyio
from msgspec.structs import replace

from weft.config import Config
from weft.errors import WeftError
from weft.gate.branch_landing import Move, is_landed_work
from weft.gate.check_pool import CheckJob, CheckPool, make_verdict
from weft.gate.check_run import CheckResult, check_id, commands_of, environment
from weft.gate.policy.gate_records import Check, Purpose
from weft.project.held_leases import HeldLeases
from weft.project.site import Site
from weft.store import Store
from weft.store.gate import find_pass, record_branch_verdict
from weft.store.tasks import list_run
from weft.workspace import SetupFiles

_PAUSE = 1.0  # seconds before a check asks for room again


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
