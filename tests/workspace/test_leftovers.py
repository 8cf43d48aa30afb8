from __future__ import annotations

import threading
from collections.abc import Callable, Container
from pathlib import Path
from typing import Protocol

import pytest

from repositories import (
    commit_all,
    content,
    git,
    is_kept,
    make_candidate,
    make_repository,
    prepare,
    write,
)
from weft.git import Update, list_refs, update_refs
from weft.workspace import (
    LeftoverReport,
    Workspace,
    attach,
    clean,
    discard,
    list_leftovers,
    release,
)
from weft.workspace.names import BRANCHES
from weft.workspace.release import POOL, remove
from weft.workspace.workspace_records import WorkspacePhase, WorkspacePool


class Sweep(Protocol):
    """A way of cleaning: `clean`, or one weakened in one respect."""

    def __call__(self, root: Path, /, wanted: Container[str] = ()) -> LeftoverReport: ...


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


def test_everything_that_exists_nowhere_else_is_kept(root: Path) -> None:
    place = prepare(root)
    write(place.path, a="committed, then thrown away\n")
    commit_all(place.path)
    git(place.path, "reset", "-q", "--hard", "HEAD^")
    write(place.path, a="staged, then overwritten\n")
    git(place.path, "add", "a")
    write(place.path, a="never committed\n", new__file="untracked\n", built__x="ignored\n")
    kept = release(place)
    assert kept.obstacle is None
    assert all(ref.startswith("refs/weft/archive/r/t/1/") for ref in kept.refs)
    for text in ("committed, then thrown away\n", "staged, then overwritten\n"):
        assert is_kept(root, text)
    assert is_kept(root, "never committed\n")
    assert is_kept(root, "untracked\n")
    assert not is_kept(root, "ignored\n")
    assert git(root, "for-each-ref", "refs/weft/work") == "", "nothing was done on it"


def test_a_detached_commit_an_amended_one_and_one_of_a_deleted_branch_are_kept(root: Path) -> None:
    place = prepare(root)
    for number, how in enumerate((["checkout", "-q", "--detach"], ["checkout", "-q", "-b", "x"])):
        git(place.path, *how)
        write(place.path, a=f"first {number}\n")
        commit_all(place.path)
        write(place.path, a=f"second {number}\n")
        git(place.path, "commit", "-qa", "--amend", "-m", "amended")
    git(place.path, "checkout", "-q", "--detach", "main")
    git(place.path, "branch", "-q", "-D", "x")
    release(place)
    for number in (0, 1):
        assert is_kept(root, f"first {number}\n")
        assert is_kept(root, f"second {number}\n")


def test_what_a_branch_of_the_users_reaches_needs_no_archive(root: Path) -> None:
    place = prepare(root)
    git(place.path, "checkout", "-q", "-b", "mine")
    write(place.path, a="mine\n")
    commit_all(place.path)
    assert release(place).refs == ()
    assert content(root, "mine", "a") == "mine\n"


def test_releasing_leaves_the_candidate_on_its_branch(root: Path) -> None:
    place = prepare(root)
    write(place.path, a="mine\n")
    commit = make_candidate(place)
    assert release(place).refs == ()
    assert git(root, "rev-parse", place.branch).strip() == commit


def forgets_what_is_wanted(root: Path, wanted: Container[str] = ()) -> LeftoverReport:
    return clean(root)


def archives_nothing(root: Path, wanted: Container[str] = ()) -> LeftoverReport:
    """Cleaning without the step that keeps what only a branch reaches."""
    dropped = [
        Update(ref=ref, old=tip, new=None)
        for ref, tip in list_refs(root, BRANCHES).items()
        if ref not in wanted
    ]
    update_refs(root, dropped)
    return clean(root, wanted)


def check_unlanded(root: Path, end: Callable[[Workspace], object], sweep: Sweep) -> None:
    """A branch with a candidate that no other reference reaches outlives everything."""
    place = prepare(root)
    write(place.path, a="unlanded\n")
    commit = make_candidate(place)
    end(place)
    kept = sweep(root, wanted=[place.branch])
    assert list_refs(root, BRANCHES) == {place.branch: commit}
    assert kept.archived == ()
    report = sweep(root)
    assert list_refs(root, BRANCHES) == {}
    assert is_kept(root, "unlanded\n")
    assert report.archived == (f"refs/weft/archive/r/t/1/{commit}",)


def test_clean_exit_deletes_unlanded_branch(tmp_path: Path) -> None:
    """Weakened: an attempt's end that keeps nothing, as that of a check does; a cleaner that does
    not ask what is wanted; one that does not archive."""
    check_unlanded(make_repository(tmp_path / "real"), release, clean)
    weakened: list[tuple[Callable[[Workspace], object], Sweep]] = [
        (discard, clean),
        (release, forgets_what_is_wanted),
        (release, archives_nothing),
    ]
    for number, (end, sweep) in enumerate(weakened):
        with pytest.raises(AssertionError):
            check_unlanded(make_repository(tmp_path / f"weak{number}"), end, sweep)


def test_a_landed_branch_goes_without_an_archive(root: Path) -> None:
    place = prepare(root)
    write(place.path, a="landed\n")
    commit = make_candidate(place)
    release(place)
    git(root, "branch", "weft/r", commit)
    report = clean(root)
    assert report.archived == ()
    assert place.branch in [item.name for item in report.freed]


def test_archives_of_what_has_landed_go(root: Path) -> None:
    """Trunk holds it in commits of its own."""
    places = [prepare(root, task=task) for task in ("landed", "other")]
    commits = []
    for place in places:
        write(place.path, a=f"{place.branch}\n")
        commits.append(make_candidate(place))
        release(place)
    archived = f"refs/weft/archive/r/landed/1/{commits[0]}"
    git(root, "update-ref", archived, commits[0])
    report = clean(root, landed=commits[:1])
    assert report.archived == (f"refs/weft/archive/r/other/1/{commits[1]}",)
    assert list_refs(root, "refs/weft/archive", "refs/weft/work") == {
        report.archived[0]: commits[1]
    }
    report = clean(root, landed=commits)
    assert list_refs(root, "refs/weft/archive") == {}


def test_a_branch_that_landed_goes_without_an_archive_although_trunk_has_other_commits(
    root: Path,
) -> None:
    place = prepare(root)
    write(place.path, a="landed\n")
    commit = make_candidate(place)
    release(place)
    report = clean(root, landed=[commit])
    assert report.archived == ()
    assert place.branch in [item.name for item in report.freed]


def prunes(root: Path, wanted: Container[str] = ()) -> LeftoverReport:
    """Cleaning that has git forget worktrees it does not find, as many programs do."""
    git(root, "worktree", "prune")
    return clean(root, wanted)


def ignores_records(root: Path, wanted: Container[str] = ()) -> LeftoverReport:
    """Cleaning that takes whatever lies where workspaces do for one of them."""
    pool = WorkspacePool(common=root / ".git")
    for directory in pool.directory.iterdir():
        if directory.name.isdecimal():
            remove(pool.slot(int(directory.name)))
    return clean(root, wanted)


def check_humans(home: Path, sweep: Sweep) -> None:
    """A person's worktrees stay: elsewhere, inside weft's directory, or on a drive not mounted."""
    root = make_repository(home / "repository")
    release(prepare(root))
    inside = root / ".git" / "weft" / "workspaces"
    elsewhere, drive, unplugged = (home / name for name in ("elsewhere", "drive", "unplugged"))
    for branch, directory in {
        "one": elsewhere,
        "two": inside / "mine",
        "three": inside / "2",
        "four": drive,
    }.items():
        git(root, "worktree", "add", "-q", "-b", branch, str(directory))
    drive.rename(unplugged)
    write(elsewhere, a="human's\n")
    write(inside / "2", a="human's\n")
    busy = [prepare(root, attempt=number) for number in (2, 3, 4)]
    for one in busy:
        release(one)
    sweep(root)
    for directory in (elsewhere, inside / "mine", inside / "2"):
        assert directory.is_dir()
        assert git(directory, "rev-parse", "--show-toplevel").strip() == str(directory)
    assert (inside / "2" / "a").read_text() == "human's\n"
    assert (elsewhere / "a").read_text() == "human's\n"
    unplugged.rename(drive)
    assert git(drive, "status", "--porcelain") == ""


def test_gc_removes_a_humans_worktree(tmp_path: Path) -> None:
    check_humans(tmp_path / "real", clean)
    for weakened in (prunes, ignores_records):
        with pytest.raises(AssertionError):
            check_humans(tmp_path / weakened.__name__, weakened)


def test_a_repository_with_work_of_its_own_keeps_its_workspace(root: Path) -> None:
    place = prepare(root)
    nested = place.path / "nested"
    write(nested, x="only here\n")
    git(nested, "init", "-q")
    commit_all(nested)
    obstacle = release(place).obstacle
    assert obstacle == "nested is a repository with commits of its own."
    report = clean(root)
    assert [item.why for item in report.kept] == [obstacle]
    assert (nested / "x").read_text() == "only here\n"
    with prepare(root, attempt=2) as other:
        assert other.path != place.path
    again = attach(root, place.branch)
    assert release(again).obstacle == obstacle


def test_a_clone_without_work_of_its_own_goes(root: Path, tmp_path: Path) -> None:
    library = make_repository(tmp_path / "library")
    place = prepare(root)
    git(place.path, "clone", "-q", str(library), "clone")
    (place.path / "clone" / "a").write_text("edited\n")
    assert "changes of its own" in str(release(place).obstacle)
    again = attach(root, place.branch)
    (place.path / "clone" / "a").write_text("a\n")
    assert release(again).obstacle is None
    assert not (place.path / "clone").exists()


def test_a_survey_says_what_cleaning_does_and_does_nothing(root: Path) -> None:
    used = prepare(root, attempt=1)
    release(prepare(root, attempt=2))
    wanted = prepare(root, attempt=3)
    wanted.close()
    before = git(root, "for-each-ref"), sorted((root / ".git" / "weft").rglob("*"))
    told = list_leftovers(root, wanted=[wanted.branch])
    assert (git(root, "for-each-ref"), sorted((root / ".git" / "weft").rglob("*"))) == before
    done = clean(root, wanted=[wanted.branch])
    assert told == LeftoverReport(freed=done.freed, kept=done.kept)
    assert sorted(item.why for item in done.kept) == ["it is in use", "its task still wants it"]
    used.close()
    assert clean(root, wanted=[wanted.branch]).bytes > 0
    assert clean(root, wanted=[wanted.branch]).freed == ()


def test_the_pool_is_bounded(root: Path) -> None:
    places = [prepare(root, attempt=number) for number in range(POOL + 2)]
    for place in places:
        release(place)
    records = [record for _, record in WorkspacePool(common=root / ".git").registered()]
    assert len(records) == POOL
    assert all(record.phase is WorkspacePhase.FREE for record in records)
    assert len(list((root / ".git" / "worktrees").iterdir())) == POOL


def test_many_cleaners_at_once_do_it_once(root: Path) -> None:
    for number in range(6):
        place = prepare(root, attempt=number)
        write(place.path, a=f"unlanded {number}\n")
        make_candidate(place)
        write(place.path, a=f"dirty {number}\n")
        place.close()
    reports: list[LeftoverReport] = []
    cleaners = [threading.Thread(target=lambda: reports.append(clean(root))) for _ in range(6)]
    for cleaner in cleaners:
        cleaner.start()
    for cleaner in cleaners:
        cleaner.join()
    assert len(reports) == 6
    clean(root)
    assert WorkspacePool(common=root / ".git").registered() == []
    assert git(root, "for-each-ref", "refs/weft/work") == ""
    for number in range(6):
        assert is_kept(root, f"unlanded {number}\n")
        assert is_kept(root, f"dirty {number}\n")
