"""The commits that land: whose they are, what they say, and that they hold what was merged."""

from __future__ import annotations

import pytest

from gate.repositories import File, Repository
from weft.gate.merge import MergeCandidate, merge
from weft.gate.trunk import LandingCommit, commit_chain, tree_of
from weft.git.object_store import open_object_store

NOON = 1_700_040_000


def commit_as(
    repository: Repository, author: str, message: bytes, name: bytes, base: str, *headers: bytes
) -> str:
    """A commit on the base that adds a file, written by hand: any bytes will do."""
    tree = repository.tree(repository.commit({b"f": File(b"f\n"), name: File(name)}, base))
    lines = [
        f"tree {tree}\nparent {base}\nauthor {author} 1600000000 +0130".encode(),
        f"committer {author} 1600000001 +0130".encode(),
        *headers,
    ]
    content = b"\n".join(lines) + b"\n\n" + message
    return repository.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=content)


def landed(repository: Repository, tip: str, *landings: LandingCommit) -> tuple[str, ...]:
    with open_object_store(repository.path) as objects:
        return commit_chain(objects, tip, landings, committed=NOON)


def message(repository: Repository, commit: str) -> str:
    return repository.git("log", "-1", "--format=%B", commit).rstrip("\n")


@pytest.fixture
def base(repository: Repository) -> str:
    return repository.commit({b"f": File(b"f\n")})


def test_candidates_become_a_chain_of_one_commit_each(repository: Repository, base: str) -> None:
    one = commit_as(repository, "Ann <ann@example.org>", b"one\n", b"1", base)
    two = commit_as(repository, "Bob <bob@example.org>", b"two\n", b"2", base)
    with open_object_store(repository.path) as objects:
        candidates = [MergeCandidate(commit=name, base=base) for name in (one, two)]
        steps = merge(objects, base, candidates)
        chain = commit_chain(
            objects,
            base,
            [LandingCommit(tree=step.tree, candidates=(step.candidate.commit,)) for step in steps],
            committed=NOON,
        )
        assert [tree_of(objects, name) for name in chain] == [step.tree for step in steps]
    shown = repository.git("log", "--reverse", "--format=%an %ae %ad|%cn %ct|%P|%s", *chain[-1:])
    assert shown.split("\n")[1:] == [
        f"Ann ann@example.org Sun Sep 13 13:56:40 2020 +0130|weft {NOON}|{base}|one",
        f"Bob bob@example.org Sun Sep 13 13:56:40 2020 +0130|weft {NOON}|{chain[0]}|two",
    ]
    assert set(repository.files(chain[1])) == {b"f", b"1", b"2"}
    assert repository.attempt("fsck", "--strict").returncode == 0


def test_the_same_landing_built_again_is_the_same_commit(repository: Repository, base: str) -> None:
    own = commit_as(repository, "Ann <ann@example.org>", b"one\n", b"1", base)
    landing = LandingCommit(
        tree=repository.tree(own), candidates=(own,), trailers=(("Weft-Task", "7"),)
    )
    assert landed(repository, base, landing, landing) == landed(repository, base, landing, landing)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"subject", "subject\n\nWeft-Task: 7"),
        (b"fix: subject\n", "fix: subject\n\nWeft-Task: 7"),
        (
            b"subject\n\nbody: it goes\non here\n",
            "subject\n\nbody: it goes\non here\n\nWeft-Task: 7",
        ),
        (
            b"subject\n\nbody\n\nReviewed-by: Eve <eve@example.org>\n",
            "subject\n\nbody\n\nReviewed-by: Eve <eve@example.org>\nWeft-Task: 7",
        ),
        (b"subject\n\nWeft-Task: 7\n", "subject\n\nWeft-Task: 7"),
        (b"", "Weft-Task: 7"),
    ],
)
def test_trailers_are_kept_and_added_to(
    repository: Repository, base: str, before: bytes, after: str
) -> None:
    own = commit_as(repository, "Ann <ann@example.org>", before, b"1", base)
    landing = LandingCommit(
        tree=repository.tree(own), candidates=(own,), trailers=(("Weft-Task", "7"),)
    )
    (commit,) = landed(repository, base, landing)
    assert message(repository, commit) == after


def test_git_finds_the_trailers_again(repository: Repository, base: str) -> None:
    own = commit_as(
        repository, "Ann <ann@example.org>", b"s\n\nSigned-off-by: Ann <a@b>\n", b"1", base
    )
    trailers = (("Weft-Task", "7"), ("Weft-Run", "r\nForged: yes"))
    (commit,) = landed(
        repository,
        base,
        LandingCommit(tree=repository.tree(own), candidates=(own,), trailers=trailers),
    )
    shown = repository.git("log", "-1", "--format=%(trailers:only,unfold)", commit)
    assert shown.strip().split("\n") == [
        "Signed-off-by: Ann <a@b>",
        "Weft-Task: 7",
        "Weft-Run: r Forged: yes",
    ]


def test_a_story_lands_as_one_commit_of_all_who_worked_on_it(
    repository: Repository, base: str
) -> None:
    ann, bob = "Ann <ann@example.org>", "Bob <bob@example.org>"
    one = commit_as(repository, ann, b"one\n\nFixes: #1\n", b"1", base)
    two = commit_as(repository, bob, b"two\n", b"2", base)
    three = commit_as(repository, ann, b"three\n\nFixes: #3\n", b"3", base)
    story = LandingCommit(
        tree=repository.tree(three),
        candidates=(one, two, three),
        message="The story\n\nIn full.",
        trailers=(("Weft-Task", "9"),),
    )
    (commit,) = landed(repository, base, story)
    assert repository.git("log", "-1", "--format=%an", commit) == "Ann"
    assert message(repository, commit) == (
        "The story\n\nIn full.\n\nFixes: #1\nFixes: #3\n"
        "Co-authored-by: Bob <bob@example.org>\nWeft-Task: 9"
    )


def test_bytes_of_another_encoding_are_kept_and_signatures_are_not(
    repository: Repository, base: str
) -> None:
    own = commit_as(
        repository,
        "Jörg <j@example.org>",
        "Gr\xfc\xdfe\n".encode("latin-1"),
        b"1",
        base,
        b"encoding ISO-8859-1",
        b"gpgsig -----BEGIN PGP SIGNATURE-----\n \n abc\n -----END PGP SIGNATURE-----",
    )
    (commit,) = landed(
        repository, base, LandingCommit(tree=repository.tree(own), candidates=(own,))
    )
    raw = repository.attempt("cat-file", "commit", commit).stdout
    assert b"encoding ISO-8859-1\n" in raw
    assert b"Gr\xfc\xdfe" in raw
    assert b"gpgsig" not in raw


def test_replacing_a_commit_does_not_fool_the_look_at_its_tree(
    repository: Repository, base: str
) -> None:
    other = repository.commit({b"other": File(b"other\n")})
    true = repository.tree(base)
    repository.git("replace", base, other)
    with open_object_store(repository.path) as objects:
        assert tree_of(objects, base) == true
    assert repository.tree(base) != true
