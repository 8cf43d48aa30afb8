"""Several processes on one store share its limits and its work, whoever of them dies."""

from __future__ import annotations

import pytest

from databases import postgres_later
from end_to_end.run_observer import Watcher
from end_to_end.run_project import RunProject, overlap
from wait_until import PATIENCE, wait_until

SIX = [f"1.{n}" for n in range(1, 7)]


def parallel(count: int, seconds: float = 0.5, agent: str = "", until: str = "") -> str:
    """A plan of tasks that may run at once; each sleeps, or waits for the file `until`."""
    named = f"  <!-- agent: {agent} -->\n" if agent else ""
    pause = f"wait {until}" if until else f"sleep {seconds}"
    tasks = [
        f"- [ ] Task {n}: Do {n}\n  <!-- files: src/p{n} -->\n{named}"
        f"  - script: {pause}\n  - script: write src/p{n} x\n"
        for n in range(1, count + 1)
    ]
    return "## Phase 1: All\n<!-- execution: parallel -->\n\n" + "\n".join(tasks)


@pytest.mark.each_store
def test_workers_help_a_run_and_all_keep_to_its_limits(either: RunProject) -> None:
    go = either.root.parent / "go"
    either.plan.write_text(parallel(6, until=str(go)))
    helpers = [either.start("worker", "--slots", "2") for _ in range(2)]
    wait_until(lambda: len(either.rows("SELECT * FROM workers")) == 2)
    with either.untouched(), Watcher(either, go=go) as watcher:
        either.run("plan.md", "--slots", "4")
    for helper in helpers:
        assert either.stop(helper) == 0
    watcher.assert_saw_nothing()
    run = either.run_id()
    assert watcher.most[f"run:{run}/agents"] == 4
    workers = {row["worker"] for row in either.rows("SELECT worker FROM leases WHERE task > 0")}
    assert len(workers) > 1
    either.assert_landed_once(*SIX)
    either.assert_nothing_left()


@postgres_later
def test_two_runs_share_what_is_scarce(either: RunProject) -> None:
    """Seed 001: permits of an agent hold across processes, whoever asks first."""
    either.agent("scarce", front="max_concurrency: 2\n")
    either.commit()
    go = either.root.parent / "go"
    for name in ("one.md", "two.md"):
        text = parallel(3, agent="scarce", until=str(go)).replace("src/p", f"src/{name[:3]}")
        (either.root / name).write_text(text)
    workers = [either.start("worker", "--slots", "3") for _ in range(2)]
    wait_until(lambda: len(either.rows("SELECT * FROM workers")) == 2)
    with Watcher(either, go=go) as watcher:
        both = [either.start("run", name, "--slots", "4") for name in ("one.md", "two.md")]
        for process in both:
            out, err = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, (out, err)
    watcher.assert_saw_nothing()
    for worker in workers:
        assert either.stop(worker) == 0
    assert watcher.most["agent:scarce"] == 2
    assert set(either.states().values()) == {"done"}
    either.assert_nothing_left()


@postgres_later
def test_a_permit_is_taken_up_at_once_when_its_holder_is_killed(either: RunProject) -> None:
    """Seed 001: a permit ends with whoever held it, and is waited for until then."""
    either.agent("scarce", front="max_concurrency: 1\n")
    either.commit()
    go = either.root.parent / "go"
    either.plan.write_text(parallel(2, agent="scarce", until=str(go)))
    first = either.start("run", "plan.md", "--slots", "2")
    wait_until(lambda: either.rows("SELECT * FROM workers"))
    second = either.start("worker", "--slots", "2")
    wait_until(lambda: either.rows("SELECT * FROM attempts"))
    with Watcher(either, go=go) as watcher:
        either.kill(first, whole=True)
        wait_until(lambda: set(either.states().values()) == {"done"})
    assert either.stop(second) == 0
    watcher.assert_saw_nothing()
    assert not overlap(either.spans("1.1", "1.2"))
    either.assert_landed_once("1.1", "1.2")


def test_whoever_is_left_goes_on_with_the_gate_and_the_rest(project: RunProject) -> None:
    project.plan.write_text(parallel(6, 0.4))
    process = project.start("run", "plan.md", "--slots", "3")
    wait_until(lambda: project.rows("SELECT * FROM workers"))
    helper = project.start("worker", "--slots", "3")
    wait_until(lambda: len(project.rows("SELECT * FROM workers")) == 2)
    wait_until(lambda: project.rows("SELECT * FROM attempts WHERE ended IS NOT NULL"))
    project.kill(process)
    wait_until(lambda: set(project.states().values()) == {"done"})
    assert project.stop(helper) == 0
    project.assert_landed_once(*SIX)
    project.assert_nothing_left()
