"""Named scenarios at the gate, each with a weakened build that the same check catches."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio
import pytest

from gate.gate_run import RUN, WORKER, Stage, drive, gate_site, make_project, marked_processes, task
from store_helpers import caught, snapshot, weaken
from wait_until import PATIENCE, wait_until
from weft.candidate_records import CheckVerdict
from weft.errors import Refused
from weft.gate.check_run import CheckResult, CheckRun, Command, end_orphaned_check
from weft.process import agent_process as process
from weft.process.agent_process import Spawn
from weft.process.box import Box
from weft.process.process_identity import boottime
from weft.project.site import Site
from weft.store import Store
from weft.store.gate import block_gate, complete, intend, record_verdict, reject, see_entries
from weft.store.leases import take
from weft.workspace import Workspace


@pytest.fixture
def fresh(home: Path) -> Callable[[Store], Stage]:
    """A new repository for each time a scenario is played."""
    numbers = itertools.count()
    return lambda store: Stage(store, make_project(home / f"project{next(numbers)}"))


def test_stale_gate_holder(stage: Stage, fresh: Callable[[Store], Stage]) -> None:
    """Whoever was taken over from changes nothing, whatever it was about to do.

    Weakened: not the lease it had is looked at, but the newest of that gate.
    """
    newest = "fence = :fence OR kind = 'gate' ORDER BY fence DESC LIMIT 1"

    def play(store: Store) -> None:
        scene = fresh(store)
        scene.submit([task("a"), task("b")])
        made = scene.bring("a", {"src/a": "a = 2\n"})
        gate = {f"gate:{RUN}": 1}
        stale = take(store, "gate", RUN, gate, worker=WORKER, now=0)
        assert stale is not None
        verdict = CheckVerdict(
            base=scene.base,
            combination=("1.1",),
            purpose="search",
            tree="t",
            check_id="c",
            commands=(),
            passed=True,
            seconds=1,
        )
        landing: dict[str, Any] = {"old": scene.base, "new": made, "tree": "t", "commits": [made]}
        landing |= {"entries": ["1.1"], "every_commit": False, "revision": 1}
        verbs: Sequence[Callable[[], object]] = (
            lambda: see_entries(store, stale, RUN, scene.base),
            lambda: record_verdict(store, stale, RUN, verdict, "", now=9),
            lambda: reject(store, stale, RUN, ["1.1"], "red", "", now=9),
            lambda: intend(store, stale, RUN, now=9, **landing),
            lambda: complete(store, stale, RUN, 1, now=9),
            lambda: block_gate(store, stale, RUN, "no", now=9),
        )
        later = 1 + store.tuning.lease
        holder = take(store, "gate", RUN, gate, worker=WORKER, now=later)
        assert holder is not None, "its deadline has passed"
        before = snapshot(store.url)
        for verb in verbs:
            with suppress(Refused):
                verb()
            assert snapshot(store.url) == before

    caught(
        stage.store,
        play,
        lambda store: weaken(store, "lease", ("fence = :fence", newest)),
    )


def test_second_landing(stage: Stage, fresh: Callable[[Store], Stage]) -> None:
    """What has landed lands no second time.

    Weakened: it is not written down that it asks no more.
    """

    def play(store: Store) -> None:
        scene = fresh(store)
        scene.submit([task("a"), task("b")])
        for name in "ab":
            scene.bring(name, {f"src/{name}": f"{name} = 2\n"})
            drive(scene, lambda name=name: scene.are(**{name: "done"}), run=None)  # type: ignore[misc]  # bound now
        assert scene.log() == ["Change a", "Change b"]
        scene.judge()

    caught(
        stage.store,
        play,
        lambda store: weaken(store, "set_entry_state", ("state = :state", "state = 'queued'")),
    )


def test_landing_that_is_not_rolled_forward(stage: Stage, fresh: Callable[[Store], Stage]) -> None:
    """A landing cut short between ref and rows is completed by the next holder.

    Weakened: the next one does not look for what was begun.
    """

    def play(store: Store) -> None:
        scene = fresh(store)
        scene.submit([task("a")])
        scene.bring("a", {"src/a": "a = 2\n"})

        class Crash(BaseException):
            pass

        def crash(point: str) -> None:
            if point == "moved":
                raise Crash

        with pytest.raises((BaseExceptionGroup, Crash)) as raised:
            drive(scene, lambda: False, run=None, at=crash, seconds=30)
        assert _only(raised.value, Crash), raised.value
        drive(scene, lambda: scene.are(a="done"), run=None)
        scene.judge()

    caught(
        stage.store,
        play,
        lambda store: weaken(store, "landings_from", ("WHERE", "WHERE state = 'landed' AND")),
    )


def _only(raised: BaseException, kind: type[BaseException]) -> bool:
    """Tell whether `raised` is of `kind`, or a group that holds nothing else."""
    if isinstance(raised, BaseExceptionGroup):
        return all(_only(inner, kind) for inner in raised.exceptions)
    return isinstance(raised, kind)


class Hasty(CheckRun):
    """A check that is left without waiting for its processes."""

    async def run_command(
        self,
        place: Workspace,
        command: Command,
        seconds: float,
        variables: Mapping[str, str] = MappingProxyType({}),
        box: Box | None = None,
    ) -> CheckResult:
        spawn = Spawn(
            argv=command,
            environment={"PATH": "/bin:/usr/bin"},
            cwd=place.path,
            directory=self.directory / "1",
            marker=self.site.check_marker(self._fence),
        )
        renewed = boottime() + PATIENCE  # no watchdog ends the check before the test has seen it
        await process.start(spawn, self.site.launcher, renewed=renewed).wait_ended()
        return CheckResult(passed=True, seconds=seconds, output="")


def test_abort_settles_pool_early(stage: Stage, home: Path) -> None:
    """A check that is cancelled has not ended before the last of its processes has.

    Weakened: cancelled, it is left at once.
    """
    stage.submit([])
    stubborn = f"trap '' TERM; echo $$ > {home}/alive; while :; do sleep 0.05; done"
    tree = f"{stage.base}^{{tree}}"

    async def play(kind: type[CheckRun], site: Site, fence: int) -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                check = kind(site, fence, RUN)
                group.start_soon(check.check, tree, stage.base, [("sh", "-c", stubborn)])
                while not (home / "alive").exists():
                    await anyio.sleep(0.02)
                scope.cancel()
        (home / "alive").unlink()

    with gate_site(stage) as site:
        anyio.run(play, CheckRun, site, 1001)
        assert marked_processes(stage.store) == []
        anyio.run(play, Hasty, site, 1002)
        assert marked_processes(stage.store) != []
        wait_until(lambda: end_orphaned_check(site, RUN, 1002))
        assert marked_processes(stage.store) == []


def test_a_check_that_another_worker_buries_meanwhile_is_no_error(stage: Stage) -> None:
    with gate_site(stage) as site, ThreadPoolExecutor(1) as other:
        directory = site.check_directory(2000)
        over = threading.Event()

        def remove() -> None:
            while not over.is_set():
                shutil.rmtree(directory, ignore_errors=True)

        removing = other.submit(remove)
        try:
            for _ in range(15):
                with suppress(FileNotFoundError):
                    (directory / "1").mkdir(parents=True, exist_ok=True)
                end_orphaned_check(site, RUN, 2000)
        finally:
            over.set()
        removing.result()
        assert end_orphaned_check(site, RUN, 2000) is not None
