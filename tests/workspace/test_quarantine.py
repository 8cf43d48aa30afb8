"""The git directory of a sandboxed agent's own, and what weft takes in from it."""

from __future__ import annotations

import os
import subprocess
import zlib
from pathlib import Path

import pytest

from repositories import git, make_candidate, make_repository, prepare, write
from weft import workspace
from weft.workspace import Workspace, quarantine


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


@pytest.fixture
def place(root: Path) -> Workspace:
    git(root, "config", "http.extraHeader", "Authorization: secret")
    git(root, "config", "remote.origin.url", "https://me:secret@example.org/x.git")
    git(root, "tag", "-m", "annotated", "v1")
    place = prepare(root)
    quarantine.make_quarantine(place)
    return place


def objects(root: Path) -> set[str]:
    return set(git(root, "cat-file", "--batch-all-objects", "--batch-check").split("\n"))


def kept(root: Path) -> list[str]:
    return git(root, "for-each-ref", "--format=%(refname)", "refs/weft/archive").split()


def commit(place: Workspace, **files: str) -> str:
    write(place.path, **files)
    git(place.path, "add", "-A")
    git(place.path, "commit", "-qm", "own")
    return git(place.path, "rev-parse", "HEAD").strip()


def test_the_agents_git_works_as_in_the_repository_and_writes_nothing_there(
    root: Path, place: Workspace
) -> None:
    before = objects(root), git(root, "for-each-ref")
    assert git(place.path, "status", "--porcelain") == ""
    assert git(place.path, "rev-parse", "--symbolic-full-name", "HEAD").strip() == "HEAD"
    assert git(place.path, "describe", "--tags").strip() == "v1"
    assert git(place.path, "log", "--format=%s", "main") == "first\n"
    assert git(place.path, "remote", "get-url", "origin").strip() == "https://example.org/x.git"
    assert "secret" not in git(place.path, "config", "--list", "--local")
    commit(place, a="mine\n")
    git(place.path, "branch", "other")
    git(place.path, "gc", "--quiet", "--prune=now")
    assert (objects(root), git(root, "for-each-ref")) == before


def test_commits_and_staged_files_are_taken_in_when_the_workspace_is_given_back(
    root: Path, place: Workspace
) -> None:
    own = commit(place, a="one\n")
    git(place.path, "reset", "-q", "--hard", "HEAD~")
    write(place.path, dir__b="staged\n")
    git(place.path, "add", "dir/b")
    write(place.path, dir__b="last\n")
    candidate = make_candidate(place)
    workspace.release(place)
    git(root, "fsck", "--strict")
    assert f"refs/weft/archive/r/t/1/{own}" in kept(root)
    texts = {git(root, "show", f"{ref}:dir/b") for ref in kept(root)}
    assert "staged\n" in texts
    assert git(root, "show", f"{candidate}:dir/b") == "last\n"
    again = prepare(root, attempt=2)
    assert not again.slot.quarantine.exists()
    assert git(again.path, "rev-parse", "--git-common-dir").strip() == str(root / ".git")


def test_a_pipe_in_a_quarantine_keeps_nobody_waiting(root: Path, place: Workspace) -> None:
    own = commit(place, a="mine\n")
    git(place.path, "checkout", "-q", "--detach", place.base)
    os.mkfifo(place.slot.quarantine / "objects" / "info" / "commit-graph")
    workspace.release(place)
    assert f"refs/weft/archive/r/t/1/{own}" in kept(root)


def _alternates(own: Path, blob: Path) -> None:
    """The blob is elsewhere, where the quarantine says that it borrows."""
    place = own.parent / "elsewhere" / blob.parent.name
    place.mkdir(parents=True)
    blob.rename(place / blob.name)
    (own / "objects" / "info" / "alternates").write_text(f"{place.parent}\n")


def _other_content(own: Path, blob: Path) -> None:
    blob.chmod(0o644)
    blob.write_bytes(zlib.compress(b"blob 4\0evil"))


def _link(own: Path, blob: Path) -> None:
    blob.rename(own.parent / "blob")
    blob.symlink_to(own.parent / "blob")


@pytest.mark.parametrize("spoil", [_alternates, _other_content, _link])
def test_what_is_not_whole_or_not_plain_is_not_taken_in(
    root: Path, place: Workspace, spoil: object
) -> None:
    own = commit(place, a="mine\n")
    git(place.path, "checkout", "-q", "--detach", place.base)
    blob = git(place.path, "rev-parse", f"{own}:a").strip()
    assert callable(spoil)
    spoil(place.slot.quarantine, place.slot.quarantine / "objects" / blob[:2] / blob[2:])
    workspace.release(place)
    assert not any(own in ref for ref in kept(root))
    git(root, "fsck", "--strict")
    git(root, "gc", "--quiet", "--prune=now")


def test_a_commit_that_no_git_would_check_out_is_not_taken_in(root: Path, place: Workspace) -> None:
    """Its tree has a file `.git` in it; weakened, it is kept, and `git fsck` fails for ever."""
    write(place.path, config="[core]\n")
    blob = git(place.path, "hash-object", "-w", "config").strip()
    entry = f"100644 blob {blob}\t.git\n"
    tree = subprocess.check_output(["git", "mktree"], cwd=place.path, input=entry, text=True)
    own = git(place.path, "commit-tree", "-m", "own", tree.strip()).strip()
    (place.slot.quarantine / "ORIG_HEAD").write_text(f"{own}\n")
    workspace.release(place)
    assert not any(own in ref for ref in kept(root))
    git(root, "fsck", "--strict")
