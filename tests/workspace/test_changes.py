from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from repositories import commit_all, git, listing, make_candidate, make_repository, prepare, write
from weft import workspace
from weft.git import ChangeKind, GitFailed, NoSuchCommit, get_commit
from weft.git.trees import SYMLINK
from weft.workspace import Workspace, changes, out_of_scope


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


@pytest.fixture
def place(root: Path) -> Workspace:
    return prepare(root)


def kinds(place: Workspace) -> dict[str, str]:
    return {change.path: change.kind.value for change in changes(place).changes}


def test_every_kind_of_change_is_seen(root: Path) -> None:
    write(root, long__name="one\ntwo\nthree\nfour\nfive\n")
    commit_all(root)
    place = prepare(root)
    write(place.path, a="edited\n", new__file="new\n")
    (place.path / "dir" / "b").unlink()
    (place.path / "run").chmod(0o755)
    (place.path / "dir" / "c").unlink()
    (place.path / "dir" / "c").symlink_to("../a")
    (place.path / "long" / "name").rename(place.path / "other")
    write(place.path, x__log="kept\n", built__out="ignored\n")
    (place.path / "y.log").write_text("ignored\n")
    found = changes(place)
    assert {change.path: change.kind for change in found.changes} == {
        "a": ChangeKind.EDITED,
        "new/file": ChangeKind.ADDED,
        "dir/b": ChangeKind.DELETED,
        "run": ChangeKind.EDITED,
        "dir/c": ChangeKind.RETYPED,
        "other": ChangeKind.RENAMED,
        "x/log": ChangeKind.ADDED,
    }
    by_path = {change.path: change for change in found.changes}
    assert by_path["run"].old_mode != by_path["run"].new_mode
    assert by_path["a"].old_mode == by_path["a"].new_mode
    assert by_path["dir/c"].new_mode == SYMLINK
    assert by_path["other"].source == "long/name"
    assert sorted(found.ignored) == ["built/", "y.log"]
    commit = make_candidate(place)
    assert listing(root, commit) == [
        *(".gitignore", "a", "dir/c", "new/file", "other", "run", "x/log")
    ]


def test_nothing_changed_is_nothing_even_when_files_were_touched(place: Workspace) -> None:
    write(place.path, a="other\n")
    write(place.path, a="a\n")
    os.utime(place.path / "run")
    assert changes(place).changes == ()


def test_a_file_becomes_a_directory_and_a_directory_a_file(root: Path, place: Workspace) -> None:
    (place.path / "a").unlink()
    write(place.path, a__inner="x\n")
    shutil.rmtree(place.path / "dir")
    write(place.path, dir="file\n")
    assert set(changes(place).paths) == {"a", "a/inner", "dir", "dir/b", "dir/c"}
    assert listing(root, make_candidate(place)) == [".gitignore", "a/inner", "dir", "run"]


AGENT_COMMITS = {
    "commit": "git commit -qam one",
    "several, amended": "git commit -qam one && git commit -q --amend -m two && "
    "echo z > z && git add z && git commit -qm three",
    "on another branch": "git checkout -q -b other && git commit -qam one",
    "detached": "git checkout -q --detach && git commit -qam one",
    "rebased on nothing": "git commit -qam one && git checkout -q --orphan new && git commit -qm x",
    "base thrown away": "git commit -qam one && git update-ref refs/weft/work/r/t/1 "
    "$(git commit-tree -m x 'HEAD^{tree}')",
}


@pytest.mark.parametrize("how", AGENT_COMMITS)
def test_commits_of_the_agents_own_make_no_difference(
    root: Path, place: Workspace, how: str
) -> None:
    write(place.path, a="mine\n")
    run(place, AGENT_COMMITS[how])
    found = changes(place)
    assert kinds(place)["a"] == "edited"
    assert found.commits
    commit = make_candidate(place)
    assert git(root, "rev-parse", f"{commit}^").strip() == place.base
    assert git(root, "show", f"{commit}:a") == "mine\n"
    assert git(root, "rev-parse", place.branch).strip() == commit


def test_what_was_thrown_away_is_no_change_but_is_told(root: Path, place: Workspace) -> None:
    write(place.path, a="mine\n")
    run(place, "git commit -qam one && git reset -q --hard HEAD^")
    found = changes(place)
    assert found.changes == ()
    assert [git(root, "show", f"{one}:a") for one in found.commits] == ["mine\n"]


def test_work_left_on_another_branch_is_told(root: Path, place: Workspace) -> None:
    write(place.path, a="mine\n")
    run(place, "git checkout -q -b other && git commit -qam one && git checkout -q -")
    found = changes(place)
    assert found.changes == ()
    assert found.commits == (git(root, "rev-parse", "other").strip(),)


def test_going_to_others_commits_is_not_making_them(root: Path) -> None:
    base = git(root, "rev-parse", "HEAD").strip()
    commit_all(root, "somebody else's")
    place = prepare(root, base=base)
    run(place, "git checkout -q --detach main && git checkout -q -")
    assert changes(place).commits == ()


@pytest.mark.parametrize(
    "trick",
    [
        "git update-index --assume-unchanged a",
        "git update-index --skip-worktree a",
        "git config core.ignoreStat true; git update-index --really-refresh",
        "git config core.fileMode false; git config core.checkStat minimal",
        "git add -A && git rm -q --cached run && git add -N run",
        'rm -f "$(git rev-parse --git-path index)"',
        "git sparse-checkout set --no-cone /dir",
        "touch -r run --date=@1 a; git update-index --refresh || true",
        "git replace $(git rev-parse HEAD:a) $(echo x | git hash-object -w --stdin) || true",
        "echo '/a' >> \"$(git rev-parse --git-path info/exclude)\"",
        "printf '* filter=hide -diff -text\\n' > .gitattributes; git config filter.hide.clean true",
    ],
)
def test_no_trick_hides_a_change(root: Path, place: Workspace, trick: str) -> None:
    run(place, trick + "; echo mine > a")
    assert kinds(place)["a"] == "edited"
    assert git(root, "--no-replace-objects", "show", f"{make_candidate(place)}:a") == "mine\n"


def test_a_change_of_equal_size_and_time_is_seen(place: Workspace) -> None:
    before = (place.path / "a").stat()
    write(place.path, a="b\n")
    os.utime(place.path / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert kinds(place) == {"a": "edited"}


def test_a_change_in_the_very_second_of_the_checkout_is_seen_later(root: Path) -> None:
    """git compares times by the second, and looks closer only at files as young as its index."""
    for attempt in range(1, 30):
        place = prepare(root, attempt=attempt)
        made = int((place.path / "a").stat().st_ctime)
        write(place.path, a="b\n")
        if int((place.path / "a").stat().st_ctime) == made:
            break
    while int(time.time()) <= made + 1:
        time.sleep(0.01)
    assert kinds(place) == {"a": "edited"}
    assert git(place.path, "status", "--porcelain") == " M a\n"


def test_staged_only_is_not_there_and_not_staged_is(root: Path, place: Workspace) -> None:
    write(place.path, gone="staged, then deleted\n", there="never staged\n")
    run(place, "git add gone && rm gone")
    assert kinds(place) == {"there": "added"}


def test_nothing_an_agent_configures_is_run(root: Path, place: Workspace, tmp_path: Path) -> None:
    program, proof = witness(tmp_path)
    hooks = root / ".git" / "hooks"
    for name in ("post-checkout", "reference-transaction", "pre-commit", "post-index-change"):
        shutil.copy(program, hooks / name)
    keys = [
        *("filter.x.clean", "filter.x.smudge", "filter.x.process", "diff.x.command"),
        *(
            "diff.x.textconv",
            "diff.external",
            "core.fsmonitor",
            "merge.x.driver",
            "core.sshCommand",
        ),
        *("core.alternateRefsCommand", "core.editor", "core.pager", "gpg.program"),
    ]
    with (root / ".git" / "config").open("a") as config:
        for key in keys:
            section, name = _section(key)
            config.write(f"[{section}]\n\t{name} = {program}\n")
        config.write('[filter "x"]\n\trequired = true\n[commit]\n\tgpgSign = true\n')
        config.write("[submodule]\n\trecurse = true\n[gc]\n\tauto = 1\n")
    (place.admin / "config.worktree").write_text(f"[core]\n\tfsmonitor = {program}\n")
    write(place.path, a="mine\n", new="new\n")
    (place.path / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
    nested = place.path / "nested"
    nested.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=nested, check=True)
    git(nested, "config", "core.fsmonitor", str(program))
    write(nested, a="x\n")
    proof.unlink(missing_ok=True)
    assert kinds(place)["a"] == "edited"
    make_candidate(place)
    assert workspace.release(place).obstacle is not None
    shutil.rmtree(nested)
    workspace.release(workspace.attach(root, place.branch))
    workspace.release(prepare(root, attempt=2))
    workspace.clean(root)
    assert not proof.exists(), proof.read_text()


def witness(place: Path, then: str = "cat") -> tuple[Path, Path]:
    """A program that says on a file that it ran; the program and the file."""
    proof, program = place / "ran", place / "program"
    program.write_text(f"#!/bin/sh\necho $0 >> {proof}\n{then}\n")
    program.chmod(0o755)
    return program, proof


UNKNOWN = "1234567890" * 4
PROMISORS = {
    "remote": '[remote "own"]\n\turl = ext::{program} x\n\tpromisor = true\n',
    "filter": '[remote "own"]\n\turl = ext::{program} x\n\tpartialclonefilter = blob:none\n',
    "extension": "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialclone = own\n"
    '[remote "own"]\n\turl = ext::{program} x\n',
    "ssh": "[core]\n\tsshCommand = {program}\n"
    '[remote "own"]\n\turl = ssh://nowhere/x\n\tpromisor = true\n',
    "local": '[remote "own"]\n\turl = {root}\n\tuploadpack = {program}\n\tpromisor = true\n',
}


@pytest.fixture(params=["installed", "before 2.39.4"])
def either_git(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The installed git, or one that does not know `GIT_NO_LAZY_FETCH`."""
    if request.param == "installed":
        return
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    old.write_text(f'#!/bin/sh\nunset GIT_NO_LAZY_FETCH\nexec {shutil.which("git")} "$@"\n')
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")


@pytest.mark.usefixtures("either_git")
@pytest.mark.parametrize("kind", PROMISORS)
def test_no_remote_that_an_agent_configures_is_asked_for_missing_objects(
    root: Path, place: Workspace, tmp_path: Path, kind: str
) -> None:
    program, proof = witness(tmp_path, "exit 1")
    with (root / ".git" / "config").open("a") as config:
        config.write("[protocol]\n\tallow = always\n")
        config.write(PROMISORS[kind].format(program=program, root=root))
    # What weft would run without the cure, to show that this configuration is one that runs.
    subprocess.run(
        ["git", "cat-file", "-e", UNKNOWN], cwd=root, stdin=subprocess.DEVNULL, check=False
    )
    assert proof.exists()
    proof.unlink()
    (place.admin / "ORIG_HEAD").write_text(f"{UNKNOWN}\n")
    write(place.path, a="mine\n")
    with contextlib.suppress(GitFailed):  # an old git may die of the fetch that is refused
        assert changes(place).commits == ()
    make_candidate(place)
    with pytest.raises(NoSuchCommit):
        get_commit(root, UNKNOWN)
    with contextlib.suppress(GitFailed):
        workspace.release(place)
    assert not proof.exists(), proof.read_text()


def test_no_program_that_an_agent_configures_looks_at_a_signature(
    root: Path, place: Workspace, tmp_path: Path
) -> None:
    program, proof = witness(tmp_path)
    git(root, "config", "log.showSignature", "true")
    git(root, "config", "gpg.program", str(program))
    signed = git(root, "cat-file", "commit", "HEAD").replace(
        "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n -----END PGP SIGNATURE-----\n\n", 1
    )
    (tmp_path / "commit").write_text(signed)
    commit = git(root, "hash-object", "-t", "commit", "-w", str(tmp_path / "commit")).strip()
    assert get_commit(root, commit).id == commit
    assert not proof.exists(), proof.read_text()


def _section(key: str) -> tuple[str, str]:
    parts = key.split(".")
    return (parts[0], parts[1]) if len(parts) == 2 else (f'{parts[0]} "{parts[1]}"', parts[2])


NAMES = [
    *(b"new\nline", b'quo"te', b"tab\there", b"back\\slash", b"\xff\xfe", b" lead", b"trail "),
    *(b"dots...", b"-dash", b"*", b"[a]", b"sub/-x", "é".encode(), "e\u0301".encode(), b":(top)x"),
    *(b"git~2", b".gitx", b"x.lock", b"\x01", b"COM1", b"?? a", b"C a"),
]


def test_file_names_of_every_kind_are_taken_as_they_are(root: Path, place: Workspace) -> None:
    for name in NAMES:
        path = os.path.join(os.fsencode(place.path), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(os.fsdecode(path)).write_bytes(name)
    found = changes(place)
    assert {os.fsencode(path) for path in found.paths} == set(NAMES)
    assert found.unusable == ()
    commit = make_candidate(place)
    assert {os.fsencode(one) for one in listing(root, commit)} >= set(NAMES)
    assert set(map(os.fsencode, out_of_scope(found, ["a"]))) == set(NAMES)


def test_names_that_git_refuses_are_left_out_and_told(place: Workspace) -> None:
    (place.path / "dir" / ".GIT").mkdir()
    write(place.path, ok="x\n")
    (place.path / "dir" / ".GIT" / "config").write_text("x")
    found = changes(place)
    assert found.paths == ("ok",)
    assert found.unusable == ("dir/.GIT/config",)


def test_pipes_and_sockets_are_no_files(place: Workspace) -> None:
    (place.path / "a").unlink()
    os.mkfifo(place.path / "a")
    os.mkfifo(place.path / "new")
    assert kinds(place) == {"a": "deleted"}


def test_a_directory_replaced_by_a_link_has_lost_its_files(root: Path, place: Workspace) -> None:
    shutil.copytree(place.path / "dir", place.path / "copy")
    shutil.rmtree(place.path / "dir")
    (place.path / "dir").symlink_to("copy")
    found = changes(place)
    assert {"dir", "dir/b", "dir/c"} <= set(found.paths)
    assert listing(root, make_candidate(place)) == [
        *(".gitignore", "a", "copy/b", "copy/c", "dir", "run")
    ]


def test_nested_repositories_are_told_and_left_out(place: Workspace) -> None:
    for name, made in (("empty", False), ("full", True), ("deep/er", True)):
        write(place.path / name, x="x\n")
        git(place.path / name, "init", "-q")
        if made:
            commit_all(place.path / name)
    found = changes(place)
    assert found.nested == ("deep/er", "empty", "full")
    assert found.paths == ()


def test_a_file_that_only_looks_like_a_repository_is_a_change(place: Workspace) -> None:
    write(place.path, fake__x="x\n")
    (place.path / "fake" / ".git").write_text("not a repository\n")
    assert kinds(place) == {"fake/x": "added"}


def test_conflicts_left_behind_are_told(root: Path) -> None:
    base = git(root, "rev-parse", "HEAD").strip()
    write(root, a="theirs\n")
    commit_all(root)
    place = prepare(root, base=base)
    write(place.path, a="ours\n", doc="Title\n=======\n")
    run(place, "git add -A; git commit -qm ours; git merge -q main || true")
    assert changes(place).conflicts == ("a",)
    run(place, "git add a")
    assert changes(place).conflicts == ("a",), "the markers are still in the file"
    write(place.path, a="both\n")
    assert changes(place).conflicts == ()
    assert kinds(place)["a"] == "edited"


@pytest.mark.parametrize(
    ("target", "escapes"),
    [
        *(("a", False), ("../a", False), ("b", False), ("../dir/b", False), ("nowhere", False)),
        *(("/etc/passwd", True), ("../..", True), ("../../x", True), ("../up/x", True)),
        *(("../.git/config", False), (".", False)),
    ],
)
def test_a_link_that_leads_out_is_told(place: Workspace, target: str, *, escapes: bool) -> None:
    (place.path / "up").symlink_to("..")
    (place.path / "dir" / "link").symlink_to(target)
    found = changes(place)
    assert ("dir/link" in found.escapes) == escapes
    assert "up" in found.escapes


def test_scope_is_exact_and_a_rename_touches_both(root: Path, place: Workspace) -> None:
    (place.path / "dir" / "b").rename(place.path / "B")
    write(place.path, a="mine\n")
    found = changes(place)
    assert out_of_scope(found, ["a", "B", "dir/*"]) == ()
    assert out_of_scope(found, ["**"]) == ()
    assert out_of_scope(found, ["A", "b", "dir"]) == ("B", "a", "dir/b")
    assert out_of_scope(found, []) == ("B", "a", "dir/b")
    assert out_of_scope(found, ["a*", "?"]) == ("dir/b",)


def test_writing_through_a_link_counts_where_it_lands(root: Path) -> None:
    (root / "alias").symlink_to("dir")
    commit_all(root)
    place = prepare(root)
    write(place.path, alias__b="through\n")
    assert out_of_scope(changes(place), ["alias/**"]) == ("dir/b",)


def run(place: Workspace, script: str) -> None:
    """What an agent might do with git in its shell."""
    who = {"GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@example.org"}
    who |= {name.replace("AUTHOR", "COMMITTER"): value for name, value in who.items()}
    subprocess.run(
        ["sh", "-ec", script],
        cwd=place.path,
        env={**os.environ, **who},
        check=True,
        capture_output=True,
    )
