from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cases import each_case
from repositories import (
    AUTHOR,
    DATE,
    TRAILERS,
    commit_all,
    git,
    is_kept,
    make_candidate,
    make_repository,
    prepare,
    write,
)
from weft.errors import WorkspaceError
from weft.workspace import candidate, release
from weft.workspace.candidate import compose


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


def test_a_candidate_is_one_commit_on_the_base_with_author_message_and_trailers(root: Path) -> None:
    with prepare(root) as place:
        write(place.path, a="mine\n")
        commit = make_candidate(place, "Do it\n\nBecause.")
    shown = git(root, "log", "-1", "--format=%P|%an|%ae|%at|%cn|%ct|%B", commit)
    assert shown == (
        f"{place.base}|A. Gent|agent@example.org|1700000000|A. Gent|1700000000|"
        "Do it\n\nBecause.\n\nWeft-Run: r\nWeft-Task: t\nWeft-Attempt: 1\n\n"
    )
    found = git(root, "log", "-1", "--format=%(trailers:key=Weft-Task,valueonly)", commit)
    assert found.strip() == "t"


def test_the_same_state_gives_the_same_candidate_however_often(root: Path) -> None:
    with prepare(root) as place:
        write(place.path, a="mine\n")
        first = make_candidate(place)
        refs = git(root, "for-each-ref")
        assert make_candidate(place) == first
        assert git(root, "for-each-ref") == refs


def test_a_later_candidate_replaces_the_earlier_which_is_kept(root: Path) -> None:
    with prepare(root) as place:
        write(place.path, a="one\n")
        make_candidate(place)
        write(place.path, a="two\n")
        second = make_candidate(place)
    assert git(root, "rev-parse", place.branch).strip() == second
    assert is_kept(root, "one\n")


def test_no_change_is_no_commit(root: Path) -> None:
    with prepare(root) as place:
        write(place.path, built__x="ignored\n")
        made = candidate(place, "x", author=AUTHOR, trailers=TRAILERS, date=DATE)
        assert made is None
        assert git(root, "rev-parse", place.branch).strip() == place.base


def test_commits_of_the_agent_are_kept_when_the_candidate_takes_their_place(root: Path) -> None:
    place = prepare(root)
    write(place.path, a="agent's own\n")
    commit_all(place.path)
    write(place.path, a="last word\n")
    make_candidate(place)
    release(place)
    assert is_kept(root, "agent's own\n")


def test_a_branch_made_symbolic_does_not_lead_to_the_users(root: Path) -> None:
    with prepare(root) as place:
        before = git(root, "rev-parse", "main")
        write(place.path, a="mine\n")
        git(place.path, "symbolic-ref", place.branch, "refs/heads/main")
        commit = make_candidate(place)
        assert git(root, "rev-parse", "main") == before
        assert git(root, "rev-parse", place.branch).strip() == commit


def test_a_deleted_branch_comes_back(root: Path) -> None:
    with prepare(root) as place:
        write(place.path, a="mine\n")
        git(root, "update-ref", "-d", place.branch)
        commit = make_candidate(place)
        assert git(root, "rev-parse", place.branch).strip() == commit


def test_files_that_are_gone_are_an_error_and_no_deletion_of_everything(root: Path) -> None:
    with prepare(root) as place:
        shutil.rmtree(place.path)
        with pytest.raises(WorkspaceError, match="are gone"):
            make_candidate(place)


@each_case(
    ("message", "start"),
    [
        ("", "Work of an agent\n\nKey: v w\n"),
        ("x\0y\n", "xy\n\nKey: v w\n"),
        ("Fix\n\nSigned-off-by: A <a@b>", "Fix\n\nSigned-off-by: A <a@b>\nKey: v w\n"),
        ("Fix\n\nNote: \nSee: it", "Fix\n\nNote: \nSee: it\nKey: v w\n"),  # as git reads it
        ("Fix\n\nSee: it\nand more", "Fix\n\nSee: it\nand more\n\nKey: v w\n"),
        ("Fix: it", "Fix: it\n\nKey: v w\n"),
        ("\udcff", "\udcff\n\nKey: v w\n"),
    ],
)
def test_messages_end_in_their_trailers(message: str, start: str) -> None:
    assert compose(message, {"Key": "v\nw"}) == start
