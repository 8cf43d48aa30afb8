"""A checkout that `weft land` moves keeps every file of the user, also those that git hides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gate.gate_run import Stage, run_git
from gate.land_stage import LandProcesses, commit_on_main, finish_run, land
from weft.errors import InputError, Refused


@pytest.fixture
def land_processes() -> Iterator[LandProcesses]:
    processes = LandProcesses()
    yield processes
    processes.close()


def read_tip(stage: Stage) -> str:
    return run_git(stage.root, "rev-parse", "main")


def is_refused(stage: Stage, match: str) -> bool:
    """A landing is refused before the branch moves."""
    before = read_tip(stage)
    with pytest.raises(Refused, match=match):
        land(stage.root, stage.store)
    return read_tip(stage) == before


@pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
def test_changes_that_git_status_hides_are_refused_before_the_branch_moves(
    stage: Stage, mark: str
) -> None:
    finish_run(stage, {"src/a": "a = 2\n"})
    run_git(stage.root, "update-index", mark, "src/a")
    (stage.root / "src/a").write_text("mine\n")
    assert is_refused(stage, r"'src/a' not uptodate.*git ls-files -v")
    assert (stage.root / "src/a").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("mine", "landed", "point"),
    [
        ("new", "new/x", "moved"),
        ("new/a.log", "new", "intended"),
        ("new/deep/a.log", "new", "moved"),
    ],
)
def test_ignored_files_made_after_a_crash_are_left_alone(
    stage: Stage, land_processes: LandProcesses, mine: str, landed: str, point: str
) -> None:
    """Weakened, git deletes them without a word, with the directory they are in."""
    (stage.root / ".git/info/exclude").write_text("new\n*.log\n")
    finish_run(stage, {landed: "x\n"})
    assert land_processes.land(stage, point=point) == -9
    path = stage.root / mine
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine\n")
    with pytest.raises(Refused, match=f"{mine} in .* left alone"):
        land(stage.root, stage.store)
    assert path.read_text() == "mine\n"
    path.rename(stage.root / "aside.log")
    assert land(stage.root, stage.store).landed
    assert (stage.root / landed).read_text() == "x\n"


def test_a_link_to_a_directory_in_the_way_is_refused_by_name(stage: Stage, home: Path) -> None:
    finish_run(stage, {"new": "x\n"})
    (stage.root / "new").mkdir()
    (stage.root / "new/link").symlink_to(home)
    assert is_refused(stage, r"in the way: new/link\.")
    assert (stage.root / "new/link").is_symlink()


def test_a_submodule_with_files_is_not_replaced_by_a_file(stage: Stage, home: Path) -> None:
    """Weakened, git deletes the directory with all that the user has in it."""
    library = home / "library"
    run_git(home, "init", "-q", str(library))
    commit_on_main(library, {"x": "x\n"})
    allow = ("-c", "protocol.file.allow=always")
    run_git(stage.root, *allow, "submodule", "add", "-q", str(library), "lib")
    commit_on_main(stage.root, {})
    finish_run(stage, {"lib": "a file\n", ".gitmodules": None})
    (stage.root / "lib/notes").write_text("mine\n")
    assert is_refused(stage, "`git submodule deinit lib`")
    assert (stage.root / "lib/notes").read_text() == "mine\n"
    (stage.root / "lib/notes").unlink()
    run_git(stage.root, "submodule", "--quiet", "deinit", "lib")
    assert land(stage.root, stage.store).landed
    assert (stage.root / "lib").read_text() == "a file\n"


def test_the_lock_of_a_git_that_died_does_not_stop_the_next_landing(
    stage: Stage, land_processes: LandProcesses
) -> None:
    """As a power failure leaves it: git locks weft's copy of the index while it moves files."""
    finish_run(stage, {"src/a": "a = 2\n"})
    assert land_processes.land(stage, point="copied") == -9
    (stage.root / ".git/weft-land.index.lock").touch()
    assert land(stage.root, stage.store).landed
    assert (stage.root / "src/a").read_text() == "a = 2\n"
    assert run_git(stage.root, "status", "--porcelain") == ""
    assert not list((stage.root / ".git").glob("weft-land*"))


def test_a_branch_that_stands_for_another_is_refused(stage: Stage) -> None:
    """Weakened, the symbolic reference becomes a branch of its own and the other stays behind."""
    finish_run(stage, {"src/a": "a = 2\n"})
    run_git(stage.root, "branch", "-m", "main", "real")
    run_git(stage.root, "symbolic-ref", "refs/heads/main", "refs/heads/real")
    with pytest.raises(InputError, match="weft land r1 --onto real"):
        land(stage.root, stage.store)
    assert run_git(stage.root, "symbolic-ref", "refs/heads/main") == "refs/heads/real"
    assert land(stage.root, stage.store, onto="real").checkout == str(stage.root)
    assert (stage.root / "src/a").read_text() == "a = 2\n"


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_branch_that_a_person_rebases_is_refused(
    stage: Stage, home: Path, elsewhere: bool
) -> None:
    """Its working tree counts as detached. Weakened, the branch moves and the rebase is lost."""
    commit_on_main(stage.root, {"src/c": "c\n"})
    finish_run(stage, {"src/a": "a = 2\n"})
    place = stage.root
    if elsewhere:
        place = home / "elsewhere"
        run_git(stage.root, "switch", "-qc", "other")
        run_git(stage.root, "worktree", "add", "-q", str(place), "main")
    edit = ("-c", "sequence.editor=sed -i s/^pick/edit/")
    run_git(place, *edit, "rebase", "-qi", "HEAD~1")
    assert is_refused(stage, f"A rebase of main is under way in {place}")
    run_git(place, "rebase", "--continue")
    assert land(place, stage.store).landed
