"""Merges of candidates onto a tip, in order, without a working tree.

Every verdict and every tree comes from `git merge-tree`, which shares its code with `git merge`.
Starting that program for each candidate is the main cost, and its batch mode cannot use an answer
for the next question. So `merge_guess` guesses the trees in between, a batch merges on the guessed
trees, and an answer counts if all guesses before it were right. A wrong guess costs another round,
never a wrong tree.

A candidate's work is its difference to `base`, without the part that trunk's history already
contains: git finds the common ancestor of the candidate and of trunk with `base` merged into it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.gate.conflicts import (
    ConflictKind,
    FileConflict,
    as_bytes,
    as_text,
    find_conflicts,
    find_hunks,
)
from weft.gate.merge_guess import guess, overlapping
from weft.gate.merge_inputs import (
    changes_attributes,
    is_safe,
    place_attributes,
    read_deltas,
    read_snapshot,
    read_texts,
)
from weft.git.memory_tree import MemoryTree, TreeEdit, find_case_twins
from weft.git.merge_tree import MergeAnswer, MergeRefusal, merge_pairs
from weft.git.object_store import ObjectStore
from weft.git.objects import Object, identify, make_commit, read_commit

_AUTHOR: Final = b"weft <weft@localhost> 4102444800 +0000"
"""The author of temporary commits, dated in the future: git walks history by date, and a tip that
seems old makes it walk far."""


SIDES: Final = ("trunk", "candidate")


class MergeCandidate(Struct, frozen=True, kw_only=True):
    commit: str
    base: str  # the commit it was made on: of trunk, or the candidate of a sibling


class MergeStep(Struct, frozen=True, kw_only=True):
    """The merge of a candidate onto all candidates before it that merged."""

    candidate: MergeCandidate
    tree: str  # the tree after this step; in a conflict, the tree before it
    conflicts: tuple[FileConflict, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.conflicts


class _Work(Struct, frozen=True, kw_only=True):
    """A candidate and its changes by path, without renames."""

    candidate: MergeCandidate
    delta: tuple[TreeEdit, ...]

    @property
    def paths(self) -> Iterator[bytes]:
        return (change.path for change in self.delta)


class _Question(Struct, frozen=True, kw_only=True):
    """A merge to ask git for, and the guessed tree."""

    work: _Work
    ours: str  # a commit that holds the tree before this candidate
    before: str
    guessed: MemoryTree


def merge(
    objects: ObjectStore,
    tip: str,
    candidates: Sequence[MergeCandidate],
    *,
    ignores_case: bool | None = None,  # of the target's file system; None: as git is configured
    sides: tuple[str, str] = SIDES,
) -> tuple[MergeStep, ...]:
    """Merge candidates onto the tip in this order, without those that conflict.

    `sides` are the names of the tip and of a candidate in the texts of conflicts. Commits are named
    by full ids. The trees are written to the repository; its references, index
    and files stay as they are.
    """
    folds_case = objects.ignores_case if ignores_case is None else ignores_case
    tree, works = _read(objects, tip, candidates)
    steps: list[MergeStep] = []
    ahead = len(works)
    while len(steps) < len(works):
        rest = works[len(steps) : len(steps) + ahead]
        settled = _refuse_unsafe(rest[0], tree) or _merge_round(
            objects, tip, tree, rest, folds_case, sides
        )
        steps += settled
        tree = steps[-1].tree
        ahead = 2 * len(settled)  # after few right guesses, guess fewer
    return tuple(steps)


def _read(
    objects: ObjectStore, tip: str, candidates: Sequence[MergeCandidate]
) -> tuple[str, list[_Work]]:
    commits = [tip, *(id for candidate in candidates for id in (candidate.base, candidate.commit))]
    trees = [read_commit(content)[0][b"tree"].decode() for content in objects.read_commits(commits)]
    deltas = read_deltas(objects, list(zip(trees[1::2], trees[2::2], strict=True)))
    works = [
        _Work(candidate=candidate, delta=delta)
        for candidate, delta in zip(candidates, deltas, strict=True)
    ]
    return trees[0], works


def _merge_round(
    objects: ObjectStore,
    tip: str,
    tree: str,
    works: Sequence[_Work],
    folds_case: bool,
    sides: tuple[str, str],
) -> list[MergeStep]:
    """Guess trees, ask git, and return the steps whose guesses before them were right."""
    place_attributes(objects, tree)
    questions = _guess_ahead(objects, tip, tree, list(takewhile(_is_safe, works)))
    steps: list[MergeStep] = []
    merges = [(question.ours, question.work.candidate.commit) for question in questions]
    for question, answer in zip(questions, merge_pairs(objects, merges), strict=False):
        step = _read_answer(objects, question, answer, sides)
        if folds_case and step.clean:
            step = _refuse_case_clash(objects, question, step)
        steps.append(step)
        if step.tree != question.guessed.id:
            break
    return steps


def _guess_ahead(
    objects: ObjectStore, tip: str, tree: str, works: Sequence[_Work]
) -> list[_Question]:
    """Return the questions of a round, with all their objects written."""
    snapshot = read_snapshot(objects, tree, (path for work in works for path in work.paths))
    texts = read_texts(objects, overlapping(snapshot, [work.delta for work in works]))
    questions = []
    made: dict[str, Object] = {}
    for work in works:
        before = snapshot.id
        question_commit = make_commit(
            tree=before,
            parents=tuple(dict.fromkeys((tip, work.candidate.base))),
            author=_AUTHOR,
            committer=_AUTHOR,
            message=b"",
        )
        ours = identify(question_commit, before)
        made[ours] = question_commit
        # A merge that cannot be guessed most likely conflicts, and then the tree stays.
        guessed = guess(snapshot, work.delta, texts)
        if guessed is not None:
            snapshot, new_texts = guessed
            texts |= new_texts
            made |= snapshot.made
            made |= {id: Object("blob", text) for id, text in new_texts.items()}
        questions.append(_Question(work=work, ours=ours, before=before, guessed=snapshot))
        if changes_attributes(work.delta):
            break  # later merges follow other attributes
    objects.write(made)
    return questions


def _read_answer(
    objects: ObjectStore,
    question: _Question,
    answer: MergeAnswer | MergeRefusal,
    sides: tuple[str, str],
) -> MergeStep:
    candidate = question.work.candidate
    if isinstance(answer, MergeRefusal):
        kind = ConflictKind.UNRELATED if answer.unrelated else ConflictKind.OTHER
        return _conflicted(question, [FileConflict(kind=kind, paths=(), text=answer.text)])
    if answer.clean:
        return MergeStep(candidate=candidate, tree=answer.tree)
    names = dict(zip((question.ours, candidate.commit), sides, strict=True))
    conflicts = find_conflicts(answer, names)
    return _conflicted(question, _with_hunks(objects, answer.tree, conflicts, names))


def _with_hunks(
    objects: ObjectStore, tree: str, conflicts: Sequence[FileConflict], names: Mapping[str, str]
) -> list[FileConflict]:
    """Add the contested lines to content conflicts, which git left in the merged file."""
    contested = [conflict for conflict in conflicts if conflict.kind is ConflictKind.CONTENT]
    paths = [tree.encode() + b":" + as_bytes(conflict.paths[0]) for conflict in contested]
    hunks = {
        conflict: find_hunks(file.content, names)
        for conflict, file in zip(contested, objects.read(paths), strict=True)
        if file is not None
    }
    return [replace(conflict, hunks=hunks.get(conflict, "")) for conflict in conflicts]


def _refuse_case_clash(objects: ObjectStore, question: _Question, step: MergeStep) -> MergeStep:
    """Return a conflict for added paths that differ in case only, which git does not see."""
    added = [change.path for change in question.work.delta if change.old is None]
    snapshot = question.guessed
    if step.tree != snapshot.id:
        snapshot = read_snapshot(objects, step.tree, added)
    conflicts = [
        FileConflict(
            kind=ConflictKind.CASE,
            paths=(as_text(path), as_text(twin)),
            text="These paths differ in case only, and are one file on the target.",
        )
        for path, twin in find_case_twins(snapshot, added)
    ]
    return _conflicted(question, conflicts) if conflicts else step


def _refuse_unsafe(work: _Work, tree: str) -> list[MergeStep]:
    """Return a conflict for paths that git merges but would never check out."""
    conflicts = tuple(
        FileConflict(
            kind=ConflictKind.PATH,
            paths=(as_text(path),),
            text="No checkout may contain this path.",
        )
        for path in work.paths
        if not is_safe(path)
    )
    return (
        [MergeStep(candidate=work.candidate, tree=tree, conflicts=conflicts)] if conflicts else []
    )


def _is_safe(work: _Work) -> bool:
    return all(map(is_safe, work.paths))


def _conflicted(question: _Question, conflicts: Sequence[FileConflict]) -> MergeStep:
    return MergeStep(
        candidate=question.work.candidate, tree=question.before, conflicts=tuple(conflicts)
    )
