"""`weft clean`: nothing that anybody may still want goes, and what goes is said."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from databases import change
from repositories import commit_all, git, make_repository, write
from store_helpers import DONE, go, hire
from weft.maintenance import cleanup
from weft.maintenance.cleanup import Branches
from weft.model import NewRun, NewTask, Outcome, State
from weft.process import attempt_files
from weft.process.process_identity import get_place
from weft.process.process_table import MARK
from weft.project.own_repository import get_repository
from weft.project.project import Project, get_project
from weft.store import Store
from weft.store.attempt_end import finish
from weft.store.limit_table import identity
from weft.store.runs import submit_run
from weft.store.tasks import cancel, submit
from weft.workspace.release import LeftoverReport

FOREVER = 1e9


@pytest.fixture
def found(tmp_path: Path) -> Project:
    return get_project(make_repository(tmp_path / "project"), {})


@pytest.fixture
def store(found: Project) -> Iterator[Store]:
    with found.open_store() as opened:
        hire(opened)
        yield opened


def put(found: Project, store: Store, name: str, *, now: float = 0) -> int:
    return submit(store, NewTask(name=name), repo=get_repository(found.root, store), now=now)


def branch(found: Project, name: str) -> str:
    """A commit of its own on a branch of an attempt; returns the branch."""
    git(found.root, "checkout", "-q", "-b", f"weft-work/do/{name}/1")
    write(found.root, **{name: f"the work of {name}\n"})
    commit_all(found.root, name)
    git(found.root, "checkout", "-q", "main")
    return f"weft-work/do/{name}/1"


def branches(found: Project) -> set[str]:
    return set(git(found.root, "branch", "--format=%(refname:short)").split()) - {"main"}


def run(
    found: Project, branches: Branches = Branches.TAKEN, older_than: float = FOREVER
) -> LeftoverReport:
    """Clean, once a survey has foretold the same and changed nothing."""
    before = git(found.root, "for-each-ref"), sorted(map(str, found.root.rglob("*")))
    foretold = cleanup.survey(found, branches=branches, older_than=older_than)
    after = git(found.root, "for-each-ref"), sorted(map(str, found.root.rglob("*")))
    assert {name for name in before[1] if "weft.db" not in name} == {
        name for name in after[1] if "weft.db" not in name
    }
    assert before[0] == after[0]
    done = cleanup.clean(found, branches=branches, older_than=older_than)
    assert [item.name for item in done.freed] == [item.name for item in foretold.freed]
    return done


def test_a_result_stays_until_its_work_is_in_the_users_branch(found: Project, store: Store) -> None:
    merged, picked, waiting = (branch(found, name) for name in ("merged", "picked", "waiting"))
    for name in ("merged", "picked", "waiting"):
        put(found, store, name)
        finish(store, go(store).fence, DONE, now=2)
    git(found.root, "merge", "-q", "--no-ff", "-m", "take", merged)
    git(found.root, "cherry-pick", picked)
    report = run(found)
    assert branches(found) == {waiting}
    assert {item.name for item in report.freed if item.kind == "branch"} == {merged, picked}
    [kept] = [item for item in report.kept if item.kind == "branch"]
    assert "the result of task 3, not in your branch yet" in kept.why
    report = run(found, Branches.ALL)
    assert branches(found) == set()
    [archived] = report.archived
    assert git(found.root, "show", f"{archived}:waiting") == "the work of waiting\n"


def test_what_has_not_ended_stays_and_what_failed_is_archived(found: Project, store: Store) -> None:
    parked, cancelled = branch(found, "parked"), branch(found, "cancelled")
    put(found, store, "parked")
    finish(store, go(store).fence, Outcome(state=State.PARKED, kind="rate_limit", until=9e9), now=2)
    cancel(store, put(found, store, "cancelled"), now=3)
    report = run(found, Branches.ALL)
    assert branches(found) == {parked}
    assert [item.name for item in report.freed if item.kind == "branch"] == [cancelled]
    assert len(report.archived) == 1


def test_what_no_task_knows_of_stays_unless_all_may_go(found: Project, store: Store) -> None:
    unknown = branch(found, "unknown")
    [kept] = run(found).kept
    assert "no task of this store knows it" in kept.why
    assert branches(found) == {unknown}
    run(found, Branches.ALL)
    assert branches(found) == set()


def test_without_a_store_only_what_is_taken_goes(found: Project) -> None:
    taken, other = branch(found, "taken"), branch(found, "other")
    git(found.root, "merge", "-q", "--ff-only", taken)
    run(found)
    assert branches(found) == {other}
    assert not found.has_store


def attempt(found: Project, store: Store, task: int) -> Path:
    """The directory of an attempt, as it is once its agent was started."""
    directory = found.root / ".git/weft/attempts" / identity(store)[:12] / f"{task}.1"
    directory.mkdir(parents=True)
    marker = f"{identity(store)}.{task}.1"
    record = {"marker": marker, "boot": get_place().boot, "grace": 1}
    attempt_files.create_record(str(directory / attempt_files.ATTEMPT), record)
    (directory / attempt_files.STDOUT).write_text("x" * 50_000)
    return directory


def test_old_output_of_ended_tasks_goes_and_its_size_is_told(found: Project, store: Store) -> None:
    old, young, unended = (put(found, store, name) for name in ("old", "young", "unended"))
    places = [attempt(found, store, task) for task in (old, young, unended)]
    other = places[0].parent.parent / "another"
    (other / "1.1").mkdir(parents=True)
    cancel(store, old, now=1)
    cancel(store, young, now=time.time())
    report = run(found, older_than=3600)
    assert [item.name for item in report.freed] == [str(places[0])]
    assert report.bytes >= 50_000
    assert [place.exists() for place in places] == [False, True, True]
    assert {Path(item.name).name: item.why for item in report.kept} == {
        "2.1": "the task ended not long ago",
        "3.1": "the task is ready",
        "another": "another store's",
    }


def test_what_a_living_process_belongs_to_stays(found: Project, store: Store) -> None:
    task = put(found, store, "alive")
    place = attempt(found, store, task)
    cancel(store, task, now=1)
    marker = f"{identity(store)}.{task}.1"
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env={**os.environ, MARK: marker},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as alive:
        assert alive.stdout is not None
        alive.stdout.readline()
        [kept] = run(found, older_than=0).kept
        assert kept.why == "a process of it lives"
        assert place.exists()
        alive.kill()
    assert len(run(found, older_than=0).freed) == 1
    assert not place.exists()


def test_an_attempt_whose_end_is_not_proved_stays(found: Project, store: Store) -> None:
    put(found, store, "cancelled")
    grant = go(store)
    place = attempt(found, store, grant.task)
    cancel(store, grant.task, now=1)  # its lease is open until its process is proved dead
    [kept] = run(found, older_than=0).kept
    assert "proved" in kept.why
    assert place.exists()


def test_the_trunk_of_an_ended_run_goes_once_the_branch_of_the_user_contains_it(
    found: Project, store: Store
) -> None:
    for name in ("taken", "ahead", "going"):
        new = NewRun(id=name, repo=get_repository(found.root, store))
        submit_run(store, new, [NewTask(name="t")], now=0)
        git(found.root, "branch", f"weft/{name}")
    git(found.root, "branch", "weft/mine")
    change(store.url, "UPDATE runs SET state = 'ended' WHERE id <> 'going'")
    git(found.root, "checkout", "-q", "weft/ahead")
    write(found.root, a="work\n")
    commit_all(found.root, "work")
    git(found.root, "checkout", "-q", "main")
    assert [item.name for item in run(found).freed] == ["weft/taken"]
    assert branches(found) == {"weft/ahead", "weft/going", "weft/mine"}
    git(found.root, "checkout", "-q", "weft/ahead")
    assert run(found).freed == (), "it is checked out"
    git(found.root, "checkout", "-q", "main")
    git(found.root, "merge", "-q", "weft/ahead")
    run(found)
    assert branches(found) == {"weft/going", "weft/mine"}
