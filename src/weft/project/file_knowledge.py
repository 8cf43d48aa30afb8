"""The knowledge that predictions use: the history, the tree of a commit and the score.

The score of a repository is kept beside the index of its history, until the history has grown by a
tenth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from weft import git
from weft.git.past_commits import (
    PastCommit,
    find_definitions,
    list_past,
    list_tree,
    read_blobs,
    read_past,
)
from weft.planning.history import MOST_FILES, History, list_identifiers
from weft.planning.predictor import FileTree, find_imports
from weft.planning.score import LEAST_SCORED, PastChange, Score, replay, score
from weft.project.history_index import IndexedHistory, index_directory, read_index, save_file

SCORED: Final = 100
"""Commits on which a repository is scored."""

LEAST_HISTORY: Final = 4 * LEAST_SCORED
"""Commits without which a repository is not scored: a quarter of them is predicted."""

_VERSION: Final = 1  # of the prediction: a score of another version is made anew
_GROWN: Final = 1.1  # a history that has grown by this factor is scored again
_MOST_SEARCHED: Final = 20_000  # files of a tree in which definitions are searched
_MOST_NAMES: Final = 200  # identifiers that are searched for at once


class _KeptScore(Struct, frozen=True, kw_only=True):
    version: int
    size: int  # commits of the history
    score: Score


class FileKnowledge(Struct, frozen=True, kw_only=True):
    """The history of a repository up to a commit, and the score of its predictions."""

    root: Path
    tip: str
    history: History
    score: Score | None  # None: too few commits


def read_knowledge(root: Path, name: str = "HEAD") -> FileKnowledge | None:
    """Return the knowledge about a commit; None if the repository has no commit."""
    try:
        tip = git.get_commit(root, name).id
    except git.NoSuchCommit:
        return None
    index = read_index(root, tip)
    return FileKnowledge(root=root, tip=tip, history=index.history, score=_read_score(root, index))


def read_tree(
    root: Path, commit: str, texts: Iterable[str], history: History | None = None
) -> FileTree:
    """Return the tree of a commit, with the definitions of the identifiers in these texts.

    With a history, files are called by their newest names in it.
    """
    paths = list_tree(root, commit)
    definitions: Mapping[str, tuple[str, ...]] = {}
    if len(paths) <= _MOST_SEARCHED:
        names = dict.fromkeys(name for text in texts for name in list_identifiers(text))
        definitions = find_definitions(root, commit, list(names)[:_MOST_NAMES])
    if history is None:
        return FileTree(paths, definitions=definitions)
    return FileTree(
        _newest(paths, history),
        definitions={name: _newest(files, history) for name, files in definitions.items()},
    )


def add_imports(root: Path, commit: str, tree: FileTree, paths: Iterable[str]) -> FileTree:
    """Return a tree that knows the imports of these files."""
    texts = read_blobs(root, commit, [path for path in paths if path in tree.paths])
    imports = {path: find_imports(path, text, tree.paths) for path, text in texts.items()}
    return FileTree(tree.paths, definitions=tree.definitions, imports=imports)


def _read_score(root: Path, index: IndexedHistory) -> Score | None:
    size = index.history.size
    if size < LEAST_HISTORY:
        return None
    file = index_directory(git.common_directory(root)) / "score"
    try:
        kept = msgspec.msgpack.decode(file.read_bytes(), type=_KeptScore)
    except (OSError, msgspec.DecodeError):
        kept = None
    if kept is not None and kept.version == _VERSION and _is_near(kept.size, size):
        return kept.score
    made = score_history(root, index)
    save_file(file, msgspec.msgpack.encode(_KeptScore(version=_VERSION, size=size, score=made)))
    return made


def _is_near(first: int, second: int) -> bool:
    return max(first, second) < _GROWN * min(first, second)


def score_history(root: Path, index: IndexedHistory) -> Score:
    """Score predictions on the last commits of a history."""
    changes = _list_changes(root, index)
    if not changes:
        return score(())
    # The first commit only shows which files there were before the others.
    tree = read_tree(root, changes[0][0], (change.message for _, change in changes), index.history)
    return score(list(replay(index.history, tree, (change for _, change in changes[1:]))))


def _list_changes(root: Path, index: IndexedHistory) -> list[tuple[str, PastChange]]:
    """List the last commits of a history with their ids, oldest first."""
    commits = list(read_past(root, list_past(root, index.tip, most=2 * SCORED)))
    most = min(SCORED, index.history.size // 4) + 1
    return list(_numbered(commits, index.history))[:most][::-1]


def _numbered(commits: Sequence[PastCommit], history: History) -> Iterator[tuple[str, PastChange]]:
    """Yield the commits that have a number in the history, newest first."""
    number = history.size
    for commit in reversed(commits):
        if not number:
            return
        files = set(_newest(commit.files, history))
        known = {history.paths[file] for file in history.files_of(number - 1)}
        if files == known and len(commit.files) <= MOST_FILES:
            number -= 1
            message = commit.message.encode(errors="replace").decode()
            yield (
                commit.id,
                PastChange(number=number, message=message, files=tuple(sorted(files))),
            )


def _newest(paths: Iterable[str], history: History) -> tuple[str, ...]:
    numbers = ((path, history.find(path)) for path in paths)
    return tuple(path if file is None else history.paths[file] for path, file in numbers)
