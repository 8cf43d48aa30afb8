"""The scheduler: slots, limits, cancelling, files that change, and attempts that break."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync

from attempt.attempt_project import AttemptProject, either, project, url
from databases import change, look
from wait_until import PATIENCE, wait_until
from weft.model import Grant, NewTask, State
from weft.process.process_identity import get_place
from weft.project.own_repository import get_repository
from weft.store.admission import admit
from weft.store.leases import list_open
from weft.store.limit_table import list_limits
from weft.store.tasks import cancel, submit
from weft.worker.engine import serving
from weft.worker.heartbeat import Presence
from weft.worker.scheduler import Scheduler

__all__ = ["either", "project", "url"]


def test_slots_are_filled_and_never_exceeded(project: AttemptProject) -> None:
    tasks = [project.submit("sleep 0.2", f"write f{n} x", files=[f"f{n}"]) for n in range(5)]
    most = 0

    def count(scheduler: Scheduler) -> None:
        nonlocal most
        most = max(most, scheduler.busy, len(set(project.marked().values())))

    project.serve(slots=3, during=count)
    assert most == 3
    assert {project.state(task) for task in tasks} == {State.DONE}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount something")
def test_tasks_that_cannot_start_for_a_fault_of_the_place_start_once_it_has_passed(
    project: AttemptProject, caplog: pytest.LogCaptureFixture
) -> None:
    project.submit("write a x")
    project.serve()  # makes the place
    place = str(project.root / ".git" / "weft")
    for how in (["--bind", place, place], ["-o", "remount,bind,ro", place]):
        subprocess.run(["mount", *how], check=True)
    tasks = [project.submit(f"write f{n} x", files=[f"f{n}"]) for n in range(3)]
    mend = ["umount", "--lazy", place]
    mended = False

    def look_and_mend(_: Scheduler) -> None:
        nonlocal mended
        if not mended and any(len(project.attempts(task)) > 2 for task in tasks):
            mended = subprocess.call(mend) == 0

    try:
        project.serve(during=look_and_mend)
    finally:
        if not mended:
            subprocess.run(mend, check=True)
    assert {project.state(task) for task in tasks} == {State.DONE}
    assert caplog.text.count("trying again") == 1
    assert "Traceback" not in caplog.text


def test_a_cancelled_task_ends_with_its_whole_family(either: AttemptProject) -> None:
    task = either.submit(
        "grandchild 600 deaf closed", "grandchild 600 deaf", "ignore TERM", "say ready", "hang"
    )
    other = either.submit("sleep 1", "write dir/b new", files=["dir/b"])
    cancelled = 0.0

    def until() -> bool:
        nonlocal cancelled
        if not cancelled and either.said(task) == ["ready"]:
            cancel(either.store, task, now=time.time())
            cancelled = time.monotonic()
        return bool(cancelled) and not [one for one in list_open(either.store) if one.task == task]

    either.serve(lambda: until() and either.is_settled())
    assert either.state(task) is State.CANCELLED
    assert either.state(other) is State.DONE
    assert either.outcomes(task) == ["cancelled"]
    either.assert_nothing_left()


def test_a_task_that_is_cancelled_while_it_is_set_up_never_runs(project: AttemptProject) -> None:
    project.tune('[workspace]\nsetup = "exec sleep 600"\n')
    task = project.submit("write a new")

    def until() -> bool:
        if project.marked():
            cancel(project.store, task, now=time.time())
        return project.state(task) is State.CANCELLED and not list_open(project.store)

    project.serve(until)
    assert not project.directory(task).joinpath("stdout").exists()
    project.assert_nothing_left()


def test_a_barrier_that_is_cancelled_as_it_is_passed_ends_alone(project: AttemptProject) -> None:
    """Weakened, the refusal left the task group, and the engine with all it ran."""
    barrier = submit(
        project.store,
        NewTask(name="barrier", demand={"worker:@": 1}),
        repo=get_repository(project.root, project.store),
        now=time.time(),
    )
    other = project.submit("write a new", files=["a"])

    def take(worker: str) -> Sequence[Grant]:
        grants = admit(project.store, worker, now=time.time())
        if barrier in {one.task for one in grants}:
            cancel(project.store, barrier, now=time.time())
        return grants

    async def main() -> None:
        with project.site() as site:
            async with serving(site, slots=2, take=take):
                with anyio.fail_after(PATIENCE):
                    while not project.is_settled():
                        await anyio.sleep(0.02)

    anyio.run(main)
    assert (project.state(barrier), project.state(other)) == (State.CANCELLED, State.DONE)
    project.assert_nothing_left()


def test_work_that_is_granted_while_a_worker_leaves_is_handed_back(project: AttemptProject) -> None:
    """Weakened, whoever left did not wait for the answer, and the lease was nobody's."""
    task = project.submit("write a new", files=["a"])
    asked, go = threading.Event(), threading.Event()

    def take(worker: str) -> Sequence[Grant]:
        asked.set()
        assert go.wait(PATIENCE)
        return admit(project.store, worker, now=time.time())

    async def main() -> None:
        with project.site() as site:
            async with serving(site, slots=1, take=take):
                await run_sync(asked.wait)
                threading.Timer(0.3, go.set).start()

    anyio.run(main)
    assert project.state(task) is State.READY
    project.assert_nothing_left()


def test_an_edited_agent_file_changes_prompt_and_limit(project: AttemptProject) -> None:
    project.agent(front="max_concurrency: 1\n")
    first = project.submit("say one", "sleep 0.3", "write a x", files=["a"])

    def limit() -> int | None:
        found = {one.resource: one.capacity for one in list_limits(project.store, now=time.time())}
        return found.get("agent:scripted")

    seen: list[int | None] = []

    def edit(_: Scheduler) -> None:
        if project.said(first) == ["one"] and not seen:
            seen.append(limit())
            project.agent(front="max_concurrency: 2\n")
            place = project.root / ".weft/agents/scripted.md"
            place.write_text(place.read_text() + "\nscript: say edited\n")
            project.submit("write dir/b x", files=["dir/b"])

    project.serve(lambda: bool(seen) and project.is_settled(), during=edit)
    assert seen == [1]
    assert limit() == 2
    assert project.said(2) == ["edited"]


def test_a_program_that_is_installed_later_is_noticed(project: AttemptProject) -> None:
    project.agent("late", runs="[./late]")
    with project.site() as site:
        presence = Presence(site, 1, get_place())
        presence.register()
        assert worker_agents(project)["late"]["able"] is False
        (project.root / "late").write_text("#!/bin/sh\n")
        (project.root / "late").chmod(0o755)
        presence.reload()
    assert worker_agents(project)["late"]["able"] is True


def worker_agents(project: AttemptProject) -> Any:
    [row] = look(project.url, "SELECT agents FROM workers")
    return json.loads(row["agents"])


def test_an_attempt_that_cannot_be_started_ends_alone(project: AttemptProject) -> None:
    broken = project.submit("write a x", files=["a"])
    project.directory(broken).mkdir(parents=True)
    fine = project.submit("write dir/b x", files=["dir/b"])
    project.serve()
    assert project.state(broken) is State.BLOCKED
    assert project.state(fine) is State.DONE
    project.assert_nothing_left()


def test_an_attempt_that_cannot_be_followed_ends_alone(project: AttemptProject) -> None:
    broken = project.submit("say ready", "hang", files=["a"])
    fine = project.submit("sleep 0.5", "say on", "write dir/b x", files=["dir/b"])

    def wreck(_: Scheduler) -> None:
        path = project.directory(broken) / "stdout"
        if project.said(broken) and path.is_file():
            path.rename(path.with_name("moved"))
            path.symlink_to(path.name)  # leads to itself: nobody can look at it

    project.serve(during=wreck)
    assert project.state(broken) is State.BLOCKED
    assert "could not follow" in project.task(broken).reason
    assert project.state(fine) is State.DONE
    project.assert_nothing_left()


def test_what_agents_say_is_in_the_store_while_they_run(project: AttemptProject) -> None:
    task = project.submit("say one", "say two", "hang")
    seen: list[list[str]] = []

    def until() -> bool:
        seen.append(project.said(task))
        return seen[-1] == ["one", "two"]

    project.serve(until)
    assert project.state(task) is State.READY
    assert look(project.url, "SELECT * FROM failures") == []


def test_a_worker_that_was_taken_for_dead_registers_anew(project: AttemptProject) -> None:
    from weft.store.workers import depart, list_workers

    departed: list[str] = []

    def declare_dead(scheduler: Scheduler) -> None:
        if not departed:
            departed.append(scheduler.worker)
            depart(project.store, scheduler.worker, now=time.time())
            project.submit("write a new")

    project.serve(lambda: bool(departed) and project.state(1) is State.DONE, during=declare_dead)
    assert list_workers(project.store, now=time.time()) == []
    wait_until(lambda: project.outcomes(1) == ["success"])


def test_a_lease_that_a_restored_store_has_forgotten_ends_with_one_sentence(
    project: AttemptProject, caplog: pytest.LogCaptureFixture
) -> None:
    task = project.submit("write a new", "say begun", "hang")
    forgotten = False

    def forget(_: Scheduler) -> None:
        nonlocal forgotten
        if not forgotten and project.said(task):
            for table in ("lease_costs", "lease_units", "attempts", "leases"):
                change(project.url, f"DELETE FROM {table} WHERE fence IN "
                       "(SELECT fence FROM leases WHERE kind = 'attempt')")  # fmt: skip
            change(project.url, "UPDATE tasks SET state = 'paused'")
            forgotten = True

    project.serve(lambda: forgotten and not project.marked(), during=forget)
    assert "Traceback" not in caplog.text
    assert caplog.text.count("no lease") == 1
    assert "as after a restore from a backup" in caplog.text
    assert "/1 stays on this host" in caplog.text
