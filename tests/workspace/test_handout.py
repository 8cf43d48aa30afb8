from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from repositories import (
    commit_all,
    git,
    is_kept,
    listing,
    make_candidate,
    make_repository,
    prepare,
    write,
)
from weft import workspace
from weft.errors import BranchTaken, InputError, InUse, WorkspaceError
from weft.git.refs import find_commits
from weft.workspace import attach, branch_ref, changes, release
from weft.workspace.workspace_records import WorkspacePool, registering


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


def files(place: Path) -> set[str]:
    return {
        str(path.relative_to(place))
        for path in place.rglob("*")
        if not path.is_dir() and path.name != ".git"
    }


def test_a_workspace_is_the_base_on_a_branch_of_its_own(root: Path) -> None:
    with prepare(root) as place:
        assert files(place.path) == {"a", "dir/b", "dir/c", "run", ".gitignore"}
        assert git(place.path, "rev-parse", "--symbolic-full-name", "HEAD").strip() == "HEAD"
        assert git(place.path, "status", "--porcelain", "--ignored") == ""
        assert git(place.path, "rev-parse", "HEAD").strip() == place.base
        assert changes(place).changes == ()
    assert git(root, "status", "--porcelain", "--ignored") == ""


def test_a_released_workspace_is_used_again_and_nothing_of_the_last_shows(root: Path) -> None:
    first = prepare(root)
    write(first.path, a="mine\n", new="n\n", built__x="ignored\n", deep__er__y="y\n")
    (first.path / "run").unlink()
    (first.admin / "config.worktree").write_text("[core]\n\tworktree = /\n")
    (first.admin / "MERGE_HEAD").write_text(first.base)
    (first.admin / "index.lock").write_text("")
    release(first)
    write(root, a="newer\n", dir__d="d\n")
    newer = commit_all(root)
    with prepare(root, attempt=2, base=newer) as second:
        assert second.path == first.path
        assert files(second.path) == {"a", "dir/b", "dir/c", "dir/d", "run", ".gitignore"}
        assert (second.path / "a").read_text() == "newer\n"
        assert git(second.path, "status", "--porcelain", "--ignored") == ""
        assert git(second.path, "rev-parse", "--symbolic-full-name", "HEAD").strip() == "HEAD"
        assert not (second.admin / "MERGE_HEAD").exists()
        assert changes(second).changes == ()
        assert changes(second).commits == ()


def test_the_base_may_go_back_as_well_as_forward(root: Path) -> None:
    first = git(root, "rev-parse", "HEAD").strip()
    shutil.rmtree(root / "dir")
    write(root, dir="now a file\n")
    commit_all(root)
    release(prepare(root, attempt=1))
    with prepare(root, attempt=2, base=first) as place:
        assert files(place.path) == {"a", "dir/b", "dir/c", "run", ".gitignore"}
        assert git(place.path, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    "damage",
    [
        "rm -rf .git && git init -q . && git add -A",
        "rm .git",
        "rm -rf .git && mkdir .git && ln -s / .git/root",
        'git worktree list >/dev/null; rm -rf "$ADMIN"',
        'rm -f "$ADMIN/commondir"',
        'echo /nowhere > "$ADMIN/commondir"; echo nonsense > "$ADMIN/HEAD"',
        'cd .. && rm -rf "$WORKSPACE"',
        'cd .. && rm -rf "$WORKSPACE" && ln -s "$ROOT" "$WORKSPACE"',
        'cd .. && rm -rf "$WORKSPACE" && echo > "$WORKSPACE"',
        "git checkout -q -b mine && git update-ref -d refs/weft/work/r/t/1",
        "git symbolic-ref HEAD refs/heads/main",
        'echo garbage > "$ADMIN/index"; touch "$ADMIN/index.lock"',
        "git config core.worktree / ; git config core.bare true",
        "rm -rf dir && ln -s / dir && ln -s .. up",
    ],
)
def test_whatever_an_agent_did_to_it_the_next_one_is_clean(root: Path, damage: str) -> None:
    place = prepare(root)
    variables = {"ADMIN": str(place.admin), "WORKSPACE": str(place.path), "ROOT": str(root)}
    subprocess.run(
        ["sh", "-ec", damage], cwd=place.path, env={**os.environ, **variables}, check=True
    )
    user = git(root, "-c", "core.bare=false", "-c", f"core.worktree={root}", "rev-parse", "main")
    release(place)
    for key in ("core.worktree", "core.bare"):
        subprocess.run(["git", "config", "--unset-all", key], cwd=root, check=False)
    with prepare(root, attempt=2) as after:
        assert files(after.path) == {"a", "dir/b", "dir/c", "run", ".gitignore"}
        assert git(after.path, "status", "--porcelain", "--ignored") == ""
        assert git(after.path, "rev-parse", "--symbolic-full-name", "HEAD").strip() == "HEAD"
        write(after.path, a="works\n")
        git(after.path, "commit", "-qam", "works")
        assert len(changes(after).commits) == 1
    assert git(root, "rev-parse", "main") == user
    assert files(root) >= {"a", "dir/b", "dir/c", "run", ".gitignore"}


def test_submodules_are_emptied_for_the_next(root: Path, tmp_path: Path) -> None:
    library = make_repository(tmp_path / "library")
    allow = ("-c", "protocol.file.allow=always")
    git(root, *allow, "submodule", "add", "-q", str(library), "sub")
    commit_all(root)
    shutil.rmtree(root / ".git" / "modules")  # otherwise weft fills it from there
    place = prepare(root)
    assert os.listdir(place.path / "sub") == []
    git(place.path, *allow, "submodule", "update", "-q", "--init")
    assert (place.path / "sub" / "a").exists()
    found = changes(place)
    assert (found.changes, found.nested) == ((), ("sub",))
    assert release(place).obstacle is None
    with prepare(root, attempt=2) as after:
        assert after.path == place.path
        assert os.listdir(after.path / "sub") == []


def test_a_commit_inside_a_submodule_is_a_change_and_keeps_the_workspace(
    root: Path, tmp_path: Path
) -> None:
    library = make_repository(tmp_path / "library")
    allow = ("-c", "protocol.file.allow=always")
    git(root, *allow, "submodule", "add", "-q", str(library), "sub")
    commit_all(root)
    shutil.rmtree(root / ".git" / "modules")  # otherwise weft fills it from there
    place = prepare(root)
    git(place.path, *allow, "submodule", "update", "-q", "--init")
    write(place.path / "sub", a="inside\n")
    commit_all(place.path / "sub")
    assert changes(place).submodules == ("sub",)
    obstacle = release(place).obstacle
    assert obstacle is not None
    assert "sub" in obstacle
    assert (place.path / "sub" / "a").read_text() == "inside\n"


def test_sparse_checkouts_stay_sparse(root: Path) -> None:
    git(root, "sparse-checkout", "set", "--cone", "dir")
    place = prepare(root)
    write(place.path, dir__b="edited\n")
    assert files(place.path) == {"a", "dir/b", "dir/c", "run", ".gitignore"}
    git(root, "sparse-checkout", "set", "--no-cone", "/dir/b")
    release(place)
    with prepare(root, attempt=2) as sparse:
        assert files(sparse.path) == {"dir/b"}
        assert changes(sparse).changes == ()
        write(sparse.path, dir__b="edited\n", a="outside the patterns\n")
        commit = make_candidate(sparse)
        assert listing(root, commit) == [".gitignore", "a", "dir/b", "dir/c", "run"]
        assert git(root, "show", f"{commit}:a") == "outside the patterns\n"


def test_bare_and_shallow_repositories_and_linked_worktrees_have_workspaces(
    root: Path, tmp_path: Path
) -> None:
    commit_all(root, "second")
    git(tmp_path, "clone", "-q", "--bare", str(root), "bare")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{root}", "shallow")
    git(root, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    for place in (tmp_path / "bare", tmp_path / "shallow", tmp_path / "side"):
        with prepare(place, task=place.name) as made:
            write(made.path, a="edited\n")
            assert [one.path for one in changes(made).changes] == ["a"]
            commit = make_candidate(made)
            if place.name == "bare":
                release(made)
        assert content_of(place, commit) == "edited\n"
    assert WorkspacePool(common=root / ".git").registered()[0][1].branch == branch_ref(
        "r", "side", 1
    )


def content_of(place: Path, commit: str) -> str:
    return git(place, "show", f"{commit}:a")


def test_a_repository_with_sha256_works(tmp_path: Path) -> None:
    root = tmp_path / "new"
    root.mkdir()
    git(root, "init", "-q", "-b", "main", "--object-format=sha256")
    write(root, a="a\n")
    commit_all(root)
    with prepare(root) as place:
        write(place.path, a="b\n")
        assert len(make_candidate(place)) == 64


def test_a_repository_without_commits_or_without_the_base_says_so(tmp_path: Path) -> None:
    root = tmp_path / "empty"
    root.mkdir()
    git(root, "init", "-q")
    with pytest.raises(WorkspaceError, match="no commits yet"):
        prepare(root)
    commit_all(root)
    with pytest.raises(InputError, match="nowhere"):
        prepare(root, base="nowhere")
    with pytest.raises(InputError, match="no branch of an attempt"):
        workspace.prepare(root, "refs/heads/main", "HEAD")
    assert WorkspacePool(common=root / ".git").registered() == []


def test_second_spawn_overwrites_first(root: Path) -> None:
    """Two prepares for one branch: the second is refused, in use or not, and the first stays.

    Weakened in place: `update-ref` without the old value, as careless programs do it, moves the
    reference away from under the first.
    """
    first = prepare(root)
    with pytest.raises(BranchTaken):
        prepare(root)
    write(first.path, a="first\n")
    commit = make_candidate(first)
    first.close()
    with pytest.raises(BranchTaken, match="holds work already"):
        prepare(root)
    release(attach(root, first.branch))
    with pytest.raises(BranchTaken):
        prepare(root)
    assert git(root, "rev-parse", first.branch).strip() == commit
    git(root, "update-ref", first.branch, "main")
    assert git(root, "rev-parse", first.branch).strip() != commit


def test_a_workspace_that_died_before_any_commit_may_be_prepared_again(root: Path) -> None:
    dead = prepare(root)
    write(dead.path, a="not committed\n")
    dead.close()
    with prepare(root) as again:
        assert again.path == dead.path
        assert (again.path / "a").read_text() == "a\n"
        assert is_kept(root, "not committed\n")


def test_the_lock_lives_as_long_as_whoever_was_given_it(root: Path) -> None:
    place = prepare(root)
    child = subprocess.Popen(["sleep", "600"], pass_fds=[place.lock.fileno()])
    place.close()
    try:
        with pytest.raises(InUse):
            attach(root, place.branch)
        report = workspace.clean(root)
        assert [item.why for item in report.kept] == ["it is in use"]
        assert report.freed == ()
    finally:
        child.kill()
        child.wait()
    with attach(root, place.branch) as again:
        assert again.path == place.path
        assert again.base == place.base


def test_attaching_to_what_is_not_there_says_so(root: Path) -> None:
    with pytest.raises(WorkspaceError, match="no workspace"):
        attach(root, branch_ref("r", "t", 1))


def test_files_look_as_the_users_settings_say(root: Path) -> None:
    git(root, "config", "core.autocrlf", "true")
    with prepare(root) as place:
        assert (place.path / "a").read_bytes() == b"a\r\n"
        assert changes(place).changes == ()
        (place.path / "a").write_bytes(b"b\r\n")
        assert git(root, "show", f"{make_candidate(place)}:a") == "b\n"


def test_read_only_files_and_directories_are_cleared() -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = make_repository(Path(directory) / "repository")
        place = prepare(root)
        locked = place.path / "built" / "deep"
        locked.mkdir(parents=True)
        write(locked, x="x")
        write(place.path, dir__b="changed\n")
        for path in (locked / "x", locked, place.path / "built", place.path / "dir"):
            path.chmod(0o500 if path.is_dir() else 0o400)
        assert _status_as_nobody(root, lambda: release(place).obstacle is None) == 0
        assert files(place.path) == {"a", "dir/b", "dir/c", "run", ".gitignore"}


def _status_as_nobody(root: Path, act: Callable[[], bool]) -> int:
    """Act in a child that permissions do stop: root is not stopped by any."""
    if os.getuid() == 0:
        root.parent.chmod(0o755)
        subprocess.run(["chown", "-R", "65534:65534", str(root.parent)], check=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the runner's other threads do not matter to the child
        child = os.fork()
    if child == 0:
        status = 1
        try:
            os.environ["HOME"] = str(root)
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            status = 0 if act() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_workspaces_that_were_handed_out_before_a_copy_are_known(
    root: Path, tmp_path: Path
) -> None:
    release(prepare(root, task="free"))
    with prepare(root, task="a") as place:
        copy = tmp_path / "copy"
        subprocess.run(["cp", "-a", root, copy], check=True)
        with prepare(copy, task="own"):
            assert workspace.find_copied(copy) == [place.branch]
        assert workspace.find_copied(root) == []


def test_a_copied_repository_makes_its_workspaces_anew(root: Path, tmp_path: Path) -> None:
    """Weakened, a free workspace is used again that names the original: commits go there."""
    release(prepare(root, task="a"))
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", root, copy], check=True)
    with prepare(copy, task="b") as place:
        assert git(place.path, "rev-parse", "--absolute-git-dir").startswith(f"{copy}/.git/")
        write(place.path, a="changed in the copy\n")
        commit = commit_all(place.path, "in the copy")
        release(place)
    assert git(copy, "cat-file", "-t", commit) == "commit\n"
    assert find_commits(root, [commit]) == {}
    assert git(root, "status", "--porcelain") == ""


def test_a_process_that_keeps_the_pool_locked_is_named(root: Path) -> None:
    pool = WorkspacePool.of(root)
    with registering(pool):
        holder = rf"Process {os.getpid()} has kept .* `kill -CONT {os.getpid()}`"
        with pytest.raises(InUse, match=holder), registering(pool, patience=0):
            pass
    with registering(pool, patience=0):
        pass
