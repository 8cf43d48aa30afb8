"""A git that crashes over a merge, and one that cannot go on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gate.repositories import File, Repository
from weft.gate.conflicts import ConflictKind
from weft.gate.merge import MergeCandidate, MergeStep, merge
from weft.git import GitFailed
from weft.git.object_store import open_object_store

TEXT = b"".join(b"line %d\n" % number for number in range(40))


def seven(repository: Repository) -> tuple[str, list[MergeCandidate]]:
    """Candidates that all fit, but for the fourth, which meets the third."""
    base = repository.commit({b"f": File(TEXT)})
    texts = [TEXT.replace(b"line %d\n" % line, b"%d\n" % line) for line in range(0, 35, 5)]
    texts[3] = TEXT.replace(b"line 10\n", b"otherwise\n")
    commits = repository.commits([({b"f": File(text)}, [base]) for text in texts])
    return base, [MergeCandidate(commit=one, base=base) for one in commits]


def merge_all(
    repository: Repository, tip: str, candidates: list[MergeCandidate]
) -> tuple[MergeStep, ...]:
    with open_object_store(repository.path) as objects:
        return merge(objects, tip, candidates)


def put_in_front(place: Path, monkeypatch: pytest.MonkeyPatch, when_merging: str) -> None:
    """A git that does `when_merging` first, then what git does."""
    real = shutil.which("git")
    place.mkdir()
    program = place / "git"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in "merge-tree "*)\n{when_merging};;\nesac\nexec {real} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(place), prepend=":")


def test_a_merge_that_crashes_git_is_refused_and_the_others_go_in(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, candidates = seven(repository)
    poison = candidates[5]
    expected = merge_all(repository, base, [one for one in candidates if one is not poison])
    put_in_front(
        tmp_path / "bin", monkeypatch, f'case "$*" in *{poison.commit}*) kill -ABRT $$;; esac'
    )
    steps = merge_all(repository, base, candidates)
    assert [one.kind for one in steps[5].conflicts] == [ConflictKind.OTHER]
    assert (*steps[:5], steps[6]) == expected


@pytest.mark.parametrize("end", ["kill -KILL $$", "echo no space left >&2; exit 128"])
def test_a_git_that_cannot_go_on_is_an_error_and_no_verdict(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    base, candidates = seven(repository)
    put_in_front(tmp_path / "bin", monkeypatch, end)
    with pytest.raises(GitFailed, match=candidates[0].commit):
        merge_all(repository, base, candidates)
