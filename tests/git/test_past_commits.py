"""The commits of a repository as they are read for predictions, hostile names included."""

from __future__ import annotations

from pathlib import Path

import pytest

from repositories import commit_all, git, make_repository
from weft.git.past_commits import (
    find_definitions,
    list_past,
    list_tree,
    read_blobs,
    read_past,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "r")


def tip(root: Path) -> str:
    return git(root, "rev-parse", "HEAD").strip()


def test_commits_are_read_oldest_first_with_messages_files_and_renames(root: Path) -> None:
    (root / "dir" / "b").write_text("b\n" * 20)
    commit_all(root, "fill b\n\nin two paragraphs")
    git(root, "mv", "dir/b", "moved")
    commit_all(root, "move b")
    git(root, "commit", "-q", "--allow-empty", "-m", "nothing")
    commits = list(read_past(root, list_past(root, "HEAD", most=10)))
    assert [commit.message.splitlines()[0] for commit in commits] == ["first", "fill b", "move b"]
    assert commits[1].files == ("dir/b",)
    assert commits[1].message == "fill b\n\nin two paragraphs\n"
    assert (commits[2].files, commits[2].renames) == (("moved",), (("dir/b", "moved"),))


def test_the_newest_commits_and_those_behind_a_known_commit_can_be_listed(root: Path) -> None:
    known = tip(root)
    for number in range(3):
        (root / "a").write_text(f"{number}\n")
        commit_all(root, f"commit {number}")
    assert len(list_past(root, "HEAD", most=2)) == 2
    assert list_past(root, "HEAD", most=9)[0] == known
    assert list_past(root, "HEAD", most=9, known=known) == list_past(root, "HEAD", most=3)


def test_a_merge_is_left_out(root: Path) -> None:
    git(root, "checkout", "-q", "-b", "side")
    (root / "side").write_text("s\n")
    commit_all(root, "on the side")
    git(root, "checkout", "-q", "main")
    git(root, "merge", "-q", "--no-ff", "-m", "merge it", "side")
    messages = [
        commit.message.strip() for commit in read_past(root, list_past(root, "HEAD", most=9))
    ]
    assert messages == ["first", "on the side"]


def test_names_and_messages_of_any_bytes_are_kept_apart(root: Path) -> None:
    names = ["a b", "new\nline", "é", "tab\t", '"quoted"', "-rf", "0" * 40, "\udcff"]
    for name in names:
        (root / name).write_text("x\n")
    message = f"M\n{'f' * 40}\nA\tx\n\x01 \u2028 :100644"
    git(root, "add", "-A")
    git(root, "commit", "-q", "--cleanup=verbatim", "-m", message)
    last = list(read_past(root, list_past(root, "HEAD", most=9)))[-1]
    assert sorted(last.files) == sorted(names)
    assert last.message.strip() == message.strip()
    assert set(names) < set(list_tree(root, "HEAD"))


def test_definitions_are_found_in_a_commit_and_not_uses(root: Path) -> None:
    (root / "one.py").write_text("def read_it(x):\n    return make_it(x)\n")
    (root / "two.js").write_text("export function make_it() {}\nclass Reader {}\nread_it()\n")
    commit_all(root)
    (root / "later.py").write_text("def read_it(): ...\n")
    places = find_definitions(root, tip(root), ["read_it", "make_it", "Reader", "absent"])
    assert places == {"read_it": ("one.py",), "make_it": ("two.js",), "Reader": ("two.js",)}
    assert find_definitions(root, tip(root), []) == {}


def test_files_are_read_at_once_and_missing_files_are_left_out(root: Path) -> None:
    (root / "é").write_bytes(b"\xff\x00\n")
    commit_all(root)
    texts = read_blobs(root, tip(root), ["a", "absent", "é", "dir/b", "new\nline"])
    assert texts == {"a": "a\n", "é": "\ufffd\x00\n", "dir/b": "b\n"}
