"""Merges of candidates onto a tip, in order, without a working tree; and of the entries they are
part of.

Every verdict and every tree comes from `git merge-tree`, which shares its code with `git merge`.

A candidate's work is its difference to `base`, without the part that trunk's history already
contains: git finds the common ancestor of the candidate and of trunk with `base` merged into it.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.candidate_records import Entry
from weft.gate.conflicts import (
    ConflictKind,
    FileConflict,
    as_bytes,
    as_text,
    find_conflicts,
    find_hunks,
)
from weft.git import GitFailed
from weft.git.object_store import MergeAnswer, MergeRefusal, ObjectStore, merge_pair
from weft.git.objects import (
    REGULAR,
    TreeEntry,
    empty_tree,
    identify,
    list_names,
    make_commit,
    read_commit,
)

_AUTHOR: Final = b"weft <weft@localhost> 4102444800 +0000"
"""The author of temporary commits, dated in the future: git walks history by date, and a tip that
seems old makes it walk far."""
_ATTRIBUTES: Final = b".gitattributes"
_LONGEST_NAME: Final = 255
_LONGEST_PATH: Final = 4096
_RAW: Final = ("-r", "-z", "--raw", "--no-renames", "--no-abbrev")

SIDES: Final = ("trunk", "candidate")


KnownMerges = dict[tuple[str, str], MergeAnswer | MergeRefusal]
"""The answers of git by the commits merged: combinations of entries share most of their merges."""


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


class TreeEdit(Struct, frozen=True, kw_only=True):
    """The change of a path; None stands for a missing entry."""

    path: bytes
    old: TreeEntry | None
    new: TreeEntry | None


def merge(
    objects: ObjectStore,
    tip: str,
    candidates: Sequence[MergeCandidate],
    *,
    ignores_case: bool | None = None,  # of the target's file system; None: as git is configured
    sides: tuple[str, str] = SIDES,
    known: KnownMerges | None = None,
) -> tuple[MergeStep, ...]:
    """Merge candidates onto the tip in this order, without those that conflict.

    `sides` are the names of the tip and of a candidate in the texts of conflicts. Commits are named
    by full ids. The trees are written to the repository; its references, index and files stay as
    they are. Answers in `known` are used, and new answers are added.
    """
    folds_case = objects.ignores_case if ignores_case is None else ignores_case
    known = {} if known is None else known
    tree, deltas = _read(objects, tip, candidates)
    place_attributes(objects, tree)
    steps: list[MergeStep] = []
    for candidate, delta in zip(candidates, deltas, strict=True):
        merged, conflicts = tree, _refuse_unsafe(delta)
        if not conflicts:
            merged, conflicts = _merge(objects, tip, tree, candidate, sides, known)
        if folds_case and not conflicts:
            conflicts = _refuse_case_clash(objects, merged, delta)
        tree = tree if conflicts else merged
        steps.append(MergeStep(candidate=candidate, tree=tree, conflicts=tuple(conflicts)))
        if not conflicts and any(_name(edit.path) == _ATTRIBUTES for edit in delta):
            place_attributes(objects, tree)
    return tuple(steps)


def _read(
    objects: ObjectStore, tip: str, candidates: Sequence[MergeCandidate]
) -> tuple[str, list[tuple[TreeEdit, ...]]]:
    """Return the tree of the tip and the changes of each candidate, without renames."""
    commits = [tip, *(id for candidate in candidates for id in (candidate.base, candidate.commit))]
    trees = [read_commit(content)[0][b"tree"].decode() for content in objects.read_commits(commits)]
    pairs = "".join(
        f"{old} {new}\n" for old, new in zip(trees[1::2], trees[2::2], strict=True)
    ).encode()
    return trees[0], list(_deltas(objects.run("diff-tree", "--stdin", *_RAW, input=pairs)))


def _merge(
    objects: ObjectStore,
    tip: str,
    tree: str,
    candidate: MergeCandidate,
    sides: tuple[str, str],
    known: KnownMerges,
) -> tuple[str, Sequence[FileConflict]]:
    """Merge a candidate onto a tree that follows the tip; return the merged tree and conflicts."""
    commit = make_commit(
        tree=tree,
        parents=tuple(dict.fromkeys((tip, candidate.base))),
        author=_AUTHOR,
        committer=_AUTHOR,
        message=b"",
    )
    ours = identify(commit, tree)
    pair = (ours, candidate.commit)
    if pair not in known:
        objects.write({ours: commit})
        known[pair] = merge_pair(objects, *pair)
    answer = known[pair]
    if isinstance(answer, MergeRefusal):
        kind = ConflictKind.UNRELATED if answer.unrelated else ConflictKind.OTHER
        return tree, [FileConflict(kind=kind, paths=(), text=answer.text)]
    if answer.clean:
        return answer.tree, ()
    names = dict(zip(pair, sides, strict=True))
    return answer.tree, _with_hunks(objects, answer.tree, find_conflicts(answer, names), names)


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


def _refuse_case_clash(
    objects: ObjectStore, tree: str, delta: Iterable[TreeEdit]
) -> list[FileConflict]:
    """Return a conflict for added paths that differ in case only, which git does not see."""
    added = [edit.path for edit in delta if edit.old is None]
    return [
        FileConflict(
            kind=ConflictKind.CASE,
            paths=(as_text(path), as_text(twin)),
            text="These paths differ in case only, and are one file on the target.",
        )
        for path, twin in _find_case_twins(objects, tree, added)
    ]


def _find_case_twins(
    objects: ObjectStore, tree: str, added: Iterable[bytes]
) -> list[tuple[bytes, bytes]]:
    """Return added paths that some file systems take for another path, each with that path."""
    paths = list(dict.fromkeys(place for path in added for place in (*_parents(path), path)))
    directories = list(dict.fromkeys(path.rpartition(b"/")[0] for path in paths))
    trees = objects.read([tree.encode() + b":" + directory for directory in directories])
    names = {
        directory: list_names(object.content, tree)
        for directory, object in zip(directories, trees, strict=True)
        if object is not None and object.kind == "tree"
    }
    pairs: dict[frozenset[bytes], tuple[bytes, bytes]] = {}
    for path in paths:
        directory, slash, name = path.rpartition(b"/")
        for twin in names.get(directory, ()):
            if twin != name and _folded(twin) == _folded(name):
                pair = (path, directory + slash + twin)
                pairs.setdefault(frozenset(pair), pair)
    return list(pairs.values())


def _folded(name: bytes) -> str:
    return unicodedata.normalize("NFC", as_text(name)).casefold()


def _parents(path: bytes) -> Iterator[bytes]:
    """Yield every directory above a path, the highest first."""
    at = path.find(b"/")
    while at >= 0:
        yield path[:at]
        at = path.find(b"/", at + 1)


def _refuse_unsafe(delta: Iterable[TreeEdit]) -> Sequence[FileConflict]:
    """Return a conflict for paths that git merges but would never check out."""
    return [
        FileConflict(
            kind=ConflictKind.PATH,
            paths=(as_text(edit.path),),
            text="No checkout may contain this path.",
        )
        for edit in delta
        if not _is_safe(edit.path)
    ]


def _is_safe(path: bytes) -> bool:
    """Tell whether a path can be checked out; a crafted tree may name `.git` or a long path."""
    parts = path.split(b"/")
    return len(path) < _LONGEST_PATH and not any(
        len(part) > _LONGEST_NAME or part.lower() in (b"", b".", b"..", b".git") for part in parts
    )


def place_attributes(objects: ObjectStore, tree: str) -> None:
    """Write the attributes of a tree for git, which reads them only from the working tree.

    The user's checkout may have different attributes.
    """
    present = objects.attributes or empty_tree(tree)
    pattern = ":(glob)**/" + _ATTRIBUTES.decode()
    edits = [
        edit
        for edit in _edits(objects.run("diff-tree", *_RAW, present, tree, "--", pattern))
        if _is_safe(edit.path)
    ]
    for edit in edits:
        if _is_regular(edit.old):
            _remove(objects.view.tree, edit.path)
    new = [(edit.path, edit.new.id) for edit in edits if edit.new and _is_regular(edit.new)]
    blobs = objects.read([id.encode() for _, id in new])
    for (path, _), blob in zip(new, blobs, strict=True):
        if blob is None:
            raise GitFailed(f"{os.fsdecode(path)} of {tree} is missing in the repository.")
        place = objects.view.tree / os.fsdecode(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(blob.content)
    objects.attributes = tree


def _is_regular(entry: TreeEntry | None) -> bool:
    """Tell whether git reads attributes from an entry, which it does through no symlink."""
    return entry is not None and entry.mode in REGULAR


def _remove(tree: Path, path: bytes) -> None:
    place = tree / os.fsdecode(path)
    place.unlink()
    for directory in place.parents:
        if directory == tree or any(directory.iterdir()):
            return
        directory.rmdir()


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _deltas(output: bytes) -> Iterator[tuple[TreeEdit, ...]]:
    """Parse the answer, in which each pair begins with a line that repeats it."""
    at = 0
    while at < len(output):
        at = output.index(b"\n", at) + 1
        start = at
        while output.startswith(b":", at):
            at = output.index(b"\0", output.index(b"\0", at) + 1) + 1
        yield tuple(_edits(output[start:at]))


def _edits(output: bytes) -> Iterator[TreeEdit]:
    fields = iter(output.split(b"\0")[:-1])
    for facts in fields:
        old_mode, new_mode, old, new, _ = facts.decode().removeprefix(":").split(" ")
        yield TreeEdit(path=next(fields), old=_entry(old_mode, old), new=_entry(new_mode, new))


def _entry(mode: str, id: str) -> TreeEntry | None:
    return None if mode == "000000" else TreeEntry(mode, id)


EntrySteps = list[tuple[MergeStep, ...]]
"""The merged commits of each entry, on top of the entries before it."""


class EntryConflict(Struct, frozen=True, kw_only=True):
    """An entry that does not merge after earlier entries, none of which can be left out."""

    entry: Entry
    earlier: tuple[Entry, ...]
    conflicts: tuple[FileConflict, ...]


def combine(
    objects: ObjectStore, base: str, entries: Sequence[Entry], known: KnownMerges | None = None
) -> EntrySteps | EntryConflict:
    """Merge entries on a base, in their order."""
    known = {} if known is None else known
    steps = _merge_entries(objects, base, entries, known)
    for number, entry in enumerate(entries):
        if _conflicts(steps[number]):
            return _find_fewest(objects, base, entries[:number], entry, known)
    return steps


def _find_fewest(
    objects: ObjectStore, base: str, before: Sequence[Entry], entry: Entry, known: KnownMerges
) -> EntryConflict:
    """Find, latest first, the entries without which an entry merges."""

    def attempt(wanted: Collection[str]) -> tuple[FileConflict, ...]:
        chosen = [earlier for earlier in before if earlier.id in wanted]
        return _conflicts(_merge_entries(objects, base, [*chosen, entry], known)[-1])

    kept: set[str] = set()
    last = len(before)
    while not (conflicts := attempt(kept)) and last:
        passes = 0
        while last - passes > 1:
            middle = (passes + last) // 2
            first = kept.union(earlier.id for earlier in before[:middle])
            if attempt(first):
                last = middle
            else:
                passes = middle
        last -= 1
        kept |= {before[last].id, *before[last].needs}
    earlier = tuple(old for old in before if old.id in kept)
    return EntryConflict(entry=entry, earlier=earlier, conflicts=conflicts)


def _conflicts(steps: Sequence[MergeStep]) -> tuple[FileConflict, ...]:
    return tuple(conflict for step in steps for conflict in step.conflicts)


def _merge_entries(
    objects: ObjectStore, base: str, entries: Sequence[Entry], known: KnownMerges
) -> EntrySteps:
    candidates = [
        MergeCandidate(commit=commit, base=made_on)
        for entry in entries
        for commit, made_on in entry.work
    ]
    steps = iter(merge(objects, base, candidates, known=known))
    return [tuple(next(steps) for _ in entry.work) for entry in entries]
