"""A verdict depends on the commits alone, and merging leaves the repository as it was."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from gate.repositories import ENVIRONMENT, File, Files, Judge, Repository, Verdict
from weft.gate.conflicts import ConflictKind
from weft.gate.merge import MergeCandidate, MergeStep, merge
from weft.git import GitFailed
from weft.git.object_store import MissingCommit, open_object_store

TEXT = b"".join(b"line %d\n" % number for number in range(20))
FILE = File(TEXT)


def edited(line: int, word: bytes) -> File:
    return File(TEXT.replace(b"line %d\n" % line, word + b"\n"))


def merge_all(repository: Repository, tip: str, *candidates: tuple[str, str]) -> list[MergeStep]:
    with open_object_store(repository.path) as objects:
        return list(merge(objects, tip, [MergeCandidate(commit=c, base=b) for c, b in candidates]))


def kinds(step: MergeStep) -> list[ConflictKind]:
    return [one.kind for one in step.conflicts]


def fork(repository: Repository, base: Files, *sides: Files) -> list[str]:
    first = repository.commit(base)
    return [first, *repository.commits([(side, [first]) for side in sides])]


def test_a_merge_driver_of_the_user_neither_runs_nor_counts(
    repository: Repository, tmp_path: Path
) -> None:
    witness = tmp_path / "driver ran"
    base, tip, own = fork(
        repository,
        {b"f": FILE, b".gitattributes": File(b"f merge=mine diff=mine filter=mine\n")},
        {
            b"f": edited(3, b"ours"),
            b".gitattributes": File(b"f merge=mine diff=mine filter=mine\n"),
        },
        {
            b"f": edited(3, b"theirs"),
            b".gitattributes": File(b"f merge=mine diff=mine filter=mine\n"),
        },
    )
    program = f"touch {shlex.quote(str(witness))}; true"
    for key in (
        "merge.mine.driver",
        "diff.mine.textconv",
        "diff.mine.command",
        "filter.mine.clean",
    ):
        repository.git("config", key, program)
    repository.git("config", "core.fsmonitor", program)
    (step,) = merge_all(repository, tip, (own, base))
    assert kinds(step) == [ConflictKind.CONTENT]
    assert not witness.exists()


def test_settings_of_the_user_do_not_change_a_verdict(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    base, tip, own = fork(
        repository, {b"old": FILE}, {b"new": FILE}, {b"old": edited(3, b"theirs")}
    )
    (usual,) = merge_all(repository, tip, (own, base))
    assert usual.clean, "git follows the rename"
    for key, value in {
        "merge.renames": "false",
        "diff.renames": "false",
        "merge.directoryRenames": "true",
        "merge.conflictStyle": "diff3",
        "merge.default": "binary",
        "core.attributesFile": str(tmp_path / "attributes"),
    }.items():
        repository.git("config", key, value)
    (tmp_path / "attributes").write_text("* -merge\n")
    (repository.path / ".git" / "info" / "attributes").write_text("* -merge\n")
    home = tmp_path / "home"
    (home / ".config" / "git").mkdir(parents=True)
    (home / ".gitconfig").write_text("[merge]\n\trenames = false\n")
    (home / ".config" / "git" / "attributes").write_text("* -merge\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_MERGE_VERBOSITY", "5")
    assert merge_all(repository, tip, (own, base)) == [usual]


def test_attributes_are_those_of_trunk_not_of_the_checkout(repository: Repository) -> None:
    union = {b"d/.gitattributes": File(b"log merge=union\n")}
    base, tip, own = fork(
        repository,
        {b"d/log": FILE, **union},
        {b"d/log": File(TEXT + b"ours\n"), **union},
        {b"d/log": File(TEXT + b"theirs\n"), **union},
    )
    (repository.path / "d").mkdir()
    (repository.path / "d" / ".gitattributes").write_text("log -merge\n")
    (step,) = merge_all(repository, tip, (own, base))
    assert step.clean
    assert repository.read(step.tree, "d/log") == TEXT + b"ours\ntheirs\n"


def test_attributes_that_a_candidate_brings_count_for_the_next(repository: Repository) -> None:
    base, attributes, one, two = fork(
        repository,
        {b"log": FILE},
        {b"log": FILE, b".gitattributes": File(b"log merge=union\n")},
        {b"log": File(TEXT + b"one\n")},
        {b"log": File(TEXT + b"two\n")},
    )
    candidates = [MergeCandidate(commit=c, base=base) for c in (one, attributes, two)]
    expected = Judge(repository).merge(base, candidates)
    assert [one.clean for one in expected] == [True, True, True]
    steps = merge_all(repository, base, *((one.commit, base) for one in candidates))
    assert [Verdict(one.tree, one.clean) for one in steps] == expected
    assert not merge_all(repository, base, (one, base), (two, base))[1].clean


def test_attributes_in_strange_places_are_no_trap(repository: Repository) -> None:
    base, own, after = fork(
        repository,
        {b".gitattributes": File(b"* -merge\n"), b"f": FILE},
        {b".gitattributes/.gitattributes/.gitattributes": File(b"* -merge\n"), b"f": FILE},
        {b".gitattributes": File(b"/etc/passwd", "120000"), b"f": edited(2, b"theirs")},
    )
    assert merge_all(repository, base, (own, base), (base, own), (after, base))[0].clean
    assert merge_all(repository, own, (base, own))[0].clean


def test_replacements_and_grafts_do_not_count(repository: Repository) -> None:
    base, tip, own, other = fork(
        repository,
        {b"f": FILE},
        {b"f": edited(3, b"ours")},
        {b"f": edited(15, b"theirs")},
        {b"g": FILE},
    )
    (usual,) = merge_all(repository, tip, (own, base))
    repository.git("replace", own, other)
    repository.git("replace", "--graft", tip)
    (repository.path / ".git" / "info" / "grafts").write_text(f"{tip}\n{own}\n")
    assert merge_all(repository, tip, (own, base)) == [usual]


def test_nothing_but_objects_is_added_to_the_repository(repository: Repository) -> None:
    base, tip, own = fork(
        repository, {b"f": FILE}, {b"f": edited(3, b"ours")}, {b"f": edited(15, b"theirs")}
    )
    repository.git("checkout", "-q", "-b", "mine", tip)
    (repository.path / "f").write_text("uncommitted")

    def rest() -> dict[str, bytes]:
        return {
            str(path.relative_to(repository.path)): path.read_bytes()
            for path in repository.path.rglob("*")
            if path.is_file() and ".git/objects" not in str(path)
        }

    before = rest()
    assert merge_all(repository, tip, (own, base))[0].clean
    assert rest() == before


def test_a_shallow_clone_merges_like_a_whole_one(repository: Repository, tmp_path: Path) -> None:
    first = repository.commit({b"f": FILE, b"old": FILE})
    base = repository.commit({b"f": FILE}, first)
    tip, own = repository.commits(
        [({b"f": edited(3, b"ours")}, [base]), ({b"f": edited(15, b"theirs")}, [base])]
    )
    for name, commit in (("main", tip), ("own", own)):
        repository.git("update-ref", f"refs/heads/{name}", commit)
    clone = clone_of(repository, tmp_path / "shallow", "--depth=2", "--no-single-branch")
    assert clone.attempt("cat-file", "-e", first).returncode != 0
    assert merge_all(clone, tip, (own, base)) == merge_all(repository, tip, (own, base))


def test_a_partial_clone_fetches_nothing_and_says_what_brings_it(
    repository: Repository, tmp_path: Path
) -> None:
    base, tip, own = fork(
        repository, {b"f": FILE}, {b"f": edited(3, b"ours")}, {b"f": edited(15, b"theirs")}
    )
    for name, commit in (("main", tip), ("own", own)):
        repository.git("update-ref", f"refs/heads/{name}", commit)
    repository.git("config", "uploadpack.allowFilter", "true")
    repository.git("config", "uploadpack.allowAnySHA1InWant", "true")
    clone = clone_of(repository, tmp_path / "partial", "--filter=blob:none", "--no-checkout")
    with pytest.raises(GitFailed, match=r"`git fetch --refetch --no-filter`"):
        merge_all(clone, tip, (own, base))
    clone.git("fetch", "-q", "--refetch", "--no-filter")
    assert merge_all(clone, tip, (own, base)) == merge_all(repository, tip, (own, base))


def clone_of(repository: Repository, place: Path, *options: str) -> Repository:
    subprocess.run(
        ["git", "clone", "-q", *options, f"file://{repository.path}", str(place)],
        env=ENVIRONMENT,
        check=True,
        capture_output=True,
    )
    clone = object.__new__(Repository)
    clone.path = place
    return clone


def test_a_repository_with_sha256_works_alike(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "sha256", "--object-format=sha256")
    base, one, two, three = fork(
        repository,
        {b"f": FILE},
        {b"f": edited(3, b"one")},
        {b"f": edited(15, b"two"), b"d/new": FILE},
        {b"f": edited(3, b"three")},
    )
    candidates = [MergeCandidate(commit=c, base=base) for c in (one, two, three)]
    steps = merge_all(repository, base, *((one.commit, base) for one in candidates))
    expected = Judge(repository).merge(base, candidates)
    assert [Verdict(one.tree, one.clean) for one in steps] == expected
    assert [one.clean for one in expected] == [True, True, False]


def test_a_worktree_and_a_bare_repository_do_as_well(
    repository: Repository, tmp_path: Path
) -> None:
    base, tip, own = fork(
        repository, {b"f": FILE}, {b"f": edited(3, b"ours")}, {b"f": edited(15, b"theirs")}
    )
    expected = merge_all(repository, tip, (own, base))
    repository.git("worktree", "add", "-q", "--detach", str(tmp_path / "worktree"), tip)
    for path in (tmp_path / "worktree", repository.path / ".git"):
        with open_object_store(path) as objects:
            assert list(merge(objects, tip, [MergeCandidate(commit=own, base=base)])) == expected


def test_a_stranger_is_refused_and_the_others_go_on(repository: Repository) -> None:
    base, one, two = fork(
        repository, {b"f": FILE}, {b"f": edited(3, b"one")}, {b"g": FILE, b"f": FILE}
    )
    stranger = repository.commit({b"x": FILE})
    steps = merge_all(repository, base, (one, base), (stranger, base), (two, base))
    assert [kinds(step) for step in steps] == [[], [ConflictKind.UNRELATED], []]
    assert steps[2].tree == merge_all(repository, base, (one, base), (two, base))[1].tree


def test_of_a_candidate_on_a_sibling_only_its_own_work_is_taken(repository: Repository) -> None:
    base = repository.commit({b"f": FILE})
    sibling = repository.commit({b"f": FILE, b"sibling": FILE}, base)
    own = repository.commit({b"f": edited(3, b"own"), b"sibling": FILE}, sibling)
    (step,) = merge_all(repository, base, (own, sibling))
    assert set(repository.files(step.tree)) == {b"f"}
    together = merge_all(repository, base, (sibling, base), (own, sibling))
    assert together[1].tree == repository.tree(own)


def test_what_trunk_already_contains_is_not_put_back(repository: Repository) -> None:
    base = repository.commit({b"f": FILE})
    own = repository.commit({b"f": edited(3, b"own")}, base)
    reverted = repository.commit({b"f": FILE}, own)
    (step,) = merge_all(repository, reverted, (own, base))
    assert step.clean
    assert step.tree == repository.tree(reverted)


def test_a_candidate_that_merged_trunk_meanwhile_is_measured_from_there(
    repository: Repository,
) -> None:
    base = repository.commit({b"f": FILE})
    middle = repository.commit({b"f": edited(3, b"middle")}, base)
    tip = repository.commit({b"f": edited(3, b"later")}, middle)
    draft = repository.commit({b"f": FILE, b"own": FILE}, base)
    own = repository.commit({b"f": edited(3, b"middle"), b"own": FILE}, draft, middle)
    (step,) = merge_all(repository, tip, (own, base))
    assert step.clean
    assert b"later" in repository.read(step.tree, "f")


def test_an_empty_candidate_leaves_the_tree_as_it_is(repository: Repository) -> None:
    base = repository.commit({b"f": FILE})
    empty = repository.commit({b"f": FILE}, base)
    steps = merge_all(repository, base, (empty, base), (base, base))
    assert [(step.clean, step.tree) for step in steps] == [(True, repository.tree(base))] * 2
    assert merge_all(repository, base) == []


def test_case_only_clashes_count_where_the_target_cannot_tell_them_apart(
    repository: Repository,
) -> None:
    base, lower, upper, renamed = fork(
        repository,
        {b"src/f": FILE},
        {b"src/f": FILE, b"src/readme": File(b"1\n")},
        {b"src/f": FILE, b"SRC/new": File(b"2\n"), b"src/README": File(b"2\n")},
        {b"src/F": FILE},
    )
    candidates = [MergeCandidate(commit=c, base=base) for c in (lower, upper, renamed)]
    with open_object_store(repository.path) as objects:
        assert all(step.clean for step in merge(objects, base, candidates))
        steps = merge(objects, base, candidates, ignores_case=True)
    assert [kinds(step) for step in steps] == [[], [ConflictKind.CASE, ConflictKind.CASE], []]
    assert {one.paths for one in steps[1].conflicts} == {
        ("SRC", "src"),
        ("src/README", "src/readme"),
    }
    repository.git("config", "core.ignorecase", "true")
    with open_object_store(repository.path) as objects:
        assert merge(objects, base, candidates) == steps


def test_a_crafted_path_is_refused_as_git_merge_would(repository: Repository) -> None:
    base, good = fork(repository, {b"f": FILE}, {b"f": edited(3, b"good")})
    blob = repository.git("hash-object", "-w", "--stdin", stdin=b"[core]\n")
    inner = repository.git("mktree", stdin=f"100644 blob {blob}\tconfig\n".encode())
    tree = repository.git("mktree", stdin=f"040000 tree {inner}\t.git\n".encode())
    crafted = repository.git("commit-tree", tree, "-p", base, "-m", "m")
    steps = merge_all(repository, base, (crafted, base), (good, base))
    assert [kinds(step) for step in steps] == [[ConflictKind.PATH], []]
    assert steps[1].tree == repository.tree(good)
    (verdict,) = Judge(repository).merge(base, [MergeCandidate(commit=crafted, base=base)])
    assert not verdict.clean


def test_commits_that_are_not_there_are_named(repository: Repository) -> None:
    base = repository.commit({b"f": FILE})
    with pytest.raises(MissingCommit, match=r"f{40} is not a commit"):
        merge_all(repository, base, ("f" * 40, base))
    with pytest.raises(MissingCommit):
        merge_all(repository, repository.tree(base))


def test_a_damaged_repository_is_an_error_and_no_verdict(repository: Repository) -> None:
    base, tip, own = fork(
        repository, {b"f": FILE}, {b"f": edited(3, b"ours")}, {b"f": edited(15, b"theirs")}
    )
    repository.git("unpack-objects", "-q", stdin=packed(repository, [base, tip, own]))
    lost = repository.git("rev-parse", f"{own}:f")
    (repository.path / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    with pytest.raises(GitFailed):
        merge_all(repository, tip, (own, base))


def packed(repository: Repository, commits: Sequence[str]) -> bytes:
    """Everything these commits hold, while the packs it came from are out of the way."""
    asked = "".join(f"{one}\n" for one in commits).encode()
    done = repository.attempt("pack-objects", "--stdout", "--revs", "-q", stdin=asked)
    for pack in (repository.path / ".git" / "objects" / "pack").glob("pack-*"):
        os.rename(pack, pack.with_name(f"away-{pack.name}"))
    return done.stdout
