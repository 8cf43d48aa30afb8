"""The checks of one holder: none is answered for while it lives, each is answered for itself.

That candidates land in the order of their arrival, whichever check ends first, follows from
the verdicts alone and is proved of the policy in `test_batches`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest
from anyio.to_thread import run_sync
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from gate.gate_run import RUN, WORKER, Stage, gate_site, marked_processes
from gate.test_gate_scenarios import Hasty
from wait_until import PATIENCE, wait_until
from weft.gate.check_jobs import CheckJob
from weft.gate.check_pool import CheckPool, RunningCheck
from weft.gate.check_run import CheckResult, end_orphaned_check
from weft.gate.policy.gate_records import Check
from weft.model import NewWorker
from weft.process import process_table
from weft.project.held_leases import HeldLeases
from weft.project.site import Site
from weft.store.leases import list_open, release, suspect_overdue, take
from weft.store.workers import depart, register

SLOTS = 4


class Wish(Struct, frozen=True):
    """How a check is to behave."""

    pause: float  # how long it takes, in seconds
    code: int
    child: str = ""  # what it leaves behind


class End(Struct, frozen=True):
    """How the pool comes to its end: by itself, one cancelled, cancelled, or by an error."""

    how: str
    early: bool = False  # before a command is known to have begun


class Answer(Struct, frozen=True):
    job: CheckJob
    result: CheckResult
    alive: list[int]  # processes of that check when it was answered for


class Trouble(Exception):
    pass


class NotedLeases(HeldLeases):
    """Leases that are remembered after their end."""

    def __init__(self, site: Site, fences: list[int]) -> None:
        super().__init__(site)
        self._fences = fences

    def hold(
        self,
        fence: int,
        *,
        lost: Callable[[], None],
        renewed: Callable[[float], None] = lambda sent: None,
    ) -> None:
        self._fences.append(fence)
        super().hold(fence, lost=lost, renewed=renewed)


CHILDREN = ("", "sleep 600 & ", "(trap '' TERM; exec sleep 600) & ")
wishes = st.lists(
    st.builds(Wish, st.sampled_from([0, 0.1, 0.3]), st.integers(0, 2), st.sampled_from(CHILDREN)),
    min_size=1,
    max_size=SLOTS,
)
APART = [Wish(1, 0), Wish(0, 1)]  # the later one ends first, and otherwise
WAIT, LEAVE = End("wait"), End("leave")
ends = st.builds(End, st.sampled_from(["wait", "cancel", "leave", "break"]), st.booleans())


class PoolProject:
    """Where pools are tried, one after the other."""

    def __init__(self, stage: Stage, site: Site, home: Path) -> None:
        self._base = stage.base
        self.store = stage.store
        self.site = site
        self._home = home
        self._numbers = itertools.count()
        self.fences: list[int] = []  # of every check that was started

    def job(self, wish: Wish) -> CheckJob:
        name = f"c{next(self._numbers)}"
        begin = f"{wish.child}echo {name}; touch {self._home / name}"
        command = ("sh", "-c", f"{begin}; sleep {wish.pause}; exit {wish.code}")
        check = Check(base=self._base, combination=(name,))
        return CheckJob(
            check=check, tree=f"{self._base}^{{tree}}", commands=(command,), check_id="", files=""
        )

    def has_begun(self, job: CheckJob) -> bool:
        return (self._home / job.check.combination[0]).exists()

    def living(self, fence: int) -> list[int]:
        marker = self.site.check_marker(fence)
        pids = [seen.process.pid for seen in process_table.list_living()]
        return [pid for pid in pids if process_table.find_mark(pid) == marker]

    async def play(self, kind: type[CheckPool], jobs: list[CheckJob], end: End) -> list[Answer]:
        answers: list[Answer] = []
        failed: list[Exception] = []

        def record(job: CheckJob, result: CheckResult, fence: int) -> None:
            answers.append(Answer(job, result, self.living(fence)))

        with anyio.CancelScope() as scope:
            try:
                async with anyio.create_task_group() as group:
                    leases = NotedLeases(self.site, self.fences)
                    calls = {"record": record, "fail": failed.append, "ring": lambda: None}
                    pool = kind(self.site, WORKER, RUN, group, leases, **calls)  # type: ignore[arg-type]  # as named
                    for job in jobs:
                        assert await pool.start(job)
                    await self._end(pool, jobs, end, scope)
            except* Trouble:
                assert end.how == "break"
        assert failed == []
        return answers

    async def _end(
        self, pool: CheckPool, jobs: list[CheckJob], end: End, scope: anyio.CancelScope
    ) -> None:
        order = [job.check for job in jobs]
        with anyio.fail_after(PATIENCE):
            while not end.early and not all(map(self.has_begun, jobs)):
                assert list(pool.running) == [one for one in order if one in pool.running]
                await anyio.sleep(0.02)
        if end.how == "cancel":
            await pool.cancel(order[0])
        elif end.how == "leave":
            scope.cancel()
        elif end.how == "break":
            raise Trouble

    def judge(self, kind: type[CheckPool], wished: list[Wish], end: End) -> None:
        """27: all that a pool started has ended with it, and every answer is the right one."""
        jobs = [self.job(wish) for wish in wished]
        answers = anyio.run(self.play, kind, jobs, end)
        assert marked_processes(self.store) == []
        assert [one for one in list_open(self.store) if one.kind == "check"] == []
        assert [one.alive for one in answers] == [[]] * len(answers)
        results = {answer.job.check: answer.result for answer in answers}
        assert len(results) == len(answers), "a check was answered twice"
        for job, wish in zip(jobs, wished, strict=True):
            if job.check in results:
                result = results[job.check]
                assert result.passed == (wish.code == 0)
                assert result.output.splitlines()[0] == job.check.combination[0]
            else:
                assert end.how != "wait"
                assert end.how != "cancel" or job is jobs[0]


@pytest.fixture
def project(stage: Stage, home: Path) -> Iterator[PoolProject]:
    stage.submit([])
    with gate_site(stage, slots=SLOTS) as site:
        yield PoolProject(stage, site, home)


def test_a_pool_ends_with_the_last_of_its_checks_and_answers_each_for_itself(
    project: PoolProject,
) -> None:
    @settings(max_examples=8, phases=[Phase.explicit, Phase.reuse, Phase.generate])
    @given(wishes, ends)
    @example(APART, WAIT)
    @example(APART, LEAVE)
    def play(wished: list[Wish], end: End) -> None:
        project.judge(CheckPool, wished, end)

    play()


@pytest.mark.parametrize("hangs", [False, True], ids=["left", "hangs"])
def test_checks_of_a_worker_that_left_take_slots_until_they_have_ended(
    stage: Stage, home: Path, *, hangs: bool
) -> None:
    """They are being ended, and whoever ends them rings. Those of a worker that hangs may stay
    for ever, and keep nobody from checking. Weakened, either is counted like the other."""
    stage.submit([])
    register(stage.store, NewWorker(id="other", slots=1, host="h"), now=0, stated={})
    now = time.time()
    fence = take(stage.store, "check", RUN, {"requests": 1}, worker="other", now=now)
    assert fence is not None
    if hangs:
        suspect_overdue(stage.store, now=now + stage.store.tuning.lease + 1)
    else:
        depart(stage.store, "other", now=now)

    async def try_to_start(site: Site) -> bool:
        async with anyio.create_task_group() as group:
            calls = {"record": lambda job, result, fence: None, "fail": print, "ring": lambda: None}
            pool = CheckPool(site, WORKER, RUN, group, HeldLeases(site), **calls)  # type: ignore[arg-type]  # as named
            return await pool.start(PoolProject(stage, site, home).job(Wish(0, 0)))
        raise AssertionError("a task group is left by its end only")

    with gate_site(stage, slots=1) as site:
        assert anyio.run(try_to_start, site) is hangs
        release(stage.store, fence, now=now, reason="ended")
        assert anyio.run(try_to_start, site)


class Early(CheckPool):
    """A pool that leaves a cancelled check to itself."""

    async def _complete(self, job: CheckJob, running: RunningCheck) -> None:
        check = Hasty(self._site, running.fence, self._run)
        await super()._complete(job, replace(running, run=check))


class ByEnding(CheckPool):
    """A pool that takes the first result for that of the first check."""

    async def start(self, job: CheckJob) -> bool:
        vars(self).setdefault("jobs", []).append(job)
        return await super().start(job)

    async def _complete(self, job: CheckJob, running: RunningCheck) -> None:
        result = await running.run.check(job.tree, job.check.base, job.commands)
        await run_sync(self._record, vars(self)["jobs"].pop(0), result, running.fence)
        await self._leases.release(running.fence)
        del self._checks[job.check]


class Twofaced(CheckPool):
    """A pool that answers when the first command has, and not when its processes have ended."""

    async def _complete(self, job: CheckJob, running: RunningCheck) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(super()._complete, job, running)
            result = CheckResult(passed=True, seconds=1, output=job.check.combination[0])
            while (
                job.check in self._checks and not self._site.check_directory(running.fence).exists()
            ):
                await anyio.sleep(0.02)
            await run_sync(self._record, job, result, running.fence)


@pytest.mark.parametrize(("kind", "end"), [(Early, LEAVE), (ByEnding, WAIT), (Twofaced, WAIT)])
def test_a_weakened_pool_is_caught(project: PoolProject, kind: type[CheckPool], end: End) -> None:
    with pytest.raises(AssertionError):
        project.judge(kind, APART, end)
    for fence in project.fences:
        wait_until(lambda: end_orphaned_check(project.site, RUN, fence))  # noqa: B023 - at once
