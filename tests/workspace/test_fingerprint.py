from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from repositories import commit_all, git, make_candidate, make_repository, prepare, write
from weft.workspace import clean, compare, fingerprint, release


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "repository")
    write(root, dir__b="being edited\n", untracked="x\n")
    return root


def test_the_whole_life_of_workspaces_leaves_no_trace_in_the_checkout(root: Path) -> None:
    git(root, "stash")
    write(root, dir__c="being edited\n")
    before = fingerprint(root)
    for attempt in (1, 2, 3):
        place = prepare(root, attempt=attempt)
        write(place.path, a=f"{attempt}\n")
        commit_all(place.path)
        make_candidate(place)
        release(place)
    clean(root)
    assert compare(before, fingerprint(root)) == ()
    assert before.files.keys() == {"dir/c"}


def test_git_status_by_the_user_changes_nothing(root: Path) -> None:
    before = fingerprint(root)
    git(root, "status")
    assert compare(before, fingerprint(root)) == ()


DEEDS: dict[str, Callable[[Path], object]] = {
    "The checkout was on ref: refs/heads/main": lambda root: git(root, "checkout", "-q", "-b", "x"),
    "What is staged changed.": lambda root: git(root, "add", "dir/b"),
    "The file 'dir/b' changed in the checkout.": lambda root: write(root, dir__b="again\n"),
    "The file 'a' changed in the checkout.": lambda root: (root / "a").unlink(),
    "The reference 'refs/stash' is new.": lambda root: git(root, "stash"),
    "The reference 'refs/heads/main' changed.": commit_all,
    "The reference 'refs/heads/other' is new.": lambda root: git(root, "branch", "other"),
    "config' changed.": lambda root: git(root, "config", "user.name", "x"),
    "pre-commit' is new.": lambda root: write(root / ".git" / "hooks", **{"pre-commit": "x"}),
    "exclude' changed.": lambda root: write(root / ".git" / "info", exclude="*\n"),
    "The untracked file 'untracked' changed.": lambda root: write(root, untracked="another\n"),
    "The untracked file 'untracked' is gone.": lambda root: (root / "untracked").unlink(),
    "The untracked file 'new/deep' is new.": lambda root: write(root, new__deep="x\n"),
    "The untracked file 'nested' is new.": lambda root: git(root, "init", "-q", "nested"),
}


@pytest.mark.parametrize("sentence", DEEDS)
def test_each_deed_in_the_checkout_is_told(root: Path, sentence: str) -> None:
    before = fingerprint(root)
    DEEDS[sentence](root)
    told = compare(before, fingerprint(root))
    assert any(sentence in one for one in told), told


def test_what_is_ignored_or_weft_s_own_is_nobodys_concern(root: Path, tmp_path: Path) -> None:
    """Ignored by the repository, by this clone, and by the user."""
    write(tmp_path, ignore="*.mine\n")
    git(root, "config", "core.excludesFile", str(tmp_path / "ignore"))
    (root / ".git/info/exclude").write_text("*.local\n")
    (root / ".gitignore").write_text("*.log\n")
    before = fingerprint(root)
    write(root, **{"a.log": "x", "a.local": "x", "a.mine": "x", "plan.md": "marks"})
    after = fingerprint(root)
    assert compare(before, after, ours={"plan.md"}) == ()
    assert compare(before, after) == ("The untracked file 'plan.md' is new.",)


def test_of_very_many_untracked_files_those_at_the_top_are_still_watched(root: Path) -> None:
    for number in range(2_100):
        write(root, **{f"output__{number}": ""})
    before = fingerprint(root)
    assert set(before.untracked) == {"untracked"}, "what is kept does not grow with them"
    (root / "untracked").unlink()
    assert compare(before, fingerprint(root)) == ("The untracked file 'untracked' is gone.",)
    write(root, untracked="x\n", output__7="more")
    before = fingerprint(root)
    (root / "output/7").unlink()
    [sentence] = compare(before, fingerprint(root))
    assert "some came or went" in sentence
    for number in range(8, 200):
        (root / f"output/{number}").unlink()
    [sentence] = compare(before, fingerprint(root))  # few enough now, but they were not
    assert "some came or went" in sentence


def test_a_bare_repository_and_one_without_commits_have_one(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare")
    git(tmp_path, "init", "-q", "empty")
    for name in ("bare", "empty"):
        one = fingerprint(tmp_path / name)
        assert compare(one, fingerprint(tmp_path / name)) == ()
