"""Merging without a working tree says exactly what `git merge` in one says."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gate.histories import make_history
from gate.repositories import File, Judge, Repository, Verdict
from weft.gate.conflicts import ConflictKind
from weft.gate.merge import KnownMerges, MergeCandidate, merge
from weft.git.object_store import open_object_store

_EXAMPLES = 1000 if "WEFT_CHAOS" in os.environ else 8
_TEXT = b"".join(b"line %d\n" % number for number in range(60))


def merged(repository: Repository, tip: str, candidates: Sequence[MergeCandidate]) -> list[Verdict]:
    with open_object_store(repository.path) as objects:
        return [Verdict(one.tree, one.clean) for one in merge(objects, tip, candidates)]


def with_line(number: int) -> bytes:
    return _TEXT.replace(b"line %d\n" % number, b"changed %d\n" % number)


def on(base: str, commits: Sequence[str]) -> list[MergeCandidate]:
    return [MergeCandidate(commit=one, base=base) for one in commits]


@pytest.mark.chaos
@settings(max_examples=_EXAMPLES)
@given(chance=st.randoms(use_true_random=False))
def test_every_prefix_is_what_git_merge_makes_of_it(
    shared: Repository, chance: random.Random
) -> None:
    history = make_history(shared, chance)
    expected = Judge(shared).merge(history.tip, history.candidates)
    assert merged(shared, history.tip, history.candidates) == expected


@pytest.mark.chaos
@settings(max_examples=_EXAMPLES)
@given(chance=st.randoms(use_true_random=False))
def test_every_candidate_alone_is_what_git_merge_makes_of_it(
    shared: Repository, chance: random.Random
) -> None:
    history = make_history(shared, chance)
    for one in history.candidates[:2]:
        assert merged(shared, history.tip, [one]) == Judge(shared).merge(history.tip, [one])


def united(repository: Repository, tip: str, candidates: Sequence[MergeCandidate]) -> list[Verdict]:
    """The weakened gate: a union of deltas, file by file, without a word from git's merge."""
    tree = read_files(repository, tip)
    verdicts = []
    for one in candidates:
        before, after = read_files(repository, one.base), read_files(repository, one.commit)
        changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
        clean = all(tree.get(path) in (before.get(path), after.get(path)) for path in changed)
        if clean:
            tree = {path: line for path, line in tree.items() if path not in changed}
            tree |= {path: after[path] for path in changed if path in after}
        entries = "".join(f"{line}\t{path}\0" for path, line in sorted(tree.items()))
        index = str(repository.path / "united")
        repository.git("update-index", "-z", "--index-info", stdin=entries.encode(), index=index)
        verdicts.append(Verdict(repository.git("write-tree", index=index), clean))
        os.unlink(index)
    return verdicts


def read_files(repository: Repository, commit: str) -> dict[str, str]:
    lines = repository.git("ls-tree", "-r", "-z", "--full-tree", commit).split("\0")[:-1]
    return {path: line for line, _, path in (entry.partition("\t") for entry in lines)}


def test_a_union_of_disjoint_deltas_is_not_enough_where_a_directory_was_renamed(
    shared: Repository,
) -> None:
    texts = {b"%d.py" % number: File(_TEXT + b"%d" % number) for number in range(4)}
    first = shared.commit({b"lib/" + name: file for name, file in texts.items()})
    renames, adds = shared.commits(
        [
            ({b"core/" + name: file for name, file in texts.items()}, [first]),
            (
                {**{b"lib/" + n: f for n, f in texts.items()}, b"lib/new.py": File(b"new\n")},
                [first],
            ),
        ]
    )
    candidates = on(first, [renames, adds])
    expected = Judge(shared).merge(first, candidates)
    with open_object_store(shared.path) as objects:
        steps = merge(objects, first, candidates)
    assert [Verdict(one.tree, one.clean) for one in steps] == expected
    assert [one.kind for one in steps[1].conflicts] == [ConflictKind.DIRECTORY_RENAME]
    weakened = united(shared, first, candidates)
    assert weakened != expected, "the judge must notice what the weakened gate overlooks"


def test_far_edits_of_one_file_merge_and_near_ones_conflict(shared: Repository) -> None:
    base = shared.commit({b"f": File(_TEXT)})
    lines = [1, 20, 40, 41, 58, 20]
    commits = shared.commits([({b"f": File(with_line(line))}, [base]) for line in lines])
    candidates = on(base, commits)
    verdicts = merged(shared, base, candidates)
    assert verdicts == Judge(shared).merge(base, candidates)
    assert [one.clean for one in verdicts] == [True, True, True, False, True, True]
    assert verdicts[5].tree == verdicts[4].tree, "an identical change adds nothing"


def test_many_candidates_of_which_some_conflict_go_in_together(shared: Repository) -> None:
    base = shared.commit({b"d%d/f" % number: File(_TEXT) for number in range(10)})
    files = {b"d%d/f" % number: File(_TEXT) for number in range(10)}
    wanted = [
        ({**files, b"d%d/f" % (number % 10): File(with_line(number % 7 * 8))}, [base])
        for number in range(12)
    ]
    wanted[7] = ({**files, b"d3/f": File(b"all else\n")}, [base])
    candidates = on(base, shared.commits(wanted))
    verdicts = merged(shared, base, candidates)
    assert not verdicts[7].clean
    assert verdicts == Judge(shared).merge(base, candidates)


def test_known_answers_are_used_and_change_no_verdict(shared: Repository) -> None:
    base = shared.commit({b"f": File(_TEXT)})
    commits = shared.commits([({b"f": File(with_line(line))}, [base]) for line in (1, 20, 21, 40)])
    candidates = on(base, commits)
    known: KnownMerges = {}
    with open_object_store(shared.path) as objects:
        merge(objects, base, candidates[:3], known=known)
        assert len(known) == 3
        steps = merge(objects, base, candidates, known=known)
        assert len(known) == 4, "the first three are merged once"
        assert steps == merge(objects, base, candidates)


def test_what_was_written_is_sound(repository: Repository) -> None:
    """Our own objects, by git's strictest look at them; without a reference it looks at none."""
    history = make_history(repository, random.Random(1))
    merged(repository, history.tip, history.candidates)
    repository.attempt("update-ref", "refs/heads/main", history.tip)
    done = repository.attempt("fsck", "--strict", "--no-dangling", "--unreachable")
    assert done.returncode == 0, done.stderr
    assert b"unreachable tree" in done.stdout
