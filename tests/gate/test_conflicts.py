"""A candidate that does not fit says why: which kind, which paths, which lines."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gate.repositories import File, Files, Judge, Repository
from weft.gate.conflicts import MOST_TEXT, ConflictKind, FileConflict, describe
from weft.gate.merge import MergeCandidate, MergeStep, merge
from weft.git.object_store import open_object_store

TEXT = b"".join(b"line %d\n" % number for number in range(20))
FILE = File(TEXT)
LINK = "120000"


def edited(word: bytes) -> File:
    return File(TEXT.replace(b"line 9\n", word + b"\n"))


@dataclass(frozen=True, kw_only=True)
class Clash:
    kind: ConflictKind
    base: Files
    trunk: Files
    candidate: Files
    path: str


CLASHES = {
    "two edits of one line": Clash(
        kind=ConflictKind.CONTENT,
        base={b"f": FILE},
        trunk={b"f": edited(b"ours")},
        candidate={b"f": edited(b"theirs")},
        path="f",
    ),
    "one new file twice": Clash(
        kind=ConflictKind.CONTENT,
        base={b"x": FILE},
        trunk={b"x": FILE, b"f": File(b"ours\n")},
        candidate={b"x": FILE, b"f": File(b"theirs\n")},
        path="f",
    ),
    "two edits of a binary file": Clash(
        kind=ConflictKind.BINARY,
        base={b"f": File(b"\0a")},
        trunk={b"f": File(b"\0b")},
        candidate={b"f": File(b"\0c")},
        path="f",
    ),
    "a link turned two ways": Clash(
        kind=ConflictKind.SYMLINK,
        base={b"f": File(b"a", LINK)},
        trunk={b"f": File(b"b", LINK)},
        candidate={b"f": File(b"c", LINK)},
        path="f",
    ),
    "a submodule moved two ways": Clash(
        kind=ConflictKind.SUBMODULE,
        base={b"f": File(b"1" * 40, "160000")},
        trunk={b"f": File(b"2" * 40, "160000")},
        candidate={b"f": File(b"3" * 40, "160000")},
        path="f",
    ),
    "one new file, executable and not": Clash(
        kind=ConflictKind.MODE,
        base={b"x": FILE},
        trunk={b"x": FILE, b"f": File(b"same\n")},
        candidate={b"x": FILE, b"f": File(b"same\n", "100755")},
        path="f",
    ),
    "a file against a link": Clash(
        kind=ConflictKind.MODE,
        base={b"x": FILE},
        trunk={b"x": FILE, b"f": File(b"ours\n")},
        candidate={b"x": FILE, b"f": File(b"x", LINK)},
        path="f",
    ),
    "deleted in trunk, edited here": Clash(
        kind=ConflictKind.DELETE_MODIFY,
        base={b"x": File(b"x\n"), b"f": FILE},
        trunk={b"x": File(b"x\n")},
        candidate={b"x": File(b"x\n"), b"f": edited(b"theirs")},
        path="f",
    ),
    "a file where there is a directory": Clash(
        kind=ConflictKind.DIRECTORY_FILE,
        base={b"x": FILE},
        trunk={b"x": FILE, b"d/f": File(b"ours\n")},
        candidate={b"x": FILE, b"d": File(b"theirs\n")},
        path="d",
    ),
    "renamed two ways": Clash(
        kind=ConflictKind.RENAME_RENAME,
        base={b"f": FILE},
        trunk={b"ours": FILE},
        candidate={b"theirs": FILE},
        path="f",
    ),
    "renamed here, deleted in trunk": Clash(
        kind=ConflictKind.RENAME_DELETE,
        base={b"x": File(b"x\n"), b"f": FILE},
        trunk={b"x": File(b"x\n")},
        candidate={b"x": File(b"x\n"), b"g": FILE},
        path="g",
    ),
    "renamed to what trunk added": Clash(
        kind=ConflictKind.RENAME_ADD,
        base={b"f": FILE},
        trunk={b"f": edited(b"ours"), b"g": File(b"other\n")},
        candidate={b"g": edited(b"theirs")},
        path="g",
    ),
    "added to a directory that moved": Clash(
        kind=ConflictKind.DIRECTORY_RENAME,
        base={b"d/%d" % number: File(TEXT + b"%d" % number) for number in range(3)},
        trunk={b"e/%d" % number: File(TEXT + b"%d" % number) for number in range(3)},
        candidate={
            **{b"d/%d" % number: File(TEXT + b"%d" % number) for number in range(3)},
            b"d/new": File(b"new\n"),
        },
        path="e/new",
    ),
}


def clash(repository: Repository, one: Clash) -> MergeStep:
    base = repository.commit(one.base)
    tip, own = repository.commits([(one.trunk, [base]), (one.candidate, [base])])
    candidate = MergeCandidate(commit=own, base=base)
    with open_object_store(repository.path) as objects:
        (step,) = merge(objects, tip, [candidate])
    assert step.tree == repository.tree(tip), "a conflict leaves trunk's tree as it was"
    return step


@pytest.mark.parametrize("name", CLASHES)
def test_each_way_to_clash_has_its_kind(shared: Repository, name: str) -> None:
    one = CLASHES[name]
    step = clash(shared, one)
    assert one.kind in {conflict.kind for conflict in step.conflicts}
    assert any(one.path in conflict.paths for conflict in step.conflicts)
    assert str(one.kind) in describe(step.conflicts)


@pytest.mark.parametrize("name", ["two edits of one line", "a file against a link"])
def test_git_merge_says_so_too(shared: Repository, name: str) -> None:
    one = CLASHES[name]
    base = shared.commit(one.base)
    tip, own = shared.commits([(one.trunk, [base]), (one.candidate, [base])])
    (verdict,) = Judge(shared).merge(tip, [MergeCandidate(commit=own, base=base)])
    assert not verdict.clean


def test_the_report_shows_the_contested_lines_and_calls_the_sides_by_name(
    shared: Repository,
) -> None:
    step = clash(shared, CLASHES["two edits of one line"])
    text = describe(step.conflicts)
    for part in ("<<<<<<< trunk", "ours", "=======", "theirs", ">>>>>>> candidate", "line 7"):
        assert part in text
    assert "line 2" not in text.replace("line 20", ""), "far lines are left out"


def test_a_report_is_bounded_however_much_clashes(shared: Repository) -> None:
    lines = [b"%d\n" % number for number in range(2000)]
    one = Clash(
        kind=ConflictKind.CONTENT,
        base={b"f": File(b"".join(lines))},
        trunk={b"f": File(b"ours\n".join(lines))},
        candidate={b"f": File(b"theirs\n".join(lines))},
        path="f",
    )
    conflicts = clash(shared, one).conflicts * 20
    assert MOST_TEXT / 2 < len(describe(conflicts)) < MOST_TEXT + 100


@pytest.mark.parametrize("name", [b"new\nline", b'quo"te\t', b"\xff\xfe", b"\x1b[31mred", b" "])
def test_hostile_names_are_exact_in_the_record_and_harmless_in_the_text(
    shared: Repository, name: bytes
) -> None:
    path = b"d\n\xfd/" + name
    one = Clash(
        kind=ConflictKind.CONTENT,
        base={path: FILE},
        trunk={path: edited(b"ours")},
        candidate={path: edited(b"theirs")},
        path="",
    )
    (conflict,) = clash(shared, one).conflicts
    assert conflict.paths == (path.decode(errors="surrogateescape"),)
    assert "theirs" in conflict.hunks
    text = describe([conflict])
    text.encode()  # no surrogates left
    assert "\x1b" not in text
    assert text.splitlines()[0].startswith("content conflict in d\\n\\xfd/")


def test_a_conflict_without_paths_is_a_sentence() -> None:
    alone = FileConflict(kind=ConflictKind.UNRELATED, paths=(), text="No common history.")
    assert describe([alone]) == "No common history.\n"
