"""The clues for files: what a text says about them, and the files that go with a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log
from typing import Final, NamedTuple

from weft.paths import is_literal
from weft.plan.mentions import find_files
from weft.predict.history import History
from weft.predict.prediction_records import Clue, FileTree
from weft.predict.telling_words import distinct_words, list_identifiers

_NAMED: Final = 0.9  # the text has its path
_DEFINES: Final = 0.5  # it is the only file that defines an identifier of the text
_WORDED: Final = 0.6  # every word of its path is in the text
_MIRRORED: Final = 0.5  # a test, where its source is changed
_IMPORTED: Final = 0.1
_MOST_DEFINERS: Final = 3  # a name with more definitions says little
_MOST_SIMILAR: Final = 25  # commits
_MOST_READ: Final = 1_000  # commits or files of a word that are looked at
_FAINT: Final = 0.01  # a smaller share of similar commits is no hint
_DOUBT: Final = 0.2  # weight of similar commits of which half is believed
_TITLE: Final = 2.0  # weight of a word of the first line, where file names are compared


class Hint(NamedTuple):
    """A reason to expect that a task changes a file."""

    path: str
    clue: Clue
    share: float  # probability
    reason: str


def read_text(
    text: str, history: History, tree: FileTree, before: int | None = None
) -> Iterator[Hint]:
    """Yield the files that a text hints at; `before` hides the commits from that number on."""
    for path in find_named(text, tree):
        yield Hint(path, Clue.PATH, _NAMED, "the text names it")
    for name in list_identifiers(text):
        files = tree.definitions.get(name, ())
        if len(files) <= _MOST_DEFINERS:
            for path in files:
                yield Hint(path, Clue.IDENTIFIER, _DEFINES / len(files), f"it defines {name}")
    yield from _compare_names(text, history, tree)
    yield from _Similar(text, history, before).hints(tree)


def find_named(text: str, tree: FileTree) -> tuple[str, ...]:
    """Return the files that a text names by path or by a unique file name."""
    return tuple(
        path
        for path in find_files(text, tree.names)
        if is_literal(path) and _is_file_name(path.rpartition("/")[2])
    )


def list_companions(
    path: str, history: History, tree: FileTree, before: int | None = None
) -> Iterator[Hint]:
    """Yield the files that go with a file, each with its probability where that file changes."""
    for neighbour in history.list_together(path, before=before):
        if neighbour.path in tree.paths:
            reason = f"changed in {neighbour.count} of {neighbour.of} commits that change {path}"
            yield Hint(neighbour.path, Clue.TOGETHER, neighbour.weight, reason)
    for test in tree.mirrors.list_tests(path):
        yield Hint(test, Clue.TEST, _MIRRORED, f"the test of {path}")
    for source in tree.mirrors.list_sources(path):
        yield Hint(source, Clue.TEST, _MIRRORED, f"{path} tests it")
    for imported in tree.imports.get(path, ()):
        yield Hint(imported, Clue.IMPORT, _IMPORTED, f"{path} imports it")


def _is_file_name(name: str) -> bool:
    """Tell whether a word looks like the name of a file: `Makefile`, `run.py`, but not `run`."""
    return "." in name or name[:1].isupper()


def _compare_names(text: str, history: History, tree: FileTree) -> Iterator[Hint]:
    """Yield the files whose paths have words of the text; rare words count more."""
    words = distinct_words(text)
    title = distinct_words(text.strip().partition("\n")[0])
    matches: dict[int, dict[str, float]] = {}
    for word in words:
        files = history.named_with(word)[:_MOST_READ]
        value = log(1 + len(history.paths) / len(files)) if files else 0.0
        for file in files:
            matches.setdefault(file, {})[word] = value * (_TITLE if word in title else 1.0)
    most = log(1 + len(history.paths))
    for file, values in matches.items():
        path = history.paths[file]
        if path in tree.paths:
            covered = sum(values.values()) / (most * max(2, len(distinct_words(path)) - 1))
            best = sorted(values, key=lambda word: -values[word])[:3]
            reason = f"its path has {' and '.join(words[word] for word in best)}"
            yield Hint(path, Clue.NAME, _WORDED * min(1.0, covered) ** 2, reason)


class _Similar:
    """The commits whose messages are similar to a text."""

    def __init__(self, text: str, history: History, before: int | None) -> None:
        self._history = history
        self._before = before
        self._words = distinct_words(text)
        self._mentions: Mapping[str, Sequence[int]] = {
            word: commits
            for word in self._words
            if (commits := history.mentioning(word, before=before))
        }
        size = history.size if before is None else before
        self._values = {
            word: log(1 + size / len(commits)) for word, commits in self._mentions.items()
        }

    def hints(self, tree: FileTree) -> Iterator[Hint]:
        weights = self._weigh()
        shares: dict[int, float] = {}
        for commit, weight in weights.items():
            for file in self._history.files_of(commit):
                shares[file] = shares.get(file, 0.0) + weight
        total = sum(weights.values()) + _DOUBT
        for file, share in shares.items():
            path = self._history.paths[file]
            if share / total >= _FAINT and path in tree.paths:
                yield Hint(path, Clue.MESSAGE, share / total, self._reason(file))

    def _weigh(self) -> dict[int, float]:
        """Weigh the most similar commits: by their words that the text has, and by recency."""
        likeness: dict[int, float] = {}
        for word, value in self._values.items():
            for commit in self._mentions[word][-_MOST_READ:]:
                likeness[commit] = likeness.get(commit, 0.0) + value
        most = sum(self._values.values())
        weights = {
            commit: (value / most) ** 2 * self._history.weigh(commit, before=self._before)
            for commit, value in likeness.items()
        }
        best = sorted(weights, key=lambda commit: (-weights[commit], -commit))[:_MOST_SIMILAR]
        return {commit: weights[commit] for commit in best}

    def _reason(self, file: int) -> str:
        """Return the reason with the word that speaks most for a file."""
        changed = set(self._history.changing(file, before=self._before))
        best, reason = 0.0, ""
        for word, commits in self._mentions.items():
            both = len(changed.intersection(commits))
            worth = self._values[word] * both / (len(commits) + 1)
            if worth > best:
                best = worth
                of = "1 commit" if len(commits) == 1 else f"{len(commits)} commits"
                mention = "mentions" if len(commits) == 1 else "mention"
                reason = f"changed in {both} of {of} that {mention} {self._words[word]}"
        return reason
