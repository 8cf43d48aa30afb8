"""`weft land` on real repositories: what moves, what is refused, and what a crash leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from databases import change
from gate.gate_run import Stage, run_git
from gate.land_stage import LandProcesses, commit_on_main, finish_run, land, move_main_aside
from weft.errors import InputError, Refused
from weft.gate.branch_landing import MoveKind
from weft.gate.proof import verify
from weft.project.project import get_local_project
from weft.store.branch_landings import list_branch_landings, list_open_branch_landings
from weft.store.gate import read_gate

POINTS = (
    *("built", "checked", "inspected", "intended", "moving", "moved"),
    *("copied", "written", "locked", "followed", "completed"),
)


@pytest.fixture
def land_processes() -> Iterator[LandProcesses]:
    processes = LandProcesses()
    yield processes
    processes.close()


def main_tip(stage: Stage) -> str:
    return run_git(stage.root, "rev-parse", "main")


def is_clean(root: Path) -> bool:
    return run_git(root, "status", "--porcelain") == ""


def judge_landed(stage: Stage, tree: str) -> None:
    """The branch, index and files are exactly at the tree, and nothing is left over."""
    assert run_git(stage.root, "rev-parse", "main^{tree}") == tree
    assert run_git(stage.root, "write-tree") == tree
    assert is_clean(stage.root)
    left = [path.name for path in (stage.root / ".git").iterdir() if "weft-land" in path.name]
    assert left == []
    assert not (stage.root / ".git/index.lock").exists()
    assert run_git(stage.root, "for-each-ref", "refs/weft/landing") == ""
    assert list_open_branch_landings(stage.store, str(stage.root / ".git")) == []
    run_git(stage.root, "fsck", "--connectivity-only")


def test_a_branch_that_has_not_moved_goes_forward_with_its_checkout(stage: Stage) -> None:
    ended = finish_run(stage, {"src/a": "a = 2\n", "src/new/x": "x\n", "src/b": None})
    outcome = land(stage.root, stage.store)
    assert (outcome.kind, outcome.branch, outcome.new) == (MoveKind.FORWARD, "main", ended.trunk)
    assert outcome.checkout == str(stage.root)
    judge_landed(stage, run_git(stage.root, "rev-parse", f"{ended.trunk}^{{tree}}"))
    assert (stage.root / "src/a").read_text() == "a = 2\n"
    assert not (stage.root / "src/b").exists()
    assert "weft land: run r1" in run_git(stage.root, "reflog", "main")
    run_git(stage.root, *outcome.undo.split()[1:])
    assert run_git(stage.root, "diff", "--stat", ended.base, "HEAD") == ""


def test_a_branch_that_moved_gets_a_merge_whose_exact_tree_was_checked(stage: Stage) -> None:
    ended = finish_run(stage, {"src/a": "a = 2\n"})
    mine = commit_on_main(stage.root, {"src/b": "b = 2\n"})
    outcome = land(stage.root, stage.store)
    assert outcome.kind is MoveKind.MERGE
    assert run_git(stage.root, "log", "-1", "--format=%P", "main") == f"{mine} {ended.trunk}"
    judge_landed(stage, run_git(stage.root, "rev-parse", "main^{tree}"))
    [verdict] = [v for v in read_gate(stage.store, "r1").verdicts if v.purpose == "branch"]
    assert verdict.passed
    assert verdict.tree == run_git(stage.root, "rev-parse", "main^{tree}")
    assert outcome.undo == f"git revert -m 1 {outcome.new[:12]}"


def test_a_merge_that_fails_its_check_moves_nothing(stage: Stage) -> None:
    """Green alone and red together. Weakened, the merge moves the branch without a check."""
    finish_run(stage, {"src/a": "a = 2\n"})
    mine = commit_on_main(stage.root, {"src/b": "broken\n"})
    outcome = land(stage.root, stage.store)
    assert not outcome.landed
    assert "src/b:1:broken" in outcome.output
    assert main_tip(stage) == mine
    assert is_clean(stage.root)
    assert list_branch_landings(stage.store, "r1") == []
    assert run_git(stage.root, "for-each-ref", "refs/weft/landing") == ""


def test_a_conflict_moves_nothing_and_shows_both_sides(stage: Stage) -> None:
    finish_run(stage, {"src/a": "a = 2\n"})
    mine = commit_on_main(stage.root, {"src/a": "a = 3\n"})
    outcome = land(stage.root, stage.store)
    [conflict] = outcome.conflicts
    assert conflict.paths == ("src/a",)
    assert "a = 3" in conflict.hunks
    assert "a = 2" in conflict.hunks
    assert main_tip(stage) == mine
    assert is_clean(stage.root)


def test_a_rewritten_branch_gets_copies_and_not_its_old_history(stage: Stage) -> None:
    secret = commit_on_main(stage.root, {"secret": "s\n"}, "Add a secret")
    ended = finish_run(stage, {"src/a": "a = 2\n"})
    run_git(stage.root, "reset", "-q", "--hard", f"{secret}^")
    mine = commit_on_main(stage.root, {"src/b": "b = 2\n"})
    outcome = land(stage.root, stage.store)
    assert outcome.kind is MoveKind.REPLAY
    log = run_git(stage.root, "log", "--format=%s", "main").splitlines()
    assert log == ["Change a", "Mine", "first"]
    assert not (stage.root / "secret").exists()
    assert secret not in run_git(stage.root, "rev-list", "main")
    assert run_git(stage.root, "rev-parse", "main^") == mine
    assert ended.trunk not in run_git(stage.root, "rev-list", "main")
    judge_landed(stage, run_git(stage.root, "rev-parse", "main^{tree}"))
    assert land(stage.root, stage.store).kind is MoveKind.NONE


def test_a_branch_that_went_back_does_not_get_the_dropped_commit_again(stage: Stage) -> None:
    dropped = commit_on_main(stage.root, {"secret": "s\n"})
    finish_run(stage, {"src/a": "a = 2\n"})
    run_git(stage.root, "reset", "-q", "--hard", f"{dropped}^")
    assert land(stage.root, stage.store).kind is MoveKind.REPLAY
    assert dropped not in run_git(stage.root, "rev-list", "main")
    assert (stage.root / "src/a").read_text() == "a = 2\n"
    assert not (stage.root / "secret").exists()


def test_a_second_landing_of_a_run_changes_nothing(stage: Stage) -> None:
    finish_run(stage, {"src/a": "a = 2\n"})
    commit_on_main(stage.root, {"src/b": "b = 2\n"})
    land(stage.root, stage.store)
    tip = main_tip(stage)
    assert land(stage.root, stage.store).kind is MoveKind.NONE
    assert main_tip(stage) == tip


def test_work_that_a_person_merged_counts_as_landed(stage: Stage) -> None:
    ended = finish_run(stage, {"src/a": "a = 2\n"})
    run_git(stage.root, "merge", "-q", "--ff-only", "weft/r1")
    assert land(stage.root, stage.store).kind is MoveKind.NONE
    [landing] = list_branch_landings(stage.store, "r1")
    assert (landing.state, landing.trunk) == ("landed", ended.trunk)


def test_changes_of_the_user_are_refused_by_name(stage: Stage) -> None:
    finish_run(stage, {"src/a": "a = 2\n"})
    before = main_tip(stage)
    (stage.root / "README").write_text("mine\n")
    (stage.root / "src/c").write_text("mine\n")
    run_git(stage.root, "add", "src/c")
    with pytest.raises(Refused, match=r"changes of yours: README, src/c\."):
        land(stage.root, stage.store)
    assert main_tip(stage) == before
    assert (stage.root / "README").read_text() == "mine\n"
    assert list_branch_landings(stage.store, "r1") == []


@pytest.mark.parametrize(
    ("mine", "named"),
    [
        ("new/x", "new/x"),
        ("new/x/deep", "new/x/deep"),
        ("new", "new"),
        ("x.log", "x.log"),
    ],
)
def test_untracked_files_in_the_way_are_refused_by_name(
    stage: Stage, mine: str, named: str
) -> None:
    """Ignored files count too: git would write over them."""
    (stage.root / ".git/info/exclude").write_text("*.log\n")
    finish_run(stage, {"new/x": "x\n", "x.log": "x\n"})
    path = stage.root / mine
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine\n")
    before = main_tip(stage)
    with pytest.raises(Refused, match=f"in the way: {named}\\."):
        land(stage.root, stage.store)
    assert path.read_text() == "mine\n"
    assert main_tip(stage) == before


def test_untracked_files_that_are_not_in_the_way_stay(stage: Stage) -> None:
    finish_run(stage, {"src/a": "a = 2\n"})
    (stage.root / "src/notes").write_text("mine\n")
    assert land(stage.root, stage.store).landed
    assert (stage.root / "src/notes").read_text() == "mine\n"


def test_a_branch_checked_out_elsewhere_is_not_moved_from_here(stage: Stage, home: Path) -> None:
    finish_run(stage, {"src/a": "a = 2\n"})
    before = main_tip(stage)
    run_git(stage.root, "switch", "-qc", "other")
    elsewhere = home / "elsewhere"
    run_git(stage.root, "worktree", "add", "-q", str(elsewhere), "main")
    with pytest.raises(Refused, match=f"weft -C {elsewhere} land"):
        land(stage.root, stage.store)
    assert main_tip(stage) == before
    outcome = land(elsewhere, stage.store)
    assert outcome.checkout == str(elsewhere)
    assert (elsewhere / "src/a").read_text() == "a = 2\n"
    assert is_clean(elsewhere)
    assert (stage.root / "src/a").read_text() == "a = 1\n"


def test_a_branch_that_no_checkout_has_moves_alone(stage: Stage) -> None:
    ended = finish_run(stage, {"src/a": "a = 2\n"})
    run_git(stage.root, "switch", "-qc", "other")
    (stage.root / "README").write_text("mine\n")
    outcome = land(stage.root, stage.store)
    assert outcome.checkout is None
    assert main_tip(stage) == ended.trunk
    assert run_git(stage.root, "status", "--porcelain") == "M README"
    assert (stage.root / "src/a").read_text() == "a = 1\n"


@pytest.mark.parametrize("name", ["MERGE_HEAD", "CHERRY_PICK_HEAD", "rebase-merge"])
def test_an_operation_of_git_under_way_is_refused(stage: Stage, name: str) -> None:
    finish_run(stage, {"src/a": "a = 2\n"})
    (stage.root / ".git" / name).mkdir()
    with pytest.raises(Refused, match="is under way"):
        land(stage.root, stage.store)


def test_a_lock_of_another_git_is_respected(stage: Stage) -> None:
    """The branch has moved by then, so the next try moves the files."""
    finish_run(stage, {"src/a": "a = 2\n"})
    lock = stage.root / ".git/index.lock"

    def hold(point: str) -> None:
        if point == "moved":
            lock.touch()

    with pytest.raises(Refused, match=r"index\.lock exists"):
        land(stage.root, stage.store, at=hold)
    assert lock.exists()
    assert (stage.root / "src/a").read_text() == "a = 1\n"
    lock.unlink()
    assert land(stage.root, stage.store).kind is MoveKind.NONE
    judge_landed(stage, run_git(stage.root, "rev-parse", "weft/r1^{tree}"))


def test_the_index_is_locked_for_the_swap_alone_and_any_command_clears_the_lock(
    stage: Stage, land_processes: LandProcesses
) -> None:
    """Weakened, git refuses to commit after a killed `weft land`, and nothing names weft."""
    lock = stage.root / ".git/index.lock"
    for point in ("copied", "written", "locked"):
        finish_run(stage, {"src/a": f"a = {point}\n"}, run=point)
        assert land_processes.land(stage, run=point, point=point) == -9
        assert lock.exists() == (point == "locked"), point
        get_local_project(stage.root, {})
        assert not lock.exists()
        assert land(stage.root, stage.store, point).landed
        judge_landed(stage, run_git(stage.root, "rev-parse", "main^{tree}"))
    lock.touch()
    get_local_project(stage.root, {})
    assert lock.exists(), "a lock of another git is no leftover of weft"


def test_what_the_user_stages_during_a_move_stays_staged(stage: Stage) -> None:
    """Weakened, the index of the copy takes the place of the user's."""
    finish_run(stage, {"src/a": "a = 2\n"})
    (stage.root / "mine").write_text("mine\n")

    def stage_mine(point: str) -> None:
        if point == "written":
            run_git(stage.root, "add", "mine")

    assert land(stage.root, stage.store, at=stage_mine).landed
    assert run_git(stage.root, "status", "--porcelain") == "A  mine"
    assert (stage.root / "src/a").read_text() == "a = 2\n"


@pytest.mark.parametrize("moved", [False, True])
def test_killed_at_every_point_the_next_one_completes_it(
    stage: Stage, land_processes: LandProcesses, moved: bool
) -> None:
    """In turn on one run each: from before the intent to after the rows. A branch that has not
    moved goes the same way without a check, so a few points tell."""
    for number, point in enumerate(POINTS if moved else POINTS[::4]):
        run = f"r{number}"
        finish_run(stage, {f"src/{run}": f"{point}\n", "src/a": f"a = {point}\n"}, run=run)
        if moved:
            commit_on_main(stage.root, {f"mine{number}": "mine\n"})
        assert land_processes.land(stage, run=run, point=point) == -9, point
        assert land(stage.root, stage.store, run).landed
        judge_landed(stage, run_git(stage.root, "rev-parse", "main^{tree}"))
        assert (stage.root / f"src/{run}").read_text() == f"{point}\n"
        landed = [one for one in list_branch_landings(stage.store, run) if one.old != one.new]
        assert [one.state for one in landed] == ["landed"], point
        merges = int(run_git(stage.root, "rev-list", "--count", "--merges", "main"))
        assert merges == (number + 1 if moved else 0)


def test_files_that_an_interrupted_move_half_wrote_are_completed(
    stage: Stage, land_processes: LandProcesses
) -> None:
    """As a power failure leaves them: a new file, a changed file and a deleted file, each begun."""
    ended = finish_run(stage, {"src/a": "a = 2\nmore\n", "src/new": "new\n", "src/b": None})
    assert land_processes.land(stage, point="copied") == -9
    (stage.root / "src/a").write_text("a = 2\nmo")
    (stage.root / "src/new").write_text("")
    (stage.root / "src/b").unlink()
    assert land(stage.root, stage.store).landed
    judge_landed(stage, run_git(stage.root, "rev-parse", f"{ended.trunk}^{{tree}}"))
    assert (stage.root / "src/a").read_text() == "a = 2\nmore\n"


def test_what_the_user_changes_after_a_crash_is_left_alone(
    stage: Stage, land_processes: LandProcesses
) -> None:
    """Weakened (the files are written by force), the user's lines are lost."""
    finish_run(stage, {"src/a": "a = 2\n"})
    assert land_processes.land(stage, point="moved") == -9
    (stage.root / "src/a").write_text("a = 1\nmine\n")
    (stage.root / "README").write_text("mine\n")
    with pytest.raises(Refused, match=r"src/a in .* changed since"):
        land(stage.root, stage.store)
    assert (stage.root / "src/a").read_text() == "a = 1\nmine\n"
    (stage.root / "src/a").write_text("a = 1\n")
    assert land(stage.root, stage.store).landed
    assert (stage.root / "src/a").read_text() == "a = 2\n"
    assert run_git(stage.root, "status", "--porcelain") == "M README"


@pytest.mark.parametrize("point", ["inspected", "moving"])
def test_a_branch_that_moves_meanwhile_is_not_overwritten(stage: Stage, point: str) -> None:
    """Weakened, the branch moves from wherever it is now, and the user's commit is lost."""
    finish_run(stage, {"src/a": "a = 2\n"})
    run_git(stage.root, "switch", "-qc", "other")
    theirs = ""

    def meddle(now: str) -> None:
        nonlocal theirs
        if now == point and not theirs:
            theirs = move_main_aside(stage.root, {"src/b": "b = 2\n"})

    outcome = land(stage.root, stage.store, at=meddle)
    assert outcome.kind is MoveKind.MERGE
    assert run_git(stage.root, "rev-parse", "main^1") == theirs
    states = [landing.state for landing in list_branch_landings(stage.store, "r1")]
    assert states[-1] == "landed"
    assert set(states[:-1]) <= {"withdrawn"}


def test_two_landings_at_once_land_once(stage: Stage, land_processes: LandProcesses) -> None:
    finish_run(stage, {"src/a": "a = 2\n"})
    commit_on_main(stage.root, {"src/b": "b = 2\n"})
    for _ in range(2):
        land_processes.start(stage)
    assert [land_processes.wait(), land_processes.wait()] == [0, 0]
    assert run_git(stage.root, "rev-list", "--count", "--merges", "main") == "1"
    judge_landed(stage, run_git(stage.root, "rev-parse", "main^{tree}"))


def test_two_runs_that_conflict_with_each_other_land_one_after_the_other(stage: Stage) -> None:
    first = finish_run(stage, {"src/a": "a = 2\n"})
    second = finish_run(stage, {"src/a": "a = 3\n", "src/c": "c = 3\n"}, run="r2")
    assert first.base == second.base
    assert land(stage.root, stage.store, "r1").landed
    outcome = land(stage.root, stage.store, "r2")
    assert [conflict.paths for conflict in outcome.conflicts] == [("src/a",)]
    assert main_tip(stage) == first.trunk
    assert is_clean(stage.root)


def test_the_newest_ended_run_lands_by_default(stage: Stage) -> None:
    finish_run(stage, {"src/a": "a = 2\n"})
    with pytest.raises(InputError, match="no branch x"):
        land(stage.root, stage.store, onto="x")
    with pytest.raises(InputError, match="weft's own"):
        land(stage.root, stage.store, onto="weft/r1")
    with pytest.raises(InputError, match="Did you mean r1"):
        land(stage.root, stage.store, "r11")
    assert land(stage.root, stage.store).run == "r1"


def test_a_landing_on_a_branch_is_part_of_the_proof(stage: Stage) -> None:
    """Weakened, a tree that never passed is proved as landed."""
    finish_run(stage, {"src/a": "a = 2\n"})
    commit_on_main(stage.root, {"src/b": "b = 2\n"})
    land(stage.root, stage.store)
    assert verify(stage.store, stage.root, "r1").problems == ()
    change(stage.store.url, "UPDATE verdicts SET passed = FALSE WHERE purpose = 'branch'")
    [problem] = verify(stage.store, stage.root, "r1").problems
    assert problem.endswith("landed on main, never passed")


@pytest.mark.parametrize("point", ["", "written"])
def test_files_change_their_kind_with_a_landing(
    stage: Stage, land_processes: LandProcesses, point: str
) -> None:
    """A file becomes a directory, a directory a file, and a link a directory; the file behind the
    link has the text that git writes in its place."""
    root = stage.root
    commit_on_main(root, {"file": "f\n", "directory/x": "x\n", "script": "#!/bin/sh\n"})
    (root / "link").symlink_to("src")
    commit_on_main(root, {})
    changes = {"file": None, "file/inside": "f\n", "directory/x": None, "directory": "d\n"}
    finish_run(stage, {**changes, "link": None, "link/a": "a = 1\n"})
    finish_run(stage, {"script": "#!/bin/sh\n:\n", "src/a": "a = 2\n"}, run="r2")
    for run in ("r1", "r2"):
        if point:
            assert land_processes.land(stage, run=run, point=point) == -9
        assert land(root, stage.store, run).landed
    judge_landed(stage, run_git(root, "rev-parse", "main^{tree}"))
    assert (root / "file/inside").read_text() == "f\n"
    assert (root / "directory").read_text() == "d\n"
    assert not (root / "link").is_symlink()
    assert (root / "src/a").read_text() == "a = 2\n"


def test_a_sparse_checkout_stays_sparse(stage: Stage) -> None:
    commit_on_main(stage.root, {"far/x": "x\n"})
    finish_run(stage, {"far/x": "x = 2\n", "far/new": "new\n", "src/a": "a = 2\n"})
    run_git(stage.root, "sparse-checkout", "set", "src")
    assert land(stage.root, stage.store).landed
    assert not (stage.root / "far").exists()
    assert (stage.root / "src/a").read_text() == "a = 2\n"
    assert is_clean(stage.root)
