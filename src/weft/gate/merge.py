"""Putting candidates onto a tip, one after the other, without a working tree.

Every verdict and every tree is git's own: `git merge-tree`, which shares its machinery with
`git merge`. Starting that program once per candidate is what costs, and its batch mode cannot
use one answer for the next question. So the trees in between are guessed (`guess`), all merges
are asked at once on the guessed trees, and answers count as far as the guesses before them are
what git answered. A wrong guess costs another round, never a wrong tree.

A candidate's work is what it has over `base` and over what trunk's history already contains:
git looks for the common ancestor of the candidate and of trunk with `base` merged into it.
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
from weft.git.memory_tree import MemoryTree, TreeEdit, case_clashes
from weft.git.merge_tree import Answer, GaveUp, ask
from weft.git.object_store import Plumbing
from weft.git.objects import Object, commit, identify, read_commit

_NOBODY: Final = b"weft <weft@localhost> 4102444800 +0000"
"""Commits that only carry a question are dated in the future: git walks history by date, and a
tip that seems old makes it walk far."""


class MergeCandidate(Struct, frozen=True, kw_only=True):
    commit: str
    base: str  # what it was made on: a commit of trunk, or the candidate of a sibling


class MergeStep(Struct, frozen=True, kw_only=True):
    """What became of a candidate, on top of all before it that fitted."""

    candidate: MergeCandidate
    tree: str  # trunk's tree after this step: that of the step before, if it conflicts
    conflicts: tuple[FileConflict, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.conflicts


class _Work(Struct, frozen=True, kw_only=True):
    """A candidate and what it changes; by path, nothing inferred."""

    candidate: MergeCandidate
    delta: tuple[TreeEdit, ...]

    @property
    def paths(self) -> Iterator[bytes]:
        return (change.path for change in self.delta)


class _Question(Struct, frozen=True, kw_only=True):
    """One merge to ask git for, and the tree that is thought to come out."""

    work: _Work
    ours: str  # a commit that holds the tree before this candidate
    before: str
    guessed: MemoryTree


def merge(
    plumbing: Plumbing,
    tip: str,
    candidates: Sequence[MergeCandidate],
    *,
    ignores_case: bool | None = None,  # of the target's file system; None: as git is configured
) -> tuple[MergeStep, ...]:
    """Put candidates onto the tip in this order, leaving out those that conflict.

    Commits are named by their full ids. The trees are in the repository afterwards; no ref,
    index or file of it is touched.
    """
    folds = plumbing.ignores_case if ignores_case is None else ignores_case
    tree, works = _read(plumbing, tip, candidates)
    steps: list[MergeStep] = []
    ahead = len(works)
    while len(steps) < len(works):
        rest = works[len(steps) : len(steps) + ahead]
        settled = _refuse_unsafe(rest[0], tree) or _settle(plumbing, tip, tree, rest, folds)
        steps += settled
        tree = steps[-1].tree
        ahead = 2 * len(settled)  # few right guesses: ask for fewer
    return tuple(steps)


def _read(
    plumbing: Plumbing, tip: str, candidates: Sequence[MergeCandidate]
) -> tuple[str, list[_Work]]:
    commits = [tip, *(name for one in candidates for name in (one.base, one.commit))]
    trees = [
        read_commit(content)[0][b"tree"].decode() for content in plumbing.read_commits(commits)
    ]
    deltas = read_deltas(plumbing, list(zip(trees[1::2], trees[2::2], strict=True)))
    works = [
        _Work(candidate=one, delta=delta) for one, delta in zip(candidates, deltas, strict=True)
    ]
    return trees[0], works


def _settle(
    plumbing: Plumbing, tip: str, tree: str, works: Sequence[_Work], folds: bool
) -> list[MergeStep]:
    """One round: guess, ask, and keep what follows from git's answers alone."""
    place_attributes(plumbing, tree)
    questions = _guess_ahead(plumbing, tip, tree, list(takewhile(_is_safe, works)))
    steps: list[MergeStep] = []
    answers = ask(plumbing, [(one.ours, one.work.candidate.commit) for one in questions])
    for question, answer in zip(questions, answers, strict=False):
        step = _judge(plumbing, question, answer)
        if folds and step.clean:
            step = _refuse_case_clash(plumbing, question, step)
        steps.append(step)
        if step.tree != question.guessed.id:
            break
    return steps


def _guess_ahead(
    plumbing: Plumbing, tip: str, tree: str, works: Sequence[_Work]
) -> list[_Question]:
    """The questions of a round, with every object they speak of written."""
    snapshot = read_snapshot(plumbing, tree, (path for work in works for path in work.paths))
    texts = read_texts(plumbing, overlapping(snapshot, [work.delta for work in works]))
    questions = []
    made: dict[str, Object] = {}
    for work in works:
        before = snapshot.id
        asked = commit(
            tree=before,
            parents=tuple(dict.fromkeys((tip, work.candidate.base))),
            author=_NOBODY,
            committer=_NOBODY,
            message=b"",
        )
        ours = identify(asked, before)
        made[ours] = asked
        # What cannot be guessed most likely conflicts, and then leaves the tree as it is.
        guessed = guess(snapshot, work.delta, texts)
        if guessed is not None:
            snapshot, new_texts = guessed
            texts |= new_texts
            made |= snapshot.made
            made |= {id: Object("blob", text) for id, text in new_texts.items()}
        questions.append(_Question(work=work, ours=ours, before=before, guessed=snapshot))
        if changes_attributes(work.delta):
            break  # the next ones are merged by other attributes
    plumbing.write(made)
    return questions


def _judge(plumbing: Plumbing, question: _Question, answer: Answer | GaveUp) -> MergeStep:
    candidate = question.work.candidate
    if isinstance(answer, GaveUp):
        kind = ConflictKind.UNRELATED if answer.unrelated else ConflictKind.OTHER
        return _conflicted(question, [FileConflict(kind=kind, paths=(), text=answer.text)])
    if answer.clean:
        return MergeStep(candidate=candidate, tree=answer.tree)
    names = {question.ours: "trunk", candidate.commit: "candidate"}
    conflicts = find_conflicts(answer, names)
    return _conflicted(question, _with_hunks(plumbing, answer.tree, conflicts, names))


def _with_hunks(
    plumbing: Plumbing, tree: str, conflicts: Sequence[FileConflict], names: Mapping[str, str]
) -> list[FileConflict]:
    """Content conflicts with the contested lines, which git left in the merged file."""
    contested = [one for one in conflicts if one.kind is ConflictKind.CONTENT]
    files = plumbing.read([tree.encode() + b":" + as_bytes(one.paths[0]) for one in contested])
    hunks = {
        one: find_hunks(file.content, names)
        for one, file in zip(contested, files, strict=True)
        if file is not None
    }
    return [replace(one, hunks=hunks.get(one, "")) for one in conflicts]


def _refuse_case_clash(plumbing: Plumbing, question: _Question, step: MergeStep) -> MergeStep:
    """Git does not see paths that differ in case only."""
    added = [change.path for change in question.work.delta if change.old is None]
    snapshot = question.guessed
    if step.tree != snapshot.id:
        snapshot = read_snapshot(plumbing, step.tree, added)
    conflicts = [
        FileConflict(
            kind=ConflictKind.CASE,
            paths=(as_text(path), as_text(other)),
            text="These paths differ in case only, and are one file on the target.",
        )
        for path, other in case_clashes(snapshot, added)
    ]
    return _conflicted(question, conflicts) if conflicts else step


def _refuse_unsafe(work: _Work, tree: str) -> list[MergeStep]:
    """A step for a candidate with paths that git would never check out, which it does merge."""
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
