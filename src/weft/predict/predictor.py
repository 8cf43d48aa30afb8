"""The prediction of the files that a task changes, from its text.

The text gives the first files: paths and names in it, definitions of its identifiers, and the files
of commits with a similar message. Each of them brings the files that change with it, the tests that
mirror it and the files that it imports. The clues for a file is joined as if its sources were
independent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log
from types import MappingProxyType
from typing import Final

from weft.paths import is_literal
from weft.plan.mentions import find_files
from weft.predict.history import History
from weft.predict.prediction_records import Clue, FileTree, PredictedFile
from weft.predict.telling_words import distinct_words, list_identifiers

MOST_PREDICTED: Final = 20
LEAST_PROBABILITY: Final = 0.02

NAMEW = 0.6
_NAMED: Final = 0.9  # the text has its path
_DEFINES: Final = 0.5  # it is the only file that defines an identifier of the text
_MIRRORED: Final = 0.5  # a test, where its source is changed
_IMPORTED: Final = 0.1
_MOST_DEFINERS: Final = 3  # a name with more definitions says little
_MOST_SIMILAR: Final = 25  # commits
_MOST_READ: Final = 1_000  # commits of a word that are looked at
_SEEDS: Final = 8  # files that bring further files
_HALF_SURE: Final = 1.5  # weight of similar commits at which their word counts half

USUAL_WEIGHTS: Final[Mapping[Clue, float]] = MappingProxyType(dict.fromkeys(Clue, 1.0))
"""Weights of the sources of a repository without records."""


class _Case:
    """The clues for files, as it is gathered."""

    def __init__(self, weights: Mapping[Clue, float]) -> None:
        self._weights = weights
        self._shares: dict[str, dict[Clue, float]] = {}
        self._reasons: dict[str, tuple[float, str]] = {}

    def add(self, path: str, source: Clue, share: float, reason: str) -> None:
        """Add clues; of a single source only the strongest counts."""
        shares = self._shares.setdefault(path, {})
        if share <= shares.get(source, 0.0):
            return
        shares[source] = share
        weight = share * self._weights[source]
        if weight > self._reasons.get(path, (0.0, ""))[0]:
            self._reasons[path] = (weight, reason)

    def probability(self, path: str) -> float:
        missed = 1.0
        for source, share in self._shares[path].items():
            missed *= 1.0 - min(0.95, share * self._weights[source])
        return 1.0 - missed

    def best(self) -> list[tuple[str, float]]:
        listed = [(path, self.probability(path)) for path in self._shares]
        return sorted(listed, key=lambda pair: (-pair[1], pair[0]))

    def result(self, path: str, probability: float, *, may_touch: bool) -> PredictedFile:
        return PredictedFile(
            path=path,
            probability=round(probability, 3),
            reason=self._reasons[path][1],
            clues={source: round(share, 3) for source, share in self._shares[path].items()},
            may_touch=may_touch,
        )


def predict(
    text: str,
    history: History,
    tree: FileTree,
    *,
    weights: Mapping[Clue, float] = USUAL_WEIGHTS,
    before: int | None = None,
) -> tuple[PredictedFile, ...]:
    """Predict the files that a task changes, most probable first; hubs are marked.

    `before` hides the commits from that number on, for measurements.
    """
    case = _Case(weights)
    for path, share, source, reason in _seeds(text, history, tree, before):
        case.add(path, source, share, reason)
    for path, probability in case.best()[:_SEEDS]:
        if not history.is_hub(path, before=before):
            for neighbour, source, share, reason in _companions(path, history, tree, before):
                case.add(neighbour, source, probability * share, reason)
    return tuple(
        case.result(path, probability, may_touch=history.is_hub(path, before=before))
        for path, probability in case.best()[:MOST_PREDICTED]
        if probability >= LEAST_PROBABILITY
    )


def find_named(text: str, tree: FileTree) -> tuple[str, ...]:
    """Return the files that a text names by path or by a unique file name."""
    return tuple(
        path
        for path in find_files(text, tree.names)
        if is_literal(path) and _is_file_name(path.rpartition("/")[2])
    )


def _is_file_name(name: str) -> bool:
    """Tell whether a word is no usual word of a sentence: `Makefile`, `run.py`, not `run`."""
    return "." in name or name[:1].isupper()


def _seeds(
    text: str, history: History, tree: FileTree, before: int | None
) -> Iterator[tuple[str, float, Clue, str]]:
    for path in find_named(text, tree):
        yield path, _NAMED, Clue.PATH, "the text names it"
    for name in list_identifiers(text):
        files = tree.definitions.get(name, ())
        if len(files) <= _MOST_DEFINERS:
            for path in files:
                yield path, _DEFINES / len(files), Clue.IDENTIFIER, f"it defines {name}"
    yield from _from_messages(text, history, tree, before)
    yield from _from_names(text, history, tree)


def _from_names(
    text: str, history: History, tree: FileTree
) -> Iterator[tuple[str, float, Clue, str]]:
    words = distinct_words(text)
    scores: dict[int, dict[str, float]] = {}
    for word in words:
        files = history.named_with(word)
        value = log(1 + len(history.paths) / len(files)) if files else 0.0
        for file in files[:_MOST_READ]:
            scores.setdefault(file, {})[word] = value
    most = log(1 + len(history.paths))
    for file, matched in scores.items():
        path = history.paths[file]
        if path in tree.paths:
            own = distinct_words(path)
            covered = sum(matched.values()) / (most * max(2.0, len(own) - 1.0))
            shown = " and ".join(
                words[word] for word in sorted(matched, key=lambda w: -matched[w])[:3]
            )
            yield path, NAMEW * min(1.0, covered) ** 2, Clue.NAME, f"its path has {shown}"


def _from_messages(
    text: str, history: History, tree: FileTree, before: int | None
) -> Iterator[tuple[str, float, Clue, str]]:
    size = history.size if before is None else before
    words = distinct_words(text)
    mentions = {word: history.mentioning(word, before=before) for word in words}
    telling = {word: log(1 + size / len(at)) for word, at in mentions.items() if at}
    most = sum(telling.values())
    likeness: dict[int, float] = {}
    for word, value in telling.items():
        for commit in mentions[word][-_MOST_READ:]:
            likeness[commit] = likeness.get(commit, 0.0) + value
    weights = {
        commit: (value / most) ** 2 * history.weigh(commit, before=before)
        for commit, value in likeness.items()
    }
    similar = sorted(weights, key=lambda commit: (-weights[commit], -commit))[:_MOST_SIMILAR]
    total = sum(weights[commit] for commit in similar)
    shares: dict[int, float] = {}
    for commit in similar:
        for file in history.files_of(commit):
            shares[file] = shares.get(file, 0.0) + weights[commit]
    sure = total / (total + 0.05)
    for file, share in shares.items():
        path = history.paths[file]
        if path in tree.paths:
            reason = _mention(file, history, telling, words, mentions, before)
            yield path, sure * share / total, Clue.MESSAGE, reason


def _mention(
    file: int,
    history: History,
    telling: Mapping[str, float],
    words: Mapping[str, str],
    mentions: Mapping[str, Sequence[int]],
    before: int | None,
) -> str:
    """Return the reason with the word that speaks most for a file."""
    changed = set(history.changing(file, before=before))
    best, reason = 0.0, ""
    for word, value in telling.items():
        both = sum(commit in changed for commit in mentions[word])
        worth = value * both / (len(mentions[word]) + 1)
        if worth > best:
            best = worth
            reason = (
                f"changed in {both} of {len(mentions[word])} commits that mention {words[word]}"
            )
    return reason


def _companions(
    path: str, history: History, tree: FileTree, before: int | None
) -> Iterator[tuple[str, Clue, float, str]]:
    for neighbour in history.list_together(path, before=before):
        if neighbour.path in tree.paths:
            reason = f"changed in {neighbour.count} of {neighbour.of} commits that change {path}"
            yield neighbour.path, Clue.TOGETHER, neighbour.weight, reason
    for test in tree.mirrors.list_tests(path):
        yield test, Clue.TEST, _MIRRORED, f"the test of {path}"
    for source in tree.mirrors.list_sources(path):
        yield source, Clue.TEST, _MIRRORED, f"{path} tests it"
    for imported in tree.imports.get(path, ()):
        yield imported, Clue.IMPORT, _IMPORTED, f"{path} imports it"
