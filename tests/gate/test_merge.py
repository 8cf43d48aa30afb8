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
from weft.gate.merge import MergeCandidate, merge
from weft.gate.merge_guess import guess
from weft.gate.merge_inputs import read_deltas, read_snapshot
from weft.git.merge_tree import merge_pair, merge_pairs
from weft.git.object_store import ObjectStore, open_object_store

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


def unconfirmed(
    objects: ObjectStore, tip: str, candidates: Sequence[MergeCandidate]
) -> list[Verdict]:
    """The weakened gate: guesses taken at their word, which is a union of deltas."""
    deltas = read_deltas(objects, [(one.base, one.commit) for one in candidates])
    paths = [change.path for delta in deltas for change in delta]
    snapshot = read_snapshot(objects, tip, paths)
    verdicts = []
    for delta in deltas:
        guessed = guess(snapshot, delta, {})
        snapshot = guessed[0] if guessed else snapshot
        verdicts.append(Verdict(snapshot.id, clean=guessed is not None))
    return verdicts


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
        weakened = unconfirmed(objects, shared.tree(first), on_trees(shared, candidates))
    assert [Verdict(one.tree, one.clean) for one in steps] == expected
    assert [one.kind for one in steps[1].conflicts] == [ConflictKind.DIRECTORY_RENAME]
    assert weakened != expected, "the judge must notice what the weakened gate overlooks"


def on_trees(repository: Repository, candidates: Sequence[MergeCandidate]) -> list[MergeCandidate]:
    return [
        MergeCandidate(commit=repository.tree(one.commit), base=repository.tree(one.base))
        for one in candidates
    ]


def test_random_histories_catch_a_gate_that_does_not_confirm_its_guesses(
    shared: Repository,
) -> None:
    for seed in range(500):
        history = make_history(shared, random.Random(seed))
        with open_object_store(shared.path) as objects:
            steps = merge(objects, history.tip, history.candidates)
            guesses = unconfirmed(
                objects, shared.tree(history.tip), on_trees(shared, history.candidates)
            )
        if any(
            guessed.clean and guessed != Verdict(step.tree, step.clean)
            for guessed, step in zip(guesses, steps, strict=True)
        ):
            return
    pytest.fail("no random history told a confirmed guess from an unconfirmed one")


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
        for number in range(24)
    ]
    wanted[7] = ({**files, b"d3/f": File(b"all else\n")}, [base])
    candidates = on(base, shared.commits(wanted))
    verdicts = merged(shared, base, candidates)
    assert not verdicts[7].clean
    assert verdicts == Judge(shared).merge(base, candidates)


def test_asking_one_at_a_time_gives_the_same_answers(shared: Repository) -> None:
    base = shared.commit({b"f": File(_TEXT), b"g": File(_TEXT)})
    pairs = []
    for own, other in [(1, 1), (1, 2), (1, 50)]:
        commits = shared.commits(
            [({b"f": File(with_line(line)), b"g": File(_TEXT)}, [base]) for line in (own, other)]
        )
        pairs.append((commits[0], commits[1]))
    unrelated = shared.commit({b"x": File(b"x")})
    pairs.append((base, unrelated))
    with open_object_store(shared.path) as objects:
        assert list(merge_pairs(objects, pairs)) == [merge_pair(objects, *pair) for pair in pairs]


def test_what_was_written_is_sound(repository: Repository) -> None:
    """Our own objects, by git's strictest look at them; without a reference it looks at none."""
    history = make_history(repository, random.Random(1))
    merged(repository, history.tip, history.candidates)
    repository.attempt("update-ref", "refs/heads/main", history.tip)
    done = repository.attempt("fsck", "--strict", "--no-dangling", "--unreachable")
    assert done.returncode == 0, done.stderr
    assert b"unreachable tree" in done.stdout
